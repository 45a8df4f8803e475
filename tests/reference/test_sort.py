"""The references of sort and top-k against loops over single elements."""

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)


def bubble(columns, in_order):
    """Sort rows of ``columns`` by exchanging neighbours, one line, in plain Python."""
    rows = list(zip(*columns, strict=True))
    for _ in rows:
        for i in range(len(rows) - 1):
            left, right = rows[i], rows[i + 1]
            if in_order(right, left) and not in_order(left, right):
                rows[i], rows[i + 1] = right, left
    return rows


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize(
    "in_order",
    [lambda a, b: a[0] < b[0], lambda a, b: a[0] >= b[0], lambda a, b: a <= b],
    ids=["strict", "non-strict", "lexicographic"],
)
def test_sort_exchanges_neighbours(dimension, in_order):
    keys, places = (RNG.integers(0, 4, (6, 6)) for _ in "kp")

    def region(left_key, right_key, left_place, right_place):
        lines = zip(left_key, right_key, left_place, right_place, strict=True)
        return np.array([in_order((a, c), (b, d)) for a, b, c, d in lines])

    got = reference.sort([keys, places], dimension=dimension, region=region)
    for line in range(6):
        columns = [np.take(array, line, 1 - dimension) for array in (keys, places)]
        rows = [np.take(array, line, 1 - dimension) for array in got]
        assert [*zip(*rows, strict=True)] == bubble(columns, in_order)


def test_sort_leaves_its_operands_alone():
    keys = np.array([2, 1])
    reference.sort([keys], dimension=0, region=np.less)
    assert keys.tolist() == [2, 1]


def test_sort_of_nothing_and_of_one():
    for shape in ((0,), (1,), (3, 0), (0, 3)):
        (got,) = reference.sort([np.ones(shape)], dimension=0, region=np.less)
        assert got.shape == shape


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("has_indices", [False, True])
@pytest.mark.parametrize("region", [np.greater, np.greater_equal], ids=["strict", "non-strict"])
def test_topk_offers_each_candidate_to_each_slot(dimension, has_indices, region):
    shape, best = [(5, 5), (5, 5)][dimension], (3, 5) if dimension == 0 else (5, 3)
    values = RNG.integers(0, 4, shape)
    indices = RNG.integers(0, 99, shape).astype(np.int32) if has_indices else None
    init, places = RNG.integers(0, 4, best), RNG.integers(0, 99, best).astype(np.int32)
    got = reference.topk(values, indices, init, places, dimension=dimension, region=region)
    for line in range(5):
        slots = [np.take(array, line, 1 - dimension).tolist() for array in (init, places)]
        for n, v in enumerate(np.take(values, line, 1 - dimension).tolist()):
            i = n if indices is None else int(np.take(indices, line, 1 - dimension)[n])
            for k in range(3):
                forward, reverse = v > slots[0][k], slots[0][k] > v
                if forward or (forward == reverse and i < slots[1][k]):
                    i, slots[1][k] = slots[1][k], i
                if forward:
                    v, slots[0][k] = slots[0][k], v
        for array, want in zip(got, slots, strict=True):
            assert np.take(array, line, 1 - dimension).tolist() == want


def test_topk_of_the_specification():
    values = np.array([1.0, 5.0, 3.0, 5.0, 2.0])
    init, places = np.array([9.0, 4.0, 0.0]), np.array([100, 101, 102], np.int32)
    got = reference.topk(values, None, init, places, dimension=0, region=np.greater)
    assert [array.tolist() for array in got] == [[9, 5, 5], [100, 1, 3]]


@pytest.mark.parametrize("has_indices", [False, True])
@pytest.mark.parametrize("region", [np.greater, np.greater_equal], ids=["strict", "non-strict"])
def test_topk_v2_is_the_head_of_a_sort(has_indices, region):
    values, init = RNG.integers(0, 5, (4, 9)), RNG.integers(0, 5, (4, 3))
    indices = RNG.permutation(36).reshape(4, 9) if has_indices else None
    places = RNG.permutation(np.arange(50, 62)).reshape(4, 3) - (0 if has_indices else 70)
    got = reference.topk_v2(
        values,
        indices,
        init,
        places if has_indices else None,
        dimension=1,
        is_sorted=True,
        region=region,
    )
    for line in range(4):
        given = indices[line] if has_indices else range(9)
        first = places[line] if has_indices else range(-3, 0)
        pairs = [*zip(init[line], first, strict=True), *zip(values[line], given, strict=True)]
        want = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:3]
        assert got[0][line].tolist() == [value for value, _ in want]
        if has_indices:
            assert got[1][line].tolist() == [index for _, index in want]
        else:
            assert got[1] is None


def test_topk_v2_leaves_nan_where_it_is():
    values, init = np.array([np.nan, 5.0, np.nan, 2.0]), np.array([np.nan, 3.0, -np.inf])
    best, _ = reference.topk_v2(
        values, None, init, None, dimension=0, is_sorted=False, region=np.greater_equal
    )
    np.testing.assert_array_equal(best, [np.nan, 5.0, 3.0])
