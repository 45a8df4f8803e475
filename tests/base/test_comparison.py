import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.catalog.base.entry import EXACT, Tolerance

LOOSE = Tolerance(0.25, 0.5)


def is_right(got, want, tolerance=EXACT, dtype="float32"):
    return not first_difference("x", np.array(got, dtype), np.array(want, dtype), tolerance)


@pytest.mark.parametrize("value", [0.0, 1.5, np.nan, np.inf, -np.inf])
def test_a_value_equals_itself(value):
    assert is_right([value], [value])
    assert is_right([value], [value], LOOSE)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.inf, 1.0),
        (1.0, np.inf),
        (np.inf, -np.inf),
        (np.nan, np.inf),
    ],
)
def test_no_tolerance_reaches_what_is_not_finite(got, want):
    assert not is_right([got], [want], LOOSE)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_what_the_type_does_not_hold_is_infinite(dtype):
    got = np.array([np.inf, -np.inf, 1.0]).astype(dtype)
    assert first_difference("x", got, np.array([1e300, -1e300, 1.0]), EXACT) == ""
    wrong = first_difference("x", got, np.array([1e300, 1e300, 1.0]), EXACT)
    assert wrong == "x[1] is -inf, expected inf; 1 of 3 elements are wrong"


def test_the_bound_is_absolute_plus_relative():
    assert is_right([4.0 + 2.25], [4.0], LOOSE)
    assert not is_right([4.0 + 2.375], [4.0], LOOSE)
    assert is_right([-4.0 - 2.25], [-4.0], LOOSE)


def test_exact_means_exact():
    assert not is_right([np.nextafter(np.float32(1), np.float32(2))], [1.0])
    assert not is_right([2**63 - 1], [2**63 - 2], dtype="int64")
    assert is_right([2**64 - 1], [2**64 - 1], dtype="uint64")


def test_compares_bfloat16_with_the_references_float64():
    got = np.array([1.0, np.nan], ml_dtypes.bfloat16)
    assert first_difference("x", got, np.array([1.001, np.nan]), Tolerance(0.0, 0.01)) == ""
    assert first_difference("x", got, np.array([1.1, np.nan]), Tolerance(0.0, 0.01))


def test_compares_both_parts_of_complex_numbers():
    got = np.array([1 + 2j, np.nan + 1j, np.inf - 1j], np.complex64)
    assert first_difference("x", got, got.astype(np.complex128), EXACT) == ""
    assert first_difference("x", got[:1], np.array([1.1 + 2.1j]), Tolerance(0.2, 0)) == ""
    assert first_difference("x", got[:1], np.array([1 - 2j]), Tolerance(0.5, 0)) == (
        "x[0] is 1+2j, expected 1-2j within 0.5, off by 4"
    )


def test_integers_of_two_widths_are_compared_exactly():
    assert first_difference("x", np.int32([7]), np.int64([7]), EXACT) == ""
    assert first_difference("x", np.int32([7]), np.int64([2**40 + 7]), EXACT)


def test_names_the_first_wrong_element():
    got = np.array([[0.0, 1.0], [7.0, np.nan]], "float32")
    want = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert first_difference("output", got, want, Tolerance(0.5, 0.0)) == (
        "output[1, 0] is 7, expected 2 within 0.5, off by 5; 2 of 4 elements are wrong"
    )
    assert first_difference("n", np.int32(3), np.array(4, "int32"), EXACT) == "n is 3, expected 4"
    assert first_difference("b", np.array([True]), np.array([False]), EXACT) == (
        "b[0] is True, expected False"
    )


def test_a_wrong_shape_is_no_broadcast():
    text = first_difference("x", np.zeros((1, 3)), np.zeros(3), LOOSE)
    assert text == "x has shape [1, 3], expected [3]"


def test_nothing_is_right_about_nothing():
    assert is_right(np.zeros((0, 3)), np.zeros((0, 3)))
