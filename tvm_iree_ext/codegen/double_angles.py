"""Sine, cosine and tangent of float64.

    sin(x) = r + r^3 p(r^2) or 1 - r^2 / 2 + r^4 q(r^2),  x = n pi / 2 + r

Of arguments that are so large that multiples of pi / 2 are not exact, a branch calls the C library,
or takes what their product with 1,166 bits of 2 / pi has beyond a multiple of 4.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
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
_HALF_PI_LOW = 6.123233995736766e-17  # what pi / 2 is more than its nearest float64
_MOST_MULTIPLES = 2.0**20


_TWO_BY_PI = (
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef158"
    "6dc91b8e909374b801924bba827464873f877ac72c4a69cfba208d7d4baed121"
    "3a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603"
    "fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5e"
    "cf41ce7de294a4ba9afed7ec47e357421580"
)
"""The first 1,166 bits behind the point of 2 / pi, in hexadecimal digits."""

_PIECE = 53
_BITS = 22 * _PIECE
_SCALE = 200
"""Numbers from 2^20 on are divided by 2^200 and the pieces multiplied by it: none is subnormal."""


def sin(x: Expr, share: Share, has_fma: bool = True, library: str = "") -> Rarely:
    """Sine."""
    return _or_far(x, DoubleDoubles(share, has_fma), functools.partial(_sine, 0), library)


def cos(x: Expr, share: Share, has_fma: bool = True, library: str = "") -> Rarely:
    """Cosine: the sine of the quadrant ahead."""
    return _or_far(x, DoubleDoubles(share, has_fma), functools.partial(_sine, 1), library)


def tan(x: Expr, share: Share, has_fma: bool = True, library: str = "") -> Rarely:
    """Tangent."""
    return _or_far(x, DoubleDoubles(share, has_fma), _tangent, library)


def _or_far(
    x: Expr,
    pairs: DoubleDoubles,
    function: Callable[[Expr, Expr, DoubleDouble, DoubleDoubles], Expr],
    library: str,
) -> Rarely:
    """A function of the angle, its quadrants and its rest; large angles have another way.

    Args:
        x: the angle.
        pairs: the arithmetic.
        function: what is computed.
        library: LLVM's name of the function for large angles, where there is a C library.
    """

    def far(share: Share) -> Expr:
        if library:
            return tirx.call_llvm_pure_intrin(str(x.ty.dtype), library, x)
        inner = replace(pairs, share=share)
        return function(x, *_far_rest(size_of(x), inner), inner)

    share = pairs.share
    usual = function(x, *_rest(share(size_of(x)), pairs), pairs)
    return rarely_beyond(x, _MOST_MULTIPLES, share(usual), far)


def _tangent(x: Expr, total: Expr, r: DoubleDouble, pairs: DoubleDoubles) -> Expr:
    share = pairs.share
    sine, cosine = (pairs.ordered_sum(one.high, one.low) for one in _sine_and_cosine(r, pairs))
    is_odd = share(_bit(total, 0) < constant(0, integer_of(x)))
    above = pairs.choice(is_odd, pairs.negated(cosine), sine)
    value = pairs.quotient(above, pairs.choice(is_odd, sine, cosine))
    return turned(share(value.high + value.low), sign_of(x))


def _sine(ahead: int, x: Expr, total: Expr, r: DoubleDouble, pairs: DoubleDoubles) -> Expr:
    """The sine of ``x + ahead * pi / 2``."""
    share = pairs.share
    total = share(total + like(ahead, x))
    is_odd = share(_bit(total, 0) < constant(0, integer_of(x)))
    sine, cosine = _sine_and_cosine(r, pairs)
    value = pairs.choice(is_odd, cosine, sine)
    value = turned(share(value.high + value.low), share(_bit(total, 1)))
    return value if ahead else turned(share(value), sign_of(x))


def _rest(size: Expr, pairs: DoubleDoubles) -> tuple[Expr, DoubleDouble]:
    """The quadrants nearest to an angle, in the lowest bits of a sum, and what is beyond them."""
    share, magic, zero = pairs.share, rounding(size), like(0.0, size)
    total = share(size * like(2 / math.pi, size) + magic)
    n = share(total - magic)
    first, second, third, last = (like(part, size) for part in _HALF_PI)
    one = pairs.sum(share(size - n * first), share(zero - n * second))
    two = pairs.sum(one.high, share(zero - n * third))
    return total, pairs.ordered_sum(two.high, share(two.low + (one.low - n * last)))


def _far_rest(size: Expr, pairs: DoubleDoubles) -> tuple[Expr, DoubleDouble]:
    """The same of any angle, but for multiples of 4 quadrants (Payne and Hanek).

    The products with pieces of 2 / pi are exact, and so is what they have beyond a multiple of 4.
    Three numbers hold their sum: what is left may be as small as 2^-62, and has 53 digits, too.
    """
    share, zero = pairs.share, like(0.0, size)
    scaled = share(size * like(2.0**-_SCALE, size))
    digits = int(_TWO_BY_PI, 16)
    high = middle = low = zero
    for place in range(_PIECE, _BITS + 1, _PIECE):
        piece = (digits >> (_BITS - place)) & ((1 << _PIECE) - 1)
        product = pairs.product(scaled, like(math.ldexp(piece, _SCALE - place), size))
        one = pairs.sum(high, _beyond_fours(product.high, share))
        two = pairs.sum(middle, one.low)
        three = pairs.sum(two.high, _beyond_fours(product.low, share))
        high, middle, low = one.high, three.high, share(low + (two.low + three.low))
    whole = pairs.sum(high, middle)
    fraction = pairs.sum(whole.low, low)
    total = share(whole.high + rounding(size))
    turns = pairs.sum(share(whole.high - (total - rounding(size))), fraction.high)
    turns = pairs.ordered_sum(turns.high, share(turns.low + fraction.low))
    half_pi = pairs.constant(math.pi / 2, _HALF_PI_LOW, size)
    return total, pairs.multiply(turns, half_pi)


def _beyond_fours(x: Expr, share: Share) -> Expr:
    return share(x - like(4.0, x) * tirx.nearbyint(x * like(0.25, x)))


def _sine_and_cosine(r: DoubleDouble, pairs: DoubleDoubles) -> tuple[DoubleDouble, DoubleDouble]:
    """Of at most ``pi / 4``."""
    share, unit, zero = pairs.share, like(1.0, r.high), like(0.0, r.high)
    square = share(r.high * r.high)
    half = pairs.product(r.high, share(r.high * like(0.5, unit)))
    tail = r.low * (unit - half.high) + (r.high * square) * polynomial(square, _SIN)
    sine = DoubleDouble(r.high, share(tail))
    top = pairs.ordered_sum(unit, share(zero - half.high))
    tail = (square * square) * polynomial(square, _COS) - r.high * r.low
    cosine = DoubleDouble(top.high, share(top.low + (tail - half.low)))
    return sine, cosine


def _bit(total: Expr, place: int) -> Expr:
    """A bit of the integer in a sum's lowest bits, as a sign's bit."""
    word = integer_of(total)
    lifted = words_of(total) << constant(63 - place, word)
    return lifted & constant(-(1 << 63), word)
