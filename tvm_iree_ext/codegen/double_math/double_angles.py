"""Sine, cosine and tangent of float64.

    sin(x) = r + r^3 p(r^2) or 1 - r^2 / 2 + r^4 q(r^2),  x = n pi / 2 + r

Arguments of which multiples of pi / 2 are not exact are the C library's, one call for each number.
"""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_math.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.float_formats import integer_of
from tvm_iree_ext.codegen.float_words import (
    like,
    rarely_beyond,
    rounding,
    sign_of,
    size_of,
    turned,
    words_of,
)
from tvm_iree_ext.codegen.math_calls import Rarely, Share
from tvm_iree_ext.codegen.polynomials import Expr, constant, polynomial

_SIN = (  # 1.9e-16
    -0.16666666666666666,
    0.008333333333330925,
    -0.00019841269836728154,
    2.75573160887302e-06,
    -2.5051129283474017e-08,
    1.5917963195159983e-10,
)
_COS = (  # 5.6e-17
    0.041666666666666664,
    -0.0013888888888887389,
    2.4801587298755183e-05,
    -2.7557317266818897e-07,
    2.087614534219971e-09,
    -1.1382571619475572e-11,
)

# pi / 2 in four parts, the first three of 33 bits: their multiples of up to 2^20 are exact.
_HALF_PI = (
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.478427660348229e-32,
)
_MOST_MULTIPLES = 2.0**20


def sin(x: Expr, share: Share, has_fma: bool = True) -> Rarely:
    """Sine."""
    return _sine(x, DoubleDoubles(share, has_fma), "llvm.sin", 0)


def cos(x: Expr, share: Share, has_fma: bool = True) -> Rarely:
    """Cosine: the sine of the quadrant ahead."""
    return _sine(x, DoubleDoubles(share, has_fma), "llvm.cos", 1)


def tan(x: Expr, share: Share, has_fma: bool = True) -> Rarely:
    """Tangent."""
    pairs = DoubleDoubles(share, has_fma)
    total, *both = _sine_and_cosine(x, pairs)
    sine, cosine = (pairs.ordered_sum(one.high, one.low) for one in both)
    is_odd = share(_bit(total, 0) < constant(0, integer_of(x)))
    zero = like(0.0, x)
    minus = DoubleDouble(zero - cosine.high, zero - cosine.low)
    above = pairs.choice(is_odd, minus, sine)
    value = pairs.quotient(above, pairs.choice(is_odd, sine, cosine))
    return _or_library("llvm.tan", x, turned(share(value.high + value.low), sign_of(x)), share)


def _sine(x: Expr, pairs: DoubleDoubles, library: str, ahead: int) -> Rarely:
    """The sine of ``x + ahead * pi / 2``."""
    share = pairs.share
    total, sine, cosine = _sine_and_cosine(x, pairs)
    total = share(total + like(ahead, x))
    is_odd = share(_bit(total, 0) < constant(0, integer_of(x)))
    value = pairs.choice(is_odd, cosine, sine)
    value = turned(share(value.high + value.low), share(_bit(total, 1)))
    if not ahead:
        value = turned(share(value), sign_of(x))
    return _or_library(library, x, value, share)


def _sine_and_cosine(x: Expr, pairs: DoubleDoubles) -> tuple[Expr, DoubleDouble, DoubleDouble]:
    """Of abs(x) less the nearest ``n pi / 2``, and ``n`` in the lowest bits of a sum."""
    share, magic, zero = pairs.share, rounding(x), like(0.0, x)
    size = share(size_of(x))
    total = share(size * like(2 / math.pi, x) + magic)
    n = share(total - magic)
    first, second, third, last = (like(part, x) for part in _HALF_PI)
    one = pairs.sum(share(size - n * first), share(zero - n * second))
    two = pairs.sum(one.high, share(zero - n * third))
    r = pairs.ordered_sum(two.high, share(two.low + (one.low - n * last)))
    square = share(r.high * r.high)
    half = pairs.product(r.high, share(r.high * like(0.5, x)))
    unit = like(1.0, x)
    tail = r.low * (unit - half.high) + (r.high * square) * polynomial(square, _SIN)
    sine = DoubleDouble(r.high, share(tail))
    top = pairs.ordered_sum(unit, share(zero - half.high))
    tail = (square * square) * polynomial(square, _COS) - r.high * r.low
    cosine = DoubleDouble(top.high, share(top.low + (tail - half.low)))
    return total, sine, cosine


def _bit(total: Expr, place: int) -> Expr:
    """A bit of the integer in a sum's lowest bits, as a sign's bit."""
    word = integer_of(total)
    lifted = words_of(total) << constant(63 - place, word)
    return lifted & constant(-(1 << 63), word)


def _or_library(name: str, x: Expr, usual: Expr, share: Share) -> Rarely:
    """The usual result, and the C library's of lanes whose arguments are large or no numbers."""
    return rarely_beyond(
        x,
        _MOST_MULTIPLES,
        share(usual),
        lambda _share: tirx.call_llvm_pure_intrin(str(x.ty.dtype), name, x),
    )
