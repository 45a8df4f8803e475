"""PyTorch's gamma functions and their kin, which IREE's front end does not take.

All are computed in float64 and rounded to the type of their argument: of float32 and narrower types
they are right to an ULP or two, of float64 to 1e-13 beside the larger of the result and 1.  Poles
have the values that PyTorch gives them.
"""

from collections.abc import Callable
from math import factorial, inf, log, nan, pi
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_bits import of_one_shape
from tvm_iree_ext.frontends.torch.base.torch_scalars import elementwise

aten = torch.ops.aten
_TERMS = 10
_SHIFT = 8  # from where on the series of 1 / z are right to a rounding
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors or numbers, computed in float64 and rounded to their common type."""

    def rounded(*operands: Any, **named: Any) -> Any:
        kind = torch.result_type(*operands) if len(operands) > 1 else operands[0].dtype
        if not kind.is_floating_point:
            kind = torch.get_default_dtype()
        wide = [
            one.double()
            if isinstance(one, torch.Tensor)
            else torch.full((), one, dtype=torch.float64)
            for one in operands
        ]
        wide = [one.contiguous() for one in of_one_shape(*wide)]
        return function(*wide, **named).to(kind)

    return rounded


def constant(value: float) -> Any:
    """A number of float64."""
    return torch.full((), value, dtype=torch.float64)


def polynomial(x: Any, coefficients: Any) -> Any:
    """A polynomial, its constant term first, by Horner's rule."""
    *rest, last = coefficients
    found = torch.full_like(x, last)
    for one in reversed(rest):
        found = found * x + one
    return found


def _sine_of_pi(x: Any) -> tuple[Any, Any]:
    """Sine and cosine of ``pi x``, by what is left of ``x`` without its nearest integer."""
    whole = x.round()
    sign = 1 - 2 * (whole - 2 * (whole / 2).floor())
    rest = (x - whole) * pi
    return sign * torch.sin(rest), sign * torch.cos(rest)


def log_gamma(x: Any) -> Any:
    """Stirling's series behind a shift, and the reflection below 1/2; of float64."""
    is_low = x < 0.5
    y = torch.where(is_low, 1 - x, x)
    is_near = y < _SHIFT
    product = torch.ones_like(y)
    for step in range(_SHIFT):
        product = product * (y + step)
    z = torch.where(is_near, y + _SHIFT, y)
    product = torch.where(is_near, product, constant(1))
    series = polynomial(1 / (z * z), _STIRLING) / z
    found = (z - 0.5) * (torch.log(z) - 1) + (0.5 * log(2 * pi) - 0.5) + series - torch.log(product)
    found = torch.where(z > 1e300, torch.where(z.isinf(), z, z * (torch.log(z) - 1)), found)
    reflected = log(pi) - torch.log(_sine_of_pi(x)[0].abs()) - found
    found = torch.where(is_low, reflected, found)
    found = torch.where((x == 1) | (x == 2), constant(0), found)
    is_pole = ((x <= 0) & (x == x.floor())) | x.isinf()
    return torch.where(is_pole, constant(inf), torch.where(x.isnan(), x, found))


def digamma(x: Any) -> Any:
    """The logarithm's series behind a shift, and the reflection below 0; of float64."""
    is_low = x < 0
    y = torch.where(is_low, 1 - x, x)
    before = torch.zeros_like(y)
    for step in range(_SHIFT):
        before = before + 1 / (y + step)
    is_near = y < _SHIFT
    z = torch.where(is_near, y + _SHIFT, y)
    inverse = 1 / (z * z)
    found = torch.log(z) - 0.5 / z - inverse * polynomial(inverse, _DIGAMMA)
    found = found - torch.where(is_near, before, constant(0))
    sine, cosine = _sine_of_pi(x)
    found = torch.where(is_low, found - pi * cosine / sine, found)
    found = torch.where(is_low & (x == x.floor()), constant(nan), found)
    return torch.where(x == 0, elementwise("math.copysign", torch.full_like(x, inf), -x), found)


def _positive_zeta(s: Any, q: Any) -> Any:
    """Of ``q`` above 0: ten terms, and Euler and Maclaurin's for all others."""
    total = torch.zeros_like(s)
    for step in range(_TERMS):
        total = total + torch.pow(q + step, -s)
    a = q + _TERMS
    power = torch.pow(a, -s)
    found = total + power * (a / (s - 1) + 0.5)
    factor = s / a
    for place, number in enumerate(_BERNOULLI, 1):
        found = found + power * factor * (number / factorial(2 * place))
        factor = factor * (s + (2 * place - 1)) * (s + 2 * place) / (a * a)
    return found


def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's; terms below 0, of an integer ``s``, are those of two others above 0."""
    is_low = q <= 0
    size = q.abs()
    steps = torch.where(is_low, size.floor() + 1, constant(0))  # until q is above 0
    least = torch.where(is_low, size - size.floor(), constant(1))
    sign = 1 - 2 * (s - 2 * (s / 2).floor())
    below = sign * (_positive_zeta(s, least) - _positive_zeta(s, size + 1))
    found = _positive_zeta(s, q + steps) + torch.where(is_low, below, constant(0))
    found = torch.where(is_low & torch.ne(s, s.floor()), constant(nan), found)
    found = torch.where((s == 1) | (is_low & (q == q.floor())), constant(inf), found)
    return torch.where((s < 1) | s.isnan() | q.isnan(), constant(nan), found)


def polygamma(order: int, x: Any) -> Any:
    """Derivatives of the digamma function by Hurwitz's zeta."""
    if order == 0:
        return in_double(digamma)(x)
    sign = 1 if order % 2 else -1

    def derivative(x: Any) -> Any:
        return zeta(torch.full_like(x, order + 1), x) * (sign * float(factorial(order)))

    return in_double(derivative)(x)


def mvlgamma(x: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""

    def several(x: Any) -> Any:
        total = torch.full_like(x, p * (p - 1) / 4 * log(pi))
        for step in range(p):
            total = total + log_gamma(x - step / 2)
        return total

    return in_double(several)(x)


GAMMA: dict[Any, Callable[..., Any]] = {
    aten.lgamma.default: in_double(log_gamma),
    aten.digamma.default: in_double(digamma),
    aten.special_digamma.default: in_double(digamma),
    aten.special_psi.default: in_double(digamma),
    aten.special_gammaln.default: in_double(log_gamma),
    aten.polygamma.default: polygamma,
    aten.special_polygamma.default: polygamma,
    aten.mvlgamma.default: mvlgamma,
    aten.special_multigammaln.default: mvlgamma,
    aten.special_zeta.default: in_double(zeta),
    aten.special_zeta.other_scalar: in_double(zeta),
    aten.special_zeta.self_scalar: in_double(zeta),
}
