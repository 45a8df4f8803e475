"""Rounds of workgroups, and what they read."""

import pytest

from tvm_iree_ext.inspection.tile_rounds import TileReads, in_bands, row_by_row


def test_places_of_the_last_round_that_nobody_takes_are_the_tail():
    tiles = TileReads(list(row_by_row(4, 4)), (100, 10))
    assert tiles.rounds(16).tail == 0
    assert tiles.rounds(12).tail == pytest.approx(1 - 16 / 24)
    assert TileReads(tiles.panels, tiles.panel_bytes, shared_out=True).rounds(12).tail == 0


def test_each_workgroup_reads_both_panels():
    assert TileReads(list(row_by_row(4, 4)), (100, 10)).rounds(4).l2_bytes == 16 * 110


def test_bands_bring_fewer_bytes_from_memory():
    """4 of 16 tiles at once: a row of A and 4 columns of B, or two of each."""
    rows = TileReads(list(row_by_row(4, 4)), (100, 100)).rounds(4)
    bands = TileReads(list(in_bands(4, 4, band=2)), (100, 100)).rounds(4)
    assert (rows.memory_bytes, bands.memory_bytes) == (4 * 500, 4 * 400)
    assert rows.l2_bytes == bands.l2_bytes


def test_groups_share_nothing():
    assert list(row_by_row(1, 2, groups=2)) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_orders_have_every_tile_once():
    assert sorted(in_bands(5, 3, band=2)) == list(row_by_row(5, 3))
