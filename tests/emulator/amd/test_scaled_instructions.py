"""gfx950's matrix instructions of five formats, with scales, on registers with known bits."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from amd_instructions import Machine

pytest.importorskip("tinygrad")

from tinygrad.renderer.amd.dsl import v
from tinygrad.runtime.autogen.amd.cdna import ins as cdna

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.catalog.contraction_blocks_random import random_of_blocks
from tvm_iree_ext.emulator.amd.code_object import read_code_object
from tvm_iree_ext.emulator.amd.decoding import decode
from tvm_iree_ext.emulator.amd.execution import AmdKernel
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.reference import block_scaled
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.verify import check_op

ELEMENTS = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def held(matrix, bits, lanes=64):
    """Registers ``[register, lane]`` of elements ``[line, k]``, by AMD's tables."""
    lines, k = matrix.shape
    words = np.zeros((bits, lanes), object)
    for lane in range(lanes):
        row, group = lane % lines, lane // lines
        for element in range(32):
            at = 32 * group + element
            if bits == 8:
                at = k // 2 * (element // 16) + 16 * group + element % 16
            first = bits * element
            value = int(matrix[row, at]) << first % 32
            words[first // 32, lane] |= value & 0xFFFFFFFF
            if value >> 32:
                words[first // 32 + 1, lane] |= value >> 32
    return words.astype(np.uint32)


def product(size, formats, scales, choose=(0, 0), seed=0):
    """D of random bits, and what it is, in float64, of A and B by their formats."""
    rng = np.random.default_rng(seed)
    k = 2048 // size
    count = size * size // 64
    name = f"v_mfma_{'scale_' if scales else ''}f32_{size}x{size}x{k}_f8f6f4"
    registers = [int(ELEMENTS[form][5]) for form in formats]
    factors = [v[8 * side : 8 * side + each - 1] for side, each in enumerate(registers)]
    operands = [v[32 : 31 + count], *factors, v[32 : 31 + count]]
    codes = {"cbsz": formats[0], "blgp": formats[1]}
    if scales:
        codes |= {"scale_src0": 256 + 16, "scale_src1": 256 + 17, "x2encoding": 0xD3AC}
        codes |= {
            "opsel": (choose[0] & 1) | (choose[1] & 1) << 1,
            "opsel_hi": choose[0] >> 1 | choose[1] >> 1 << 1,
        }
    machine = Machine("gfx950", getattr(cdna, name)(*operands, **codes))
    vector = machine.waves.vector
    numbers = []
    for side, form in enumerate(formats):
        element = ELEMENTS[form]
        bits, dtype = registers[side], getattr(ml_dtypes, element)
        matrix = rng.integers(0, 1 << bits, (size, k), np.uint8)
        matrix[~np.isfinite(block_scaled.decoded(matrix.view(dtype)))] = 0
        number = block_scaled.decoded(matrix.view(dtype))
        vector[8 * side : 8 * side + bits, 0] = held(matrix, bits)
        words = rng.integers(110, 140, (64, 4), np.uint8)
        if scales:
            vector[16 + side, 0] = words.view(np.uint32)[:, 0]
            own = words[:, choose[side]].reshape(64 // size, size).T
            number = number * np.repeat(np.exp2(own - 127.0), 32, axis=1)
        numbers.append(number)
    vector[32 : 32 + count, 0] = np.float32(0).view(np.uint32)
    got = machine.run().vector[32 : 32 + count, 0].view(np.float32)
    want = numbers[0] @ numbers[1].T
    i, j = np.ogrid[:size, :size]
    if size == 16:
        return got[i % 4, j + 16 * (i // 4)], want
    return got[4 * (i // 8) + i % 4, j + 32 * (i // 4 % 2)], want


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("scales", [True, False], ids=["scaled", "plain"])
def test_takes_all_formats_in_any_pairs(size, scales):
    for first in range(5):
        for second in range(5):
            got, want = product(size, (first, second), scales, seed=5 * first + second)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("choose", [(0, 1), (1, 0), (2, 3), (3, 2)], ids=str)
def test_a_scale_is_the_byte_that_is_chosen(choose):
    got, want = product(16, (0, 4), True, choose)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


def test_refuses_a_number_that_is_no_format():
    word = cdna.v_mfma_f32_16x16x128_f8f6f4(v[32:35], v[0:7], v[8:15], 0, cbsz=5)
    with pytest.raises(EmulationError, match=r"has formats \(5, 0\), which are not known"):
        Machine("gfx950", word).run()


def test_two_instructions_are_not_one_with_scales():
    first, second = (
        cdna.v_mfma_f32_16x16x128_f8f6f4(v[at : at + 3], v[0:3], v[8:11], 0, cbsz=4, blgp=4)
        for at in (32, 36)
    )
    machine = Machine("gfx950", first, second)
    machine.waves.vector[0:16] = 0x22222222  # ones
    assert (machine.run().vector[32:40, 0].view(np.float32) == 128).all()


def test_scales_that_are_255_are_nan_and_products_may_pass_the_largest_scale():
    machine = Machine(
        "gfx950",
        cdna.v_mfma_scale_f32_16x16x128_f8f6f4(
            v[32:35], v[0:3], v[8:11], 0, cbsz=4, blgp=4, scale_src0=272, scale_src1=273,
            x2encoding=0xD3AC,
        ),
    )  # fmt: skip
    vector = machine.waves.vector
    vector[0:16] = 0x22222222  # ones
    vector[16], vector[17] = 254, 0
    vector[16, 0, 5] = 255  # of row 5
    got = machine.run().vector[32:36, 0].view(np.float32)
    row = 4 * (np.arange(64) // 16) + np.arange(4)[:, None]
    assert np.isnan(got[row == 5]).all()
    assert (got[row != 5] == 128).all()


@pytest.mark.parametrize("seed", [1, 4])
def test_a_product_of_blocks_is_right(seed):
    op, operands = random_of_blocks(np.random.default_rng([1, seed]))
    result = check_op(op, operands, "rocm:gfx950", emulate=True)
    assert result.status == "passed", result.message


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """A product of blocks in a folder, with its operands and its result."""
    folder = tmp_path_factory.mktemp("scaled") / "kernel"
    rng = np.random.default_rng(0)
    numbers = [rng.standard_normal((20, 256)) * np.exp2(rng.integers(-9, 9, (20, 1)))] * 2
    a, a_scales, _ = block_scaled.quantized(numbers[0], "mxfp8_e4m3")
    b, b_scales, _ = block_scaled.quantized(numbers[1][:, ::-1], "mxfp6_e2m3")
    op = ext.ops.matmul(a, b, lhs_scales=a_scales, rhs_scales=b_scales, transpose_rhs=True)
    build(op, "rocm:gfx950", folder=folder)
    want = block_scaled.dequantized(a, a_scales) @ block_scaled.dequantized(b, b_scales).T
    return folder, (a, b, a_scales, b_scales), want.astype(np.float32)


def is_right(scaled, change=0):
    """Whether the kernel's results are, with bits of its scaled instructions turned."""
    folder, operands, want = scaled

    def load(image, device):
        (kernel,) = read_code_object(image).values()
        text, place = kernel.text, kernel.start
        while (one := decode(text, place, kernel.chip)).name != "S_ENDPGM":
            if one.name.startswith("V_MFMA_SCALE"):
                word = int.from_bytes(text[place : place + 8], "little") ^ change
                text = text[:place] + word.to_bytes(8, "little") + text[place + 8 :]
            place += one.size
        return {kernel.name: AmdKernel(replace(kernel, text=text))}

    got = np.zeros_like(want)
    Kernels(folder, library=EmulatedDriver("rocm", "gfx950", load))(*operands, got)
    return np.allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_another_byte_or_register_of_a_scale_is_found(scaled):
    assert is_right(scaled)
    for bit in (11, 12, 59, 60, 32, 41):  # OP_SEL and OP_SEL_HI of both, the scales' registers
        assert not is_right(scaled, 1 << bit), bit
