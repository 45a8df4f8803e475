"""PyTorch's operators of complex numbers that IREE's front end does not take, by those of parts."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def absolute(x: Any) -> Any:
    """The larger part times what the ratio of the two makes of it: no square overflows."""
    if not x.is_complex():
        return torch.abs(x)
    a, b = x.real.abs(), x.imag.abs()
    less, more = torch.where(a < b, a, b), torch.where(a < b, b, a)
    ratio = less / torch.where(more == 0, torch.ones((), dtype=more.dtype), more)
    found = more * torch.sqrt(1 + ratio * ratio)
    return torch.where(a.isinf() | b.isinf(), torch.full((), torch.inf, dtype=a.dtype), found)


def angle(x: Any) -> Any:
    """By the quadrant of the parts."""
    return torch.atan2(x.imag, x.real) if x.is_complex() else torch.angle(x)


def conjugate(x: Any) -> Any:
    """A real number as it is."""
    return torch.complex(x.real, -x.imag) if x.is_complex() else x


COMPLEX: dict[Any, Callable[..., Any]] = {
    aten.abs.default: absolute,
    aten.angle.default: angle,
    aten.conj.default: conjugate,
    aten._conj.default: conjugate,
    aten.conj_physical.default: conjugate,
    aten._conj_physical.default: conjugate,
}
