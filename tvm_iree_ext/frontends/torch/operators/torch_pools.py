"""PyTorch's pools of one image, which IREE's front end takes of batches, and with odd windows."""

from collections.abc import Callable, Sequence
from itertools import product
from math import inf
from typing import Any

import torch

aten = torch.ops.aten


def of_batch(pool: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """A pool of images of a rank, which need not be a batch of them."""

    def pooled(x: Any, *arguments: Any, **named: Any) -> Any:
        if x.dim() != rank + 1:
            return pool(x, *arguments, **named)
        found = pool(x.unsqueeze(0), *arguments, **named)
        if isinstance(found, torch.Tensor):
            return found.squeeze(0)
        return tuple(one.squeeze(0) for one in found)

    return pooled


def _with_places(operator: Any) -> Callable[..., Any]:
    def pooled(x: Any, *arguments: Any, **named: Any) -> Any:
        """The places of NaN and of windows of infinities below zero: IREE has -1 for them."""
        if not x.is_floating_point():  # of which IREE takes none
            where = operator(x.double(), *arguments, **named)[1]
            flat = x.reshape(*x.shape[:2], -1).gather(2, where.reshape(*where.shape[:2], -1))
            return flat.reshape(where.shape), where
        most, _ = operator(x, *arguments, **named)
        least = torch.full((), torch.finfo(x.dtype).min, dtype=x.dtype)
        score = torch.where(x < least, least, x)
        score = torch.where(x.isnan(), torch.full((), inf, dtype=x.dtype), score)
        return most, operator(score, *arguments, **named)[1]

    return pooled


def _most(x: Any, places: Sequence[Any]) -> tuple[Any, Any]:
    """The largest of windows, the first of equal ones, and where it lies in its image.

    ``places`` has the places of each axis: ``[batch or 1, channels or 1, windows, inside]``.
    """
    rank = len(places)
    extents = x.shape[2:]
    shape: list[int] = [*x.shape[:2], *(one.shape[2] for one in places)]
    inside = [one.shape[3] for one in places]
    flat = torch.zeros((1,) * (2 + 2 * rank), dtype=torch.int64)
    for axis, one in enumerate(places):
        spread = [*one.shape[:2], *[1] * (2 * rank)]
        spread[2 + axis], spread[2 + rank + axis] = one.shape[2:]
        flat = flat * extents[axis] + one.reshape(spread)
    flat = flat.expand(*shape, *inside).reshape(*x.shape[:2], -1)
    windows = x.reshape(*x.shape[:2], -1).gather(2, flat).reshape(*shape, -1)
    score = torch.where(windows.isnan(), torch.full((), inf, dtype=x.dtype), windows)
    chosen = torch.argmax(score, -1, keepdim=True)
    where = flat.reshape(*shape, -1).gather(-1, chosen).squeeze(-1)
    return windows.gather(-1, chosen).squeeze(-1), where


def _adaptive(rank: int) -> Callable[..., Any]:
    operator = getattr(aten, f"adaptive_max_pool{rank}d").default

    def pooled(x: Any, sizes: Sequence[int]) -> Any:
        """By the places of each window, where extents are no multiples of their number."""
        extents = x.shape[2:]
        if all(extent % size == 0 for extent, size in zip(extents, sizes, strict=True)):
            return operator(x, sizes)
        places = []
        for extent, size in zip(extents, sizes, strict=True):
            number = torch.arange(size)
            first = torch.div(number * extent, size, rounding_mode="floor")
            end = torch.div((number + 1) * extent + size - 1, size, rounding_mode="floor")
            longest = max(-(-(i + 1) * extent // size) - i * extent // size for i in range(size))
            line = first.unsqueeze(1) + torch.arange(longest)
            line = torch.minimum(line, (end - 1).unsqueeze(1))
            places.append(line.reshape(1, 1, size, longest))
        return _most(x, places)

    return of_batch(pooled, rank)


def _fractional(rank: int) -> Callable[..., Any]:
    def pooled(x: Any, kernel: Sequence[int], sizes: Sequence[int], samples: Any) -> Any:
        """Windows begin where random numbers say; samples are in the order x, y, z."""
        if x.dim() == rank + 1:
            found, where = pooled(x.unsqueeze(0), kernel, sizes, samples)
            return found.squeeze(0), where.squeeze(0)
        places = []
        for axis, (extent, window, size) in enumerate(zip(x.shape[2:], kernel, sizes, strict=True)):
            sample = samples.select(-1, axis if rank == 3 else rank - 1 - axis).unsqueeze(-1)
            last = torch.full((), extent - window, dtype=torch.int64)
            number = torch.arange(size)
            if size > 1:
                ratio = (extent - window) / (size - 1)
                step = torch.full((), ratio, dtype=samples.dtype)
                along = ((number.to(samples.dtype) + sample) * step).trunc()
                begin = (along - (sample * step).trunc()).long()
                begin = torch.where(number == size - 1, last, begin)
            else:
                begin = last.expand(*sample.shape[:-1], 1)
            places.append(begin.unsqueeze(-1) + torch.arange(window))
        return _most(x, places)

    return pooled


def _of_rank_0(operator: Any) -> Callable[..., Any]:
    def applied(x: Any, *arguments: Any, **named: Any) -> Any:
        """IREE's compiler does not end at a softmax of a number."""
        if x.dim():
            return operator(x, *arguments, **named)
        return operator(x.reshape(1), *arguments, **named).reshape(())

    return applied


RANKS = {
    getattr(aten, f"{kind}_pool{rank}d").default: rank
    for kind, rank in product(("avg", "max"), (1, 2, 3))
}
"""Pools that are taken as they are of batches, and of which rank images are."""

OF_AXES = (
    *(aten.softmax.int, aten._softmax.default),
    *(aten.log_softmax.int, aten._log_softmax.default),
)
"""Taken as they are of tensors with axes."""

POOLS: dict[Any, Callable[..., Any]] = {
    **{operator: of_batch(operator, rank) for operator, rank in RANKS.items()},
    **{operator: _of_rank_0(operator) for operator in OF_AXES},
    **{
        operator: of_batch(_with_places(operator), rank)
        for rank, operator in (
            (2, aten.max_pool2d_with_indices.default),
            (3, aten.max_pool3d_with_indices.default),
        )
    },
    **{getattr(aten, f"adaptive_max_pool{rank}d").default: _adaptive(rank) for rank in (1, 2, 3)},
    aten.fractional_max_pool2d.default: _fractional(2),
    aten.fractional_max_pool3d.default: _fractional(3),
}
