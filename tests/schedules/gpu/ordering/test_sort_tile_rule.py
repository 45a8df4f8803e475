"""Tiles of lines that are sorted: what of them fits a chip, and what is refused."""

import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.ops.base.comparators import comparator
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import NO_PLACE, compared
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import (
    SortTileConfig,
    check_places,
    sort_lanes,
    tile_elements,
)
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip
from tvm_iree_ext.targets.names import make_target

SM_80 = make_target("cuda:sm_80")
CONFIG = SortTileConfig("network", lanes=32, elements=64)
CHECK = ConfigCheck("gpu.sort", CONFIG.lowering())


@pytest.mark.parametrize("chip", chip_names())
@pytest.mark.parametrize("item", [5, 8, 20, 68])
def test_two_tiles_fit_shared_memory(chip, item):
    kind = gpu_chip(chip).kind
    elements = tile_elements(item, make_target(f"{kind}:{chip}"))
    assert elements & (elements - 1) == 0
    assert 2 * elements * item <= gpu_chip(chip).shared_memory_bytes


def test_short_lines_share_a_tile_as_far_as_there_are_lines():
    few, many = (sort_lanes("network", 100, lines, 2048, SM_80) for lines in (1, 1000))
    assert (few.workgroup_tile["elements"], many.workgroup_tile["elements"]) == (128, 256)


def test_a_line_that_does_not_fit_its_tile_is_refused():
    assert CONFIG.shape(CHECK, SM_80, 8, 33).length == 64
    with pytest.raises(ScheduleError, match="a line of 65 elements does not fit 64"):
        CONFIG.shape(CHECK, SM_80, 8, 65)


def test_places_have_numbers_of_31_bits():
    check_places(CHECK, NO_PLACE - 1)
    with pytest.raises(ScheduleError, match=f"length is {NO_PLACE}; expected less than"):
        check_places(CHECK, NO_PLACE)


def test_what_a_comparator_does_not_look_at_is_not_in_the_tile():
    region = comparator("sort", "arg2 < arg3", ("int32", "int32", "int32"))
    assert compared(region) == [1]
