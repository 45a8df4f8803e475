"""Fit the polynomials of functions in vectors, and print them with their errors.

They are those of ``wide_math.py``, ``hyperbolic_tangent.py`` and ``double_*.py`` in
``tvm_iree_ext/codegen``.

Each is the least in its largest relative error, by Lawson's method: least squares, whose weights
are multiplied by the errors until these are level.  Exact values are mpmath's, of 40 digits.  Run
it where NumPy and mpmath are installed:

    .venv/bin/python scripts/fit_math.py
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath  # type: ignore[import-untyped]
import numpy as np

mpmath.mp.dps = 40
_POINTS = 2000
_ROUNDS = 400


@dataclass(frozen=True)
class Fit:
    """``value(z)`` for ``z`` from ``low`` to ``high`` by a polynomial of so many terms."""

    name: str
    value: Callable[[mpmath.mpf], mpmath.mpf]
    low: float
    high: float
    terms: int
    first: float | None = None
    """The first coefficient, where that is not free."""
    middle: float = 0.0
    """The polynomial's variable is ``z - middle``."""
    pairs: int = 0
    """How many of the first coefficients are given as sums of two numbers."""


def _quotient(function: Callable[[mpmath.mpf], mpmath.mpf], first: mpmath.mpf | int) -> Callable:
    """``f(t) / t`` of ``z = t^2``, which is ``first`` at 0."""

    def value(z: mpmath.mpf) -> mpmath.mpf:
        t = mpmath.sqrt(z)
        return function(t) / t if z else mpmath.mpf(first)

    return value


def _expm1(r: mpmath.mpf) -> mpmath.mpf:
    return mpmath.expm1(r) / r if r else mpmath.mpf(1)


_EIGHTH = float(mpmath.tan(mpmath.pi / 8))
_LN2_2 = float(mpmath.log(2) / 2)
_LOG_END = float(((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2)
_HALF_PI, _QUARTER_PI = float(mpmath.pi / 2), float(mpmath.pi / 4)


def _erfcx(t: mpmath.mpf) -> mpmath.mpf:
    """``e^x^2 erfc(x) / t`` for ``t = 2 / (2 + x)``."""
    x = 2 * (1 - t) / t
    return mpmath.exp(x * x) * mpmath.erfc(x) / t


def _tanh_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(tanh(x) - x) / x^3`` of ``z = x^2``."""
    x = mpmath.sqrt(z)
    return (mpmath.tanh(x) / x - 1) / z if z else mpmath.mpf(-1) / 3


def _expm1_rest(r: mpmath.mpf) -> mpmath.mpf:
    """``(e^r - 1 - r) / r^2``."""
    return (mpmath.expm1(r) - r) / r**2 if r else mpmath.mpf(1) / 2


FITS = (
    Fit("SIN", _quotient(mpmath.sin, 1), 0.0, _HALF_PI**2, 7, 1.0),
    Fit("SIN_NEAR", _quotient(mpmath.sin, 1), 0.0, _QUARTER_PI**2, 6, 1.0),
    Fit("COS_NEAR", lambda z: mpmath.cos(mpmath.sqrt(z)), 0.0, _QUARTER_PI**2, 6, 1.0),
    Fit("ATAN", _quotient(mpmath.atan, 1), 0.0, _EIGHTH**2, 8, 1.0),
    Fit("EXPM1", _expm1, -_LN2_2, _LN2_2, 9, 1.0),
    Fit("EXP2", lambda f: mpmath.power(2, f), -0.5, 0.5, 9),
    Fit("ERFCX", _erfcx, 2 / 12.5, 1.0, 15),
    # log2((1 + s) / (1 - s)) / s of s^2.
    Fit(
        "LOG2",
        _quotient(lambda s: 2 * mpmath.atanh(s) / mpmath.log(2), 2 / mpmath.log(2)),
        *(0.0, _LOG_END, 7),
    ),
)

TANH_FITS = {
    ("float32", "near"): Fit("float32, near", _tanh_rest, 0.0, 0.625**2, 6),
    ("float32", "power"): Fit("float32, power", _expm1_rest, -_LN2_2, _LN2_2, 5),
    ("float64", "near"): Fit("float64, near", _tanh_rest, 0.0, 0.625**2, 13),
    ("float64", "power"): Fit("float64, power", _expm1_rest, -_LN2_2, _LN2_2, 11),
}
"""By format and term of ``hyperbolic_tangent.py``."""


def _sinh_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(sinh(x) - x) / x^3`` of ``z = x^2``."""
    x = mpmath.sqrt(z)
    return (mpmath.sinh(x) / x - 1) / z if z else mpmath.mpf(1) / 6


def _atanh_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(atanh(s) - s) / s^3`` of ``z = s^2``."""
    s = mpmath.sqrt(z)
    return (mpmath.atanh(s) / s - 1) / z if z else mpmath.mpf(1) / 3


def _atanh_tail(z: mpmath.mpf) -> mpmath.mpf:
    """``(atanh(s) - s - s^3 / 3 - s^5 / 5) / s^7`` of ``z = s^2``."""
    return mpmath.nsum(lambda k: z**k / (2 * k + 7), [0, mpmath.inf])


def _erf_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(erf(x) - 2 x / sqrt(pi)) / x^3`` of ``z = x^2``."""
    x, slope = mpmath.sqrt(z), 2 / mpmath.sqrt(mpmath.pi)
    return (mpmath.erf(x) / x - slope) / z if z else -slope / 3


def _expm1_third(r: mpmath.mpf) -> mpmath.mpf:
    """``(e^r - 1 - r - r^2 / 2) / r^3``."""
    return (mpmath.expm1(r) - r - r**2 / 2) / r**3 if r else mpmath.mpf(1) / 6


def _sin_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(sin(x) - x) / x^3`` of ``z = x^2``."""
    x = mpmath.sqrt(z)
    return (mpmath.sin(x) / x - 1) / z if z else -mpmath.mpf(1) / 6


def _cos_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(cos(x) - 1 + x^2 / 2) / x^4`` of ``z = x^2``."""
    x = mpmath.sqrt(z)
    return (mpmath.cos(x) - 1 + z / 2) / z**2 if z else mpmath.mpf(1) / 24


def _atan_rest(z: mpmath.mpf) -> mpmath.mpf:
    """``(atan(t) - t) / t^3`` of ``z = t^2``."""
    t = mpmath.sqrt(z)
    return (mpmath.atan(t) / t - 1) / z if z else -mpmath.mpf(1) / 3


def _atan_tail(z: mpmath.mpf) -> mpmath.mpf:
    """``(atan(t) - t + t^3 / 3 - t^5 / 5 + t^7 / 7) / t^9`` of ``z = t^2``."""
    return mpmath.nsum(lambda k: (-z) ** k / (2 * k + 9), [0, mpmath.inf])


_T_LOW, _T_HIGH = 2 / 30.0, 2 / 2.46
DOUBLE_FITS = (
    Fit("ATANH", _atanh_rest, 0.0, _LOG_END, 7),
    Fit("ATAN", _atan_rest, 0.0, _EIGHTH**2, 13),
    Fit("ATANH_EXACT", _atanh_tail, 0.0, _LOG_END, 7),
    Fit("ATAN_EXACT", _atan_tail, 0.0, _EIGHTH**2, 11),
    Fit("EXP", _expm1_third, -_LN2_2, _LN2_2, 10),
    Fit("SIN", _sin_rest, 0.0, _QUARTER_PI**2, 6),
    Fit("COS", _cos_rest, 0.0, _QUARTER_PI**2, 6),
    Fit("SINH", _sinh_rest, 0.0, 1.0, 7),
    Fit("CBRT", mpmath.cbrt, 2**-0.5, 2**0.5, 11),
    Fit("ERF", _erf_rest, 0.0, 0.48**2, 9),
    Fit("ERFCX", _erfcx, _T_LOW, _T_HIGH, 24, middle=0.4375, pairs=2),
)
"""Those of ``double_*.py``; the pairs of ERFCX stand apart there."""


def fitted(fit: Fit) -> tuple[tuple[float, ...], float]:
    """The coefficients, and the largest relative error, of coefficients as float64.

    Of those that are pairs the second parts stand behind all others.
    """
    middle, radius = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    angles = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
    places = middle - radius * np.cos(angles)
    values = np.array([_long(fit.value(mpmath.mpf(z))) for z in places])
    begin = 0 if fit.first is None else 1
    from_middle = (places.astype(np.longdouble) - fit.middle) / radius
    powers = from_middle[:, None] ** np.arange(begin, fit.terms)
    rest = values - (0 if fit.first is None else np.longdouble(fit.first))
    weights = np.full(_POINTS, 1 / _POINTS, np.longdouble)
    best: tuple[float, tuple[np.longdouble, ...]] = (np.inf, ())
    for _ in range(_ROUNDS):
        scale = np.sqrt(weights) / np.abs(values)
        found = _least_squares(powers * scale[:, None], rest * scale)
        errors = np.abs((powers @ found - rest) / values)
        if errors.max() < best[0]:
            best = (float(errors.max()), tuple(found / radius ** np.arange(begin, fit.terms)))
        weights = weights * (errors / errors.max() + np.longdouble(1e-9))
        weights /= weights.sum()
    coefficients: tuple[float, ...] = tuple(map(float, best[1]))
    coefficients = coefficients if fit.first is None else (fit.first, *coefficients)
    coefficients += tuple(float(one - float(one)) for one in best[1][: fit.pairs])
    return coefficients, error_of(fit, coefficients)


def _long(value: mpmath.mpf) -> np.longdouble:
    """A number with the digits that NumPy's widest type has; mpmath gives those of float64."""
    high = float(value)
    return np.longdouble(high) + np.longdouble(float(value - high))


def _least_squares(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The solution by Householder's reflections, in the matrix' own precision."""
    matrix, values = matrix.copy(), values.copy()
    columns = matrix.shape[1]
    for column in range(columns):
        part = matrix[column:, column]
        reflection = part.copy()
        reflection[0] += np.copysign(np.sqrt((part * part).sum()), part[0])
        reflection /= np.sqrt((reflection * reflection).sum())
        matrix[column:] -= 2 * np.outer(reflection, reflection @ matrix[column:])
        values[column:] -= 2 * reflection * (reflection @ values[column:])
    solution = np.zeros(columns, matrix.dtype)
    for row in reversed(range(columns)):
        known = matrix[row, row + 1 : columns] @ solution[row + 1 :]
        solution[row] = (values[row] - known) / matrix[row, row]
    return solution


def error_of(fit: Fit, coefficients: Sequence[float], points: int = 501) -> float:
    """The largest relative error of a polynomial, at points that were not fitted."""
    places = [mpmath.mpf(z) for z in np.linspace(fit.low, fit.high, points)]
    exact: list[mpmath.mpf] = [mpmath.mpf(one) for one in coefficients[: fit.terms]]
    for place, low in enumerate(coefficients[fit.terms :]):
        exact[place] += low
    errors = [abs(mpmath.polyval(exact[::-1], z - fit.middle) / fit.value(z) - 1) for z in places]
    return float(max(errors))


if __name__ == "__main__":
    for fit in (*FITS, *TANH_FITS.values(), *DOUBLE_FITS):
        coefficients, error = fitted(fit)
        print(f"_{fit.name} = (  # {error:.1e}")
        print(*(f"    {one!r}," for one in coefficients), ")", sep="\n")
