"""PyTorch's Bessel functions of the first, second and third kind.

All are computed in float64 and rounded, as ``torch_gamma`` has it.  Near 0 they are integrals of a
whole period, which a sum of equal steps gives to the last digit; far from 0, series of ``1 / x``.
"""

from collections.abc import Callable
from math import inf, nan, pi
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.special_functions.torch_gamma import (
    constant,
    in_double,
    polynomial,
)

aten = torch.ops.aten
_EULER = 0.5772156649015329
_FAR = 25.0  # from where on the series of 1 / x are right to a rounding
_STEPS = 128  # of a period: more than _FAR and the orders that matter together
_ORDERS = 32  # of functions of the first kind that those of the second are made of
_LOW, _HIGH = 2.0, 18.0  # between them functions of the third kind are integrals
_STEP, _COUNT = 0.17, 24  # by which they end where nothing is added


def _line(count: int, begin: int = 0) -> Any:
    return torch.arange(begin, count).to(torch.float64)


def _angles() -> Any:
    """Equal steps of a quarter of a period, the ends with it."""
    return _line(_STEPS // 4 + 1) * (2 * pi / _STEPS)


def _summed(x: Any, order: int, weight: Any) -> Any:
    """Means over a period of ``weight`` times the cosine, or sine for order 1, of ``x sin``.

    ``weight`` is of the angles; a period has each of their sines four times but for sign, and those
    of both ends twice.
    """
    places = _line(_STEPS // 4 + 1)
    is_end = torch.logical_or(places == 0, places == _STEPS // 4)
    weight = weight * torch.where(is_end, constant(2 / _STEPS), constant(4 / _STEPS))
    function = torch.sin if order else torch.cos
    return (function(x.unsqueeze(-1) * torch.sin(_angles())) * weight).sum(-1)


def _first(x: Any, order: int) -> Any:
    """J near 0."""
    return _summed(x, order, torch.sin(_angles()) if order else constant(1))


def _second(x: Any, order: int) -> Any:
    """Y near 0, above it: by J of the same and of all higher even or odd orders."""
    angles, k = _angles().unsqueeze(-1), _line(_ORDERS, 1)
    sign = 1 - 2 * torch.remainder(k, 2)
    if order:
        weights = sign * (2 * k + 1) / (k * (k + 1)) * torch.sin((2 * k + 1) * angles)
    else:
        weights = sign / k * torch.cos(2 * k * angles)
    higher = _summed(x, order, weights.sum(-1))
    found = _first(x, order) * (torch.log(x / 2) + (_EULER - order))
    if order:
        return (found - higher - _first(x, 0) / x) * (2 / pi)
    return (found - 2 * higher) * (2 / pi)


def _terms(order: int, count: int) -> list[float]:
    """The coefficients of ``1 / x`` in Hankel's series."""
    terms = [1.0]
    for place in range(1, count):
        terms.append(terms[-1] * (4 * order * order - (2 * place - 1) ** 2) / (8 * place))
    return terms


def _waves(x: Any, order: int, is_second: bool) -> Any:
    """J or Y far from 0."""
    terms, inverse = _terms(order, 24), 1 / x
    square = inverse * inverse
    even = polynomial(square, [one * (-1) ** k for k, one in enumerate(terms[::2])])
    odd = polynomial(square, [one * (-1) ** k for k, one in enumerate(terms[1::2])]) * inverse
    # Sine and cosine of x less a quarter, or three, of pi: without a difference of large numbers.
    sine, cosine = torch.sin(x), torch.cos(x)
    if order:
        sine, cosine = -(sine + cosine), sine - cosine
    else:
        sine, cosine = sine - cosine, sine + cosine
    found = even * sine + odd * cosine if is_second else even * cosine - odd * sine
    return found / torch.sqrt(pi * x)


def _of_first_kind(order: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        size = x.abs()
        near = _first(torch.where(size < _FAR, size, constant(0)), order)
        is_far = (size >= _FAR) & (size < inf)
        far = _waves(torch.where(is_far, size, constant(_FAR)), order, False)
        found = torch.where(size < _FAR, near, torch.where(is_far, far, constant(nan)))
        return torch.where(x < 0, -found, found) if order else found

    return in_double(function)


def _of_second_kind(order: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        is_near, is_far = (x > 0) & (x < _FAR), (x >= _FAR) & (x < inf)
        near = _second(torch.where(is_near, x, constant(1)), order)
        far = _waves(torch.where(is_far, x, constant(_FAR)), order, True)
        found = torch.where(is_near, near, torch.where(is_far, far, constant(nan)))
        return torch.where(x == 0, constant(-inf), found)

    return in_double(function)


def _logarithmic(x: Any, order: int) -> Any:
    """K near 0, by the series of its logarithm's factor and of the rest."""
    squares, regular, other = x * x / 4, [], []
    factor, harmonic = 1.0, 0.0
    for place in range(20):
        if place:
            factor /= place * (place + order)
            harmonic += 1 / place
        regular.append(factor)
        after = harmonic + 1 / (place + 1) if order else harmonic
        other.append(factor * (harmonic + after - 2 * _EULER) / 2)
    own, rest = polynomial(squares, regular), polynomial(squares, other)
    logarithm = torch.log(x / 2)
    if order:
        return 1 / x + (logarithm * own - rest) * x / 2
    return rest - logarithm * own


def _scaled_third(x: Any, order: int) -> Any:
    """K times ``exp(x)`` between the two ends, by its integral."""
    t = _line(_COUNT) * _STEP
    height = torch.exp(t / 2) - torch.exp(-t / 2)  # its square is 2 (cosh(t) - 1)
    terms = torch.exp(x.unsqueeze(-1) * (height * height * -0.5))
    if order:
        terms = terms * torch.cosh(t)
    return (terms.sum(-1) - 0.5) * _STEP


def _of_third_kind(order: int, is_scaled: bool) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        low = torch.where((x > 0) & (x < _LOW), x, constant(1))
        middle = torch.where((x >= _LOW) & (x < _HIGH), x, constant(_LOW))
        high = torch.where((x >= _HIGH) & (x < inf), x, constant(_HIGH))
        near, between = _logarithmic(low, order), _scaled_third(middle, order)
        far = polynomial(1 / high, _terms(order, 24)) * torch.sqrt(pi / 2 / high)
        if is_scaled:
            near = near * torch.exp(low)
        else:
            between = between * torch.exp(-middle)
            # In halves: the result may be finite where exp(-x) alone is none of float64.
            far = far * torch.exp(-high / 2) * torch.exp(-high / 2)
        found = torch.where(x < _LOW, near, torch.where(x < _HIGH, between, far))
        found = torch.where(x == inf, constant(0), found)
        return torch.where(x == 0, constant(inf), torch.where(x > 0, found, constant(nan)))

    return in_double(function)


BESSEL: dict[Any, Callable[..., Any]] = {
    aten.special_bessel_j0.default: _of_first_kind(0),
    aten.special_bessel_j1.default: _of_first_kind(1),
    aten.special_bessel_y0.default: _of_second_kind(0),
    aten.special_bessel_y1.default: _of_second_kind(1),
    aten.special_modified_bessel_k0.default: _of_third_kind(0, False),
    aten.special_modified_bessel_k1.default: _of_third_kind(1, False),
    aten.special_scaled_modified_bessel_k0.default: _of_third_kind(0, True),
    aten.special_scaled_modified_bessel_k1.default: _of_third_kind(1, True),
}
