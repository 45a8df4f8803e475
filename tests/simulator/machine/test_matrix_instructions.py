"""Matrix instructions in the simulator: the documented lane maps, and what goes wrong with them."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from tvm.script import tirx as T
from tvm.target.codegen import llvm_lookup_intrinsic_id

from tvm_iree_ext.simulator import simulate
from tvm_iree_ext.simulator.base.findings import Findings
from tvm_iree_ext.simulator.base.traffic import Hardware, Traffic
from tvm_iree_ext.simulator.machine.matrix_instructions import (
    decoded,
    kind_map,
    lane_map,
    matrix_instruction,
)
from tvm_iree_ext.simulator.machine.sparse_instructions import sparse_instruction
from tvm_iree_ext.simulator.machine.workgroup import SimulatedWorkgroup
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table

RNG = np.random.default_rng(0)


@pytest.mark.costly
@pytest.mark.parametrize("mma", mma_table().values(), ids=lambda mma: mma.name)
def test_lane_maps_agree_with_the_tables_own(mma):
    """Both read the schema of the table, one literally, the other over arrays."""
    lanes = mma.subgroup_size * mma.num_subgroups
    for operand in mma.operands().values():
        where = lane_map(operand, lanes)
        held = operand.coordinates(lanes)
        flat = np.ravel_multi_index(np.moveaxis(held, -1, 0), operand.extents)
        np.testing.assert_array_equal(where.place, flat)
        np.testing.assert_array_equal(where.place.ravel()[where.holder], np.arange(flat.max() + 1))


def operands(k: int = 16, n: int = 8):
    return (
        RNG.integers(-8, 8, (16, k)).astype("float16"),
        RNG.integers(-8, 8, (k, n)).astype("float16"),
        np.zeros((16, n), "float32"),
    )


def test_ldmatrix_and_mma_sync(lowered, mma_sync):
    a, b, c = operands()
    done = simulate(lowered(mma_sync()), [a, b, c]).check()
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))
    assert done.counts["NV_MMA_SYNC_F32_16x8x16_F16"] == 1
    assert done.counts["ldmatrix"] == 1


def test_another_lane_map_gives_another_product(lowered, mma_sync):
    a, b, c = operands()
    simulate(lowered(mma_sync(row_of_a=8)), [a, b, c])
    assert (c != a.astype("float32") @ b.astype("float32")).any()


def test_an_unwritten_row_of_a_spoils_that_row_alone(lowered, mma_sync):
    a, b, c = operands()
    findings = simulate(lowered(mma_sync(unwritten=3)), [a, b, c]).findings
    assert {finding.kind for finding in findings} == {"uninitialised"}
    assert {finding.lanes for finding in findings} == {(12, 13, 14, 15)}  # they hold row 3 of C
    np.testing.assert_array_equal(c[:3], (a.astype("float32") @ b.astype("float32"))[:3])


def test_all_lanes_of_a_subgroup_execute_it(lowered, mma_sync):
    a, b, c = operands()
    findings = simulate(lowered(mma_sync(first=4)), [a, b, c]).findings
    assert [finding.kind for finding in findings] == ["divergent shuffle"]
    assert "is executed without lanes 0, 1, 2, 3 of their subgroup" in findings[0].message


def test_mfma(lowered):
    number = llvm_lookup_intrinsic_id("llvm.amdgcn.mfma.f32.16x16x16f16")

    @T.prim_func(s_tir=True)
    def kernel(
        A: T.Buffer((16, 16), "float16"),
        B: T.Buffer((16, 16), "float16"),
        C: T.Buffer((16, 16), "float32"),
    ):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("product"):
                v = T.axis.spatial(64, tx)
                T.reads(A[0:16, 0:16], B[0:16, 0:16])
                T.writes(C[0:16, 0:16])
                a = T.sblock_alloc_buffer((4,), "float16", scope="local")
                b = T.sblock_alloc_buffer((4,), "float16", scope="local")
                c = T.sblock_alloc_buffer((4,), "float32", scope="local")
                for r in T.unroll(4):
                    a[r] = A[v % 16, v // 16 * 4 + r]
                    b[r] = B[v // 16 * 4 + r, v % 16]
                    c[r] = T.float32(1)
                c[T.ramp(0, 1, 4)] = T.call_llvm_pure_intrin(
                    number, a[T.ramp(0, 1, 4)], b[T.ramp(0, 1, 4)], c[T.ramp(0, 1, 4)],
                    T.int32(0), T.int32(0), T.int32(0), dtype="float32x4",
                )  # fmt: skip
                for r in T.unroll(4):
                    C[v // 16 * 4 + r, v % 16] = c[r]

    a, b, c = operands(16, 16)
    done = simulate(lowered(kernel, "gfx942"), [a, b, c]).check()
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32") + 1)
    assert done.counts == {"MFMA_F32_16x16x16_F16": 1}


def test_tf32_ignores_low_bits_and_xf32_rounds():
    value = np.array([[1 + 3 * 2.0**-12]], "float32")
    raw = value.view(np.uint8)
    tf32 = mma_kind("NV_MMA_SYNC_F32_16x8x4_TF32").rhs
    assert decoded(raw, tf32)[0, 0] == 1
    xf32 = mma_kind("MFMA_F32_16x16x8_XF32").lhs
    pair = np.concatenate([raw, raw], axis=1)
    assert decoded(pair, xf32)[0, 0] == np.float32(1 + 2.0**-10)


def test_four_bits_lie_low_half_first():
    operand = mma_kind("NV_MMA_SYNC_I32_16x8x64_I4").rhs
    raw = np.zeros((1, 8), np.uint8)
    raw[0, 0] = 0x8F
    assert decoded(raw, operand)[0, :3].tolist() == [-1, -8, 0]


def test_bytes_are_floats_of_eight_bits():
    operand = mma_kind("NV_MMA_SYNC_F32_16x8x32_F8E4M3FN").rhs
    values = np.arange(8).astype(ml_dtypes.float8_e4m3fn)
    assert decoded(values.view(np.uint8)[None], operand)[0].tolist() == list(range(8))


def workgroup(lanes, subgroup_size):
    hardware = Hardware(subgroup_size)
    return SimulatedWorkgroup(
        (0, 0, 0), 0, (lanes, 1, 1), Traffic(hardware, lanes), Findings(str), Counter(), []
    )


def in_lanes(mma, side, matrix):
    """A matrix as the registers' elements: ``[elements, lanes]``."""
    return matrix.ravel()[kind_map(mma.name, side).place].T


SCALED = [mma for mma in mma_table().values() if mma.kind == "scaled" and mma.arch == ("gfx950",)]


@pytest.mark.parametrize("mma", SCALED, ids=lambda mma: mma.name)
def test_blocks_of_k_are_scaled(mma):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 16, operand.extents).astype("uint8") for operand in (mma.lhs, mma.rhs))
    scales = [
        rng.integers(124, 131, s.extents).astype("uint8") for s in (mma.lhs_scale, mma.rhs_scale)
    ]
    registers = []
    for side, matrix in (("lhs", a), ("rhs", b)):
        nibbles = in_lanes(mma, side, matrix)
        registers.append([np.ascontiguousarray(nibbles[0::2] | nibbles[1::2] << 4)])
    given = [
        [in_lanes(mma, side, m)] for side, m in zip(("lhs_scale", "rhs_scale"), scales, strict=True)
    ]
    c = np.zeros((mma.acc.elements_per_lane, 64), "float32")
    found = matrix_instruction(mma.name).execute(
        workgroup(64, 64), registers[0], registers[1], [c], tuple(given), None, 0
    )
    left, right = (m.view(ml_dtypes.float4_e2m1fn).astype("float64") for m in (a, b))
    up, down = (m.view(ml_dtypes.float8_e8m0fnu).astype("float64") for m in scales)
    want = np.einsum("mst,ms,stn,sn->mn", left, up, right, down)
    np.testing.assert_array_equal(found, in_lanes(mma, "acc", want).astype("float32"))


SPARSE = [mma for mma in mma_table().values() if mma.kind == "virtual_sparse"]


@pytest.mark.parametrize("mma", SPARSE[:1] + SPARSE[4:6], ids=lambda mma: mma.name)
def test_two_of_four_elements_are_given(mma):
    """Any two of every four, against a loop over lanes and registers."""
    rng = np.random.default_rng(0)
    product = sparse_instruction(mma.name)
    depth = product.mma.k // 4  # of a lane
    dtype = "int8" if mma.a == "i8" else "float16"
    given = rng.integers(-8, 8, (64, depth // 2)).astype(dtype)
    b = rng.integers(-8, 8, (64, depth)).astype(dtype)
    first = rng.integers(0, 3, (64, depth // 4))
    second = np.array([[rng.integers(one + 1, 4) for one in row] for row in first])
    nibbles = (first | second << 2) << 4 * np.arange(depth // 4)
    index = nibbles.sum(axis=1)
    a, right = np.zeros((16, product.mma.k)), np.zeros((product.mma.k, 16))
    for lane in range(64):
        k = lane // 16 * depth
        right[k : k + depth, lane % 16] = b[lane]
        for group in range(depth // 4):
            for at, place in enumerate((first[lane, group], second[lane, group])):
                a[lane % 16, k + 4 * group + place] = given[lane, 2 * group + at]
    c = np.zeros((4, 64), "int32" if mma.a == "i8" else "float32")
    registers = [[np.ascontiguousarray(one.T)] for one in (given, b)]
    words = [index.astype(np.uint32).view(np.int32)]
    group = workgroup(64, 64)
    found = product.sparse(group, *registers, [c], words, None, 0)
    want = np.array(
        [[(a @ right)[4 * (lane // 16) + r, lane % 16] for lane in range(64)] for r in range(4)]
    )
    np.testing.assert_array_equal(found, want)
    assert not group.findings.list()
    product.sparse(group, *registers, [c], [np.zeros(64, "int32")], None, 0)
    assert [finding.kind for finding in group.findings.list()] == ["instruction"]
