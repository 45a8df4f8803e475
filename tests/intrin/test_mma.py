"""TensorIntrins: which exist, what they refuse, and ldmatrix by PTX's own words."""

import doctest

import numpy as np
import pytest
from tvm import s_tir

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin import amd
from tvm_iree_ext.intrin.nvidia import ldmatrix_form, matrices
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits
from tvm_iree_ext.targets.mma.mma_table import mma_table


def test_examples_hold():
    assert doctest.testmod(amd).failed == 0


def test_names_are_deterministic_and_registered_when_asked_for():
    intrins = mma_intrins("MFMA_F32_16x16x16_F16")
    name = intrins.load("lhs", "shared", order=(1, 0))
    assert name == "tvm_iree_ext.MFMA_F32_16x16x16_F16.load_lhs.shared.10.16B"
    assert intrins.load("lhs", "shared", order=(1, 0)) == name
    assert s_tir.TensorIntrin.get(name) is not None
    assert intrins.fill() == "tvm_iree_ext.MFMA_F32_16x16x16_F16.fill"
    swapped = mma_intrins("MFMA_F32_16x16x16_F16", column_major=True)
    assert swapped.multiply() == "tvm_iree_ext.MFMA_F32_16x16x16_F16.column_major.mma"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: mma_intrins("MFMA_F32_1x1x1_F16"), "is unknown"),
        (
            lambda: mma_intrins("NV_WMMA_F32_16x16x16_F16"),
            "NV_WMMA_F32_16x16x16_F16: has no TensorIntrins of fragments: which lane holds",
        ),
        (
            lambda: mma_intrins("NV_WGMMA_F32_64x64x16_F16"),
            "has no TensorIntrins of fragments: its B is in shared memory",
        ),
        (
            lambda: mma_intrins("VDMFMA_F32_8x16x64x2_F16", column_major=True),
            "not each other's transposes",
        ),
        (
            lambda: mma_intrins("NV_MMA_SYNC_F32_16x8x16_F16", column_major=True),
            "not each other's transposes",
        ),
        (
            lambda: mma_intrins("MFMA_F32_16x16x16_F16").load("lhs", ldmatrix=True),
            "ldmatrix cannot load lhs from shared",
        ),
        (
            lambda: mma_intrins("NV_MMA_SYNC_F32_16x8x16_F16").load("lhs", "global", ldmatrix=True),
            "ldmatrix cannot load lhs from global",
        ),
        (
            lambda: mma_intrins("NV_MMA_SYNC_I32_16x8x32_I8").load("rhs", ldmatrix=True),
            r"ldmatrix cannot load rhs from shared with its dims in the order \[0, 1\]",
        ),
    ],
)
def test_what_a_kind_cannot_do_is_refused(ask, message):
    with pytest.raises(TargetError, match=message):
        ask()


def test_exchanged_operands_of_two_types_are_another_kind():
    name = "MFMA_F32_16x16x32_F8E5M2_F8E4M3FN"
    script = s_tir.TensorIntrin.get(mma_intrins(name, column_major=True).multiply()).impl.script()
    assert "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8" in script


NVIDIA = [row for row in mma_table().values() if row.vendor == "nvidia" and row.kind == "native"]


@pytest.mark.parametrize("row", NVIDIA, ids=lambda row: row.name)
def test_ldmatrix_gives_what_the_lane_map_says(row):
    """Register i of lane l: row l div 4, columns 2 (l mod 4) and one more, of matrix i."""
    for side in ("lhs", "rhs"):
        operand = row.operand(side)
        for order in ((0, 1), (1, 0)):
            form = ldmatrix_form(operand, order)
            if form is None:
                continue
            each = 32 // dtype_bits(operand.dtype)
            line_dim = order[0]  # a line of a matrix is 16 bytes of memory
            run_dim = order[1]
            got = np.empty((32, operand.elements_per_lane, 2), int)
            for register, first in enumerate(matrices(operand)):
                for lane in range(32):
                    for e in range(each):
                        line, column = lane // 4, each * (lane % 4) + e
                        if form:  # transposed: a lane takes a column's two elements
                            line, column = each * (lane % 4) + e, lane // 4
                        at = [0, 0]
                        at[line_dim] = first[line_dim] + line
                        at[run_dim] = first[run_dim] + column
                        got[lane, register * each + e] = at
            np.testing.assert_array_equal(got, operand.coordinates(32))


def test_which_operands_ldmatrix_loads():
    forms = {
        (row.name, side): [ldmatrix_form(row.operand(side), order) for order in ((0, 1), (1, 0))]
        for row in NVIDIA
        for side in ("lhs", "rhs")
    }
    assert forms["NV_MMA_SYNC_F32_16x8x16_F16", "lhs"] == [False, True]
    assert forms["NV_MMA_SYNC_F32_16x8x16_F16", "rhs"] == [True, False]
    assert forms["NV_MMA_SYNC_I32_16x8x32_I8", "lhs"] == [False, None]
    assert forms["NV_MMA_SYNC_I32_16x8x32_I8", "rhs"] == [None, False]
    assert forms["NV_MMA_SYNC_F32_16x8x8_TF32", "rhs"] == [None, False]
    assert forms["NV_MMA_SYNC_F64_8x8x4_F64", "lhs"] == [None, None]


def test_llvm_types_fill_the_registers_of_the_row():
    for row in mma_table().values():
        if row.vendor == "amd" and row.kind == "native":
            for name, dtype in zip(("lhs", "rhs", "acc"), amd.ir_types(row), strict=True):
                element, _, lanes = dtype.partition("x")
                bits = int(element.lstrip("abcdefghijklmnopqrstuvwxyz")) * int(lanes or 1)
                assert max(bits, 32) == 32 * row.operand(name).registers, (row.name, name)
