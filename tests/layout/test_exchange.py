from random import Random

import numpy as np
import pytest
from random_layout import random_pair

from tvm_iree_ext.layout import Movement, NestedLayout, analyse_conversion, to_simt
from tvm_iree_ext.layout.exchange import NOTHING, exchange, perform


def parts(layout, hardware):
    numbers = np.arange(np.prod(layout.undistributed_shape)).reshape(layout.undistributed_shape)
    return to_simt(numbers, layout, *hardware, packed=True).reshape(*hardware, -1)


@pytest.mark.costly
@pytest.mark.parametrize("unit", [1, 2, 4])
def test_the_steps_of_random_pairs_bring_every_element_where_it_belongs(unit):
    shuffled = 0
    for seed in range(150):
        source, result, *hardware = random_pair(Random(seed))
        conversion = analyse_conversion(source, result, *hardware, packed=True)
        if conversion.movement is Movement.SHARED:
            continue
        plan = exchange(conversion, unit)
        np.testing.assert_array_equal(
            perform(plan, parts(source, hardware)), parts(result, hardware)
        )
        shuffled += bool(plan.steps)
        assert bool(plan.steps) == (conversion.movement is Movement.SHUFFLE)
        for step in plan.steps:
            takes = step.target != NOTHING
            lanes = np.broadcast_to(np.arange(hardware[1]), takes.shape)
            assert (step.source[~takes] == lanes[~takes]).all()
    assert shuffled > 30


def test_lanes_that_share_a_source_register_take_it_at_once():
    """One lane's value for all: one step, however many lanes."""
    one = NestedLayout((1,), (1,), (1,), (8,), (1,), (0,), (1,))
    every = NestedLayout((1,), (1,), (1,), (1,), (8,), (0,), (0,))
    plan = exchange(analyse_conversion(one, every, 1, 8, packed=True))
    assert len(plan.steps) == 7


def test_registers_that_stay_side_by_side_move_together():
    rows = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 8), (0, 0), (1, 0))
    pairs = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 2), (0, 0), (0, 1))
    conversion = analyse_conversion(rows, pairs, 1, 4, packed=True)
    assert exchange(conversion, 4).unit == 2
    assert len(exchange(conversion, 1).steps) == 2 * len(exchange(conversion, 2).steps)
