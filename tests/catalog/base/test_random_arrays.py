"""Random operands hold the values that kernels get wrong."""

import numpy as np
import pytest

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.base.random_arrays import finite_array, pick, random_array
from tvm_iree_ext.catalog.base.random_comparators import random_elements


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_floats_have_nan_infinities_and_both_zeros(dtype):
    values = random_array(np.random.default_rng(0), (4000,), dtype).astype("float64")
    assert np.isnan(values).any()
    assert {np.inf, -np.inf} <= set(values)
    assert np.signbit(values[values == 0]).any()
    assert np.isfinite(finite_array(np.random.default_rng(0), (4000,), dtype).astype(float)).all()


@pytest.mark.parametrize("dtype", [name for name in dtypes.INTEGERS if name != "bool"])
def test_integers_are_of_the_whole_range(dtype):
    values, limits = random_array(np.random.default_rng(0), (4000,), dtype), np.iinfo(dtype)
    assert values.dtype == dtype
    assert int(values.min()) <= limits.min + limits.max // 100
    assert int(values.max()) >= limits.max - limits.max // 100


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_elements_to_compare_have_ties_and_no_nan(dtype):
    rng = np.random.default_rng(0)
    drawn = [random_elements(rng, (200,), dtype, narrow=False).astype(float) for _ in range(8)]
    assert not any(np.isnan(values).any() for values in drawn)
    assert any(len(set(values)) < 30 for values in drawn)


def test_picks_each_option():
    rng = np.random.default_rng(0)
    assert {pick(rng, "abc") for _ in range(50)} == set("abc")
