import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_iree_ext.simulator.races.touches import (
    ATOMIC,
    ENDED,
    READ,
    SUBGROUP_SYNC,
    UNDER_WAY,
    WRITE,
    Touch,
    conflicts,
)

LANES, SUBGROUP, UNITS = 8, 4, 6


@st.composite
def touches(draw):
    """Random accesses and subgroup synchronisations between two barriers."""
    made = []
    for statement in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from([READ, WRITE, ATOMIC, SUBGROUP_SYNC, READ, WRITE]))
        first = np.array(draw(st.lists(st.integers(0, UNITS - 1), min_size=LANES, max_size=LANES)))
        mask = np.array(draw(st.lists(st.booleans(), min_size=LANES, max_size=LANES)))
        if kind == SUBGROUP_SYNC:
            whole = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
            mask = np.repeat(whole, SUBGROUP)
        made.append(Touch(kind, statement, first, 1, mask))
    return made


def races(made) -> bool:
    """By the definition: two lanes, one unit, one writes, and nothing orders them."""
    for later, second in enumerate(made):
        for earlier, first in enumerate(made[:later]):
            kinds = {first.kind, second.kind}
            if SUBGROUP_SYNC in kinds or kinds == {READ} or kinds == {ATOMIC}:
                continue
            for a in np.flatnonzero(first.mask):
                for b in np.flatnonzero(second.mask):
                    if a == b or first.first[a] != second.first[b]:
                        continue
                    ordered = a // SUBGROUP == b // SUBGROUP and any(
                        between.kind == SUBGROUP_SYNC and between.mask[a]
                        for between in made[earlier:later]
                    )
                    if not ordered:
                        return True
    return False


@settings(max_examples=150, deadline=None)
@given(touches())
def test_finds_a_race_where_the_definition_has_one(made):
    assert bool(conflicts(made, UNITS, LANES, SUBGROUP)) == races(made)


def every(kind, first, **more):
    return Touch(
        kind, more.pop("statement", 0), np.asarray(first), more.pop("width", 1), None, **more
    )


def test_names_both_lanes_and_the_unit():
    made = [every(WRITE, np.arange(8), statement=3), every(READ, np.arange(8) ^ 1, statement=5)]
    (first, *_) = conflicts(made, 8, LANES, SUBGROUP)
    assert (first.unit, first.earlier_lane, first.later_lane) == (1, 1, 0)
    assert (first.earlier.statement, first.later.statement) == (3, 5)


def test_units_of_wide_accesses_overlap():
    made = [every(WRITE, np.arange(8) * 4, width=4), every(READ, np.arange(8) * 4 + 3, width=2)]
    assert [found.unit for found in conflicts(made[:1], 64, LANES, SUBGROUP)] == []
    assert conflicts(made, 64, LANES, SUBGROUP)[0].unit == 4


@pytest.mark.parametrize("kind", [READ, WRITE])
def test_a_lane_may_not_touch_what_its_own_copy_is_writing(kind):
    own = np.arange(8)
    start = every(WRITE, own, phase=UNDER_WAY)
    touch = every(kind, own, statement=1)
    end = every(WRITE, own, phase=ENDED)
    assert conflicts([start, touch, end], 8, LANES, SUBGROUP)[0].later is touch
    assert conflicts([start, end, touch], 8, LANES, SUBGROUP) == []
    assert conflicts([touch, start, end], 8, LANES, SUBGROUP) == []


def test_others_may_not_touch_it_in_any_interval_until_it_ended():
    own = np.arange(8)
    under_way, end = every(WRITE, own, phase=UNDER_WAY), every(WRITE, own, phase=ENDED)
    other = every(READ, own ^ 1, statement=1)
    assert conflicts([under_way, other], 8, LANES, SUBGROUP)
    assert conflicts([end, other], 8, LANES, SUBGROUP)
    assert conflicts([other], 8, LANES, SUBGROUP) == []
