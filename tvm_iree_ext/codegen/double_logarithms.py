"""Logarithms of float64, and the inverse hyperbolic functions.

log(a / b) = n ln 2 + 2 (s + s^3 p(s^2)),   a / b = 2^n (1 + s) / (1 - s)
asinh(x)   = log(1 + x + x^2 / (1 + sqrt(1 + x^2)))
acosh(x)   = log(1 + t + sqrt(t (t + 2))),  t = x - 1
atanh(x)   = log((1 + x) / (1 - x)) / 2
"""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.float_formats import FORMATS
from tvm_iree_ext.codegen.float_words import (
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

_ATANH = (  # 4.7e-16
    0.3333333333333335,
    0.1999999999994959,
    0.14285714313052697,
    0.11111105557968334,
    0.09091445181079456,
    0.07665842109297953,
    0.0730843663594955,
)

_ATANH_EXACT = (  # 9.2e-16
    0.142857142857143,
    0.11111111111070296,
    0.09090909113053217,
    0.07692303192850192,
    0.0666710112174712,
    0.05860903455206089,
    0.05783204478814987,
)
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
_LN2 = FORMATS["float64"].ln2

_TINY = 2.0**-27
"""Below it, asinh(x) and atanh(x) are x."""

_TINIEST = 2.0**-54
"""Below it, log1p(x) is x."""

_LARGE_EXPONENT = 60
"""From 2^60 on, log(1 + 2^k x) is log(1 + x) + k ln 2, and asinh(2^k x) likewise."""


def log(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Natural logarithm."""
    return _logarithm_of(x, DoubleDoubles(share, has_fma), None)


def log2(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Logarithm to base 2."""
    return _logarithm_of(x, DoubleDoubles(share, has_fma), _LOG2_E)


def log10(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Logarithm to base 10."""
    return _logarithm_of(x, DoubleDoubles(share, has_fma), _LOG10_E)


def log1p(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """``log(1 + x)``."""
    pairs = DoubleDoubles(share, has_fma)
    reduced, more = _reduced(x, share)
    value = _log_of_1_and(pairs, pairs.of(reduced), more)
    usual = tirx.Select(size_of(x) < like(_TINIEST, x), x, value.high + value.low)
    return _where_defined(usual, x, like(-1.0, x))


def asinh(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse hyperbolic sine."""
    pairs, size = DoubleDoubles(share, has_fma), share(size_of(x))
    one = like(1.0, x)
    reduced, more = _reduced(size, share)
    square = pairs.product(reduced, reduced)
    root = pairs.root(pairs.add(pairs.of(one), square))
    rest = pairs.quotient(square, pairs.add(pairs.of(one), root))
    value = _log_of_1_and(pairs, pairs.add(pairs.of(reduced), rest), more)
    usual = tirx.Select(size < like(_TINY, x), size, value.high + value.low)
    return tirx.Select(size < like(math.inf, x), turned(share(usual), sign_of(x)), x)


def acosh(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse hyperbolic cosine."""
    pairs, one = DoubleDoubles(share, has_fma), like(1.0, x)
    reduced, more = _reduced(x, share)
    less = pairs.sum(reduced, like(-1.0, x))
    root = pairs.root(pairs.multiply(less, pairs.sum(reduced, one)))
    value = _log_of_1_and(pairs, pairs.add(root, less), more)
    usual = tirx.Select(x < like(math.inf, x), value.high + value.low, x)
    return tirx.Select(x >= one, usual, like(math.nan, x))


def atanh(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Inverse hyperbolic tangent."""
    pairs, size, one = DoubleDoubles(share, has_fma), share(size_of(x)), like(1.0, x)
    above, below = pairs.sum(one, size), pairs.sum(one, share(like(0.0, x) - size))
    _, n = mantissa_and_exponent(share(above.high / below.high), share)
    lifted = pairs.scaled(below, share(power_of_2(n)))
    less = pairs.add(above, pairs.negated(lifted))
    value = _logarithm(pairs, less, pairs.add(above, lifted), n)
    usual = like(0.5, x) * (value.high + value.low)
    usual = share(tirx.Select(size < like(_TINY, x), size, usual))
    at_end = tirx.Select(tirx.EQ(size, one), like(math.inf, x), like(math.nan, x))
    return turned(share(tirx.Select(size < one, usual, at_end)), sign_of(x))


def _logarithm_of(x: Expr, pairs: DoubleDoubles, unit: tuple[float, float] | None) -> Expr:
    """A logarithm: the natural one times a unit."""
    share = pairs.share
    m, n = _mantissa_and_exponent_of_any(x, share)
    one = like(1.0, x)
    value = _logarithm(pairs, pairs.of(share(m - one)), pairs.sum(one, m), n)
    if unit is not None:
        value = pairs.multiply(value, pairs.constant(*unit, x))
    return _where_defined(value.high + value.low, x, like(0.0, x))


def _mantissa_and_exponent_of_any(x: Expr, share: Share) -> tuple[Expr, Expr]:
    """The same of subnormal numbers, too."""
    is_small = share(x < like(2.0**-1022, x))
    normal = share(tirx.Select(is_small, x * like(2.0**54, x), x))
    m, n = mantissa_and_exponent(normal, share)
    return m, share(tirx.Select(is_small, n - like(54.0, n), n))


def _where_defined(value: Expr, x: Expr, pole: Expr) -> Expr:
    """A logarithm: infinite at the pole and for infinity, and nothing below."""
    infinity = like(math.inf, x)
    at_end = tirx.Select(tirx.EQ(x, pole), like(-math.inf, x), like(math.nan, x))
    return tirx.Select(x > pole, tirx.Select(x < infinity, value, infinity), at_end)


def _reduced(x: Expr, share: Share) -> tuple[Expr, Expr]:
    """A number divided by a power of 2 where it is large, and that power's exponent."""
    _, n = mantissa_and_exponent(share(size_of(x)), share)
    zero, more = like(0.0, x), share(n - like(_LARGE_EXPONENT, x))
    more = share(tirx.Select(more > zero, more, zero))
    return share(x * power_of_2(share(zero - more))), more


def _log_of_1_and(
    pairs: DoubleDoubles, u: DoubleDouble, more: Expr, is_exact: bool = False
) -> DoubleDouble:
    """``log(1 + u) + more ln 2`` of what is above -1; to 2^-65 where that is asked for."""
    share, one = pairs.share, like(1.0, u.high)
    _, n = mantissa_and_exponent(share(one + u.high), share)
    power = share(power_of_2(n))
    above = pairs.add(pairs.sum(one, share(like(0.0, n) - power)), u)
    below = pairs.add(pairs.sum(one, power), u)
    logarithm = _exact_logarithm if is_exact else _logarithm
    return logarithm(pairs, above, below, share(n + more))


def exact_logarithm(pairs: DoubleDoubles, x: Expr) -> DoubleDouble:
    """``log(x)`` to 2^-65, of what is positive and finite."""
    one = like(1.0, x)
    m, n = _mantissa_and_exponent_of_any(x, pairs.share)
    return _exact_logarithm(pairs, pairs.of(pairs.share(m - one)), pairs.sum(one, m), n)


def exact_logarithm_of_1_and(pairs: DoubleDoubles, u: DoubleDouble, more: Expr) -> DoubleDouble:
    """``log(1 + u) + more ln 2`` to 2^-65, of what is above -1."""
    return _log_of_1_and(pairs, u, more, is_exact=True)


def _exact_logarithm(
    pairs: DoubleDoubles, a: DoubleDouble, b: DoubleDouble, n: Expr
) -> DoubleDouble:
    """``2 atanh(a / b) + n ln 2`` to 2^-65, for ``a / b`` of at most 0.172."""
    share = pairs.share
    half = odd_series(pairs, pairs.quotient(a, b), 1, 2, _ATANH_EXACT)
    high, low = (like(part, n) for part in _LN2)
    total = pairs.ordered_sum(share(n * high), share(half.high + half.high))
    low_part = pairs.sum(share(n * low), share(half.low + half.low))
    rest = pairs.sum(total.low, low_part.high)
    total = pairs.ordered_sum(total.high, rest.high)
    return DoubleDouble(total.high, share(total.low + (rest.low + low_part.low)))


def _logarithm(pairs: DoubleDoubles, a: DoubleDouble, b: DoubleDouble, n: Expr) -> DoubleDouble:
    """``2 atanh(a / b) + n ln 2``, for ``a / b`` of at most 0.172."""
    s, share = pairs.quotient(a, b), pairs.share
    square = share(s.high * s.high)
    tail = s.low + (s.high * square) * polynomial(square, _ATANH)
    high, low = (like(part, n) for part in _LN2)
    total = pairs.ordered_sum(share(n * high), share(s.high + s.high))
    return pairs.ordered_sum(total.high, share(total.low + (like(2.0, n) * tail + n * low)))
