"""wgmma: operands lie in shared memory where the descriptor says, and every kind compiles."""

import re

import numpy as np
import pytest
from sample_wgmma import warpgroup_product

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.intrin.wgmma import wgmma_intrins
from tvm_iree_ext.layout.analysis import Placement
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds
from tvm_iree_ext.targets.names import make_target

HOPPER = make_target("cuda:sm_90a")
KINDS = mma_kinds("sm_90a", ("warpgroup",))
F16, TF32 = mma_kind("NV_WGMMA_F32_64x128x16_F16"), mma_kind("NV_WGMMA_F32_64x128x8_TF32")


def read_by_hardware(operand, step):
    """Bytes from which the instruction takes its elements ``[outer, k]``, by its documents.

    16-byte units: K-major, 8 rows follow at the swizzle's width and groups of 8 rows at the stride
    offset; MN-major, 8 rows of K, with the roles of both offsets as in CUTLASS.
    """
    bits, width = operand.bits, operand.swizzle_bytes
    outer_extent = operand.mma.m if operand.side == "lhs" else operand.mma.n
    leading, stride = (16 * offset for offset in operand.strides)
    outer, k = np.meshgrid(np.arange(outer_extent), np.arange(operand.mma.k), indexing="ij")
    run = 128 // bits  # elements of a unit
    if operand.k_major:
        unit = k // run
        at = outer % 8 * width + outer // 8 * stride + k % run * bits // 8
        at = at + (unit * leading if width == 16 else unit * 16)
    else:
        columns = width * 8 // bits
        at = outer % columns * bits // 8 + k % 8 * width
        along, across = (leading, stride) if width == 16 else (stride, leading)
        at = at + outer // columns * across + k // 8 * along
    at = at + operand.first(step) * bits // 8
    swizzled_bits = {16: 0, 32: 1, 64: 3, 128: 7}[width]
    return at ^ ((at >> 7 & swizzled_bits) << 4)


def written(operand, step):
    """Bytes to which a copy writes them, through the index map and the swizzle."""
    outer_extent = operand.mma.m if operand.side == "lhs" else operand.mma.n
    found = np.empty((outer_extent, operand.mma.k), int)
    placement = Placement(operand.shape, operand.bits // 8, swizzle=operand.swizzle)
    for outer in range(outer_extent):
        for k in range(operand.mma.k):
            index = np.array(operand.index(outer, step * operand.mma.k + k))
            found[outer, k] = placement.addresses(index)
    return found


@pytest.mark.parametrize("side", ["lhs", "rhs"])
@pytest.mark.parametrize(
    ("mma", "steps", "k_major", "swizzle_bytes"),
    [
        (F16, 1, True, 16), (F16, 4, True, 16), (F16, 1, True, 32), (F16, 2, True, 64),
        (F16, 4, True, 128), (F16, 2, False, 16), (F16, 2, False, 32), (F16, 1, False, 64),
        (F16, 4, False, 128), (TF32, 4, True, 128), (TF32, 2, True, 16),
    ],
)  # fmt: skip
def test_the_descriptor_reads_what_the_copy_wrote(side, mma, steps, k_major, swizzle_bytes):
    operand = SharedOperand(mma, side, steps, k_major, swizzle_bytes)
    for step in range(steps):
        np.testing.assert_array_equal(read_by_hardware(operand, step), written(operand, step))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((F16, "rhs", 1, True, 48), "swizzle of 48 bytes; there are 16"),
        ((TF32, "rhs", 4, False, 128), "rhs of 32 bits must have K contiguous"),
        ((F16, "rhs", 1, True, 128), "rows of 16 elements of rhs are no multiple of the 64"),
        ((F16, "rhs", 8, True, 128), "K of 128 is more than the 64 .*; take at most 4 steps"),
    ],
)
def test_what_no_descriptor_says_is_refused(arguments, message):
    with pytest.raises(TargetError, match=message):
        SharedOperand(*arguments)


def test_kinds_of_one_subgroup_are_refused():
    with pytest.raises(TargetError, match="no warpgroup kind; it is native"):
        wgmma_intrins("NV_MMA_SYNC_F32_16x8x16_F16")
    intrins = wgmma_intrins(F16.name)
    with pytest.raises(TargetError, match="2 steps of lhs, 4 of rhs"):
        intrins.multiply(SharedOperand(F16, "rhs", 4), SharedOperand(F16, "lhs", 2, True, 64))


@pytest.mark.costly
@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
@pytest.mark.parametrize("lhs_in_registers", [False, True])
def test_cuda_source(mma, lhs_in_registers, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.codegen.gpu.cuda.nvrtc_obstacle", lambda: "no NVRTC here")
    made = warpgroup_product(mma.name, lhs_in_registers=lhs_in_registers)
    source = compile_device(with_swizzles(*made), HOPPER).source
    assert mma.ptx in source
    kernel = source[source.rindex("__global__") :]
    fence, descriptor = map(kernel.index, ("ptx_fence_proxy", "encode_matrix_descriptor"))
    assert fence < descriptor
    if not lhs_in_registers:  # written, published to the async proxy, awaited, read
        assert fence < kernel.rindex("__syncthreads") < descriptor


FORMS = (
    {"steps": 4},
    {"steps": 4, "rhs_k_major": False},
    {"steps": 2, "lhs_k_major": False, "lhs_in_registers": True},
    {"steps": 1, "swizzle_bytes": 16},
)


@pytest.mark.costly
@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
@pytest.mark.skipif(not (find_tool("ptxas") and find_tool("nvdisasm")), reason="no ptxas, nvdisasm")
@pytest.mark.parametrize("how", FORMS, ids=str)
def test_cuda_assembly(how):
    made = warpgroup_product("NV_WGMMA_F32_64x64x16_F16", **how)
    code = compile_device(with_swizzles(*made), HOPPER)
    calls = re.findall(r"HGMMA\.64x64x16\.F32", code.assembly)
    assert len(calls) in (how["steps"], 2 * how["steps"])
    assert ("tnspB" in code.assembly) == (not how.get("rhs_k_major", True))
    (resources,) = code.resources.values()
    assert (resources.scratch_bytes, resources.spills) == (0, 0)
