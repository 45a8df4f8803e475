"""Inverse sine, cosine and tangent of float64.

atan(t) = t + t^3 p(t^2), and pi / 4 + atan((t - 1) / (t + 1)) beyond tan(pi / 8)
asin(x) and acos(x) are the angles of the points (sqrt(1 - x^2), x) and (x, sqrt(1 - x^2))
"""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.float_words import (
    is_negative,
    like,
    mantissa_and_exponent,
    power_of_2,
    sign_of,
    size_of,
    turned,
)
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.odd_series import odd_series
from tvm_iree_ext.codegen.polynomials import Expr, polynomial

_ATAN = (  # 5.6e-17
    -0.3333333333333333,
    0.19999999999999987,
    -0.14285714285710813,
    0.11111111110686925,
    -0.09090909063458522,
    0.07692306622710304,
    -0.06666639687293092,
    0.05881893299211438,
    -0.05257747727447323,
    0.047176035452535466,
    -0.04097492394955371,
    0.030480842765346895,
    -0.013766970443540251,
)

_ATAN_EXACT = (  # 2.8e-16
    0.11111111111111109,
    -0.09090909090905552,
    0.07692307691478259,
    -0.06666666590671194,
    0.05882349358843215,
    -0.052630589498475974,
    0.04760190039923132,
    -0.04328546482510038,
    0.038582540004691246,
    -0.030334678207067273,
    0.015005411399706452,
)

_PI = (3.141592653589793, 1.2246467991473532e-16)
_EIGHTH_PI_TANGENT = math.tan(math.pi / 8)

_LIFT = 600
"""The exponent by which two tiny numbers are raised."""

_TINY = 2.0**-30
"""Below it, asin(x) and atan(x) are x."""


def atan(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse tangent."""
    size, one = share(size_of(x)), like(1.0, x)
    # Beyond 2^60 the angle is a right one.
    bounded = share(tirx.Select(size < like(2.0**60, x), size, like(2.0**60, x)))
    pairs = DoubleDoubles(share, has_fma)
    value = _sum(_angle(pairs, pairs.of(bounded), pairs.of(one)))
    usual = share(tirx.Select(size < like(_TINY, x), size, value))
    return tirx.Select(size <= like(math.inf, x), turned(usual, sign_of(x)), x)


def asin(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse sine."""
    pairs, size = DoubleDoubles(share, has_fma), share(size_of(x))
    value = _sum(_angle(pairs, pairs.of(size), _beside(pairs, size)))
    usual = share(tirx.Select(size < like(_TINY, x), size, value))
    return tirx.Select(size <= like(1.0, x), turned(usual, sign_of(x)), like(math.nan, x))


def acos(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse cosine."""
    pairs, size = DoubleDoubles(share, has_fma), share(size_of(x))
    value = _angle(pairs, _beside(pairs, size), pairs.of(size))
    usual = _sum(_beyond(pairs, value, is_negative(x)))
    return tirx.Select(size <= like(1.0, x), usual, like(math.nan, x))


def atan2(y: Expr, x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """The angle of the point (x, y)."""
    pairs, infinity = DoubleDoubles(share, has_fma), like(math.inf, x)
    across, up = share(size_of(x)), share(size_of(y))
    # Two infinities are as two equal numbers, and beside one a number is as 0 beside 1.
    is_far = share(tirx.Or(tirx.EQ(across, infinity), tirx.EQ(up, infinity)))
    across, up = (
        share(
            tirx.Select(
                is_far, tirx.Select(tirx.EQ(one, infinity), like(1.0, x), like(0.0, x)), one
            )
        )
        for one in (across, up)
    )
    across, up, _ = near_4(across, up, share)
    value = _angle(pairs, pairs.of(up), pairs.of(across))
    value = _sum(_beyond(pairs, value, is_negative(x)))
    # A small angle is the quotient, rounded once though it be subnormal.
    quotient = share(size_of(y) / x)
    is_quotient = tirx.And(quotient < like(_TINY, x), x > like(0.0, x))
    value = tirx.Select(is_quotient, quotient, value)
    is_number = tirx.And(size_of(x) <= infinity, size_of(y) <= infinity)
    return tirx.Select(is_number, turned(share(value), sign_of(y)), like(math.nan, x))


def near_4(a: Expr, b: Expr, share: Share) -> tuple[Expr, Expr, Expr]:
    """Two numbers times a power of 2, and the exponent that this takes from them.

    The larger one comes between 2 sqrt(2) and 4 sqrt(2), so that nothing of weight is subnormal;
    neither is negative.
    """
    least, zero = like(2.0**-500, a), like(0.0, a)
    is_tiny = share(tirx.And(a < least, b < least))
    lift = share(tirx.Select(is_tiny, like(2.0**_LIFT, a), like(1.0, a)))
    a, b = share(a * lift), share(b * lift)
    _, n = mantissa_and_exponent(share(tirx.Select(a > b, a, b)), share)
    more = share(like(2.0, a) - n)
    scale = share(power_of_2(more))
    lifted = tirx.Select(is_tiny, like(_LIFT, a), zero)
    return share(a * scale), share(b * scale), share(zero - (more + lifted))


def exact_angle(pairs: DoubleDoubles, up: Expr, across: Expr, is_left: Expr) -> DoubleDouble:
    """The angle of the point (across, up), or that taken from pi, to 2^-63.

    Args:
        pairs: the arithmetic.
        up: of a point none of whose coordinates is negative.
        across: the other coordinate.
        is_left: whether the angle is taken from pi.
    """
    angle = _angle(pairs, pairs.of(up), pairs.of(across), is_exact=True)
    return _beyond(pairs, angle, is_left)


def _angle(
    pairs: DoubleDoubles, up: DoubleDouble, across: DoubleDouble, is_exact: bool = False
) -> DoubleDouble:
    """The angle of a point, neither of whose coordinates is negative; of (0, 0) it is 0."""
    share, zero = pairs.share, like(0.0, up.high)
    is_steep = share(up.high > across.high)
    least = pairs.choice(is_steep, across, up)
    most = pairs.choice(is_steep, up, across)
    is_far = share(least.high > most.high * like(_EIGHTH_PI_TANGENT, zero))
    above = pairs.choice(is_far, pairs.add(least, pairs.negated(most)), least)
    below = pairs.choice(is_far, pairs.add(least, most), most)
    safe = share(tirx.Select(tirx.EQ(below.high, zero), like(1.0, zero), below.high))
    t = pairs.quotient(above, DoubleDouble(safe, below.low))
    if is_exact:
        t = odd_series(pairs, t, -1, 3, _ATAN_EXACT)
    else:
        square = share(t.high * t.high)
        t = DoubleDouble(t.high, share(t.low + (t.high * square) * polynomial(square, _ATAN)))
    # The angle is the sum of that and a multiple of pi / 4, or that sum taken from pi / 2.
    sign = share(tirx.Select(is_steep, like(-1.0, zero), like(1.0, zero)))
    multiple = tirx.Select(is_far, like(0.25, zero), tirx.Select(is_steep, like(0.5, zero), zero))
    return _turn(pairs, share(multiple), DoubleDouble(share(t.high * sign), share(t.low * sign)))


def _beyond(pairs: DoubleDoubles, angle: DoubleDouble, is_left: Expr) -> DoubleDouble:
    """An angle, or that taken from pi."""
    share, zero = pairs.share, like(0.0, angle.high)
    sign = share(tirx.Select(is_left, like(-1.0, zero), like(1.0, zero)))
    turn = share(tirx.Select(is_left, like(1.0, zero), zero))
    return _turn(pairs, turn, DoubleDouble(share(angle.high * sign), share(angle.low * sign)))


def _turn(pairs: DoubleDoubles, multiple: Expr, angle: DoubleDouble) -> DoubleDouble:
    """``multiple * pi + angle``; a multiple is 0 or a power of 2."""
    high, low = (pairs.share(multiple * like(part, multiple)) for part in _PI)
    total = pairs.sum(high, angle.high)
    return pairs.ordered_sum(total.high, pairs.share(total.low + (low + angle.low)))


def _beside(pairs: DoubleDoubles, size: Expr) -> DoubleDouble:
    """``sqrt(1 - x^2)``."""
    one, share = like(1.0, size), pairs.share
    bounded = share(tirx.Select(size < one, size, one))
    less = pairs.sum(one, share(like(0.0, size) - bounded))
    return pairs.root(pairs.multiply(less, pairs.sum(one, bounded)))


def _sum(value: DoubleDouble) -> Expr:
    return value.high + value.low
