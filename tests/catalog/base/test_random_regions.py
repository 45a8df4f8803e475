"""Random regions come in every form that ops take, and mean the same in each."""

import pickle

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.random_arrays import small_numbers
from tvm_iree_ext.catalog.base.random_regions import (
    region_form,
    sometimes_empty,
    swapped,
    text_function,
    weighted,
)
from tvm_iree_ext.ops.base.region_scalars import ScalarRegion
from tvm_iree_ext.ops.base.regions import trace

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("2 * arg0 + arg1", "int8"),
        ("max(arg0, 1) - arg1", "uint4"),
        ("max(arg1, arg0 * 0.5)", "float8_e4m3fn"),
        ("select(arg0 > arg1, arg0, arg0 - arg1)", "float32"),
        ("arg0 * 0.5 + conj(arg1)", "complex64"),
        ("arg0 * arg1 - imag(arg0)", "complex128"),
        ("arg1", "complex64"),
    ],
)
def test_a_function_means_over_arrays_what_its_text_does(text, dtype):
    number = dtypes.numpy_dtype(dtypes.number_dtype(dtype))
    a, b = (small_numbers(RNG, (50,), dtype).astype(number) for _ in range(2))
    region = trace("op", text_function(text), [dtype, dtype], dtype)
    assert region.source is None
    want = numpy_region("op", trace("op", text, [dtype, dtype], dtype))(a, b)
    np.testing.assert_array_equal(numpy_region("op", region)(a, b), want)
    again = pickle.loads(pickle.dumps(region))
    np.testing.assert_array_equal(numpy_region("op", again)(a, b), want)


def test_forms_are_texts_and_functions_with_and_without_numbers():
    found = set()
    for _ in range(200):
        region, numbers = region_form(RNG, "<", swapped("<"))
        scalars = isinstance(region, ScalarRegion)
        assert scalars == bool(numbers)
        found.add((scalars, callable(region.region if scalars else region)))
    assert len(found) == 4


@pytest.mark.parametrize("dtype", ["int8", "uint4", "float64", "float16", "complex64"])
def test_weights_are_numbers_of_the_elements_type(dtype):
    for _ in range(10):
        region, numbers = weighted(RNG, "weight * arg0 + arg1", dtype)
        op = ops.scan((3,), region, dtype=dtype)
        assert numbers.keys() == {one.name for one in op.region_scalars}


def test_swapped_texts_have_pairs_the_other_way_around():
    assert swapped(">=") == "arg1 >= arg0"
    assert swapped("arg0 < arg1 or arg2 > arg3") == "arg1 < arg0 or arg3 > arg2"


def test_now_and_then_one_extent_is_0():
    drawn = [sometimes_empty(RNG, [3, 4]) for _ in range(300)]
    assert {tuple(one) for one in drawn} == {(3, 4), (0, 4), (3, 0)}
