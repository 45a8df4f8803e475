from math import prod

import pytest

from tvm_iree_ext.base.errors import LayoutError, ScheduleError
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.layout.analysis import Placement, bank_conflicts, coalescing
from tvm_iree_ext.schedules.gpu.sblocks.copies import (
    TileAccess,
    choose_placement,
    copy_layout,
    transposing_layout,
)
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_table import mma_kind

TILES = [(128, 64), (64, 128), (32, 256), (8, 8), (100, 24), (7, 3), (1, 1), (4, 32, 64)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("hardware", [(4, 32), (4, 64), (1, 64), (6, 32)])
def test_a_copy_covers_its_tile_with_all_lanes(tile, bits, hardware):
    layout = copy_layout(tile, bits, *hardware)
    layout.verify()
    assert all(
        covered >= extent for covered, extent in zip(layout.undistributed_shape, tile, strict=True)
    )
    assert prod(layout.subgroup_tile) * prod(layout.thread_tile) == prod(hardware)
    assert layout.element_tile[-1] * bits <= 128
    assert tile[-1] % layout.element_tile[-1] == 0


@pytest.mark.parametrize("tile", [(128, 64), (64, 128), (32, 256)])
def test_large_tiles_move_in_the_fewest_widest_accesses(tile):
    layout = copy_layout(tile, 16, 4, 32)
    assert layout.undistributed_shape == tile
    cost = coalescing(layout, Placement(tile, 2), 4, 32)
    assert (cost.access_bytes, cost.instructions) == (16, prod(tile) // 8 // 128)
    assert cost.total == cost.ideal


def test_narrow_rows_keep_whole_sectors_together():
    """Rather than the fewest steps by lanes that are all in different rows."""
    layout = copy_layout((100, 24), 16, 4, 32)
    assert layout.thread_tile[-1] * layout.element_tile[-1] * 2 >= 32


def test_an_empty_tile_is_refused():
    with pytest.raises(LayoutError, match="extents start at 1"):
        copy_layout((4, 0), 16, 4, 32)


def mfma_accesses(kind, tile):
    mma = mma_kind(kind)
    lhs = contraction_layouts(mma, "mnk", (tile[0], 128, tile[1]), (2, 2, 1)).lhs
    return [TileAccess(lhs, 4, 64), TileAccess(copy_layout(tile, 16, 4, 64), 4, 64)]


@pytest.mark.parametrize(
    ("kind", "tile", "pad"),
    [("MFMA_F32_16x16x16_F16", (128, 64), 8), ("VMFMA_F32_16x16x32_F16", (128, 64), 16)],
)
def test_rows_are_padded_by_one_access(kind, tile, pad):
    """As the rule of thumb for fragments of 64 and of 128 bits has it."""
    accesses = mfma_accesses(kind, tile)
    chosen = choose_placement(tile, 2, accesses, swizzles=False)
    assert chosen.placement.pad_bytes == pad
    cost = bank_conflicts(accesses[0].layout, chosen.placement, 4, 64)
    assert (cost.worst, cost.access_bytes) == (1, pad)


def test_swizzled_rows_need_no_padding():
    accesses = mfma_accesses("VMFMA_F32_16x16x32_F16", (128, 32))
    chosen = choose_placement((128, 32), 2, accesses)
    assert chosen.placement.swizzle is not None
    assert chosen.bytes == 128 * 32 * 2
    assert all(
        bank_conflicts(access.layout, chosen.placement, 4, 64).worst == 1 for access in accesses
    )


def test_what_does_not_fit_is_refused():
    accesses = mfma_accesses("MFMA_F32_16x16x16_F16", (128, 64))
    with pytest.raises(ScheduleError, match=r"takes 16384 bytes; its limit is 8192"):
        choose_placement((128, 64), 2, accesses, limit_bytes=8192)


def test_rows_keep_an_alignment():
    column = NestedLayout((1, 1), (1, 1), (1, 1), (32, 1), (1, 4), (0, 0), (1, 0))
    chosen = choose_placement(
        (32, 4), 2, [TileAccess(column, 1, 32)], alignment_bytes=16, swizzles=False
    )
    assert (8 + chosen.placement.pad_bytes) % 16 == 0


@pytest.mark.parametrize("hardware", [(1, 32), (2, 32), (1, 64)])
def test_a_transposing_copy_has_no_more_lanes_across_than_columns(hardware):
    assert transposing_layout((64, 8), 8, *hardware, run=1).undistributed_shape == (64, 8)
