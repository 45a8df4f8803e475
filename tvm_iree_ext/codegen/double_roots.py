"""The cube root of float64: ``2^k y``, where y is a polynomial's value and one step of Newton's."""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDoubles
from tvm_iree_ext.codegen.float_words import (
    like,
    mantissa_and_exponent,
    power_of_2,
    rounding,
    sign_of,
    size_of,
    turned,
)
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr, polynomial

_CBRT = (  # 8.0e-11
    0.3386318064917199,
    1.6954184213676433,
    -3.037365240536148,
    5.008020403844985,
    -6.2676402446611625,
    5.776299182873167,
    -3.8518038825771614,
    1.8071868261849342,
    -0.5659326256483149,
    0.10622776244996865,
    -0.009042409869755083,
)


def cbrt(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Cube root."""
    pairs, size = DoubleDoubles(share, has_fma), share(size_of(x))
    is_small = share(size < like(2.0**-1022, x))
    m, n = mantissa_and_exponent(share(tirx.Select(is_small, size * like(2.0**54, x), size)), share)
    # floor(n / 3), by what rounds to the nearest: n / 3 - 1 / 3 is no half.
    third = n * like(1 / 3, x) - like(1 / 3, x)
    k = share((third + rounding(x)) - rounding(x))
    beyond = share(n - like(3.0, x) * k)
    first, second = (share(tirx.EQ(beyond, like(count, x))) for count in (1.0, 2.0))

    def by_beyond(none: float, one: float, two: float) -> Expr:
        return tirx.Select(second, like(two, x), tirx.Select(first, like(one, x), like(none, x)))

    cube = share(m * by_beyond(1.0, 2.0, 4.0))
    root = share(polynomial(m, _CBRT) * by_beyond(1.0, 2 ** (1 / 3), 4 ** (1 / 3)))
    square = pairs.product(root, root)
    product = pairs.product(square.high, root)
    missing = (cube - product.high) - (product.low + square.low * root)
    value = share(root + missing / (like(3.0, x) * square.high))
    k = tirx.Select(is_small, k - like(18.0, x), k)
    usual = turned(share(value * power_of_2(k)), sign_of(x))
    is_usual = tirx.And(size > like(0.0, x), size < like(math.inf, x))
    return tirx.Select(is_usual, usual, x)
