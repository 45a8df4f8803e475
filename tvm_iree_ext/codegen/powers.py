"""Powers of any numbers, from those of absolute values: C's special values and signs."""

import math
from collections.abc import Callable

from tvm import tirx

from tvm_iree_ext.codegen.float_words import like, sign_of, size_of, turned
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr


def power_by_size(x: Expr, y: Expr, of_size: Callable[[Expr], Expr], share: Share) -> Expr:
    """``x^y``.

    Args:
        x: numbers of any sign.
        y: exponents.
        of_size: ``size^y`` of what is not negative and not 1; where y is 0, of anything.
        share: what makes values cheap to repeat.
    """
    zero, one, infinity = (like(value, x) for value in (0.0, 1.0, math.inf))
    size = share(size_of(x))
    value = share(of_size(size))
    value = tirx.Select(tirx.EQ(size, one), one, value)  # of an infinite y, too
    # A negative base: an odd power keeps its sign, and one that is not whole is none.
    half = share(y * like(0.5, y))
    is_whole = share(tirx.EQ(tirx.floor(y), y))
    is_odd = share(tirx.And(is_whole, tirx.Not(tirx.EQ(tirx.floor(half), half))))
    signed = tirx.Select(is_odd, turned(share(value), sign_of(x)), value)
    is_none = tirx.And(tirx.And(x < zero, size < infinity), tirx.Not(is_whole))
    signed = tirx.Select(is_none, like(math.nan, x), signed)
    is_one = tirx.Or(tirx.EQ(y, zero), tirx.EQ(x, one))
    is_number = tirx.And(size <= infinity, size_of(y) <= infinity)
    return tirx.Select(is_one, one, tirx.Select(is_number, signed, like(math.nan, x)))
