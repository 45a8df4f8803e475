"""Operations that move elements and compute none: views, and what puts arrays together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp
from tvm_iree_ext.random_programs.drawing.values import (
    BoundedArray,
    Unsuited,
    exactly,
    joined,
    moved,
)
from tvm_iree_ext.random_programs.drawing.web import Type


def _axes(draft: Draft, rank: int, least: int = 1) -> list[int]:
    count = int(draft.rng.integers(least, rank + 1))
    return sorted(int(axis) for axis in draft.rng.permutation(rank)[:count])


def _draw_slice(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0)
    start, limit, stride = [], [], []
    for extent in draft.type(number).shape:
        if draft.chance(0.5) or extent == 0:
            first, last, step = 0, extent, 1
        else:
            first = int(draft.rng.integers(0, min(extent, 4)))
            last = int(draft.rng.integers(first + 1, extent + 1))
            step = draft.one_of([1, 1, 1, 2, 3])
        start.append(first)
        limit.append(last)
        stride.append(step)
    return [number], {"start": start, "limit": limit, "stride": stride}


def _slice(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    shape = values[0].data.shape
    named = zip(attributes["start"], attributes["limit"], attributes["stride"], shape, strict=True)
    if any(not 0 <= start <= limit <= extent for start, limit, _, extent in named):
        raise Unsuited("a slice beyond its array")
    at = tuple(map(slice, attributes["start"], attributes["limit"], attributes["stride"]))
    return moved(values[0], lambda x: x[at])


def _draw_reverse(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0)
    return [number], {"axes": _axes(draft, draft.type(number).rank)}


def _reverse(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    return moved(values[0], lambda x: np.flip(x, tuple(attributes["axes"])))


def _draw_transpose(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 1)
    rank = draft.type(number).rank
    return [number], {"permutation": [int(a) for a in draft.rng.permutation(rank)]}


def _transpose(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    return moved(values[0], lambda x: np.transpose(x, attributes["permutation"]))


def _draw_broadcast(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank < 4 and t.size < 2000)
    shape = list(draft.type(number).shape)
    axes = list(range(len(shape)))
    for place, extent in enumerate(shape):
        if extent == 1 and draft.chance(0.7):
            shape[place] = int(draft.rng.integers(1, 9))
    if len(shape) < 4:
        place = int(draft.rng.integers(0, len(shape) + 1))
        shape.insert(place, int(draft.rng.integers(1, 8)))
        axes = [axis + (axis >= place) for axis in axes]
    return [number], {"shape": shape, "axes": axes}


def _broadcast(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    shape, axes = attributes["shape"], attributes["axes"]
    held = [1] * len(shape)
    for axis, extent in zip(axes, values[0].data.shape, strict=True):
        held[axis] = extent
        if extent not in (1, shape[axis]):
            raise Unsuited("a broadcast of another extent")
    return moved(values[0], lambda x: np.broadcast_to(x.reshape(held), shape).copy())


def _draw_reshape(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.size > 0)
    left = draft.type(number).size
    shape: list[int] = []
    while left > 1 and len(shape) < 3:
        divisors = [n for n in range(2, left + 1) if left % n == 0]
        shape.append(draft.one_of(divisors))
        left //= shape[-1]
    if left > 1:
        shape[-1] *= left
    if draft.chance(0.3) and len(shape) < 4:
        shape.insert(int(draft.rng.integers(0, len(shape) + 1)), 1)
    return [number], {"shape": shape}


def _reshape(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    if values[0].type.size != Type("", tuple(attributes["shape"])).size:
        raise Unsuited("a reshape of another size")
    return moved(values[0], lambda x: x.reshape(attributes["shape"]))


def _draw_concatenate(draft: Draft) -> Drawn:
    first = draft.pick(lambda t: t.rank > 0)
    type = draft.type(first)
    axis = int(draft.rng.integers(0, type.rank))

    def fits(other: Type) -> bool:
        return (other.dtype, other.rank) == (type.dtype, type.rank) and _but(
            other.shape, axis
        ) == _but(type.shape, axis)

    numbers = [first] + [
        draft.pick(fits) if draft.chance(0.7) else draft.like(type)
        for _ in range(int(draft.rng.integers(1, 3)))
    ]
    return [int(numbers[i]) for i in draft.rng.permutation(len(numbers))], {"axis": axis}


def _but(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], -1, *shape[axis + 1 :])


def _concatenate(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    return joined(values, lambda *arrays: np.concatenate(arrays, attributes["axis"]))


def _draw_pad(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.size < 3000)
    type = draft.type(number)
    low, high, interior = [], [], []
    for extent in type.shape:
        lowest = -(min(extent, 5) // 2)
        is_same = draft.chance(0.4)
        low.append(0 if is_same else int(draft.rng.integers(lowest, 4)))
        high.append(0 if is_same else int(draft.rng.integers(lowest, 4)))
        interior.append(1 if extent > 1 and draft.chance(0.15) else 0)
    if all(one == 0 for one in low + high + interior):
        low[0] = 2
    value = draft.one_of([0, 0, 1, 1 if type.dtype == "bool" else 3])
    return [number], {"low": low, "high": high, "interior": interior, "value": value}


def _pad(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    low, high, interior = (attributes[name] for name in ("low", "high", "interior"))
    held = [n + max(n - 1, 0) * i for n, i in zip(value.data.shape, interior, strict=True)]
    shape = [lo + n + hi for lo, n, hi in zip(low, held, high, strict=True)]
    if min(shape) < 0:
        raise Unsuited("a pad of less than nothing")

    def pad(array: np.ndarray, fill: float) -> np.ndarray:
        spread = np.full(held, fill, array.dtype)
        spread[tuple(slice(None, None, i + 1) for i in interior)] = array
        more = [(max(lo, 0), max(hi, 0)) for lo, hi in zip(low, high, strict=True)]
        wide = np.pad(spread, more, constant_values=np.array(fill, array.dtype))
        cut = (
            slice(max(-lo, 0), n - max(-hi, 0))
            for lo, hi, n in zip(low, high, wide.shape, strict=True)
        )
        return wide[tuple(cut)]

    return BoundedArray(value.dtype, pad(value.data, attributes["value"]), pad(value.error, 0.0))


def _draw_select(draft: Draft) -> Drawn:
    first = draft.pick()
    type = draft.type(first)
    second = draft.like(type)
    return [draft.like(Type("bool", type.shape)), first, second], {}


def _select(values: Sequence[BoundedArray], _: Attributes) -> BoundedArray:
    mask, then, other = values
    if mask.data.shape != then.data.shape or then.type != other.type:
        raise Unsuited("a select of several types")

    def choose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(mask.data, a, b)

    return joined([then, other], choose)


def _draw_constant(draft: Draft) -> Drawn:
    type = draft.type(draft.pick())
    value: Any = draft.one_of([0, 1, 2, 3])
    if type.is_float:
        value = draft.one_of([0.5, -1.25, 2.0, 0.1])
    if type.dtype == "bool":
        value %= 2
    return [], {"dtype": type.dtype, "shape": list(type.shape), "value": value}


def _constant(_: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    array = np.full(attributes["shape"], attributes["value"], numpy_dtype(attributes["dtype"]))
    return exactly(array, attributes["dtype"])


def _draw_iota(draft: Draft) -> Drawn:
    type = draft.type(draft.pick(lambda t: t.rank > 0 and t.dtype != "bool"))
    axis = int(draft.rng.integers(0, type.rank))
    return [], {"dtype": type.dtype, "shape": list(type.shape), "axis": axis}


def _iota(_: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    shape, axis = attributes["shape"], attributes["axis"]
    held = [extent if a == axis else 1 for a, extent in enumerate(shape)]
    places = np.broadcast_to(np.arange(shape[axis]).reshape(held), shape)
    if shape[axis] > 128:
        raise Unsuited("beyond the smallest type")
    return exactly(places.copy(), attributes["dtype"])


OPS = (
    WebOp("slice", _draw_slice, _slice, 2.0),
    WebOp("reverse", _draw_reverse, _reverse, 1.5),
    WebOp("transpose", _draw_transpose, _transpose, 1.5),
    WebOp("broadcast", _draw_broadcast, _broadcast),
    WebOp("reshape", _draw_reshape, _reshape, 1.5),
    WebOp("concatenate", _draw_concatenate, _concatenate, 1.5),
    WebOp("pad", _draw_pad, _pad, 1.5),
    WebOp("select", _draw_select, _select, 1.5),
    WebOp("constant", _draw_constant, _constant, 0.3),
    WebOp("iota", _draw_iota, _iota, 0.3),
)
