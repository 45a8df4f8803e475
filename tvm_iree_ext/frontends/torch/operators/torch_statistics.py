"""PyTorch's order statistics, searches and counts, by sorts and gathers."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.operators.torch_floats import equal
from tvm_iree_ext.frontends.torch.operators.torch_orders import sort

aten = torch.ops.aten
Pair = tuple[Any, Any]


def _taken(x: Any, dim: int, places: Any, keepdim: bool) -> Pair:
    """The elements of a sort at places along a dim, and where they lie in the tensor."""
    values, order = sort(x, dim)
    found = values.gather(dim, places), order.gather(dim, places)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _of_axes(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """What takes a tensor of some axes, for one that may have none."""

    def of_any(x: Any, *arguments: Any, dim: int = -1, keepdim: bool = False) -> Pair:
        if x.dim():
            return function(x, *arguments, dim=dim, keepdim=keepdim)
        value, place = function(x.reshape(1), *arguments, dim=0, keepdim=False)
        return value, place

    return of_any


def _places(x: Any, dim: int, place: Any) -> Any:
    shape = list(x.shape)
    shape[dim] = 1
    return torch.full(shape, place, dtype=torch.int64)


@_of_axes
def _kth(x: Any, k: int, *, dim: int, keepdim: bool) -> Pair:
    return _taken(x, dim, _places(x, dim, k - 1), keepdim)


@_of_axes
def _median(x: Any, ignores_nan: bool, *, dim: int, keepdim: bool) -> Pair:
    """The lower of the two in the middle; without ``ignores_nan`` a NaN where there is one."""
    last = x.shape[dim] - 1
    if not x.is_floating_point():
        return _taken(x, dim, _places(x, dim, last // 2), keepdim)
    missing = x.isnan().sum(dim, keepdim=True)
    middle = torch.div(last - missing, 2, rounding_mode="floor").clamp_min(0)
    if not ignores_nan:
        middle = torch.where(missing > 0, last + 1 - missing, last // 2)
    return _taken(x, dim, middle, keepdim)


@_of_axes
def _mode(x: Any, *, dim: int, keepdim: bool) -> Pair:
    """The least of the most frequent, and the last of its places."""
    values, _ = sort(x, dim)
    extent = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = extent
    places = torch.arange(extent).reshape(shape).expand(x.shape)
    before = torch.cat((values.narrow(dim, 0, 1), values.narrow(dim, 0, extent - 1)), dim)
    starts = torch.where(torch.ne(values, before), places, torch.zeros_like(places))
    step = 1
    while step < extent:  # the run that a place lies in starts at the last start before it
        rest = extent - step
        later = torch.maximum(starts.narrow(dim, step, rest), starts.narrow(dim, 0, rest))
        starts = torch.cat((starts.narrow(dim, 0, step), later), dim)
        step *= 2
    chosen = torch.argmax(places - starts, dim, keepdim=True)
    return _taken(x, dim, chosen, keepdim)


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The ``k``-th smallest; NaN is the largest."""
    return _kth(x, k, dim=dim, keepdim=keepdim)


def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Pair:
    """As PyTorch: the least of the most frequent."""
    return _mode(x, dim=dim, keepdim=keepdim)


def _median_along(ignores_nan: bool) -> Callable[..., Pair]:
    def along(x: Any, dim: int, keepdim: bool = False) -> Pair:
        return _median(x, ignores_nan, dim=dim, keepdim=keepdim)

    return along


def _median_of_all(ignores_nan: bool) -> Callable[[Any], Any]:
    def of_all(x: Any) -> Any:
        if x.numel() == 0:
            return torch.full((), nan, dtype=x.dtype)
        return _median(x.reshape(-1), ignores_nan, dim=0)[0]

    return of_all


def _quantile(ignores_nan: bool) -> Callable[..., Any]:
    def quantile(
        x: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = ""
    ) -> Any:
        """Between the two elements that enclose the place of a quantile."""
        if not isinstance(q, torch.Tensor):
            q = torch.full((), q, dtype=x.dtype)
        rank, several = x.dim(), q.dim()
        if dim is None or not rank:
            moved = x.reshape(-1)
            shape = [1] * rank if keepdim else []
        else:
            moved = x.movedim(dim, -1)
            shape = list(moved.shape[:-1])
            if keepdim:
                shape.insert(dim % rank, 1)
        values = sort(moved)[0]
        last = torch.full((), moved.shape[-1] - 1, dtype=x.dtype)
        missing = moved.isnan().sum(-1, keepdim=True).to(x.dtype)
        most = (last - missing).clamp_min(0) if ignores_nan else last.expand(missing.shape)
        place = q.reshape(-1) * most  # the quantiles are the last axis
        if not ignores_nan:
            place = torch.where(missing > 0, last, place)
        found = _between(values, place, interpolation)
        return found.movedim(-1, 0).reshape([*q.shape, *shape] if several else shape)

    return quantile


def _between(values: Any, place: Any, interpolation: str) -> Any:
    def at(place: Any) -> Any:
        return values.gather(-1, place.to(torch.int64))

    if interpolation == "lower":
        return at(place.floor())
    if interpolation == "higher":
        return at(place.ceil())
    if interpolation == "nearest":
        return at(place.round())
    low, high = at(place.floor()), at(place.ceil())
    part = place - place.floor()
    if interpolation == "midpoint":
        part = torch.full_like(part, 0.5)
    return torch.lerp(low, high, part)


def searchsorted(
    line: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many elements of a sorted line lie before each value, by halving."""
    is_right = right or side == "right"
    if sorter is not None:
        line = line.gather(-1, sorter)
    if not isinstance(values, torch.Tensor):
        values = torch.full((), values, dtype=torch.result_type(line, values))
    extent = line.shape[-1]
    if not isinstance(extent, int):
        raise MlirError("searchsorted: the line's extent is told by a call; a number is supported")
    kind = torch.result_type(line, values)
    line, wanted = line.to(kind), values.to(kind)
    if line.dim() == 1:
        wanted = wanted.reshape(-1)
    found = torch.zeros_like(wanted, dtype=torch.int64)
    step = 1 << (max(extent, 1).bit_length() - 1)
    while step and extent:
        ahead = found + step
        there = line.gather(-1, (ahead - 1).clamp_max(extent - 1))
        passed = torch.logical_not(there > wanted if is_right else there >= wanted)
        found = torch.where((ahead <= extent) & passed, ahead, found)
        step //= 2
    return found.reshape(values.shape).to(torch.int32 if out_int32 else torch.int64)


def bucketize(values: Any, bounds: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The same, of bounds for values."""
    return searchsorted(bounds, values, out_int32=out_int32, right=right)


def isin(elements: Any, others: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether an element is one of others, which are sorted."""
    tensors = [
        one if isinstance(one, torch.Tensor) else torch.full((), one, dtype=other.dtype)
        for one, other in ((elements, others), (others, elements))
    ]
    kind = torch.result_type(*tensors)
    wanted, line = tensors[0].to(kind), sort(tensors[1].to(kind).reshape(-1))[0]
    if line.shape[0] == 0:
        return torch.full(wanted.shape, invert)
    place = searchsorted(line, wanted).clamp_max(line.shape[0] - 1).reshape(-1)
    found = equal(line.gather(0, place).reshape(wanted.shape), wanted)
    return torch.logical_not(found) if invert else found


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Of whole numbers of any type as of those of 64 bits."""
    return torch.bincount(x.to(torch.int64), weights, minlength)


def histc(x: Any, bins: int = 100, least: float = 0, most: float = 0) -> Any:
    """Counts of a range's equal parts; of an empty range, of all that there is."""
    flat = x.reshape(-1)
    low, high = (torch.full((), one, dtype=x.dtype) for one in (least, most))
    if least == most and flat.shape[0]:
        low, high = flat.amin(), flat.amax()
    if least == most:
        is_point = low == high
        low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    place = ((flat - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, place, inside.to(x.dtype))


def _histogram(x: Any, bounds: Any, *, weight: Any = None, density: bool = False) -> Pair:
    """Counts, or sums of weights, between bounds; the last part has its upper bound too."""
    flat, parts = x.reshape(-1), bounds.shape[0] - 1
    place = searchsorted(bounds, flat, right=True) - 1
    inside = (flat >= bounds[0]) & (flat <= bounds[-1])
    amount = torch.ones_like(flat) if weight is None else weight.reshape(-1)
    amount = torch.where(inside, amount, torch.zeros((), dtype=amount.dtype))
    counts = torch.zeros(parts, dtype=x.dtype).scatter_add(0, place.clamp(0, parts - 1), amount)
    if density:
        counts = counts / counts.sum() / (bounds[1:] - bounds[:-1])
    return counts, bounds


def _histogram_of_parts(
    x: Any,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> Pair:
    """The same between equal parts of a range, or of all that there is."""
    if range is None and x.numel():
        low, high = x.amin(), x.amax()
    else:
        low, high = (torch.full((), one, dtype=x.dtype) for one in range or (0.0, 1.0))
    is_point = low == high
    low, high = torch.where(is_point, low - 0.5, low), torch.where(is_point, high + 0.5, high)
    part = torch.arange(bins + 1, dtype=x.dtype)
    step = (high - low) / bins
    # As torch.linspace: each half from its own end.
    bounds = torch.where(part < (bins + 1) // 2, low + step * part, high - step * (bins - part))
    return _histogram(x, bounds, weight=weight, density=density)


def _unique(x: Any, is_sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    """How many they are, data says."""
    flat = x.reshape(-1)
    values, order = sort(flat, 0)
    places, found, counted = _runs(values, counts)
    group = torch.zeros_like(order).scatter(0, order, found).reshape(x.shape)
    nothing = torch.zeros(0, dtype=torch.int64)
    return values.index_select(0, places), group if inverse else nothing, counted


def _consecutive(
    x: Any, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    """Likewise, of neighbours."""
    if dim is not None and not (x.dim() == 1 and dim in (0, -1)):
        raise MlirError("unique_consecutive: along a dim of several; of all elements is supported")
    places, found, counted = _runs(x.reshape(-1), counts)
    nothing = torch.zeros(0, dtype=torch.int64)
    return (
        x.reshape(-1).index_select(0, places),
        found.reshape(x.shape) if inverse else nothing,
        counted,
    )


def _runs(values: Any, counts: bool) -> tuple[Any, Any, Any]:
    """Where runs of equal ones begin, which run each is in, and how long the runs are."""
    if values.shape[0] < 2:
        first = torch.ones(values.shape[0], dtype=torch.bool)
    else:
        differs = torch.ne(values[1:], values[:-1])
        first = torch.cat((torch.ones(1, dtype=torch.bool), differs))
    places = first.nonzero().squeeze(1)
    group = first.to(torch.int64).cumsum(0) - 1
    if not counts:
        return places, group, torch.zeros(0, dtype=torch.int64)
    lengths = torch.zeros_like(group).scatter_add(0, group, torch.ones_like(group))
    return places, group, lengths.index_select(0, group.index_select(0, places))


STATISTICS: dict[Any, Callable[..., Any]] = {
    aten.kthvalue.default: kthvalue,
    aten.median.default: _median_of_all(False),
    aten.median.dim: _median_along(False),
    aten.nanmedian.default: _median_of_all(True),
    aten.nanmedian.dim: _median_along(True),
    aten.mode.default: mode,
    aten.quantile.default: _quantile(False),
    aten.quantile.scalar: _quantile(False),
    aten.nanquantile.default: _quantile(True),
    aten.nanquantile.scalar: _quantile(True),
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted,
    aten.bucketize.Tensor: bucketize,
    aten.bucketize.Scalar: bucketize,
    aten.isin.Tensor_Tensor: isin,
    aten.isin.Tensor_Scalar: isin,
    aten.isin.Scalar_Tensor: isin,
    aten.bincount.default: bincount,
    aten.histc.default: histc,
    aten.histogram.bin_ct: _histogram_of_parts,
    aten.histogram.bins_tensor: _histogram,
    aten._unique2.default: _unique,
    aten.unique_consecutive.default: _consecutive,
}
