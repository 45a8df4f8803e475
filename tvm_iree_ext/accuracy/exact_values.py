"""What functions are exactly, and by how many units in the last place results differ from it.

For types narrower than float64 the C library's float64 is exact enough: its error is some 2^-29 of
their units.  For float64 itself mpmath gives the value to 40 digits.  Which results are zero,
infinite or NaN, and those of operands that are zero or infinite, says the C library in each case.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.accuracy.functions import MathFunction
from tvm_iree_ext.accuracy.number_format import NumberFormat
from tvm_iree_ext.base.errors import AccuracyError

_DIGITS = 40


@dataclass(frozen=True)
class ExactValues:
    """Exact results: the nearest float64, and what is left of each in units in the last place."""

    nearest: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True)
class ResultErrors:
    """How far results are from exact ones.

    Attributes:
        units: in the last place; 0 where a result is special and right.
        is_wrong: where NaN, an infinity or a sign is not as IEEE 754 and C have it.
    """

    units: np.ndarray
    is_wrong: np.ndarray


def exact_values(
    function: MathFunction, operands: Sequence[np.ndarray], form: NumberFormat
) -> ExactValues:
    """The exact results of a function for operands of a type.

    Raises:
        AccuracyError: where mpmath is needed and not installed.
    """
    with np.errstate(all="ignore"):
        wide = [operand.astype(np.float64) for operand in operands]
        nearest = function.wide(*wide)
    rest = np.zeros_like(nearest)
    if form.name != "float64":
        return ExactValues(nearest, rest)
    try:
        import mpmath  # type: ignore[import-untyped]
    except ImportError:
        raise AccuracyError(
            "accuracy: float64 is measured beside mpmath: pip install 'tvm-iree-ext[accuracy]'"
        ) from None
    # mpmath has no -0.
    is_usual = (np.isfinite([nearest, *wide]) & (np.array([nearest, *wide]) != 0)).all(axis=0)
    usual = np.flatnonzero(is_usual)
    with mpmath.workdps(_DIGITS):
        numbers = [list(map(mpmath.mpf, operand[usual].tolist())) for operand in wide]
        exact = [function.exact(mpmath.mp, *those) for those in zip(*numbers, strict=True)]
        nearest[usual] = [float(value) for value in exact]
        units = form.units(nearest[usual])
        # The difference may be below the least float64; in units it is not.
        rest[usual] = [
            float((value - mpmath.mpf(near)) / mpmath.mpf(unit))
            for value, near, unit in zip(
                exact, nearest[usual].tolist(), units.tolist(), strict=True
            )
        ]
    return ExactValues(nearest, rest)


def result_errors(results: np.ndarray, exact: ExactValues, form: NumberFormat) -> ResultErrors:
    """How far results of a type are from exact ones.

    Where only one of the two is infinite, infinity counts as the number behind the largest.
    """
    want = exact.nearest
    with np.errstate(invalid="ignore"):  # of NaN that signal
        got = results.astype(np.float64)
    is_special = ~np.isfinite(want)
    is_wrong = np.isnan(got) != np.isnan(want)
    is_wrong |= np.isinf(want) & (got != want)
    is_wrong |= (np.signbit(got) != np.signbit(want)) & ~np.isnan(want)
    is_wrong |= (want == 0) & (got != 0)
    overflows, is_infinite = form.overflows(want), np.isinf(got)
    bounded = np.clip(want, -form.largest, form.largest)
    rest = np.where(overflows, 0.0, exact.rest)
    with np.errstate(all="ignore"):
        difference = np.clip(got, -form.largest, form.largest) - bounded
        units = np.abs(difference / form.units(np.where(is_special, 1.0, bounded)) - rest)
    units = units + (overflows != is_infinite)
    return ResultErrors(np.where(is_special | is_wrong, 0.0, units), is_wrong)
