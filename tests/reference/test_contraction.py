"""The reference of contraction against loops over numbers."""

import itertools

import numpy as np

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)


def test_is_the_sum_of_products():
    lhs, rhs = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 2, 5))
    other, init = RNG.standard_normal((1, 3)), RNG.standard_normal((5, 2, 3))
    got = reference.contraction(
        lhs,
        rhs,
        [other],
        lhs_axes=(0, 1, 3),
        rhs_axes=(3, 0, 2),
        operand_axes=[(None, 1)],
        result_axes=(2, 0, 1),
        init=init,
        epilogue=lambda total, element: 2 * total - element,
    )
    assert got.shape == (5, 2, 3)
    for n, b, m in itertools.product(range(5), range(2), range(3)):
        total = init[n, b, m] + sum(lhs[b, m, k] * rhs[k, b, n] for k in range(4))
        assert abs(got[n, b, m] - (2 * total - other[0, m])) < 1e-12


def test_of_integers_is_exact():
    lhs, rhs = (np.full((1, 70000), -128, np.int8) for _ in range(2))
    got = reference.contraction(
        lhs, rhs, [], lhs_axes=(0, 2), rhs_axes=(1, 2), operand_axes=[], result_axes=(0, 1)
    )
    assert got.dtype == np.int64
    assert got.tolist() == [[70000 * 16384]]


def test_without_a_reduction_is_a_product():
    got = reference.contraction(
        np.arange(3.0),
        np.ones(2),
        [],
        lhs_axes=(0,),
        rhs_axes=(1,),
        operand_axes=[],
        result_axes=(1, 0),
    )
    np.testing.assert_array_equal(got, [[0, 1, 2]] * 2)
