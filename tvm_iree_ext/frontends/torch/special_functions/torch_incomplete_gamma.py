"""PyTorch's incomplete gamma functions: a series below the mean, a continued fraction above it.

Both go on until no element changes, in float64.
"""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_loops import repeated_while
from tvm_iree_ext.frontends.torch.special_functions.torch_gamma import (
    constant,
    in_double,
    log_gamma,
)

aten = torch.ops.aten
_ROUNDING = 2.0**-53
_MOST = 20000.0  # steps, of which so many are taken for arguments of 1e7


def _series(a: Any, x: Any) -> Any:
    """The sum of ``x^n / ((a + 1) ... (a + n))``."""

    def goes_on(n: Any, term: Any, total: Any, a: Any, x: Any) -> Any:
        return torch.logical_and((term > total * _ROUNDING).any(), n < _MOST)

    def step(n: Any, term: Any, total: Any, a: Any, x: Any) -> Any:
        term = term * (x / (a + n))
        return n + 1, term, total + term

    one = torch.ones_like(a)
    return repeated_while(goes_on, step, (constant(1), one, one), (a, x))[2]


def _fraction(a: Any, x: Any) -> Any:
    """Lentz's of ``1 / (x + 1 - a - (1 - a) / (x + 3 - a - ...))``."""

    def goes_on(n: Any, c: Any, d: Any, found: Any, change: Any, a: Any, x: Any) -> Any:
        return torch.logical_and(((change - 1).abs() > 2 * _ROUNDING).any(), n < _MOST)

    def step(n: Any, c: Any, d: Any, found: Any, change: Any, a: Any, x: Any) -> Any:
        factor, own = (a - n) * n, x + 1 - a + 2 * n
        d = 1 / (own + factor * d)
        c = own + factor / c
        return n + 1, c, d, found * (c * d), c * d

    first = 1 / (x + 1 - a)
    begin = torch.full_like(a, 1e300)
    state = constant(1), begin, first, first, torch.zeros_like(a)
    return repeated_while(goes_on, step, state, (a, x))[3]


def _parts(a: Any, x: Any) -> tuple[Any, Any]:
    """The lower and the upper part of what is 1 together."""
    is_inside = (a > 0) & (x > 0) & (a < inf) & (x < inf)
    is_low = x < a + 1
    own, other = (torch.where(is_inside, one, constant(1)) for one in (a, x))
    scale = torch.exp(own * torch.log(other) - other - log_gamma(own))
    low = torch.where(is_inside & is_low, other, constant(0.5))
    below = _series(torch.where(is_inside & is_low, own, constant(1)), low)
    high = is_inside & torch.logical_not(is_low)
    above = _fraction(torch.where(high, own, constant(1)), torch.where(high, other, constant(3)))
    lower, upper = scale * below / own, scale * above
    lower, upper = torch.where(is_low, lower, 1 - upper), torch.where(is_low, 1 - lower, upper)
    # At the ends: nothing lies below 0, and all above what is 0 wide; both infinite say nothing.
    is_none = (x == 0) | ((a == inf) & (x < inf))
    is_all = ((a == 0) & (x > 0)) | ((x == inf) & (a < inf))
    is_wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | ((a == inf) & (x == inf))
    is_wrong = is_wrong | a.isnan() | x.isnan()
    zero, one, none = constant(0), constant(1), constant(nan)
    lower = torch.where(is_none, zero, torch.where(is_all, one, lower))
    upper = torch.where(is_none, one, torch.where(is_all, zero, upper))
    return torch.where(is_wrong, none, lower), torch.where(is_wrong, none, upper)


def _part(place: int) -> Callable[..., Any]:
    return in_double(lambda a, x: _parts(a, x)[place])


INCOMPLETE_GAMMA: dict[Any, Callable[..., Any]] = {
    aten.igamma.default: _part(0),
    aten.special_gammainc.default: _part(0),
    aten.igammac.default: _part(1),
    aten.special_gammaincc.default: _part(1),
}
