"""tanh of float32 and float64 in vectors, on LLVM targets: within 0.75 units in the last place.

    tanh(x) = x + x^3 p(x^2)        up to 0.625
    tanh(x) = 1 - 2 / (e^2x + 1)    beyond, where sum and quotient keep what they are rounded by

Without a fused multiply-add it is within 1.  It never falls where x rises: of float32 all numbers
from 0.001 to 9.5 were tried.  ``scripts/fit_math.py`` prints the polynomials, whose errors are
relative.
"""

import math
from dataclasses import dataclass

from tvm import tirx

from tvm_iree_ext.codegen.float_formats import format_of, integer_of, scalar_of
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr, constant, polynomial


@dataclass(frozen=True)
class Terms:
    """What a format needs.

    Attributes:
        near: ``(tanh(x) - x) / x^3``, in x^2.
        power: ``(e^r - 1 - r) / r^2``, for abs(r) <= log(2) / 2.
        end: from where on 1 is the nearest number.
    """

    near: tuple[float, ...]
    power: tuple[float, ...]
    end: float


_NEAR = 0.625
TERMS = {
    "float32": Terms(
        near=(  # 4.8e-09
            -0.3333333317229855,
            0.13333303576862662,
            -0.05395926362237894,
            0.021768947445804532,
            -0.008344029325054436,
            0.002292830292340785,
        ),
        power=(  # 1.2e-07
            0.49999999552858915,
            0.16666577319917356,
            0.04166685334671507,
            0.008363140379930125,
            0.0013901284962048713,
        ),
        end=9.02,
    ),
    "float64": Terms(
        near=(  # 5.7e-17
            -0.3333333333333333,
            0.13333333333333067,
            -0.05396825396795905,
            0.021869488523285564,
            -0.008863235236480119,
            0.0035921240310387834,
            -0.0014557990942845613,
            0.0005898180826474961,
            -0.00023827530778385098,
            9.451075515401875e-05,
            -3.465003680816462e-05,
            9.980855145029904e-06,
            -1.5407615299976325e-06,
        ),
        power=(  # 5.2e-17
            0.5,
            0.16666666666666652,
            0.0416666666666692,
            0.008333333333331814,
            0.0013888888887160552,
            0.00019841269881435965,
            2.4801590952532408e-05,
            2.7557230846518537e-06,
            2.755425681203173e-07,
            2.5118879172009332e-08,
            2.1781766683569156e-09,
        ),
        end=19.1,
    ),
}


def tanh(x: Expr, share: Share) -> Expr:
    """Hyperbolic tangent."""
    dtype, integer = str(x.ty.dtype), integer_of(x)
    form, terms = format_of(x), TERMS[scalar_of(x)]
    sign = constant(-(1 << (form.bits - 1)), integer)
    others = constant((1 << (form.bits - 1)) - 1, integer)
    words = share(tirx.reinterpret(integer, x))
    size = share(tirx.reinterpret(dtype, words & others))
    square, end = share(size * size), constant(terms.end, dtype)
    near = size + (size * square) * polynomial(square, terms.near)
    far = _far_tanh(share(tirx.Select(size < end, size, end)), terms, share)
    value = share(tirx.Select(size > constant(_NEAR, dtype), far, near))
    return tirx.reinterpret(dtype, tirx.reinterpret(integer, value) | (words & sign))


def _far_tanh(x: Expr, terms: Terms, share: Share) -> Expr:
    """``1 - 2 / (e^2x + 1)`` of what is from 0.625 to where that is 1."""
    dtype = str(x.ty.dtype)
    half, one, two = (constant(value, dtype) for value in (0.5, 1.0, 2.0))
    power, part = _exp_in_parts(share(x + x), terms, share)
    whole = share(one + power)  # exact where the rest counts
    rest = share(power * part)
    divisor = share(whole + rest)
    less = share(rest - (divisor - whole))
    quotient = share(two / divisor)
    missing = share((two - quotient * divisor) - quotient * less)
    difference = share(one - quotient)
    rounded = (one - difference) - quotient
    return share(difference + (rounded - missing * (half * quotient)))


def _exp_in_parts(x: Expr, terms: Terms, share: Share) -> tuple[Expr, Expr]:
    """``2^n`` and ``e^r - 1``, where ``e^x`` is ``2^n e^r``, of what is above 0."""
    dtype, integer, form = str(x.ty.dtype), integer_of(x), format_of(x)
    # The sum has n + bias in its lowest bits; shifted up they are the float 2^n.
    magic = constant(1.5 * 2.0**form.mantissa + form.bias, dtype)
    total = share(x * constant(1.0 / math.log(2.0), dtype) + magic)
    bits = tirx.reinterpret(integer, total) << constant(form.mantissa, integer)
    n = share(total - magic)
    high, low = (constant(part, dtype) for part in form.ln2)
    r = share((x - n * high) - n * low)
    return share(tirx.reinterpret(dtype, bits)), share(r + (r * r) * polynomial(r, terms.power))
