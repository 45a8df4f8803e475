"""tcgen05: the bits of descriptors, and where tensor memory has a product's sums."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.intrin.tcgen05 import (
    allocated_columns,
    instruction_descriptor,
    scaled_descriptor,
)
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.simulator.machine.scaled_tensor_products import ScaledProduct
from tvm_iree_ext.simulator.machine.tensor_products import TensorProduct, encode
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds, scaled_kinds
from tvm_iree_ext.targets.mma.scaled_kinds import SCALE_FORMATS, scaled_name

KINDS = mma_kinds("sm_100a", ("tensor_memory",))
KIND_SCALED = "scaled_tensor_memory"
# The enumerations of CUTLASS, cute/arch/mma_sm100_desc.hpp.
FORMATS = {"f16": 0, "bf16": 1, "f8e4m3fn": 0, "f8e5m2": 1, "i8": 1}
SUMS = {"f16": 0, "f32": 1, "i32": 2}


def fields(code):
    """The fields of an instruction descriptor that CUTLASS has for dense products, by name."""
    places = {
        "sparse_id2": (0, 2), "sparse": (2, 1), "saturate": (3, 1), "c": (4, 2), "a": (7, 3),
        "b": (10, 3), "a_negate": (13, 1), "b_negate": (14, 1), "a_major": (15, 1),
        "b_major": (16, 1), "n": (17, 6), "m": (24, 5), "max_shift": (30, 2),
    }  # fmt: skip
    return {name: code >> first & (1 << bits) - 1 for name, (first, bits) in places.items()}


@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_instruction_descriptors_have_the_fields_of_cutlass(mma):
    code = instruction_descriptor(mma, lhs_k_major=False, rhs_k_major=True)
    assert fields(code) == {
        "sparse_id2": 0, "sparse": 0, "saturate": 0, "c": SUMS[mma.c], "a": FORMATS[mma.a],
        "b": FORMATS[mma.b], "a_negate": 0, "b_negate": 0, "a_major": 1, "b_major": 0,
        "n": mma.n >> 3, "m": mma.m >> 4, "max_shift": 0,
    }  # fmt: skip
    kind = mma.ptx.rpartition("::")[2]
    product = TensorProduct.of(kind, code, mma.workgroups)
    assert TensorProduct.of(kind, code, 3 - mma.workgroups) is None
    assert (product.name, product.k, product.majors) == (mma.name, mma.k, (False, True))


@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_a_row_of_sums_is_a_lane_of_tensor_memory(mma):
    """PTX ISA, layout D of 128 rows; tcgen05.ld.32x32b gives a subgroup's lane its row.

    Of pairs it is layout A: 128 rows in the first workgroup, the others in the second.
    """
    held = mma.acc.coordinates(128 * mma.workgroups)
    lane, column = np.meshgrid(np.arange(mma.m), np.arange(mma.n), indexing="ij")
    np.testing.assert_array_equal(held, np.stack([lane, column], axis=-1))


SCALED = mma_kinds("sm_100a", ("scaled_tensor_memory",))
# CUTLASS: MXF8F6F4Format, of K 64 MXF4Format; ScaleFormat.
SCALED_FORMATS = {"f8e4m3fn": 0, "f8e5m2": 1, "f6e2m3fn": 3, "f6e3m2fn": 4, "f4e2m1fn": 5}


def scaled_fields(code):
    """The fields of CUTLASS's InstrDescriptorBlockScaled, by name."""
    places = {
        "sparse_id2": (0, 2), "sparse": (2, 1), "b_sf_id": (4, 2), "a": (7, 3), "b": (10, 3),
        "a_negate": (13, 1), "b_negate": (14, 1), "a_major": (15, 1), "b_major": (16, 1),
        "n": (17, 6), "scale": (23, 1), "m": (24, 5), "a_sf_id": (29, 2), "k_size": (31, 1),
    }  # fmt: skip
    return {name: code >> first & (1 << bits) - 1 for name, (first, bits) in places.items()}


def decoded(mma, code):
    _, kind, vector = (part.partition(".")[0] for part in mma.ptx.split("::")[1:])
    return ScaledProduct.with_scales(kind, vector, code)


@pytest.mark.parametrize("mma", SCALED, ids=lambda mma: mma.name)
def test_descriptors_of_products_with_scales_have_the_fields_of_cutlass(mma):
    formats = SCALE_FORMATS if mma.k == 32 else (mma.a,)
    each = mma.operand("lhs_scale").extent("K")
    for number, a in enumerate(formats):
        b = list(formats)[(number + 1) % len(formats)]
        kind = mma_kind(scaled_name(mma.name, a, b))
        first = 4 - each
        code = scaled_descriptor(kind, lhs_k_major=True, rhs_k_major=True, first=first)
        of = SCALED_FORMATS.get if mma.k == 32 else {"f4e2m1fn": 1}.get
        assert scaled_fields(code) == {
            "sparse_id2": 0, "sparse": 0, "b_sf_id": first, "a": of(a), "b": of(b), "a_negate": 0,
            "b_negate": 0, "a_major": 0, "b_major": 0, "n": mma.n >> 3,
            "scale": int(mma.scale_block == 32), "m": 8, "a_sf_id": first, "k_size": 0,
        }  # fmt: skip
        product = decoded(mma, code)
        assert (product.name, product.k, product.blocks) == (kind.name, mma.k, each)
        assert product.first == (first, first)
        if each > 1:  # a word's first byte, or its third
            assert decoded(mma, code ^ (1 << 29)) is None
        assert decoded(mma, code ^ (1 << 23)) is None  # scales of another type


@pytest.mark.parametrize("mma", SCALED, ids=lambda mma: mma.name)
def test_scales_lie_in_tensor_memory_as_cutlass_has_them(mma):
    """tmem_sf_frg: row r in lane r % 32, and 32, 64 and 96 lanes below it; in column r // 32."""
    for name, rows in (("lhs_scale", 128), ("rhs_scale", mma.n)):
        operand = mma.operand(name)
        line = 1 - operand.dims.index("Ks")
        held = operand.coordinates(128).reshape(128, rows // 32, -1, 2)
        lane, column = np.meshgrid(np.arange(128), np.arange(rows // 32), indexing="ij")
        for block in range(held.shape[2]):
            np.testing.assert_array_equal(held[:, :, block, line], column * 32 + lane % 32)
            assert (held[:, :, block, 1 - line] == block).all()


def test_formats_of_a_chip_with_scales():
    """The widest K first; e4m3 scales are of 4-bit floats alone."""
    found = {
        (a, scales): [kind.k for kind in scaled_kinds("sm_100a", a, a, scales, KIND_SCALED)]
        for a in SCALE_FORMATS
        for scales in ("e8m0", "ue4m3")
    }
    assert found["f4e2m1fn", "e8m0"] == [64] * 4 + [32] * 4
    assert found["f4e2m1fn", "ue4m3"] == [64] * 4
    for a in set(SCALE_FORMATS) - {"f4e2m1fn"}:
        assert (found[a, "e8m0"], found[a, "ue4m3"]) == ([32] * 4, [])


@pytest.mark.parametrize("shape", [(64, 128), (128, 24)])
@pytest.mark.parametrize(("kind", "more"), [("f16", 0), ("f16", 1 << 2), ("i8", 0)])
def test_no_product_has_other_bits(shape, kind, more):
    m, n = shape
    assert TensorProduct.of(kind, 1 << 4 | n // 8 << 17 | m // 16 << 24 | more) is None


def test_matrix_descriptors_have_the_fields_of_cutlass():
    """Version 1 in bits 46 and 47; swizzles of 128, 64, 32 and 16 bytes are 2, 4, 6 and 0."""
    for mode, code in ((3, 2), (2, 4), (1, 6), (0, 0)):
        word = int(encode(0x2340, 1, 64, mode))
        assert (word & 0x3FFF, word >> 16 & 0x3FFF, word >> 32 & 0x3FFF) == (0x234, 1, 64)
        assert (word >> 46 & 7, word >> 49 & 0xFFF, word >> 61) == (1, 0, code)


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
@pytest.mark.parametrize("side", ["lhs", "rhs"])
@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("kind", ["NV_TCGEN05_F32_128x128x16_F16", "NV_TCGEN05_I32_128x128x32_I8"])
def test_tiles_are_read_from_the_bytes_of_the_index_map(kind, side, k_major, swizzle_bytes):
    mma = mma_kind(kind)
    operand = SharedOperand(mma, side, swizzle_bytes // 32, k_major, swizzle_bytes)
    mode, size = {32: 1, 64: 2, 128: 3}[swizzle_bytes], operand.bits // 8
    for step in range(operand.steps):
        first = operand.first(step) * size
        tile = TensorProduct.place(int(encode(first, *operand.strides, mode)))
        at = tile.addresses(128, mma.k, operand.bits, k_major=k_major)
        for i in range(0, 128, 7):
            for k in range(mma.k):
                index = operand.index(i, step * mma.k + k)
                byte = size * int(np.ravel_multi_index(index, operand.shape))
                swizzled = byte ^ ((byte >> 7 & (swizzle_bytes // 16 - 1)) << 4)
                assert at[i, k] == swizzled


@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_each_of_a_pair_has_half_of_a_tile(side, k_major):
    """As CUTLASS's copies for two workgroups have it: 128 rows of A, half of the columns of B."""
    mma = mma_kind("NV_TCGEN05_F32_256x192x16_F16")
    outer = {"lhs": 128, "rhs": 96}[side]
    tile = SharedOperand(mma, side, 4, k_major, 128 if k_major or side == "lhs" else 64).tile
    assert tile == ((outer, 64) if k_major else (64, outer))


def test_allocations_are_powers_of_two_from_32_on():
    assert [allocated_columns(n) for n in (1, 32, 33, 192, 512)] == [32, 32, 64, 256, 512]


def test_there_are_no_fragments():
    with pytest.raises(TargetError, match=r"its sums are in tensor memory; see intrin\.tcgen05"):
        mma_intrins("NV_TCGEN05_F32_128x64x16_F16")
