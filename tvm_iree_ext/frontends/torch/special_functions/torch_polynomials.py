"""PyTorch's orthogonal polynomials: by their recurrences, as long as any degree asks for more.

All are computed in float64 and rounded, as ``torch_gamma`` has it.
"""

from collections.abc import Callable
from math import nan
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_loops import repeated_while
from tvm_iree_ext.frontends.torch.special_functions.torch_gamma import constant, in_double

aten = torch.ops.aten
_MOST = 512  # from which degree on PyTorch gives NaN for Hermite's


def _recurrence(x: Any, n: Any, first: Any, step: Callable[..., Any]) -> Any:
    """Of degrees ``n``: 1, ``first``, and ``step(k, x, p, q)`` of the two before each."""

    def goes_on(k: Any, p: Any, q: Any, *given: Any) -> Any:
        return (k < given[1]).any()

    def next_one(k: Any, p: Any, q: Any, x: Any, n: Any) -> Any:
        found = step(k, x, p, q)
        return k + 1, torch.where(k < n, q, p), torch.where(k < n, found, q)

    state = constant(1), torch.ones_like(x), first
    found = repeated_while(goes_on, next_one, state, (x, n))[2]
    return torch.where(n < 0, constant(0), torch.where(n == 0, constant(1), found))


def _is_even(n: Any) -> Any:
    return torch.remainder(n, 2) == 0


def _degrees(n: Any) -> Any:
    """Whole numbers; what is no number counts as below 0."""
    return torch.where(n.isnan(), constant(-1), n.trunc())


def _sizes(kind: str, n: Any) -> tuple[Any, Any]:
    """The values of Chebyshev's polynomials at 1 and, but for the sign of odd ones, at -1."""
    one, twice = torch.ones_like(n), 2 * n + 1
    return {"t": (one, one), "u": (n + 1, n + 1), "v": (one, twice), "w": (twice, one)}[kind]


def _of_angle(kind: str, angle: Any, n: Any) -> Any:
    """By the angle whose cosine they are of; between the ends."""
    if kind == "t":
        return torch.cos(n * angle)
    if kind == "u":
        return torch.sin((n + 1) * angle) / torch.sin(angle)
    if kind == "v":
        return torch.cos((n + 0.5) * angle) / torch.cos(angle / 2)
    return torch.sin((n + 0.5) * angle) / torch.sin(angle / 2)


def _chebyshev(kind: str, is_shifted: bool) -> Callable[..., Any]:
    def function(x: Any, n: Any) -> Any:
        n = _degrees(n)
        x = 2 * x - 1 if is_shifted else x
        first = {"t": x, "u": 2 * x, "v": 2 * x - 1, "w": 2 * x + 1}[kind]
        is_inside = (x > -1) & (x < 1)
        angle = torch.acos(torch.where(is_inside, x, constant(0)))
        inside = _of_angle(kind, angle, n)
        outside = torch.where(is_inside, constant(0), n)
        found = _recurrence(x, outside, first, lambda k, x, p, q: 2 * x * q - p)
        found = torch.where(is_inside, inside, found)
        above, below = _sizes(kind, n)
        found = torch.where(x == 1, above, found)
        found = torch.where(x == -1, torch.where(_is_even(n), below, -below), found)
        return torch.where(n < 0, constant(0), torch.where(n == 0, constant(1), found))

    return in_double(function)


@in_double
def _hermite_h(x: Any, n: Any) -> Any:
    n = _degrees(n)
    degree = torch.where(n > _MOST, constant(0), n)
    found = _recurrence(x, degree, 2 * x, lambda k, x, p, q: 2 * (x * q - k * p))
    return torch.where(n > _MOST, constant(nan), found)


@in_double
def _hermite_he(x: Any, n: Any) -> Any:
    n = _degrees(n)
    degree = torch.where(n > _MOST, constant(0), n)
    found = _recurrence(x, degree, x, lambda k, x, p, q: x * q - k * p)
    return torch.where(n > _MOST, constant(nan), found)


@in_double
def _laguerre(x: Any, n: Any) -> Any:
    def step(k: Any, x: Any, p: Any, q: Any) -> Any:
        return ((2 * k + 1 - x) * q - k * p) / (k + 1)

    return _recurrence(x, _degrees(n), 1 - x, step)


@in_double
def _legendre(x: Any, n: Any) -> Any:
    def step(k: Any, x: Any, p: Any, q: Any) -> Any:
        return ((2 * k + 1) * x * q - k * p) / (k + 1)

    return _recurrence(x, _degrees(n), x, step)


def _table() -> dict[Any, Callable[..., Any]]:
    functions = {
        "hermite_polynomial_h": _hermite_h,
        "hermite_polynomial_he": _hermite_he,
        "laguerre_polynomial_l": _laguerre,
        "legendre_polynomial_p": _legendre,
    }
    for kind in "tuvw":
        functions[f"chebyshev_polynomial_{kind}"] = _chebyshev(kind, False)
        functions[f"shifted_chebyshev_polynomial_{kind}"] = _chebyshev(kind, True)
    table = {}
    for name, function in functions.items():
        packet = getattr(aten, f"special_{name}")
        for overload in ("default", "x_scalar", "n_scalar"):
            table[getattr(packet, overload)] = function
    return table


POLYNOMIALS = _table()
