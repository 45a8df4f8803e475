"""PyTorch's scatters: of bools, whose sum is "or", and of what data says how many there are."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.operators.torch_copies import put

aten = torch.ops.aten


def _of_bools(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that adds or multiplies; bools as the numbers 0 and 1."""

    def counted(x: Any, *arguments: Any, **named: Any) -> Any:
        if x.dtype is not torch.bool:
            return operator(x, *arguments, **named)
        *others, last = arguments
        rest = []
        for one in (*others, last):
            is_mask = isinstance(one, torch.Tensor) and one.dtype is torch.bool
            rest.append(torch.where(one, 1, 0) if is_mask else one)
        return torch.ne(operator(torch.where(x, 1, 0), *rest, **named), 0)

    return counted


def _masked_put(x: Any, mask: Any, indices: Any, values: Any) -> Any:
    """Values are added where a mask holds."""
    if x.dtype is not torch.bool:
        return aten._unsafe_masked_index_put_accumulate.default(x, mask, indices, values)
    numbers = torch.where(x, 1, 0), mask, list(indices), torch.where(values, 1, 0)
    operator = aten._unsafe_masked_index_put_accumulate.default
    return torch.ne(torch._decomp.decomposition_table[operator](*numbers), 0)


def scatter_reduced(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """The older name of sums and products."""
    if not isinstance(source, torch.Tensor):
        source = torch.full(index.shape, source, dtype=x.dtype)
    way = {"add": "sum", "multiply": "prod"}[reduce]
    return _of_bools(aten.scatter_reduce.two)(x, dim, index, source, way)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Values at places, or added to what is there."""
    if not accumulate or x.dtype is not torch.bool:
        return torch.index_put(x, indices, values, accumulate)
    found = torch.index_put(torch.where(x, 1, 0), indices, torch.where(values, 1, 0), True)
    return torch.ne(found, 0)


def nonzero(x: Any) -> Any:
    """Where elements are not 0; of a tensor without axes a place is without numbers."""
    return x.nonzero() if x.dim() else x.reshape(1).nonzero()[:, :0]


def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first so many places; what is missing is filled up."""
    is_there = torch.ne(x, 0).reshape(-1)
    count = prod(x.shape)
    place = is_there.long().cumsum(0) - 1
    last = torch.full((), size, dtype=torch.int64)
    place = torch.where(torch.logical_and(is_there, place < size), place, last)
    found = torch.zeros(size + 1, dtype=torch.int64).scatter(0, place, torch.arange(count))[:size]
    is_found = torch.arange(size) < is_there.long().sum()
    fill = torch.full((), fill_value, dtype=torch.int64)
    columns, step = [], count
    for extent in x.shape:
        step //= max(extent, 1)
        along = torch.remainder(torch.div(found, step, rounding_mode="floor"), extent)
        columns.append(torch.where(is_found, along, fill))
    if not columns:
        return torch.zeros((size, 0), dtype=torch.int64)
    return torch.stack(columns, 1)


OF_NUMBERS = (
    *(aten.index_add.default, aten.scatter_add.default, aten.scatter_reduce.two),
    *(aten.index_put.default, aten._unsafe_masked_index_put_accumulate.default),
)
"""Taken as they are of all but bools."""

SCATTERS: dict[Any, Callable[..., Any]] = {
    aten.index_add.default: _of_bools(aten.index_add.default),
    aten.scatter_add.default: _of_bools(aten.scatter_add.default),
    aten.scatter_reduce.two: _of_bools(aten.scatter_reduce.two),
    aten.scatter.reduce: scatter_reduced,
    aten.scatter.value_reduce: scatter_reduced,
    aten.put.default: _of_bools(put),
    aten.index_put.default: index_put,
    aten._unsafe_masked_index_put_accumulate.default: _masked_put,
    aten.nonzero.default: nonzero,
    aten.nonzero_static.default: nonzero_static,
}
