"""Promised bounds of functions hold, and what measures them tells right from wrong."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.accuracy import accuracy_report
from tvm_iree_ext.accuracy.built_functions import built_functions
from tvm_iree_ext.accuracy.exact_values import ExactValues, exact_values, result_errors
from tvm_iree_ext.accuracy.functions import FUNCTIONS, TYPES, named
from tvm_iree_ext.accuracy.measuring import measure
from tvm_iree_ext.accuracy.number_format import number_format
from tvm_iree_ext.accuracy.samples import samples

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
BOUNDED = tuple(function for function in FUNCTIONS if function.bounds)
EXHAUSTIVE = named(["exp", "log", "sin", "tanh"])


def check(functions, dtype, count):
    broken = [
        accuracy_report.report_row(row)
        for row in measure(functions, dtype, count=count, with_peers=False)
        if not row.keeps_bound
    ]
    assert broken == []


def test_float64_keeps_its_promises():
    check(BOUNDED, "float64", 600)


def test_all_float16_numbers_keep_the_promises():
    check(EXHAUSTIVE, "float16", 0)


@pytest.mark.costly
@pytest.mark.parametrize("function", BOUNDED, ids=lambda function: function.name)
def test_float32_keeps_its_promises(function):
    check([function], "float32", 20_000)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
def test_all_promises(dtype):
    check(BOUNDED, dtype, 20_000)


def patterns(array):
    return array.view(f"u{array.itemsize}")


@pytest.mark.parametrize(
    ("dtype", "functions"),
    [
        ("float64", BOUNDED),
        ("float16", EXHAUSTIVE),
        pytest.param("float32", FUNCTIONS, marks=pytest.mark.long),
        pytest.param("float64", FUNCTIONS, marks=pytest.mark.long),
        pytest.param("float16", FUNCTIONS, marks=pytest.mark.long),
        pytest.param("bfloat16", FUNCTIONS, marks=pytest.mark.long),
    ],
)
def test_an_element_has_the_same_bits_at_any_place_and_on_any_number_of_threads(dtype, functions):
    """Also in arrays that begin at any element: no alignment is wanted of them."""
    ours = built_functions(functions, dtype)
    for function in functions:
        operands = samples(dtype, function.operands, 20_000)
        operands = tuple(np.resize(operand, 70_001) for operand in operands)
        run = ours[function.name]
        with ext.threads(1):
            whole = patterns(run(*operands))
        with ext.threads(2):
            np.testing.assert_array_equal(patterns(run(*operands)), whole)
        for start in range(0, 2000, 47):
            part = slice(start, start + 1 + start * 7 % 67)
            result = run(*(operand[part] for operand in operands))
            np.testing.assert_array_equal(patterns(result), whole[part], function.name)


@pytest.mark.parametrize("dtype", TYPES)
def test_units_are_distances_of_neighbours(dtype):
    exact = np.dtype(getattr(ml_dtypes, dtype, dtype))
    word = f"u{exact.itemsize}"
    some = samples(dtype, 1, 5000)[0]
    with np.errstate(invalid="ignore"):  # of NaN that signal
        some = np.abs(some[np.isfinite(some)])
    some = some[some.astype("f8") < float(ml_dtypes.finfo(exact).max)]
    above = (some.view(word) + np.array(1, word)).view(exact)
    distance = above.astype("f8") - some.astype("f8")
    np.testing.assert_array_equal(number_format(dtype).units(some.astype("f8")), distance)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_result_beside_the_nearest_is_off_by_up_to_one_and_a_half(dtype):
    form = number_format(dtype)
    largest, infinity, exact = form.largest, np.inf, np.dtype(getattr(ml_dtypes, dtype, dtype))
    unit = float(form.units(np.array(1.0)))
    want = [1.0, 1.0, largest, infinity, 0.0, 0.0, np.nan, -infinity, -1.0, 2.0]
    got = [1.0, 1 + unit, infinity, infinity, 0.0, -0.0, 1.0, infinity, 1.0, np.nan]
    rest = [0.25, -0.5, *[0.0] * 8]
    exact_results = ExactValues(np.array(want), np.array(rest))
    errors = result_errors(np.array(got).astype(exact), exact_results, form)
    np.testing.assert_array_equal(errors.units[:4], [0.25, 1.5, 1, 0])
    np.testing.assert_array_equal(errors.is_wrong, [False] * 5 + [True] * 5)


def test_the_two_definitions_of_each_function_agree():
    """The C library's float64 and mpmath's: else each would be measured by its own mistake."""
    form = number_format("float64")
    for function in FUNCTIONS:
        operands = samples("float64", function.operands, 300)
        with np.errstate(all="ignore"):
            wide = function.wide(*operands)
            # Far below 0 the formula's own error is that of its argument, e^x's.
            errors = result_errors(wide, exact_values(function, operands, form), form)
        assert not errors.is_wrong.any(), function.name
        assert errors.units.max() < 2**24, function.name


def test_a_bound_that_is_broken_is_told(monkeypatch):
    function = named(["exp"])[0]
    monkeypatch.setitem(function.bounds, "float16", 0.4)
    (row,) = measure([function], "float16", with_peers=False)
    assert not row.keeps_bound
    assert "promise broken" in accuracy_report.report_row(row)[-1]


def test_what_is_not_measured_is_refused():
    with pytest.raises(ext.errors.AccuracyError, match=r"'expp' is none of .*did you mean 'exp'"):
        named(["expp"])
    with pytest.raises(ext.errors.AccuracyError, match="type 'i32' is none of float32"):
        next(measure(FUNCTIONS, "i32"))
    with pytest.raises(ext.errors.AccuracyError, match="'cuda' does not run here; expected llvm"):
        next(measure(FUNCTIONS, "f32", "cuda:sm_80"))


def test_the_page_has_the_promises():
    assert accuracy_report.promises_markdown() in PAGE.read_text("utf-8")
