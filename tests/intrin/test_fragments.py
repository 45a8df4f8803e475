"""Fragments: the place of an element, and what a register holds, by the table's lane maps."""

from math import prod

import pytest

from tvm_iree_ext.intrin.fragments import coords, fragment_lanes, fragment_shape, packed, place, run
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table

ROWS = [row for row in mma_table().values() if row.kind not in ("opaque", "virtual_sparse")]


@pytest.mark.costly
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_places_are_those_of_the_lane_map(row):
    lanes = row.subgroup_size
    for operand in row.operands().values():
        map_ = operand.coordinates(lanes * row.num_subgroups)
        for thread in range(0, len(map_), 7):
            group, lane = divmod(thread, lanes)
            for register in range(operand.elements_per_lane):
                index = coords(operand, lane, group, register)
                assert index == map_[thread, register].tolist()
                *groups, part, found = place(operand, index)
                assert (part, found) == (lane % fragment_lanes(operand), register)
                # Scales in tensor memory are the same for each subgroup.
                assert groups == ([group] if prod(operand.subgroup) > 1 else [])


def test_replicated_lanes_are_one():
    assert fragment_shape(mma_kind("WMMAR3_F32_16x16x16_F16").operand("lhs")) == (16, 16)
    assert fragment_shape(mma_kind("WMMAR3_F32_16x16x16_F16").operand("acc")) == (32, 8)
    assert fragment_shape(mma_kind("NV_WGMMA_F32_64x64x16_F16").operand("acc")) == (4, 32, 32)


def test_runs_are_as_wide_as_memory_is_contiguous():
    mfma, nvidia = mma_kind("MFMA_F32_16x16x32_F16"), mma_kind("NV_MMA_SYNC_F32_16x8x16_F16")
    assert [run(mfma.operand("lhs"), dim) for dim in (0, 1)] == [1, 8]
    assert [run(mfma.operand("acc"), dim) for dim in (0, 1)] == [4, 1]
    assert [run(nvidia.operand("lhs"), dim) for dim in (0, 1)] == [1, 2]
    assert run(mma_kind("MFMA_F64_16x16x4_F64").operand("acc"), 0) == 1  # rows lie 4 apart


def test_pairs_of_4_bits_are_bytes():
    lhs = packed(mma_kind("WMMAR4_I32_16x16x32_I4").operand("lhs"))
    assert (lhs.dtype, lhs.extents, lhs.elements_per_lane) == ("i8", (16, 16), 8)
