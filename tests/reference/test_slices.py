"""The references of scatter and gather against loops over single elements."""

import itertools

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)
FULL, BATCH, WINDOW, MAP = (4, 5, 3), (4, 5), (2, 3), (1, 0)
INDICES = RNG.integers(-1, 5, (*BATCH, 2))
MASK = RNG.integers(0, 4, BATCH).astype("int8")


def touched():
    """Batch and window position of each element, and its place, straight from the definition."""
    for p in itertools.product(*map(range, BATCH)):
        if not MASK[p] & 1:
            continue
        points = []
        for x in itertools.product(*map(range, WINDOW)):
            c = [0, *x]
            for i, dim in enumerate(MAP):
                c[dim] += int(INDICES[p][i])
            points.append(((*p, *x), tuple(c)))
        if all(0 <= c < extent for _, at in points for c, extent in zip(at, FULL, strict=True)):
            yield from points


def test_the_cases_are_not_trivial():
    count = len(list(touched()))
    assert 0 < count < np.prod(BATCH) * np.prod(WINDOW)


@pytest.mark.parametrize("combine", [lambda new, old: new, lambda new, old: new - old])
def test_scatter_equals_loops_over_elements(combine):
    updates, original = RNG.integers(0, 9, (*BATCH, *WINDOW)), RNG.integers(0, 9, FULL)
    want = original.copy()
    for place, c in touched():
        want[c] = combine(updates[place], want[c])
    got = reference.scatter(
        updates, INDICES, original, dimension_map=MAP, combine=combine, mask=MASK
    )
    np.testing.assert_array_equal(got, want)


def test_gather_equals_loops_over_elements():
    source, init = RNG.integers(0, 9, FULL), RNG.integers(10, 19, (*BATCH, *WINDOW))
    want = init.copy()
    for place, c in touched():
        want[place] = source[c]
    got = reference.gather(source, INDICES, init, dimension_map=MAP, mask=MASK)
    np.testing.assert_array_equal(got, want)


def test_one_component_needs_no_depth_dim():
    indices, updates, original = np.array([2, 0]), np.ones((2, 3)), np.zeros((3, 3))
    replace = {"dimension_map": (0,), "combine": lambda new, old: new}
    np.testing.assert_array_equal(
        reference.scatter(updates, indices, original, depth_dim=False, **replace),
        reference.scatter(updates, indices[:, None], original, **replace),
    )
