"""PyTorch's error functions, those of the normal distribution, and their inverses.

All are computed in float64 and rounded, as ``torch_gamma`` has it.
"""

from collections.abc import Callable
from math import inf, nan, pi, sqrt
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_scalars import elementwise
from tvm_iree_ext.frontends.torch.special_functions.torch_gamma import (
    constant,
    in_double,
    polynomial,
)

aten = torch.ops.aten
_FAR = 10.0  # from where on the series of 1 / x^2 is right to a rounding
_STEPS = 4  # of Newton's, which doubles the digits of a start that has one


def erfc(x: Any) -> Any:
    """One less the error function, without the difference."""
    return elementwise("math.erfc", x)


def erfcx(x: Any) -> Any:
    """``exp(x^2) erfc(x)``, by a series where the two are too large and too small."""
    inverse = 0.5 / (x * x)
    coefficients, one = [1.0], 1.0
    for place in range(1, 12):
        one *= -(2 * place - 1)
        coefficients.append(one)
    far = polynomial(inverse, coefficients) / (x * sqrt(pi))
    found = torch.where(x > _FAR, far, torch.exp(x * x) * erfc(x))
    return torch.where(x == -inf, constant(inf), found)


def _inverse_of_erfc(q: Any) -> Any:
    """``x`` of ``erfc(x) = q``, for ``q`` from 0 to 1: Newton's steps of its logarithm."""
    bounded = torch.where((q > 0) & (q <= 1), q, constant(0.5))
    depth = -torch.log(bounded)
    deep = torch.sqrt((depth - 0.5 * torch.log(pi * depth.clamp_min(1))).clamp_min(0.25))
    x = torch.where(depth > 1, deep, (1 - bounded) * (sqrt(pi) / 2))
    for _ in range(_STEPS):
        ratio = erfcx(x)
        # log(erfc(x)) without erfc(x), which may be too small to be exact
        x = x + (torch.log(ratio) - x * x + depth) * ratio * (sqrt(pi) / 2)
    return torch.where(q == 0, constant(inf), x)


def _inverse_of_erf(y: Any) -> Any:
    """Near 0 a step beside the error function itself, since ``1 - y`` has lost digits there."""
    size = y.abs()
    x = _inverse_of_erfc(1 - size)
    near = torch.where(size < 0.5, x, constant(0))
    step = (torch.erf(near) - size) * torch.exp(near * near) * (sqrt(pi) / 2)
    x = torch.where(size < 0.5, near - step, x)
    found = elementwise("math.copysign", x, y)
    return torch.where(torch.logical_not(size <= 1), constant(nan), found)


def _normal_inverse(p: Any) -> Any:
    """``x`` below which a normal variable is with probability ``p``."""
    is_low = p < 0.5
    x = _inverse_of_erfc(2 * torch.where(is_low, p, 1 - p)) * sqrt(2)
    found = torch.where(is_low, -x, x)
    is_probability = (p >= 0) & (p <= 1)
    return torch.where(is_probability, found, constant(nan))


def _normal_logarithm(x: Any) -> Any:
    """The logarithm of the probability of a normal variable below ``x``."""
    t = x * sqrt(0.5)
    low = torch.where(x < -1, -t, constant(1))
    found = torch.where(x < -1, torch.log(erfcx(low) / 2) - t * t, torch.log1p(-0.5 * erfc(t)))
    return torch.where(x == -inf, constant(-inf), found)


def _normal(x: Any) -> Any:
    """The probability of a normal variable below ``x``."""
    return 0.5 * erfc(x * -sqrt(0.5))


def spherical_bessel_j0(x: Any) -> Any:
    """``sin(x) / x``."""
    is_zero = x == 0
    found = torch.sin(x) / torch.where(is_zero, constant(1), x)
    found = torch.where(is_zero, constant(1), found)
    return torch.where(x.isinf(), constant(0), found)


def _series(x: Any, order: int) -> Any:
    """``exp(-x)`` times the modified Bessel function of order 0 or 1, for ``x`` from 0 on."""
    square = x * x / 4
    coefficients, one = [1.0], 1.0
    for place in range(1, 50):
        one /= place * (place + order)
        coefficients.append(one)
    near = torch.exp(-x) * polynomial(torch.where(x < 20, square, constant(0)), coefficients)
    near = near * x / 2 if order else near
    coefficients, one = [1.0], 1.0
    for place in range(1, 20):
        one *= ((2 * place - 1) ** 2 - 4 * order * order) / (8 * place)
        coefficients.append(one)
    positive = torch.where(x < 20, constant(20), x)
    far = polynomial(1 / positive, coefficients) / torch.sqrt(2 * pi * positive)
    return torch.where(x < 20, near, far)


def _modified_bessel(order: int, is_scaled: bool) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        size = x.abs()
        found = _series(size, order)
        if not is_scaled:
            # In halves: the result may be finite where exp(x) alone is not.
            found = found * torch.exp(size / 2) * torch.exp(size / 2)
            found = torch.where(size.isinf(), constant(inf), found)
        return torch.where(x < 0, -found, found) if order else found

    return in_double(function)


_I0, _I1 = _modified_bessel(0, False), _modified_bessel(1, False)

ERRORS: dict[Any, Callable[..., Any]] = {
    aten.erfc.default: in_double(erfc),
    aten.special_erfc.default: in_double(erfc),
    aten.erfinv.default: in_double(_inverse_of_erf),
    aten.special_erfinv.default: in_double(_inverse_of_erf),
    aten.special_erfcx.default: in_double(erfcx),
    aten.special_ndtr.default: in_double(_normal),
    aten.special_ndtri.default: in_double(_normal_inverse),
    aten.special_log_ndtr.default: in_double(_normal_logarithm),
    aten.special_spherical_bessel_j0.default: in_double(spherical_bessel_j0),
    aten.i0.default: _I0,
    aten.special_i0.default: _I0,
    aten.special_i0e.default: _modified_bessel(0, True),
    aten.special_i1.default: _I1,
    aten.special_i1e.default: _modified_bessel(1, True),
    aten.special_modified_bessel_i0.default: _I0,
    aten.special_modified_bessel_i1.default: _I1,
}
