"""Exponentials of float64 less 1, and the hyperbolic functions.

expm1(x) = 2^n (r + r^2 / 2 + r^3 p(r) + 1 - 2^-n),  x = n ln 2 + r
sinh(x)  = x + x^3 p(x^2) up to 1, and (e^x - e^-x) / 2 beyond
"""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.float_formats import FORMATS
from tvm_iree_ext.codegen.float_words import (
    clamped,
    like,
    power_of_2,
    rounding,
    sign_of,
    size_of,
    turned,
)
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr, polynomial

_EXP = (  # 1.1e-16
    0.16666666666666669,
    0.04166666666666666,
    0.008333333333330072,
    0.001388888888890059,
    0.00019841269863010393,
    2.480158727499828e-05,
    2.7557268519988317e-06,
    2.7557329823314415e-07,
    2.5100359525784044e-08,
    2.089387737553687e-09,
)
_SINH = (  # 5.9e-17
    0.16666666666666666,
    0.0083333333333333,
    0.0001984126984132363,
    2.755731919164941e-06,
    2.5052117640774845e-08,
    1.6057684781650132e-10,
    7.745999294389263e-13,
)

_LN2 = FORMATS["float64"].ln2

_MOST = 720.0
"""The exponential of more is infinite, even halved."""

_LEAST = -40.0
"""e^x - 1 of less is -1."""

_TINIEST = 2.0**-54
"""Below it, e^x - 1 is x."""


def expm1(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """``e^x - 1``."""
    pairs, zero, least = DoubleDoubles(share, has_fma), like(0.0, x), like(_LEAST, x)
    bounded = share(clamped(x, _MOST))
    bounded = share(tirx.Select(bounded < least, least, bounded))
    n, part = exp_less_1(pairs, pairs.of(bounded))
    # 2^-n, of which nothing is left from n = 120 on.
    less = share(tirx.Select(n < like(120.0, n), zero - n, like(-120.0, n)))
    above = pairs.sum(like(1.0, x), share(zero - power_of_2(less)))
    value = scaled(pairs.add(above, part), n, share)
    return tirx.Select(size_of(x) < like(_TINIEST, x), x, value)


def sinh(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Hyperbolic sine."""
    size = share(size_of(x))
    square = share(size * size)
    near = size + (size * square) * polynomial(square, _SINH)
    far = _half_power(DoubleDoubles(share, has_fma), size, -1.0)
    return turned(share(tirx.Select(size > like(1.0, x), far, near)), sign_of(x))


def cosh(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Hyperbolic cosine."""
    return _half_power(DoubleDoubles(share, has_fma), share(size_of(x)), 1.0)


def exp_less_1(pairs: DoubleDoubles, x: DoubleDouble) -> tuple[Expr, DoubleDouble]:
    """``n`` and ``e^r - 1``, where ``e^x`` is ``2^n e^r``, for ``n`` within the exponents."""
    share, magic = pairs.share, rounding(x.high)
    n = share((x.high * like(1 / math.log(2), magic) + magic) - magic)
    high, low = (like(part, magic) for part in _LN2)
    r = pairs.ordered_sum(share(x.high - n * high), share(x.low - n * low))
    half_square = pairs.product(r.high, share(r.high * like(0.5, magic)))
    cube = r.high * half_square.high * like(2.0, magic)
    tail = r.low * (like(1.0, magic) + r.high) + (half_square.low + cube * polynomial(r.high, _EXP))
    total = pairs.ordered_sum(r.high, half_square.high)
    return n, pairs.ordered_sum(total.high, share(total.low + tail))


def exp(pairs: DoubleDoubles, x: DoubleDouble) -> tuple[Expr, DoubleDouble]:
    """``n`` and ``e^r``, where ``e^x`` is ``2^n e^r``, for ``n`` within the exponents."""
    n, part = exp_less_1(pairs, x)
    total = pairs.ordered_sum(like(1.0, n), part.high)
    return n, DoubleDouble(total.high, pairs.share(total.low + part.low))


def scaled(value: DoubleDouble, n: Expr, share: Share) -> Expr:
    """``2^n value``, rounded once more where that is subnormal, for ``n`` from -2000 to 2000."""
    half = share((n * like(0.5, n) + rounding(n)) - rounding(n))
    once = share((value.high + value.low) * power_of_2(half))
    return once * power_of_2(share(n - half))


def _half_power(pairs: DoubleDoubles, size: Expr, sign: float) -> Expr:
    """``(e^x + sign e^-x) / 2``."""
    share = pairs.share
    n, power = exp(pairs, pairs.of(share(clamped(size, _MOST))))
    # 2^-2n, of which nothing is left from n = 40 on.
    less = share(tirx.Select(n < like(40.0, n), n, like(40.0, n)) * like(-2.0, n))
    other = pairs.quotient(pairs.of(share(power_of_2(less) * like(sign, n))), power)
    return scaled(pairs.add(power, other), share(n - like(1.0, n)), share)
