"""The reference of scan against loops over single elements, which nobody can misread."""

import itertools
import operator

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("region", [operator.add, lambda a, b: 2 * a + b, max])
@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_scan_equals_loops_over_elements(dimension, inclusive, region):
    shape = (2, 3, 4)
    x = RNG.integers(-9, 9, shape)
    init = RNG.integers(-9, 9, np.delete(shape, dimension))
    over_arrays = np.maximum if region is max else region
    output, accumulator = reference.scan(
        x, init, dimension=dimension, inclusive=inclusive, region=over_arrays
    )
    for line in itertools.product(*map(range, init.shape)):
        at = [(*line[:dimension], i, *line[dimension:]) for i in range(shape[dimension])]
        value = x[at[0]] if inclusive else init[line]
        assert output[at[0]] == value
        for i in range(1, len(at)):
            value = region(value, x[at[i]] if inclusive else x[at[i - 1]])
            assert output[at[i]] == value
        assert accumulator[line] == value


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_single_position_leaves_the_accumulator(inclusive):
    x, init = np.array([[7], [8]]), np.array([10, 20])
    output, accumulator = reference.scan(
        x, init, dimension=1, inclusive=inclusive, region=operator.add
    )
    assert output.ravel().tolist() == ([7, 8] if inclusive else [10, 20])
    assert accumulator.tolist() == [10, 20]


def test_each_step_is_rounded_to_the_element_type():
    x = np.array([2048, 1, 1, 1], np.float16)
    output, _ = reference.scan(
        x,
        np.float16(0),
        dimension=0,
        inclusive=True,
        region=operator.add,
        compute_dtype=np.dtype("float32"),
    )
    assert output.dtype == np.float16
    assert output.tolist() == [2048, 2048, 2048, 2048]
