"""Results with one rounding, in NumPy: ``a * b + c``, and floats made narrower."""

from fractions import Fraction
from math import isfinite

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype


def narrowed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A float64 array in another float type, rounded once.

    NumPy rounds to bf16 by way of float32, which is therefore rounded to odd: a result that is not
    exact never looks like the middle between two numbers of bf16.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != numpy_dtype("bfloat16"):
            return array.astype(dtype)
        single = array.astype(np.float32)
        back = single.astype(np.float64)
        is_even = (single.view(np.int32) & 1) == 0
        inexact = np.isfinite(array) & (back != array) & is_even
        toward = np.where(back < array, np.float32(np.inf), np.float32(-np.inf))
        odd = np.where(inexact, np.nextafter(single, toward), single)
        return odd.astype(np.float32).astype(dtype)


def fused_multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Element by element, rounded once to the type of the operands."""
    dtype = a.dtype
    if dtype == np.float64:
        with np.errstate(all="ignore"):
            return np.asarray(np.frompyfunc(_double, 3, 1)(a, b, c), np.float64)
    # The product of two narrower floats is exact in float64.  The sum is rounded to odd, so that
    # rounding it again to the narrower type is as good as rounding once.
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        addend = c.astype(np.float64)
        total = product + addend
        virtual = total - product
        error = (product - (total - virtual)) + (addend - virtual)
        inexact = np.isfinite(total) & (error != 0)
        is_even = (total.view(np.int64) & 1) == 0
        toward = np.where(error > 0, np.inf, -np.inf)
        odd = np.where(inexact & is_even, np.nextafter(total, toward), total)
        return narrowed(odd, dtype)


def _double(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
