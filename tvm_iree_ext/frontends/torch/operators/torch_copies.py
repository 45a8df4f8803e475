"""PyTorch's copies of views, scatters into views, and reductions of what has no axes.

IREE's front end takes the views themselves, and reductions of axes.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

aten = torch.ops.aten
_COPIES = """alias as_strided detach diagonal expand narrow permute select slice split
    split_with_sizes squeeze t transpose unbind unfold unsqueeze view view_as_real"""
REDUCTIONS = (
    *(aten.all.dim, aten.any.dim, aten.all.dims, aten.any.dims, aten.amax.default),
    *(aten.amin.default, aten.count_nonzero.default, aten.prod.dim_int),
)


def _copied(view: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*arguments: Any, **named: Any) -> Any:
        found = view(*arguments, **named)
        return [one.clone() for one in found] if isinstance(found, list) else found.clone()

    return copied


def _copies() -> dict[Any, Callable[..., Any]]:
    table = {}
    for name in _COPIES.split():
        packet = getattr(aten, f"{name}_copy", None)
        for overload in packet.overloads() if packet is not None else ():
            view = getattr(getattr(aten, name), overload, None)
            if view is not None:
                table[getattr(packet, overload)] = _copied(view)
    return table


def _placed(x: Any, places: Any, source: Any) -> Any:
    """A tensor whose elements at places, as they lie, are those of another."""
    flat = x.reshape(-1).scatter(0, places.reshape(-1), source.reshape(-1))
    return flat.reshape(x.shape)


def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A tensor with another diagonal."""
    every = torch.arange(prod(x.shape)).reshape(x.shape)
    return _placed(x, torch.diagonal(every, offset, dim1, dim2), source.to(x.dtype))


def _strided(shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    places = torch.full([1] * len(shape), offset, dtype=torch.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [1] * len(shape)
        along[axis] = extent
        places = places + (torch.arange(extent) * stride).reshape(along)
    return places.expand(shape)


def as_strided_scatter(
    x: Any, source: Any, shape: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    """A tensor with other elements at such places of its memory, which is contiguous."""
    return _placed(x, _strided(shape, strides, offset or 0), source)


def as_strided(
    x: Any, shape: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    """The elements at such places of a contiguous tensor's memory."""
    places = _strided(shape, strides, offset or 0)
    return x.reshape(-1).index_select(0, places.reshape(-1)).reshape(shape)


def put(x: Any, places: Any, source: Any, accumulate: bool = False) -> Any:
    """Elements at places of a tensor as one line; counted from the end below 0."""
    places, source = places.reshape(-1), source.reshape(-1)
    places = torch.where(places < 0, places + prod(x.shape), places)
    flat = x.reshape(-1)
    placed = flat.scatter_add if accumulate else flat.scatter
    return placed(0, places, source).reshape(x.shape)


def of_rank_0(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction that may have no axis to reduce."""

    def reduced(x: Any, *arguments: Any, **named: Any) -> Any:
        if x.dim():
            return reduction(x, *arguments, **named)
        if reduction is aten.count_nonzero.default:
            return torch.ne(x, 0).to(torch.int64)
        named.pop("keepdim", None)
        named.pop("dim", None)
        is_listed = reduction not in (aten.all.dim, aten.any.dim, aten.prod.dim_int)
        return reduction(x.reshape(1), [0] if is_listed else 0, **named)

    return reduced


COPIES: dict[Any, Callable[..., Any]] = {
    **_copies(),
    aten.as_strided_scatter.default: as_strided_scatter,
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.put.default: put,
    **{reduction: of_rank_0(reduction) for reduction in REDUCTIONS},
}
