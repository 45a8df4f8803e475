"""The reference of arg_compare against loops over single elements, which nobody can misread."""

import itertools
import operator

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("region", [operator.gt, operator.ge, lambda a, b: abs(a) < abs(b)])
@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_arg_compare_equals_loops_over_elements(dimension, explicit, region):
    shape = (2, 3, 4)
    x, given = RNG.integers(-3, 3, shape), RNG.integers(0, 99, shape)
    line = np.delete(shape, dimension)
    init_value, init_index = RNG.integers(-3, 3, line), RNG.integers(-9, -1, line)
    value, index = reference.arg_compare(
        x,
        init_value,
        init_index,
        dimension=dimension,
        region=region,
        input_index=given if explicit else None,
        index_base=0 if explicit else 100,
    )
    for at in itertools.product(*map(range, init_value.shape)):
        best, where = init_value[at], init_index[at]
        for j in range(shape[dimension]):
            place = (*at[:dimension], j, *at[dimension:])
            if region(x[place], best):
                best, where = x[place], given[place] if explicit else 100 + j
        assert (value[at], index[at]) == (best, where)


def test_an_ordered_comparison_leaves_nan_alone():
    x = np.array([[1, np.nan, 5, 2], [np.nan, 1, 2, 3], [1, 2, 3, 4]])
    init = np.array([-np.inf, -np.inf, np.nan])
    value, index = reference.arg_compare(
        x, init, np.array([-1, -1, -7]), dimension=1, region=operator.gt
    )
    np.testing.assert_array_equal(value, [5, 3, np.nan])
    assert index.tolist() == [2, 3, -7]


def test_indices_wrap_to_the_type_of_the_init():
    x = np.arange(10)
    _, index = reference.arg_compare(
        x, x[0], np.int8(0), dimension=0, region=operator.gt, index_base=250
    )
    assert (index.dtype, index) == (np.int8, 3)
