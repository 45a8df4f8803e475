"""PyTorch's operators of order that IREE's front end does not take, by others that it takes."""

from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError

aten = torch.ops.aten


def sort(x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    """The registry's sort is stable; NaN is the largest, which IREE's comparisons do not know."""
    if x.dtype is torch.bool and x.dim():  # whose only bit would be a sign
        places = torch.sort(torch.where(x, 1, 0), dim, descending)[1]
        return x.gather(dim, places), places
    if not x.is_floating_point() or not x.dim():
        return torch.sort(x, dim, descending)
    places = torch.sort(_ordered(x), dim, descending)[1]
    return x.gather(dim, places), places


def _ordered(x: Any) -> Any:
    """Integers in the order of floats, as their bits have it but for signs, zeros and NaN."""
    wide = x if x.itemsize >= 4 else x.float()
    kind = torch.int64 if wide.itemsize == 8 else torch.int32
    most = torch.full((), torch.iinfo(kind).max, dtype=kind)
    bits = torch.where(wide == 0, torch.zeros((), dtype=wide.dtype), wide).view(kind)
    return torch.where(x.isnan(), most, torch.where(bits < 0, torch.bitwise_xor(bits, most), bits))


def argsort(x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    """The places of a sort, as :func:`sort` orders NaN."""
    return sort(x, dim, descending)[1]


def msort(x: Any) -> Any:
    """A sort along the first axis, as :func:`sort` orders NaN."""
    return sort(x, 0)[0]


def topk(
    x: Any, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True, **named: Any
) -> Any:
    """The first of a sort, sorted whether asked or not: IREE has no other; NaN is the largest."""
    if not x.is_floating_point() or not x.dim():
        return torch.topk(x, k, dim, largest)
    places = torch.topk(_ordered(x), k, dim, largest)[1]
    return x.gather(dim, places), places


def _running(name: str, is_later: Callable[[Any, Any], Any]) -> Callable[[Any, int], Any]:
    def running(x: Any, dim: int) -> Any:
        """Values and places, of equal ones the last: what lies 1, 2, 4, ... before is met."""
        if not x.dim():
            return x.clone(), torch.zeros((), dtype=torch.int64)
        extent = x.shape[dim]
        if not isinstance(extent, int):
            raise MlirError(f"{name}: of an axis whose extent a call tells; a number is supported")
        shape = [1] * x.dim()
        shape[dim] = extent
        places = torch.arange(extent).reshape(shape).expand(x.shape)
        step = 1
        while step < extent:
            rest = extent - step
            (a, i), (b, j) = (
                [one.narrow(dim, start, rest) for one in (x, places)] for start in (0, step)
            )
            takes = is_later(b, a)
            if x.is_floating_point():
                takes = b.isnan() | (takes & ~a.isnan())
            met = torch.where(takes, b, a), torch.where(takes, j, i)
            x, places = (
                torch.cat((one.narrow(dim, 0, step), other), dim)
                for one, other in zip((x, places), met, strict=True)
            )
            step *= 2
        return x.clone(), places.clone()

    return running


def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A scatter whose indices are the same along all other axes."""
    if not x.dim():
        line, source = x.reshape(1), source.reshape(-1)
        reduced = index_reduce(
            line, 0, index.reshape(-1), source, reduce, include_self=include_self
        )
        return reduced.reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.long().reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


ORDERS: dict[Any, Callable[..., Any]] = {
    aten.sort.default: sort,
    aten.sort.stable: sort,
    aten.argsort.default: argsort,
    aten.argsort.stable: argsort,
    aten.msort.default: msort,
    aten.topk.default: topk,
    aten.cummax.default: _running("cummax", torch.ge),
    aten.cummin.default: _running("cummin", torch.le),
    aten.index_reduce.default: index_reduce,
}
