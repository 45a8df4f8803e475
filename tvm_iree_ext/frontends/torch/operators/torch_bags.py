"""PyTorch's bags of embeddings, by a gather of rows and a reduction of those of each bag."""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvm_iree_ext.frontends.torch.operators.torch_orders import index_reduce

aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)  # PyTorch's numbers of the modes


def bags(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    length: Any = None,
) -> tuple[Any, ...]:
    """``embedding_bag``; what it gives beside the result is for the backward pass alone.

    Bags of one ``length`` are reduced along an axis.  Rows of others are scattered to their bags,
    those that do not count to one more, which is dropped.
    """
    indices = indices.long()
    if length is not None:
        indices = indices.reshape(indices.shape[0] // length, length)
    rows, is_read = weight[indices], None
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(indices.shape).unsqueeze(-1)
    if padding_idx is not None and padding_idx >= 0:
        is_read = indices != padding_idx
    if length is not None:
        found = _along(rows, is_read, mode)
    else:
        count = offsets.shape[0] - include_last_offset
        found = _scattered(rows, is_read, offsets[:count], mode)
    return (found, *(indices.new_zeros(0) for _ in range(3)))


def _along(rows: Any, is_read: Any, mode: int) -> Any:
    """The reductions of bags of one length: bags, places, columns."""
    if is_read is None:
        return (rows.sum, rows.mean, rows.amax)[mode](1)
    is_read = is_read.unsqueeze(2)
    zero, least = (torch.full((), one, dtype=rows.dtype) for one in (0, -torch.inf))
    rows = torch.where(is_read, rows, least if mode == _MAX else zero)
    if mode == _MAX:
        return torch.where(is_read.any(1), rows.amax(1), zero)
    sums = rows.sum(1)
    return sums / is_read.to(rows.dtype).sum(1).clamp(min=1) if mode == _MEAN else sums


def _scattered(rows: Any, is_read: Any, offsets: Any, mode: int) -> Any:
    """The reductions of bags that begin at offsets."""
    count, total = offsets.shape[0], rows.shape[0]
    begun = torch.zeros(total + 1, dtype=torch.int64)
    begun = begun.index_add(0, offsets.long(), torch.ones_like(offsets, dtype=torch.int64))
    bag = (begun.cumsum(0) - 1)[:total]
    if is_read is not None:
        bag = torch.where(is_read, bag, torch.full((), count, dtype=bag.dtype))
    none = rows.new_zeros(count + 1, rows.shape[1])
    if mode == _MAX:
        return index_reduce(none, 0, bag, rows, "amax", include_self=False)[:count]
    sums = none.index_add(0, bag, rows)[:count]
    if mode == _SUM:
        return sums
    read = rows.new_zeros(count + 1).index_add(0, bag, torch.ones_like(bag, dtype=rows.dtype))
    return sums / read[:count].clamp(min=1).unsqueeze(1)


def tell_length(node: Any) -> None:
    """Add their length to a node of a graph whose bags have all the same.

    That is where the offsets are 0, ``length``, ``2 * length`` and so on, as PyTorch writes them
    for indices of rank 2.
    """
    indices, offsets = node.args[1], node.args[2]
    includes_last = len(node.args) > 7 and node.args[7]
    if offsets.target is not aten.arange.start_step or includes_last:
        return
    start, end, length = (getattr(one, "meta", {"val": one})["val"] for one in offsets.args)
    (total,) = indices.meta["val"].shape
    conditions = start == 0, end == total, total % length == 0
    if all(map(statically_known_true, conditions)):
        node.kwargs = {**node.kwargs, "length": offsets.args[2]}


BAGS: dict[Any, Callable[..., Any]] = {
    aten.embedding_bag.default: bags,
    aten.embedding_bag.padding_idx: bags,
    aten._embedding_bag.default: bags,
    aten._embedding_bag_forward_only.default: bags,
}
