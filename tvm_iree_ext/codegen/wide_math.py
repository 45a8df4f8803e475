"""Functions of float32 by float64 arithmetic, in vectors, on LLVM targets.

A float32 has 29 bits less than a float64, so what a polynomial and a few operations lose there does
not show but where a result lies next to the middle of two numbers: results are within 0.5001 units
in the last place.  TVM would call the C library for each lane.

    sin(x)    = (-1)^n sin(r),           n = round(x / pi),      r = x - n pi
    expm1(x)  = 2^n (e^r - 1) + 2^n - 1, n = round(x / ln 2),    r = x - n ln 2
    log2(x)   = n + log2(m),             x = 2^n m,              log2(m) = s p(s^2), s = (m-1)/(m+1)
    x^y       = 2^(y log2(x))
    atan(t)   = pi/4 + atan((t-1)/(t+1)) beyond tan(pi/8)

Special values are those of C.  A branch takes arguments of sin, cos or tan that are so large that
multiples of pi are not exact: it multiplies by 232 bits of 2 / pi.  ``scripts/fit_math.py`` prints
the polynomials; their errors are relative.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

from tvm import ir, tirx

from tvm_iree_ext.codegen.float_formats import integer_of
from tvm_iree_ext.codegen.float_words import (
    clamped,
    like,
    mantissa_and_exponent,
    power_of_2,
    rarely_beyond,
    sign_of,
    size_of,
    turned,
    words_of,
)
from tvm_iree_ext.codegen.math_calls import Rarely, Share
from tvm_iree_ext.codegen.polynomials import constant, polynomial
from tvm_iree_ext.codegen.powers import power_by_size
from tvm_iree_ext.codegen.vector_functions import ATANH, CBRT, ERFC, EXPM1

Expr: TypeAlias = ir.Expr

_SIN = (  # 6.8e-14
    1.0,
    -0.1666666666650454,
    0.008333333321084487,
    -0.00019841266729289127,
    2.7556953080868082e-06,
    -2.5030195848675456e-08,
    1.540951456657471e-10,
)
_SIN_NEAR = (  # 5.0e-15
    1.0,
    -0.1666666666663028,
    0.008333333325069763,
    -0.00019841263725519704,
    2.755533915245262e-06,
    -2.4760425495732902e-08,
)
_COS_NEAR = (  # 7.3e-14
    1.0,
    -0.49999999999489353,
    0.041666666553424804,
    -0.0013888880659322913,
    2.4798960714323774e-05,
    -2.71747885090844e-07,
)
_ATAN = (  # 7.9e-13
    1.0,
    -0.3333333329572907,
    0.19999994326763385,
    -0.14285423642374628,
    0.11104004308105311,
    -0.08996844682859773,
    0.0699124011865442,
    -0.03792474764571489,
)
_EXPM1 = (  # 7.9e-14
    1.0,
    0.499999999998125,
    0.1666666666686871,
    0.04166666688342849,
    0.008333333246454027,
    0.0013888822778835065,
    0.00019841359644032442,
    2.4875679934380044e-05,
    2.756056125618428e-06,
)
_EXP2 = (  # 7.7e-13
    0.9999999999997624,
    0.6931471805465144,
    0.24022650698880255,
    0.0555041093934139,
    0.009618128542871043,
    0.0013333452062397587,
    0.00015403851747848173,
    1.5309737402091512e-05,
    1.3175857738953984e-06,
)
_ERFCX = (  # 4.0e-12
    0.282094338529972,
    0.28211247211431495,
    0.24652127145357636,
    0.17959939444808365,
    0.06052078261577675,
    0.11145737488385124,
    -0.4770258127577639,
    1.0675187947252032,
    -2.193456767274797,
    3.1136117601329163,
    -2.868582040377162,
    1.7199843808182291,
    -0.6549027824506667,
    0.1447233166133767,
    -0.014176483470892932,
)
_LOG2 = (  # 2.1e-16
    2.885390081777927,
    0.9617966939243369,
    0.5770780172441747,
    0.41219840247661116,
    0.3206163547455851,
    0.2614453767562307,
    0.24290228326701474,
)

# pi / 2 in two parts, the first of 33 bits: fdlibm's.  Its multiples of up to 2^20 are exact.
_HALF_PI = (1.57079632673412561417, 6.07710050650619224932e-11)
_MOST_MULTIPLES = 2.0**20
# 2 / pi as a sum of 8 numbers of 29 bits: their products with a float32 are exact.
_TWO_BY_PI = (
    0.636619770899415,
    1.4681663246252086e-09,
    2.2760100671971816e-18,
    5.8812147387730434e-27,
    1.0346868700836215e-35,
    3.783256351091319e-45,
    3.720474878517739e-53,
    4.227114694466663e-62,
)
# Adding this rounds to an integer, which is in the lowest bits of the sum.
_ROUND = 1.5 * 2.0**52
_BIAS, _MANTISSA = 1023, 52
_EIGHTH_PI_TANGENT = math.tan(math.pi / 8)
_ERFC_END = 10.5  # from there on float32 has 0
_MOST_EXPONENT = 200.0  # beyond the range of float32, within that of float64


def _wide(x: Expr) -> Expr:
    return tirx.Cast(str(x.ty.dtype).replace("float32", "float64"), x)


def _narrow(x: Expr) -> Expr:
    return tirx.Cast(str(x.ty.dtype).replace("float64", "float32"), x)


def _odd(total: Expr) -> Expr:
    """The sign's bit where a sum with _ROUND is of an odd integer."""
    return words_of(total) << constant(63, integer_of(total))


def _rest(d: Expr, n: Expr, part: float) -> Expr:
    """``d - n * part * pi / 2``."""
    high, low = (like(part * one, d) for one in _HALF_PI)
    return (d - n * high) - n * low


def _far_rest(d: Expr, part: float, ahead: float, share: Share) -> tuple[Expr, Expr]:
    """``d / (part * pi / 2) + ahead`` as the nearest integer, plus _ROUND, and what is left.

    That integer is right but for multiples of 4, and what is left is as ``d`` is: an angle.  Each
    product with a part of 2 / pi is exact, as is what it has beyond a multiple of 4.
    """
    four = like(4.0, d)
    high, low = like(ahead, d), like(0.0, d)
    for piece in _TWO_BY_PI:
        product = share(d * like(piece / part, d))
        fourth = tirx.nearbyint(product * like(0.25, d))
        high, added = _exact_sum(high, share(product - fourth * four), share)
        low = share(low + added)
    total = share(high + like(_ROUND, d))
    turns = (high - (total - like(_ROUND, d))) + low
    return total, share(turns * like(part * math.pi / 2, d))


def _exact_sum(a: Expr, b: Expr, share: Share) -> tuple[Expr, Expr]:
    """A sum, and what it was rounded by (Knuth)."""
    total = share(a + b)
    taken = share(total - a)
    return total, share((a - (total - taken)) + (b - taken))


def sin(x: Expr, share: Share) -> Rarely:
    """Sine."""
    return _sine(x, share, 0.0)


def cos(x: Expr, share: Share) -> Rarely:
    """Cosine: the sine of ``x + pi / 2``."""
    return _sine(x, share, 0.5)


def _sine(x: Expr, share: Share, ahead: float) -> Rarely:
    """The sine of ``x + ahead * pi``."""
    d = share(_wide(x))

    def of(total: Expr, r: Expr, share: Share) -> Expr:
        return _narrow(turned(share(r * polynomial(share(r * r), _SIN)), _odd(total)))

    total = share((d * like(1 / math.pi, d) + like(ahead, d)) + like(_ROUND, d))
    r = share(_rest(d, (total - like(_ROUND, d)) - like(ahead, d), 2.0))
    usual = share(of(total, r, share))
    return rarely_beyond(
        x, _MOST_MULTIPLES, usual, lambda share: of(*_far_rest(d, 2.0, ahead, share), share)
    )


def tan(x: Expr, share: Share) -> Rarely:
    """Tangent, of the rest beyond a multiple of pi / 2, or what that inverts to."""
    d = share(_wide(x))

    def of(total: Expr, r: Expr, share: Share) -> Expr:
        z = share(r * r)
        sine, cosine = share(r * polynomial(z, _SIN_NEAR)), share(polynomial(z, _COS_NEAR))
        is_odd = share(_odd(total) < constant(0, integer_of(d)))
        minus = like(0.0, d) - cosine
        return _narrow(tirx.Select(is_odd, minus, sine) / tirx.Select(is_odd, sine, cosine))

    total = share(d * like(2 / math.pi, d) + like(_ROUND, d))
    usual = share(of(total, share(_rest(d, total - like(_ROUND, d), 1.0)), share))
    return rarely_beyond(
        x, _MOST_MULTIPLES, usual, lambda share: of(*_far_rest(d, 1.0, 0.0, share), share)
    )


def _exp_less_1(d: Expr, share: Share) -> Expr:
    """``e^d - 1`` of float64, by absolute value at most 700."""
    n = share((d * like(1 / math.log(2), d) + like(_ROUND, d)) - like(_ROUND, d))
    r = share(d - n * like(math.log(2), d))
    part, power = share(r * polynomial(r, _EXPM1)), share(power_of_2(n))
    one = like(1.0, d)
    # The sum would lose the sign of -0.
    return tirx.Select(tirx.EQ(power, one), part, part * power + (power - one))


def expm1(x: Expr, share: Share) -> Expr:
    """``e^x - 1``."""
    return _narrow(_exp_less_1(share(clamped(_wide(x), _MOST_EXPONENT)), share))


def sinh(x: Expr, share: Share) -> Expr:
    """Hyperbolic sine: ``(t + t / (t + 1)) / 2`` for ``t = e^|x| - 1``."""
    t = share(_exp_less_1(share(clamped(size_of(_wide(x)), _MOST_EXPONENT)), share))
    value = share(like(0.5, t) * (t + t / (t + like(1.0, t))))
    return turned(share(_narrow(value)), sign_of(x))


def cosh(x: Expr, share: Share) -> Expr:
    """Hyperbolic cosine: ``(e^x + e^-x) / 2``."""
    d = share(clamped(size_of(_wide(x)), _MOST_EXPONENT))
    power = share(_exp_less_1(d, share) + like(1.0, d))
    return _narrow(like(0.5, d) * (power + like(1.0, d) / power))


def _log2_of(d: Expr, share: Share) -> Expr:
    """log2 of positive float64 that have an exponent of their own and are no infinity."""
    m, n = mantissa_and_exponent(d, share)
    s = share((m - like(1.0, d)) / (m + like(1.0, d)))
    return n + s * polynomial(share(s * s), _LOG2)


def _logarithm(x: Expr, share: Share, unit: float) -> Expr:
    """log2, times what it is in another base's."""
    d = share(_wide(x))
    value = _log2_of(d, share) * like(unit, d) if unit != 1.0 else _log2_of(d, share)
    infinity, zero = like(math.inf, x), like(0.0, x)
    at_end = tirx.Select(tirx.EQ(x, zero), like(-math.inf, x), like(math.nan, x))
    within = tirx.Select(x < infinity, _narrow(value), infinity)
    return tirx.Select(x > zero, within, at_end)


def log2(x: Expr, share: Share) -> Expr:
    """Logarithm to base 2."""
    return _logarithm(x, share, 1.0)


def log10(x: Expr, share: Share) -> Expr:
    """Logarithm to base 10."""
    return _logarithm(x, share, math.log10(2.0))


def _exp2_of(d: Expr, share: Share) -> Expr:
    """``2^d``, which is infinite or 0 in float32 beyond its range."""
    bounded = share(clamped(d, _MOST_EXPONENT))
    n = share((bounded + like(_ROUND, d)) - like(_ROUND, d))
    return polynomial(share(bounded - n), _EXP2) * power_of_2(n)


def power(x: Expr, y: Expr, share: Share) -> Expr:
    """``x^y``, with C's special values."""

    def of_size(size: Expr) -> Expr:
        d = share(_wide(size))
        logarithm = tirx.Select(
            tirx.EQ(size, like(0.0, size)),
            like(-math.inf, d),
            tirx.Select(size < like(math.inf, size), _log2_of(d, share), _wide(size)),
        )
        return _narrow(_exp2_of(share(_wide(y) * logarithm), share))

    return power_by_size(x, y, of_size, share)


def _arc_tangent(y: Expr, x: Expr, share: Share) -> Expr:
    """The angle of the point (x, y) of float64, neither NaN; as C's atan2."""
    zero = like(0.0, x)
    across, up = share(size_of(x)), share(size_of(y))
    is_steep = share(up > across)
    least, most = share(tirx.Select(is_steep, across, up)), share(tirx.Select(is_steep, up, across))
    # Two infinities are as two equal numbers, and two zeros have the angle 0.
    is_same = tirx.And(tirx.EQ(least, most), most > zero)
    is_far = share(tirx.Or(least > most * like(_EIGHTH_PI_TANGENT, x), is_same))
    difference = tirx.Select(tirx.EQ(least, most), zero, least - most)
    above = tirx.Select(is_far, difference, least)
    below = tirx.Select(is_far, least + most, most)
    t = share(above / tirx.Select(tirx.EQ(most, zero), like(1.0, x), below))
    angle = t * polynomial(share(t * t), _ATAN)
    angle = angle + tirx.Select(is_far, like(math.pi / 4, x), zero)
    angle = share(tirx.Select(is_steep, like(math.pi / 2, x) - angle, angle))
    is_left = words_of(x) < constant(0, integer_of(x))
    return turned(tirx.Select(is_left, like(math.pi, x) - angle, angle), sign_of(y))


def atan(x: Expr, share: Share) -> Expr:
    """Inverse tangent."""
    d = share(_wide(x))
    value = _narrow(_arc_tangent(d, like(1.0, d), share))
    return tirx.Select(size_of(x) <= like(math.inf, x), value, x)


def atan2(y: Expr, x: Expr, share: Share) -> Expr:
    """The angle of a point, from ``-pi`` to ``pi``."""
    value = _narrow(_arc_tangent(share(_wide(y)), share(_wide(x)), share))
    infinity = like(math.inf, x)
    is_number = tirx.And(size_of(x) <= infinity, size_of(y) <= infinity)
    return tirx.Select(is_number, value, like(math.nan, x))


def _beside(d: Expr) -> Expr:
    """``sqrt(1 - d^2)``."""
    one = like(1.0, d)
    return tirx.sqrt((one - d) * (one + d))


def asin(x: Expr, share: Share) -> Expr:
    """Inverse sine."""
    d = share(_wide(x))
    value = _narrow(_arc_tangent(d, share(_beside(d)), share))
    return tirx.Select(size_of(x) <= like(1.0, x), value, like(math.nan, x))


def acos(x: Expr, share: Share) -> Expr:
    """Inverse cosine."""
    d = share(_wide(x))
    value = _narrow(_arc_tangent(share(_beside(d)), d, share))
    return tirx.Select(size_of(x) <= like(1.0, x), value, like(math.nan, x))


def cbrt(x: Expr, share: Share) -> Expr:
    """Cube root."""
    size = share(size_of(x))
    d = share(_wide(size))
    value = share(_narrow(_exp2_of(share(_log2_of(d, share) * like(1 / 3, d)), share)))
    is_usual = tirx.And(size > like(0.0, x), size < like(math.inf, x))
    return tirx.Select(is_usual, turned(value, sign_of(x)), x)


def erfc(x: Expr, share: Share) -> Expr:
    """Complement of the error function: ``e^-x^2 t p(t)`` for ``t = 2 / (2 + |x|)``."""
    d = share(clamped(size_of(_wide(x)), _ERFC_END))
    two = like(2.0, d)
    t = share(two / (two + d))
    scale = _exp2_of(share(d * d * like(-1 / math.log(2), d)), share)
    value = share(scale * (t * polynomial(t, _ERFCX)))
    return _narrow(tirx.Select(x < like(0.0, x), two - value, value))


def asinh(x: Expr, share: Share) -> Expr:
    """Inverse hyperbolic sine: ``log(x + sqrt(x^2 + 1))``, and its series near 0."""
    size = share(size_of(_wide(x)))
    square, one = share(size * size), like(1.0, size)
    far = _log2_of(share(size + tirx.sqrt(square + one)), share) * like(math.log(2), size)
    near = size * polynomial(square, (1.0, -1 / 6, 3 / 40))
    value = share(tirx.Select(size < like(2.0**-10, size), near, far))
    return tirx.Select(size_of(x) < like(math.inf, x), turned(_narrow(value), sign_of(x)), x)


def acosh(x: Expr, share: Share) -> Expr:
    """Inverse hyperbolic cosine: ``log(x + sqrt(x^2 - 1))``."""
    d, one = share(_wide(x)), like(1.0, x)
    root = tirx.sqrt((d - like(1.0, d)) * (d + like(1.0, d)))
    value = _narrow(_log2_of(share(d + root), share) * like(math.log(2), d))
    within = tirx.Select(x < like(math.inf, x), value, x)
    return tirx.Select(x >= one, within, like(math.nan, x))


def atanh(x: Expr, share: Share) -> Expr:
    """Inverse hyperbolic tangent: ``log((1 + x) / (1 - x)) / 2``, and its series near 0."""
    size, one = share(size_of(_wide(x))), like(1.0, x)
    quotient = share((like(1.0, size) + size) / (like(1.0, size) - size))
    far = _log2_of(quotient, share) * like(0.5 * math.log(2), size)
    near = size * polynomial(share(size * size), (1.0, 1 / 3))
    value = share(_narrow(tirx.Select(size < like(2.0**-10, size), near, far)))
    at_end = tirx.Select(tirx.EQ(size_of(x), one), like(math.inf, x), like(math.nan, x))
    return turned(share(tirx.Select(size_of(x) < one, value, at_end)), sign_of(x))


def copysign(x: Expr, sign: Expr, share: Share) -> Expr:
    """The first one's absolute value with the second one's sign."""
    return turned(share(size_of(x)), sign_of(sign))


LOWERINGS: dict[str, Callable[..., Expr | Rarely]] = {
    "tirx.acos": acos,
    "tirx.acosh": acosh,
    "tirx.asin": asin,
    "tirx.asinh": asinh,
    "tirx.atan": atan,
    "tirx.atan2": atan2,
    "tirx.copysign": copysign,
    "tirx.cos": cos,
    "tirx.cosh": cosh,
    "tirx.log10": log10,
    "tirx.pow": power,
    "tirx.sin": sin,
    "tirx.sinh": sinh,
    "tirx.tan": tan,
    "prim.log2": log2,
    ATANH: atanh,
    CBRT: cbrt,
    ERFC: erfc,
    EXPM1: expm1,
}
"""By the operator that is lowered, of float32: functions of its arguments and a Share."""
