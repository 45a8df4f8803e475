"""Inverse tangents, circular and hyperbolic, to more digits than float64 has."""

from fractions import Fraction

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.float_words import like
from tvm_iree_ext.codegen.polynomials import polynomial


def odd_series(
    pairs: DoubleDoubles, s: DoubleDouble, sign: int, exact: int, tail: tuple[float, ...]
) -> DoubleDouble:
    """``s + sign s^3 / 3 + s^5 / 5 + ...``, whose last term, with a polynomial, alone is float64.

    Args:
        pairs: the arithmetic.
        s: the argument, so small that terms fall.
        sign: 1 for the hyperbolic function, -1 for the circular one.
        exact: how many terms behind the first are computed with all digits.
        tail: the coefficients of ``p``, where ``s^(2 exact + 3) p(s^2)`` is the last term.
    """
    share, square = pairs.share, pairs.multiply(s, s)
    terms = [s]
    for odd in range(3, 2 * exact + 3, 2):
        factor = Fraction(sign * (odd - 2), odd)
        high = float(factor)
        constant = pairs.constant(high, float(factor - Fraction(high)), s.high)
        terms.append(pairs.multiply(pairs.multiply(terms[-1], square), constant))
    power = terms[-1].high * like(sign**exact * (2.0 * exact + 1), s.high) * square.high
    last = share(power * polynomial(square.high, tail))
    total = pairs.ordered_sum(terms[-1].high, share(terms[-1].low + last))
    for term in reversed(terms[:-1]):
        total = pairs.add(term, total)
    return total
