"""Laws of layouts, on small random ones: gaps, replicas, all ranks to 3, odd tiles."""

from itertools import pairwise
from math import prod
from random import Random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_layout import factor_again, random_layout, random_pair

from tvm_iree_ext.layout import (
    Movement,
    analyse_conversion,
    broadcast,
    owner_map,
    owners,
    parse_layout,
    permute,
    project,
    replication,
    reshape,
    to_simd,
    to_simt,
)
from tvm_iree_ext.layout.conversion import equal_but_for_batch_and_outer
from tvm_iree_ext.layout.ownership import first_lanes, first_subgroups


def law(*strategies):
    """``given``, with a fixed seed and no clock."""
    quiet = settings(
        deadline=None,
        derandomize=True,
        max_examples=80,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    return lambda test: quiet(given(*strategies)(test))


# One number for a whole layout: drawn piece by piece, hypothesis makes most pieces alike.
SEEDS = st.integers(0, 2**64 - 1).map(Random)


@st.composite
def layouts(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), max_size=3))
    assume(prod(shape) <= 256)
    return random_layout(draw(SEEDS), shape, gaps=True)


@st.composite
def spread(draw, layout):
    """(num_subgroups, subgroup_size) that fit ``layout``: as many, more, or fewer subgroups."""
    subgroups, lanes = layout.subgroup_period, layout.lane_period
    choices = [subgroups, 2 * subgroups, 3 * subgroups]
    if subgroups == prod(layout.subgroup_tile):
        choices += [h for h in range(1, subgroups) if subgroups % h == 0]
    return draw(st.sampled_from(choices)), lanes * draw(st.sampled_from([1, 1, 2]))


@st.composite
def layouts_on_hardware(draw):
    layout = draw(layouts())
    return layout, *draw(spread(layout))


def numbered(layout):
    return np.arange(prod(layout.undistributed_shape)).reshape(layout.undistributed_shape)


@law(layouts())
def test_digits_are_the_inverse_of_coordinate(layout):
    for coordinate in np.ndindex(layout.undistributed_shape):
        digits = layout.digits(coordinate)
        assert layout.coordinate(digits) == coordinate
        assert layout.virtual_lane(layout.lane_id(digits.thread)) == digits.thread
        assert layout.virtual_subgroup(layout.subgroup_id(digits.subgroup)) == digits.subgroup


@law(layouts_on_hardware())
def test_every_element_has_as_many_owners_as_replication_says(case):
    layout, num_subgroups, subgroup_size = case
    owner = owner_map(layout, num_subgroups, subgroup_size)
    assert owner.shape[-1] == prod(replication(layout, num_subgroups, subgroup_size))
    assert (np.diff(owner, axis=-1) > 0).all()
    np.testing.assert_array_equal(
        owner[..., 0], first_subgroups(layout, num_subgroups) * subgroup_size + first_lanes(layout)
    )


@law(layouts_on_hardware())
def test_a_lane_holds_exactly_what_it_owns(case):
    """The forward formula finds the pairs (lane, element) that the inverse formula finds."""
    layout, num_subgroups, subgroup_size = case
    held = to_simt(numbered(layout), layout, num_subgroups, subgroup_size)
    held = held.reshape(num_subgroups * subgroup_size, -1)
    forward = {(lane, x) for lane, xs in enumerate(held.tolist()) for x in xs}
    owner = owner_map(layout, num_subgroups, subgroup_size).reshape(numbered(layout).size, -1)
    inverse = {(lane, x) for x, lanes in enumerate(owner.tolist()) for lane in lanes}
    assert forward == inverse
    assert held.size == len(forward)  # no lane holds an element twice


@law(layouts_on_hardware())
def test_owners_of_one_coordinate_agree_with_the_map(case):
    layout, num_subgroups, subgroup_size = case
    coordinate = tuple(extent - 1 for extent in layout.undistributed_shape)
    pairs = owners(layout, coordinate, num_subgroups, subgroup_size)
    ids = [subgroup * subgroup_size + lane for subgroup, lane in pairs]
    assert ids == owner_map(layout, num_subgroups, subgroup_size)[coordinate].tolist()


@law(layouts_on_hardware(), st.booleans())
def test_simd_of_simt_is_the_vector(case, packed):
    layout, *hardware = case
    x = numbered(layout)
    parts = to_simt(x, layout, *hardware, packed=packed)
    np.testing.assert_array_equal(to_simd(parts, layout, *hardware, packed=packed), x)
    again = to_simt(
        to_simd(parts, layout, *hardware, packed=packed), layout, *hardware, packed=packed
    )
    np.testing.assert_array_equal(again, parts)


@law(st.data())
def test_permute_is_the_layout_of_the_transpose(data):
    layout, *hardware = data.draw(layouts_on_hardware())
    p = data.draw(st.permutations(range(layout.rank)))
    transposed = permute(layout, p)
    assert permute(transposed, np.argsort(p).tolist()) == layout
    np.testing.assert_array_equal(
        owner_map(transposed, *hardware), owner_map(layout, *hardware).transpose(*p, layout.rank)
    )


@law(st.data())
def test_project_gives_an_element_the_owners_of_all_that_it_was_reduced_from(data):
    layout = data.draw(layouts())
    hardware = (layout.subgroup_period, layout.lane_period)
    dropped = data.draw(st.lists(st.booleans(), min_size=layout.rank, max_size=layout.rank))
    projected = owner_map(project(layout, dropped), *hardware)
    axes = tuple(dim for dim, drop in enumerate(dropped) if drop)
    before = np.moveaxis(owner_map(layout, *hardware), axes, range(-1 - len(axes), -1))
    before = before.reshape(*projected.shape[:-1], -1)
    for at in np.ndindex(projected.shape[:-1]):
        assert set(projected[at]) == set(before[at])


@law(layouts(), st.lists(st.integers(1, 3), max_size=2))
def test_broadcast_then_project_is_the_same_layout(layout, leading):
    repeated = broadcast(layout, leading)
    assert repeated.undistributed_shape == (*leading, *layout.undistributed_shape)
    assert project(repeated, [True] * len(leading) + [False] * layout.rank) == layout


@st.composite
def expansions(draw, layout):
    """The shape of ``layout`` with every dim cut along its own digits."""
    shape = []
    for tiles in zip(*layout.tiles, strict=True):
        cuts = draw(st.sets(st.integers(1, 4)))
        bounds = [0, *sorted(cuts), 5]
        shape += [prod(tiles[a:b]) for a, b in pairwise(bounds)]
    return shape


@law(st.data())
def test_reshape_along_digits_keeps_owners_and_comes_back(data):
    layout = data.draw(layouts())
    hardware = (layout.subgroup_period, layout.lane_period)
    expanded = reshape(layout, data.draw(expansions(layout)))
    assert expanded is not None
    np.testing.assert_array_equal(
        owner_map(expanded, *hardware).reshape(numbered(layout).size, -1),
        owner_map(layout, *hardware).reshape(numbered(layout).size, -1),
    )
    back = reshape(expanded, layout.undistributed_shape)
    assert back == layout


@law(st.data())
def test_reshape_to_any_shape_keeps_owners_or_is_none(data):
    layout = data.draw(layouts())
    size, new_shape = prod(layout.undistributed_shape), []
    for _ in range(2):
        extent = data.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        new_shape.append(extent)
        size //= extent
    reshaped = reshape(layout, [*new_shape, size])
    if reshaped is not None:
        hardware = (layout.subgroup_period, layout.lane_period)
        x = numbered(layout).reshape(-1)
        np.testing.assert_array_equal(
            to_simt(x.reshape(layout.undistributed_shape), layout, *hardware).reshape(
                *hardware, -1
            ),
            to_simt(x.reshape(reshaped.undistributed_shape), reshaped, *hardware).reshape(
                *hardware, -1
            ),
        )


@law(layouts())
def test_parse_is_the_inverse_of_print(layout):
    assert parse_layout(str(layout)) == layout


def shuffled_by_xor(conversion, parts):
    """The exchange in SIMT steps: every lane offers one register, and takes its partner's."""
    lanes = np.arange(parts.shape[1])
    result = np.full_like(conversion.source_register, -1)
    for step, mask in enumerate(conversion.xor_masks):
        target = conversion.xor_registers[:, :, step]
        wanted = np.take_along_axis(conversion.source_register, target[..., None], -1)[..., 0]
        offered = wanted[:, lanes ^ mask]  # what the partner wants of this lane
        value = np.take_along_axis(parts, offered[..., None], -1)[..., 0]
        np.put_along_axis(result, target[..., None], value[:, lanes ^ mask][..., None], -1)
    return result


@law(SEEDS.map(random_pair), st.booleans())
def test_a_conversion_moves_what_its_verdict_says_and_no_further(pair, packed):
    source, result, *hardware = pair
    conversion = analyse_conversion(source, result, *hardware, packed=packed)
    x = numbered(source)
    parts = to_simt(x, source, *hardware, packed=packed).reshape(*hardware, -1)
    want = to_simt(x, result, *hardware, packed=packed).reshape(*hardware, -1)
    np.testing.assert_array_equal(conversion.perform(parts), want)

    subgroup, lane = np.arange(hardware[0])[:, None, None], np.arange(hardware[1])[:, None]
    in_subgroup = (conversion.source_subgroup == subgroup).all()
    in_lane = in_subgroup and (conversion.source_lane == lane).all()
    holds = np.array(
        [
            [np.isin(w, p).all() for w, p in zip(ws, ps, strict=True)]
            for ws, ps in zip(want, parts, strict=True)
        ]
    )
    subgroup_holds = all(np.isin(w, p).all() for w, p in zip(want, parts, strict=True))
    expected = (
        Movement.FREE
        if parts.shape == want.shape and (parts == want).all()
        else Movement.IN_LANE
        if holds.all()
        else Movement.SHUFFLE
        if subgroup_holds
        else Movement.SHARED
    )
    assert conversion.movement is expected
    assert in_subgroup == (expected is not Movement.SHARED)
    assert in_lane == (expected in (Movement.FREE, Movement.IN_LANE))
    if conversion.xor_masks is not None:
        assert expected is Movement.SHUFFLE
        np.testing.assert_array_equal(shuffled_by_xor(conversion, parts), want)


@law(st.data())
def test_layouts_equal_but_for_batch_and_outer_convert_for_free(data):
    source, num_subgroups, subgroup_size = data.draw(layouts_on_hardware())
    result = factor_again(data.draw(SEEDS), source)
    assert equal_but_for_batch_and_outer(source, result)
    conversion = analyse_conversion(source, result, num_subgroups, subgroup_size)
    assert conversion.movement is Movement.FREE
