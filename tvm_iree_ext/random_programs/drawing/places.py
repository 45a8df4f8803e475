"""Operations whose places are computed: gathers, scatters, slices that move, sorts."""

from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp
from tvm_iree_ext.random_programs.drawing.values import (
    BoundedArray,
    Unsuited,
    apart,
    exactly,
    moved,
    steps_of,
    summed,
)
from tvm_iree_ext.random_programs.drawing.web import Type


def _indices(draft: Draft, shape: tuple[int, ...], extent: int) -> int:
    """Integers of the program, some beyond the extent, or an input of those within."""
    if draft.chance(0.5):
        return draft.like(Type("int32", shape))
    return draft.fresh(Type("int32", shape), "whole", -1 if draft.chance(0.3) else 0, extent)


def _draw_take(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: 0 < t.rank < 4 and min(t.shape) > 0)
    type = draft.type(number)
    axis = int(draft.rng.integers(0, type.rank))
    count = int(draft.rng.integers(1, 9))
    shape = (count,) if draft.chance(0.7) else (2, count)
    return [number, _indices(draft, shape, type.shape[axis] - 1)], {"axis": axis}


def _take(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    value, places = values
    axis = attributes["axis"]
    if value.data.shape[axis] == 0 or places.dtype != "int32":
        raise Unsuited("an element of nothing")
    at = np.clip(places.data, 0, value.data.shape[axis] - 1)
    return moved(value, lambda x: np.take(x, at, axis))


def _draw_scatter(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool" and min(t.shape) > 0)
    type = draft.type(number)
    extent = type.shape[0]
    count = int(draft.rng.integers(1, 9))
    kind = draft.one_of(["set", "add", "max"])
    if kind == "set":
        count = min(count, extent)
        full = draft.fresh(Type("int32", (extent,)), "permutation", 0, extent - 1)
        at = full
        if count < extent:
            bounds = {"start": [0], "limit": [count], "stride": [1]}
            at = draft.add("slice", [full], bounds)
    else:
        at = draft.fresh(Type("int32", (count,)), "whole", 0, extent - 1)
    return [number, at, draft.like(Type(type.dtype, (count, *type.shape[1:])))], {"kind": kind}


def _scatter(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    value, places, updates = values
    kind, at = attributes["kind"], places.data
    if updates.dtype != value.dtype or updates.data.shape[1:] != value.data.shape[1:]:
        raise Unsuited("updates of another type")
    if len(at) != len(updates.data) or (at.size and (at.min() < 0 or at.max() >= len(value.data))):
        raise Unsuited("a scatter beyond its array")
    if kind == "set" and len(set(at.tolist())) < len(at):
        raise Unsuited("two writes to one place")
    data, error = value.data.copy(), value.error.copy()
    if kind == "set":
        data[at], error[at] = updates.data, updates.error
        return BoundedArray(value.dtype, data, error)
    if kind == "max":
        np.maximum.at(data, at, updates.data)
        np.maximum.at(error, at, updates.error)
        return BoundedArray(value.dtype, data, error)
    sizes, step = np.abs(data), steps_of(data, updates.data)
    with np.errstate(over="ignore"):
        np.add.at(data, at, updates.data)
        np.add.at(sizes, at, np.abs(updates.data))
    np.add.at(error, at, updates.error)
    return summed(value.dtype, data, error, sizes, len(at) + 1, step)


def _draw_dynamic_slice(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and min(t.shape) > 0)
    shape = draft.type(number).shape
    sizes = [int(draft.rng.integers(1, extent + 1)) for extent in shape]
    return [number, *_starts(draft, shape)], {"sizes": sizes}


def _starts(draft: Draft, shape: Sequence[int]) -> list[int]:
    return [_indices(draft, (), extent - 1) for extent in shape]


def _window_at(
    places: Sequence[BoundedArray], sizes: Sequence[int], shape: Sequence[int]
) -> tuple[slice, ...]:
    named = list(zip(places, sizes, shape, strict=True))
    if any(size > extent or at.type != Type("int32", ()) for at, size, extent in named):
        raise Unsuited("a slice larger than its array")
    firsts = [int(np.clip(at.data, 0, extent - size)) for at, size, extent in named]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def _dynamic_slice(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    value, *places = values
    at = _window_at(places, attributes["sizes"], value.data.shape)
    return moved(value, lambda x: x[at])


def _draw_dynamic_update(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and min(t.shape) > 0)
    type = draft.type(number)
    sizes = tuple(int(draft.rng.integers(1, extent + 1)) for extent in type.shape)
    update = draft.like(Type(type.dtype, sizes))
    return [number, update, *_starts(draft, type.shape)], {}


def _dynamic_update(values: Sequence[BoundedArray], _: Attributes) -> BoundedArray:
    value, update, *places = values
    if value.dtype != update.dtype:
        raise Unsuited("updates of another type")
    at = _window_at(places, update.data.shape, value.data.shape)
    data, error = value.data.copy(), value.error.copy()
    data[at], error[at] = update.data, update.error
    return BoundedArray(value.dtype, data, error)


def _draw_sort(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool")
    axis = int(draft.rng.integers(0, draft.type(number).rank))
    return [number], {"axis": axis, "descending": draft.chance(0.4)}


def _sort(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    axis = attributes["axis"]
    data = np.sort(value.data, axis)
    if attributes["descending"]:
        data = np.flip(data, axis)
    most = np.max(value.error, axis, keepdims=True, initial=0.0)
    return BoundedArray(value.dtype, data, np.broadcast_to(most, data.shape).copy())


def _argsort(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    """The places of a stable sort."""
    (value,) = values
    axis = attributes["axis"]
    keys = value.data.astype("float64") * (-1 if attributes["descending"] else 1)
    order = np.argsort(keys, axis, kind="stable")
    if value.is_float:
        steps = np.diff(np.take_along_axis(value.data, order, axis), axis=axis)
        error = np.take_along_axis(value.error, order, axis)
        pairs = np.max(error, axis, keepdims=True, initial=0.0)
        apart(steps, np.broadcast_to(2 * pairs, steps.shape))
    return exactly(order, "int32")


OPS = (
    WebOp("take", _draw_take, _take, 1.5),
    WebOp("scatter", _draw_scatter, _scatter, 1.5),
    WebOp("dynamic_slice", _draw_dynamic_slice, _dynamic_slice, 0.7),
    WebOp("dynamic_update", _draw_dynamic_update, _dynamic_update, 0.7),
    WebOp("sort", _draw_sort, _sort, 1.0),
    WebOp("argsort", _draw_sort, _argsort, 0.7),
)
