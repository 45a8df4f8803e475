import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, project
from tvm_iree_ext.layout.analysis import (
    MemoryAccess,
    Placement,
    Swizzle,
    bank_conflicts,
    coalescing,
)


def lanes_by_rows(rows, elements):
    """Lane t reads ``elements`` consecutive elements of row t."""
    return NestedLayout((1, 1), (1, 1), (1, 1), (rows, 1), (1, elements), (0, 0), (1, 0))


@pytest.mark.parametrize(
    ("access_bytes", "pitch_bytes", "ways"),
    [
        (16, 128, 8),
        (16, 144, 1),
        (16, 160, 2),
        (8, 128, 16),
        (8, 136, 1),
        (8, 144, 2),
    ],
)
def test_lanes_reading_consecutive_rows_conflict_by_the_pitch(access_bytes, pitch_bytes, ways):
    """Free exactly where pitch mod 128 is an odd multiple of the access."""
    elements = access_bytes // 2
    layout = lanes_by_rows(64, elements)
    rows = Placement((64, elements), element_bytes=2, pad_bytes=pitch_bytes - access_bytes)
    cost = bank_conflicts(layout, rows, 1, 64)
    assert (cost.access_bytes, cost.worst) == (access_bytes, ways)


def test_a_pitch_that_breaks_alignment_halves_the_access():
    layout = lanes_by_rows(32, 8)
    cost = bank_conflicts(layout, Placement((32, 8), element_bytes=2, pad_bytes=120), 1, 32)
    assert (cost.access_bytes, cost.instructions, cost.worst) == (8, 2, 1)


def test_a_conflict_free_access_takes_as_many_passes_as_its_bytes_need():
    layout = lanes_by_rows(32, 8)
    cost = bank_conflicts(layout, Placement((32, 8), element_bytes=2), 1, 32)
    assert cost == MemoryAccess(access_bytes=16, instructions=1, worst=1, total=4, ideal=4)


def test_64_banks_serve_twice_as_much():
    layout = lanes_by_rows(64, 8)
    rows = Placement((64, 8), element_bytes=2, pad_bytes=112)
    assert bank_conflicts(layout, rows, 1, 64, banks=64).worst == 8
    assert bank_conflicts(layout, Placement((64, 8), 2), 1, 64, banks=64).total == 4


def test_lanes_that_read_the_same_word_are_served_together():
    everywhere = NestedLayout((1,), (1,), (1,), (1,), (4,), (0,), (0,))
    cost = bank_conflicts(everywhere, Placement((4,), element_bytes=4), 1, 32)
    assert (cost.worst, cost.total) == (1, 4)


def test_a_swizzle_frees_what_padding_frees():
    """64 rows of 64 f16, each lane reading 16 bytes of its row at every column."""
    layout = NestedLayout((1, 1), (1, 8), (1, 1), (64, 1), (1, 8), (0, 0), (1, 0))
    tile = (64, 64)
    assert bank_conflicts(layout, Placement(tile, 2), 1, 64).worst == 8
    assert bank_conflicts(layout, Placement(tile, 2, pad_bytes=16), 1, 64).worst == 1
    swizzled = Placement(tile, 2, swizzle=Swizzle(row_elements=64, access_elements=8))
    assert bank_conflicts(layout, swizzled, 1, 64).worst == 1
    half = Placement(tile, 2, swizzle=Swizzle(row_elements=64, access_elements=8, per_phase=2))
    assert bank_conflicts(layout, half, 1, 64).worst == 2


def test_elements_of_a_column_move_one_at_a_time():
    column = NestedLayout((1, 1), (1, 1), (1, 1), (1, 32), (4, 1), (0, 0), (0, 1))
    cost = coalescing(column, Placement((4, 32), element_bytes=2), 1, 32)
    assert cost == MemoryAccess(access_bytes=2, instructions=4, worst=2, total=8, ideal=8)


def test_a_row_of_lanes_coalesces_and_a_column_of_lanes_does_not():
    row = NestedLayout((1, 1), (1, 1), (1, 1), (1, 32), (1, 4), (0, 0), (0, 1))
    cost = coalescing(row, Placement((1, 128), element_bytes=4), 1, 32)
    assert cost == MemoryAccess(access_bytes=16, instructions=1, worst=16, total=16, ideal=16)
    column = NestedLayout((1, 1), (1, 1), (1, 1), (32, 1), (1, 128), (0, 0), (1, 0))
    cost = coalescing(column, Placement((32, 128), element_bytes=4), 1, 32)
    assert (cost.instructions, cost.worst, cost.total, cost.ideal) == (32, 32, 1024, 512)


def test_replicas_move_the_same_bytes_once():
    column = NestedLayout((1, 1), (1, 1), (1, 1), (4, 8), (1, 1), (0, 0), (8, 1))
    rows = project(column, [False, True])
    cost = coalescing(rows, Placement((4,), element_bytes=4), 1, 32)
    assert (cost.worst, cost.ideal) == (1, 1)


def test_the_costliest_subgroup_counts():
    layout = NestedLayout((2,), (1,), (1,), (4,), (1,), (1,), (1,))
    cost = coalescing(layout, Placement((8,), element_bytes=4), 2, 4, segment_bytes=16)
    assert (cost.instructions, cost.total) == (1, 1)


def test_a_narrower_access_can_be_asked_for():
    layout = lanes_by_rows(32, 8)
    rows = Placement((32, 8), element_bytes=2)
    assert bank_conflicts(layout, rows, 1, 32, access_bytes=4).instructions == 4
    with pytest.raises(LayoutError, match=r"access_bytes is 32; .* allow 2, 4, 8, 16"):
        bank_conflicts(layout, rows, 1, 32, access_bytes=32)


def test_refuses_what_does_not_fit():
    layout = lanes_by_rows(32, 8)
    with pytest.raises(LayoutError, match=r"placement has shape \[32\]; the layout takes"):
        bank_conflicts(layout, Placement((32,), 2), 1, 32)
    six = NestedLayout((1,), (1,), (1,), (6,), (4,), (0,), (1,))
    with pytest.raises(LayoutError, match="6 lanes do not divide into groups of 4"):
        bank_conflicts(six, Placement((24,), 4), 1, 6, banks=16)
    uneven = Placement((32, 8), 2, swizzle=Swizzle(row_elements=24, access_elements=8))
    with pytest.raises(LayoutError, match="swizzle: 256 elements, rows of 24, accesses of 8"):
        coalescing(layout, uneven, 1, 32)
