"""The error function of float64 and its complement.

erf(x)  = 2 x / sqrt(pi) + x^3 p(x^2)  near 0
erfc(x) = e^-x^2 t p(t),  t = 2 / (2 + x)
"""

import math

from tvm import tirx

from tvm_iree_ext.codegen.double_double import DoubleDouble, DoubleDoubles
from tvm_iree_ext.codegen.double_exponentials import exp, scaled
from tvm_iree_ext.codegen.float_words import (
    like,
    power_of_2,
    sign_of,
    size_of,
    turned,
)
from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import Expr, polynomial

_ERF = (  # 4.0e-17
    -0.37612638903183754,
    0.11283791670955115,
    -0.026866170645117628,
    0.005223977624800134,
    -0.0008548326875245757,
    0.00012055313990616938,
    -1.4924229550582538e-05,
    1.6400258600104337e-06,
    -1.4905996489604576e-07,
)
_ERFCX = (  # 2.1e-17
    0.5278537790010516,
    0.18429092394588265,
    -0.13444100266138176,
    -0.13523362865399377,
    0.06660227552541136,
    0.09248347130139528,
    -0.0659295961677105,
    -0.05943840726047553,
    0.08200418897890042,
    0.017787883353810926,
    -0.09300473374141056,
    0.041399777925975316,
    0.07312136395918246,
    -0.10607112973473846,
    0.003552202297621237,
    0.13050580930223465,
    -0.12924000275661332,
    -0.05606684573245813,
    0.21821404401965286,
    -0.09141849668010506,
    -0.15242360972525,
    0.130317239136864,
)
_ERFCX_FIRST = (
    (0.46998907617851965, -1.737433981408021e-17),
    (0.6191604927113871, 1.4799359654427136e-17),
)
_ERFCX_MIDDLE = 0.4375  # of t, from which the polynomial counts
_SLOPE = (1.1283791670955126, 1.533545961316588e-17)  # 2 / sqrt(pi)

_NEAR = 0.47
"""Up to where erf's series is taken."""

_TINY = 2.0**-500

_END, _ERFC_END = 6.0, 28.0
"""From where on erf is 1, and erfc 0."""


def erf(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """The error function."""
    pairs = DoubleDoubles(share, has_fma)
    size = share(size_of(x))
    high, rest = _near(pairs, size)
    bounded = share(tirx.Select(size < like(_END, x), size, like(_END, x)))
    n, value = _far_complement(pairs, bounded)
    complement = pairs.scaled(value, share(power_of_2(n)))
    total = pairs.ordered_sum(like(1.0, x), share(like(0.0, x) - complement.high))
    far = total.high + (total.low - complement.low)
    # Parts of products of what is tiny are subnormal; its erf is linear.
    near = tirx.Select(size < like(_TINY, x), size * like(_SLOPE[0], x), high + rest)
    value = tirx.Select(size < like(_NEAR, x), near, far)
    value = turned(share(value), sign_of(x))
    return tirx.Select(size <= like(math.inf, x), value, x)


def erfc(x: Expr, share: Share, has_fma: bool = True) -> Expr:
    """Complement of the error function."""
    pairs, size = DoubleDoubles(share, has_fma), share(size_of(x))
    bounded = share(tirx.Select(size < like(_ERFC_END, x), size, like(_ERFC_END, x)))
    n, value = _far_complement(pairs, bounded)
    far = share(scaled(value, n, share))
    zero, one, two = (like(value, x) for value in (0.0, 1.0, 2.0))
    high, rest = _near(pairs, x)
    total = pairs.ordered_sum(one, share(zero - high))
    value = tirx.Select(x < zero, two - far, far)
    value = tirx.Select(size < like(_NEAR, x), total.high + (total.low - rest), value)
    return tirx.Select(size <= like(math.inf, x), value, x)


def _near(pairs: DoubleDoubles, x: Expr) -> tuple[Expr, Expr]:
    """erf of what is near 0, as the sum of two."""
    linear = pairs.product(x, like(_SLOPE[0], x))
    square = pairs.share(x * x)
    rest = x * (like(_SLOPE[1], x) + square * polynomial(square, _ERF))
    return linear.high, pairs.share(linear.low + rest)


def _far_complement(pairs: DoubleDoubles, x: Expr) -> tuple[Expr, DoubleDouble]:
    """``n`` and ``y``, where erfc is ``2^n y``, of what is from 0.46 to 28."""
    share, two = pairs.share, like(2.0, x)
    n, power = exp(pairs, pairs.negated(pairs.product(x, x)))
    t = pairs.quotient(pairs.of(two), pairs.sum(two, x))
    u = pairs.sum(t.high, like(-_ERFCX_MIDDLE, x))
    u = DoubleDouble(u.high, share(u.low + t.low))
    value = pairs.of(share(polynomial(u.high, _ERFCX)))
    for first in reversed(_ERFCX_FIRST):
        value = pairs.add(pairs.constant(*first, x), pairs.multiply(u, value))
    return n, pairs.multiply(pairs.multiply(power, t), value)
