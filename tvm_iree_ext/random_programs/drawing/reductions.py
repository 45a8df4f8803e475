"""Operations that add, multiply and compare along axes: reductions, scans, windows, products."""

import math
from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS, numpy_dtype
from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp
from tvm_iree_ext.random_programs.drawing.values import (
    BoundedArray,
    Unsuited,
    apart,
    exactly,
    rounded,
    steps_of,
    summed,
)


def _kinds(dtype: str) -> list[str]:
    return ["or", "and"] if dtype == "bool" else ["add", "add", "max", "min"]


def _draw_reduce(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0)
    type = draft.type(number)
    count = int(draft.rng.integers(1, type.rank + 1)) if draft.chance(0.4) else 1
    axes = sorted(int(axis) for axis in draft.rng.permutation(type.rank)[:count])
    return [number], {"kind": draft.one_of(_kinds(type.dtype)), "axes": axes}


def _reduce(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    return reduced(value, attributes["kind"], tuple(attributes["axes"]))


def reduced(value: BoundedArray, kind: str, axes: tuple[int, ...]) -> BoundedArray:
    """A value without these axes; a largest or smallest is asked of one element at least."""
    data, error, dtype = value.data, value.error, value.dtype
    if dtype == "bool":
        function = np.any if kind == "or" else np.all
        return exactly(function(data, axis=axes), dtype)
    if kind == "add":
        terms = int(np.prod([data.shape[axis] for axis in axes]))
        total = np.sum(data, axes, dtype=data.dtype)
        sizes = np.sum(np.abs(data), axes)
        return summed(dtype, total, np.sum(error, axes), sizes, terms, steps_of(data))
    if 0 in (data.shape[axis] for axis in axes):
        raise Unsuited("the largest of nothing")
    extreme = np.max if kind == "max" else np.min
    most = np.max(error, axes) if error.size else np.min(error, axes, initial=0.0)
    return BoundedArray(dtype, extreme(data, axes), most)


def _draw_arg_extreme(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool")
    axis = int(draft.rng.integers(0, draft.type(number).rank))
    return [number], {"kind": draft.one_of(["max", "min"]), "axis": axis}


def _arg_extreme(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    axis, is_max = attributes["axis"], attributes["kind"] == "max"
    if value.data.shape[axis] == 0:
        raise Unsuited("the largest of nothing")
    best = (np.argmax if is_max else np.argmin)(value.data, axis)
    if value.is_float and value.data.size:
        at = np.expand_dims(best, axis)
        distance = np.take_along_axis(value.data, at, axis) - value.data
        error = np.take_along_axis(value.error, at, axis) + value.error
        np.put_along_axis(error, at, 0.0, axis)
        apart(distance, error)
    return exactly(np.asarray(best), "int32")


def _draw_scan(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool")
    axis = int(draft.rng.integers(0, draft.type(number).rank))
    kind = draft.one_of(["add", "add", "max", "min"])
    return [number], {"kind": kind, "axis": axis, "reverse": draft.chance(0.3)}


def _scan(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    axis, kind = attributes["axis"], attributes["kind"]
    data, error = value.data, value.error
    if attributes["reverse"]:
        data, error = np.flip(data, axis), np.flip(error, axis)
    if kind == "add":
        total = np.cumsum(data, axis, dtype=data.dtype)
        sizes = np.cumsum(np.abs(data), axis, dtype=data.dtype)
        errors, terms = np.cumsum(error, axis), data.shape[axis]
        found = summed(value.dtype, total, errors, sizes, terms, steps_of(data))
    else:
        extreme = np.maximum if kind == "max" else np.minimum
        most = np.maximum.accumulate(error, axis)
        found = BoundedArray(value.dtype, extreme.accumulate(data, axis), most)
    if attributes["reverse"]:
        found = BoundedArray(value.dtype, np.flip(found.data, axis), np.flip(found.error, axis))
    return found


def _draw_window(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool" and min(t.shape) > 0)
    type = draft.type(number)
    size, stride, low, high = [], [], [], []
    for extent in type.shape:
        size.append(1 if draft.chance(0.4) else int(draft.rng.integers(1, min(extent, 4) + 1)))
        stride.append(draft.one_of([1, 1, 2]))
        low.append(int(draft.rng.integers(0, size[-1])))
        high.append(int(draft.rng.integers(0, size[-1])))
    kind = draft.one_of(["add", "max", "min"])
    return [number], {"kind": kind, "size": size, "stride": stride, "low": low, "high": high}


def _window(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    size, stride, kind = attributes["size"], attributes["stride"], attributes["kind"]
    more = list(zip(attributes["low"], attributes["high"], strict=True))
    if any(lo >= n or hi >= n for (lo, hi), n in zip(more, size, strict=True)):
        raise Unsuited("a window of nothing")
    at = tuple(slice(None, None, step) for step in stride)

    def windows(array: np.ndarray, fill: float) -> np.ndarray:
        wide = np.pad(array, more, constant_values=np.array(fill, array.dtype))
        if any(n > extent for n, extent in zip(size, wide.shape, strict=True)):
            raise Unsuited("a window larger than its array")
        return np.lib.stride_tricks.sliding_window_view(wide, size)[at]

    axes = tuple(range(value.data.ndim, 2 * value.data.ndim))
    fill = 0.0
    if kind != "add":
        sign = -1 if kind == "max" else 1
        limits = None if value.is_float else np.iinfo(numpy_dtype(value.dtype))
        fill = sign * 1e30 if limits is None else (limits.min if sign < 0 else limits.max)
    seen = BoundedArray(value.dtype, windows(value.data, fill), windows(value.error, 0.0))
    return reduced(seen, kind, axes)


def _draw_dot(draft: Draft) -> Drawn:
    first = draft.pick(lambda t: t.rank > 0 and t.dtype != "bool")
    type = draft.type(first)
    axes = [int(axis) for axis in draft.rng.permutation(type.rank)]
    batch, contract = ([axes.pop()] if type.rank > 2 and draft.chance(0.6) else []), [axes.pop()]

    def fits(other: object) -> bool:
        return getattr(other, "dtype", None) == type.dtype

    second = first if draft.chance(0.2) else draft.pick(fits)
    other = draft.type(second)
    pairs: list[tuple[int, int]] = []
    for axis in (*batch, *contract):
        free = [
            a
            for a, extent in enumerate(other.shape)
            if extent == type.shape[axis] and a not in [b for _, b in pairs]
        ]
        if not free:
            raise Unsuited("no such extent")
        pairs.append((axis, draft.one_of(free)))
    dtype = type.dtype
    if dtype in ("int8", "uint8") and draft.chance(0.7):
        dtype = "int32"
    if dtype in ("float16", "bfloat16") and draft.chance(0.4):
        dtype = "float32"
    split = len(batch)
    return [first, second], {
        "batch": [[a, b] for a, b in pairs[:split]],
        "contract": [[a, b] for a, b in pairs[split:]],
        "dtype": dtype,
    }


def labels(attributes: Attributes, ranks: Sequence[int]) -> tuple[str, str, str]:
    """Letters of the axes of both operands and of the result: batches, then left, then right.

    >>> labels({"batch": [[0, 0]], "contract": [[2, 1]]}, (3, 3))
    ('abc', 'acd', 'abd')
    """
    left = [chr(ord("a") + axis) for axis in range(ranks[0])]
    right = [chr(ord("a") + ranks[0] + axis) for axis in range(ranks[1])]
    for a, b in [*attributes["batch"], *attributes["contract"]]:
        right[b] = left[a]
    names = {name: chr(ord("a") + place) for place, name in enumerate(dict.fromkeys(left + right))}
    batch = [left[a] for a, _ in attributes["batch"]]
    rest = [n for n in left if n not in right] + [n for n in right if n not in left]
    texts = ["".join(names[n] for n in axes) for axes in (left, right, batch + rest)]
    return texts[0], texts[1], texts[2]


def _dot(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    a, b = values
    for first, second in [*attributes["batch"], *attributes["contract"]]:
        if a.data.shape[first] != b.data.shape[second]:
            raise Unsuited("a product along several extents")
    left, right, result = labels(attributes, (a.data.ndim, b.data.ndim))
    extents = dict(zip(left + right, a.data.shape + b.data.shape, strict=True))
    if math.prod(extents[label] for label in result) > 4000:
        raise Unsuited("a large product")
    dtype = attributes["dtype"]
    wide = "float64" if dtype in FLOATS else "int64"

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum(f"{left},{right}->{result}", x.astype(wide), y.astype(wide))

    total = product(a.data, b.data)
    if dtype not in FLOATS:
        return rounded(dtype, total, np.zeros(total.shape))
    x, y = np.abs(a.data), np.abs(b.data)
    error = product(x, b.error) + product(a.error, y) + product(a.error, b.error)
    terms = int(np.prod([a.data.shape[axis] for axis, _ in attributes["contract"]]))
    step = steps_of(x) * steps_of(y)
    return summed(dtype, total, error, product(x, y), terms + 1, step)


OPS = (
    WebOp("reduce", _draw_reduce, _reduce, 3.0),
    WebOp("arg_extreme", _draw_arg_extreme, _arg_extreme, 1.0),
    WebOp("scan", _draw_scan, _scan, 1.5),
    WebOp("window", _draw_window, _window, 1.0),
    WebOp("dot", _draw_dot, _dot, 2.0),
)
