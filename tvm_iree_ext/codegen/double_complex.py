"""What the exponent of complex powers, ``b log a``, is more than its float64.

log a = log(1 + u) / 2 + n ln 2 + i angle,   u = (c - 1) (c + 1) + d^2

``c`` and ``d`` are the larger and the smaller absolute value of the parts over ``2^n``, so that
``c`` is near 1.  Nothing cancels near the unit circle but where the angle is far larger.
"""

from tvm import tirx

from tvm_iree_ext.codegen.double_arcs import exact_angle, near_4
from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.double_logarithms import exact_logarithm_of_1_and
from tvm_iree_ext.codegen.float_words import is_negative, like, sign_of, size_of, turned
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr


def power_size_rest(
    re: Expr, im: Expr, x: Expr, y: Expr, exponent: Expr, share: Share, has_fma: bool = True
) -> Expr:
    """That of the real part, ``x log(abs(a)) - y angle``."""
    pairs = DoubleDoubles(share, has_fma)
    size, turn = _logarithm(pairs, re, im)
    less = pairs.negated(pairs.multiply(pairs.of(y), turn))
    return _rest(pairs, pairs.add(pairs.multiply(pairs.of(x), size), less), exponent)


def power_turn_rest(
    re: Expr, im: Expr, x: Expr, y: Expr, exponent: Expr, share: Share, has_fma: bool = True
) -> Expr:
    """That of the imaginary part, ``x angle + y log(abs(a))``."""
    pairs = DoubleDoubles(share, has_fma)
    size, turn = _logarithm(pairs, re, im)
    more = pairs.multiply(pairs.of(y), size)
    return _rest(pairs, pairs.add(pairs.multiply(pairs.of(x), turn), more), exponent)


def _logarithm(pairs: DoubleDoubles, re: Expr, im: Expr) -> tuple[DoubleDouble, DoubleDouble]:
    """The parts of the logarithm to 2^-63 of its absolute value."""
    share, one, half = pairs.share, like(1.0, re), like(0.5, re)
    across, up, exponent = near_4(share(size_of(re)), share(size_of(im)), share)
    turn = exact_angle(pairs, up, across, is_negative(re))
    turn = DoubleDouble(*(share(turned(part, sign_of(im))) for part in (turn.high, turn.low)))
    is_flat, quarter = share(across > up), like(0.25, re)
    most = share(tirx.Select(is_flat, across, up) * quarter)
    least = share(tirx.Select(is_flat, up, across) * quarter)
    square = pairs.multiply(pairs.of(share(most - one)), pairs.sum(one, most))
    less = pairs.add(square, pairs.product(least, least))
    twice = share(exponent + exponent + like(4.0, re))
    size = exact_logarithm_of_1_and(pairs, less, twice)
    return DoubleDouble(share(size.high * half), share(size.low * half)), turn


def _rest(pairs: DoubleDoubles, exact: DoubleDouble, exponent: Expr) -> Expr:
    """Their difference; 0 where the exponent is so large that nothing is known, or no number."""
    rest = pairs.share((exact.high - exponent) + exact.low)
    return tirx.Select(size_of(rest) < like(1.0, rest), rest, like(0.0, rest))
