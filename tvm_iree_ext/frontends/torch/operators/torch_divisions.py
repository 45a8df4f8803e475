"""PyTorch's divisions with a rest, by C's remainder, which is exact."""

from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_scalars import elementwise
from tvm_iree_ext.frontends.torch.operators.torch_floats import in_floats

aten = torch.ops.aten


def _is_float(a: Any, b: Any) -> bool:
    kind: torch.dtype = torch.result_type(a, b)
    return kind.is_floating_point


def _in_float32(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of tensors of one type, computed in float32 where that has 16 bits."""

    def wide(a: Any, b: Any) -> Any:
        return function(a.float(), b.float()).to(a.dtype) if a.itemsize == 2 else function(a, b)

    return in_floats(wide)


@_in_float32
def _rest(a: Any, b: Any) -> Any:
    return elementwise("arith.remf", a, b)


@_in_float32
def _floor(a: Any, b: Any) -> Any:
    """Python's: the quotient of what the rest leaves, which is whole but for a rounding.

    IREE folds a comparison of constant floats with an integer wrongly: zeros are floats.
    """
    rest = elementwise("arith.remf", a, b)
    one, zero = (torch.full((), value, dtype=a.dtype) for value in (1, 0))
    quotient = torch.div(torch.add(a, torch.neg(rest)), b)
    is_beyond = torch.logical_and(torch.ne(rest, 0.0), torch.ne(rest < 0.0, b < 0.0))
    quotient = torch.where(is_beyond, quotient - one, quotient)
    whole = torch.floor(quotient)
    whole = torch.where(torch.add(quotient, torch.neg(whole)) > 0.5, whole + one, whole)
    signed = elementwise("math.copysign", zero.expand(a.shape), torch.div(a, b))
    whole = torch.where(quotient == 0.0, signed, whole)
    return torch.where(b == 0.0, torch.div(a, b), whole)


def _as_tensors(a: Any, b: Any) -> tuple[Any, Any]:
    kind = torch.result_type(a, b)
    a, b = (
        one.to(kind) if isinstance(one, torch.Tensor) else torch.full((), one, dtype=kind)
        for one in (a, b)
    )
    return a, b


def fmod(a: Any, b: Any) -> Any:
    """The rest with the sign of what is divided."""
    return _rest(a, b) if _is_float(a, b) else torch.fmod(*_as_tensors(a, b))


def remainder(a: Any, b: Any) -> Any:
    """The rest with the sign of the divisor."""
    return torch.remainder(*_as_tensors(a, b))


def floor_divide(a: Any, b: Any) -> Any:
    """The quotient rounded down."""
    if not _is_float(a, b):
        return torch.floor_divide(*_as_tensors(a, b))
    return _floor(a, b)


def divided(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    """The same, or rounded to 0, or not."""
    if rounding_mode == "floor":
        return floor_divide(a, b)
    return torch.div(a, b, rounding_mode=rounding_mode)


DIVISIONS: dict[Any, Callable[..., Any]] = {
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod,
    aten.remainder.Scalar_Tensor: remainder,
    aten.floor_divide.default: floor_divide,
    aten.floor_divide.Scalar: floor_divide,
    aten.div.Tensor_mode: divided,
    aten.div.Scalar_mode: divided,
}
