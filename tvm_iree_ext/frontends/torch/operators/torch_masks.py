"""Indices and values selected by masks in PyTorch's tensors.

How many these are, data says; left to itself, IREE's compiler does not end at some of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def masked_select(x: Any, mask: Any) -> Any:
    """The elements where a mask holds."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    return index(x.expand(shape), [mask.expand(shape)])


def index(x: Any, indices: Sequence[Any]) -> Any:
    """Index with masks: as many axes as a mask has become one, along which it selects."""
    places = list(indices)
    for axis, one in enumerate(indices):
        if one is not None and one.dtype in (torch.bool, torch.uint8):
            x = x.reshape(*x.shape[:axis], one.numel(), *x.shape[axis + one.dim() :])
            places[axis] = one.reshape(-1).nonzero().squeeze(1)
    return aten.index.Tensor(x, places)


MASKS: dict[Any, Callable[..., Any]] = {
    aten.index.Tensor: index,
    aten.masked_select.default: masked_select,
}
