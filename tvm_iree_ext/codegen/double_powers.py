"""Powers of float64: ``e^(y log x)``, whose exponent has 65 digits."""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.double_exponentials import exp, scaled
from tvm_iree_ext.codegen.double_logarithms import exact_logarithm
from tvm_iree_ext.codegen.float_words import clamped, like, size_of
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr
from tvm_iree_ext.codegen.powers import power_by_size

_MOST_POWER = 2.0**70
"""A number next to 1 to a larger one is 0 or infinite."""

_MOST = 750.0
"""The exponential of more is infinite, and that of less than its negative 0."""


def power(x: Expr, y: Expr, share: Share, has_fma: bool = True) -> Expr:
    """``x^y``, with C's special values."""
    pairs = DoubleDoubles(share, has_fma)

    def of_size(size: Expr) -> Expr:
        zero, infinity = like(0.0, size), like(math.inf, size)
        exponent = pairs.of(share(clamped(y, _MOST_POWER)))
        product = pairs.multiply(exact_logarithm(pairs, size), exponent)
        high = share(clamped(product.high, _MOST))
        is_within = size_of(high) < like(_MOST, size)
        low = share(tirx.Select(is_within, product.low, zero))
        n, value = exp(pairs, DoubleDouble(high, low))
        usual = scaled(value, n, share)
        of_zero = tirx.Select(y < zero, infinity, zero)
        of_infinity = tirx.Select(y < zero, zero, infinity)
        usual = tirx.Select(tirx.EQ(size, infinity), of_infinity, usual)
        return tirx.Select(tirx.EQ(size, zero), of_zero, usual)

    return power_by_size(x, y, of_size, share)
