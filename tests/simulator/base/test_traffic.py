"""Costs of accesses: against the analysis of layouts, and against examples counted by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.layout.analysis import Placement, bank_conflicts, coalescing
from tvm_iree_ext.simulator.access_picture import access_picture
from tvm_iree_ext.simulator.base.traffic import (
    Hardware,
    StatementTraffic,
    global_pattern,
    shared_pattern,
)

EVERYONE = np.ones(32, bool)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 4, 8, 32]),
    run=st.sampled_from([1, 2, 4, 8]),
    pad=st.sampled_from([0, 4, 8, 16, 36, 112]),
    banks=st.sampled_from([32, 64]),
)
def test_agrees_with_the_analysis_of_layouts(rows, run, pad, banks):
    layout = NestedLayout(
        (1, 1), (1, 1), (1, 1), (rows, 32 // rows), (1, run), (0, 0), (32 // rows, 1)
    )
    placement = Placement((rows, 32 // rows * run), element_bytes=2, pad_bytes=pad // 2 * 2)
    lane = np.arange(32)
    index = np.stack([lane // (32 // rows), lane % (32 // rows) * run], axis=-1)
    addresses = placement.addresses(index)
    width = 2 * run
    if (addresses % width).any():
        return  # not one access
    hardware = Hardware(32, banks, 32)
    want = bank_conflicts(layout, placement, 1, 32, banks=banks, access_bytes=width)
    found = shared_pattern(addresses, EVERYONE, width, hardware)
    assert (found.passes, found.worst, found.ideal) == (want.total, want.worst, want.ideal)
    want = coalescing(layout, placement, 1, 32, access_bytes=width)
    found = global_pattern(addresses, EVERYONE, width, hardware)
    assert (found.passes, found.worst) == (want.total, want.worst)


def test_lanes_that_take_no_part_cost_nothing():
    addresses = np.arange(32) * 128
    some = np.arange(32) < 3
    assert shared_pattern(addresses, some, 4, Hardware()).passes == 3
    assert global_pattern(addresses, some, 4, Hardware()).passes == 3
    assert shared_pattern(addresses, ~EVERYONE, 4, Hardware()).passes == 0


def test_one_address_for_all_lanes_is_one_pass():
    found = shared_pattern(np.zeros(32, int), EVERYONE, 4, Hardware())
    assert (found.passes, found.duplicates) == (1, True)


def access(space, addresses, width):
    return StatementTraffic(3, "statement", space, "S", False, width, np.asarray(addresses))


def test_a_picture_of_banks():
    drawn = access_picture(access("shared", [0, 0, 128, 4], 4), Hardware(4, 32)).splitlines()
    assert drawn[0] == "lanes 0..3, 4 bytes each: 2 passes"
    assert drawn[2].split()[:4] == ["pass", "1", "0+", "3"]
    assert drawn[3].split()[:4] == ["pass", "2", "2", "."]


@pytest.mark.parametrize(("step", "segments"), [(4, 1), (32, 8)])
def test_a_picture_of_segments(step, segments):
    drawn = access_picture(access("global", np.arange(8) * step, 4), Hardware(8)).splitlines()
    plural = "s" if segments > 1 else ""
    assert drawn[0] == f"lanes 0..7, 4 bytes each: {segments} segment{plural}"
    assert len(drawn) == 1 + segments
    marks = drawn[1].split()[2]
    assert marks == ("########" if segments == 1 else "#.......")
