"""The reference of exp_reduction against loops over single elements, which nobody can misread."""

import itertools

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("base", [2.0, np.e])
def test_equals_loops_over_elements(base):
    b, m, n, k = 2, 3, 4, 5
    scores, value = RNG.standard_normal((b, m, k)), RNG.standard_normal((k, b, n))
    inits = [RNG.standard_normal(shape) for shape in ((m, b), (b, m), (b, m, n), (n,))]
    results = reference.exp_reduction(
        [scores, value],
        inits,
        input_dims=[(0, 1, 3), (3, 0, 2)],
        output_dims=[(1, 0), (0, 1), (0, 1, 2), (2,)],
        exp_reduced_operands=[1, 2],
        regions=[
            None,
            lambda *a: a[0] + a[3],
            lambda *a: a[4] * 0.5 - a[0] * a[1],
            lambda *a: a[5] + a[1],
        ],
        reads=[(), (0,), (0, 1), (1,)],
        base=base,
    )
    carried = inits[3].copy()
    for at_b, at_k in itertools.product(range(b), range(k)):
        carried += value[at_k, at_b]
    np.testing.assert_allclose(results[3], carried)
    for at_b, at_m in itertools.product(range(b), range(m)):
        row = scores[at_b, at_m]
        largest = max(inits[0][at_m, at_b], *row)
        norm = base ** (inits[0][at_m, at_b] - largest)
        total, product = norm * inits[1][at_b, at_m], norm * inits[2][at_b, at_m]
        for at_k in range(k):
            weight = base ** (row[at_k] - largest)
            total += weight
            product = product * 0.5 - weight * value[at_k, at_b]
        assert results[0][at_m, at_b] == largest
        np.testing.assert_allclose(results[1][at_b, at_m], total)
        np.testing.assert_allclose(results[2][at_b, at_m], product)


def softmax_parts(scores, state):
    """Maximum and sum over the keys, from a state of both."""
    return reference.exp_reduction(
        [scores],
        state,
        input_dims=[(0, 1)],
        output_dims=[(0,), (0,)],
        exp_reduced_operands=[1],
        regions=[None, lambda *a: a[0] + a[2]],
        reads=[(), (0,)],
    )


def test_parts_of_the_keys_in_turn_are_the_whole():
    scores = RNG.standard_normal((4, 30)) * 10
    fresh = np.full(4, -np.inf), np.zeros(4)
    whole = softmax_parts(scores, fresh)
    state = fresh
    for part in np.split(scores, 3, axis=1):
        state = softmax_parts(part, state)
    np.testing.assert_allclose(state, whole)


def test_scores_of_minus_infinity():
    scores = np.array([[-np.inf, -np.inf], [-np.inf, 1.0]])
    lowest = np.finfo(np.float64).min
    maximum, total = softmax_parts(scores, (np.full(2, -np.inf), np.zeros(2)))
    np.testing.assert_array_equal(maximum, [-np.inf, 1.0])
    np.testing.assert_array_equal(total, [np.nan, 1.0])
    maximum, total = softmax_parts(scores, (np.full(2, lowest), np.zeros(2)))
    np.testing.assert_array_equal(maximum, [lowest, 1.0])
    np.testing.assert_array_equal(total, [0.0, 1.0])


def test_nan_and_infinity_among_the_scores():
    scores = np.array([[np.nan, 1.0], [np.inf, 1.0]])
    maximum, total = softmax_parts(scores, (np.zeros(2), np.ones(2)))
    np.testing.assert_array_equal(maximum, [np.nan, np.inf])
    np.testing.assert_array_equal(total, [np.nan, np.nan])
