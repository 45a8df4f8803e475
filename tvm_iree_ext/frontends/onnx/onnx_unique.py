"""ONNX's Unique by operators whose results have known extents, but for NonZero.

Elements, or slices along an axis, are put in order; where one differs from that before it a group
begins.  Equal ones stay in their order, so that the first of a group is its first occurrence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    Kind,
    NotRewritten,
    Values,
    Writer,
)

_WIDER: Mapping[int, int] = {Kind.BFLOAT16: Kind.FLOAT, Kind.BOOL: Kind.INT32}
"""Types that are not sorted, or of which the front end takes True for less than False."""
_END = np.iinfo("i8").max
_MOST_PAIRS = 1 << 26  # of elements that are compared, at most


def rewrite_unique(node: Any, values: Values, write: Writer) -> None:
    """Unique of elements or along an axis, in order or as they come first."""
    said, x = Attributes(node), node.input[0]
    shape, axis = values.shape(x), said("axis")
    if 0 in shape:
        raise NotRewritten("nothing in it")
    if axis is None:
        x, axis = write("Reshape", x, write.constant([-1], "i8")), 0
        shape = (math.prod(shape),)
    axis %= len(shape)
    count = shape[axis]
    places = write.constant(np.arange(count), "i8")
    wider = _WIDER.get(values.kind(node.input[0]))
    numbers = write("Cast", x, to=wider) if wider else x
    order, begins = (_by_sorting if len(shape) == 1 else _by_pairs)(numbers, shape, axis, write)
    group = write("Sub", _running(write("Cast", begins, to=Kind.INT64), write), _one(write))
    group = write("ScatterElements", write.constant(np.zeros(count), "i8"), order, group)
    starts = _true(begins, write)
    ends = write("Concat", _part(starts, 1, _END, write), write.constant([count], "i8"), axis=0)
    counts, first = write("Sub", ends, starts), write("Gather", order, starts)
    if not said("sorted", 1):
        own_first = write("Gather", first, group)
        is_first = write("Equal", own_first, places)
        number = write("Sub", _running(write("Cast", is_first, to=Kind.INT64), write), _one(write))
        first = _true(is_first, write)
        counts = write("Gather", counts, write("Gather", group, first))
        group = write("Gather", number, own_first)
    write.give(write("Gather", x, first, axis=axis))
    for place, found in enumerate((first, group, counts), 1):
        write.give(found, place)


def _by_sorting(x: str, shape: tuple[int, ...], _axis: int, write: Writer) -> tuple[str, str]:
    """The places of elements in order, and where a group begins there."""
    count = write.constant([shape[0]], "i8")
    ordered, order = write.several("TopK", [x, count], 2, axis=0, largest=0)
    alike = write("Equal", _part(ordered, 1, _END, write), _part(ordered, 0, -1, write))
    first = write.constant([True], "?")
    return order, write("Concat", first, write("Not", alike), axis=0)


def _by_pairs(x: str, shape: tuple[int, ...], axis: int, write: Writer) -> tuple[str, str]:
    """The same of slices: each with each other, by the first elements in which they differ."""
    count = shape[axis]
    numbers = math.prod(shape) // count
    if count * count * numbers > _MOST_PAIRS:
        raise NotRewritten(f"{count} slices of {numbers} elements")
    perm = [axis, *(place for place in range(len(shape)) if place != axis)]
    lines = write("Transpose", x, perm=perm)
    one = write("Reshape", lines, write.constant([count, 1, numbers], "i8"))
    other = write("Reshape", lines, write.constant([1, count, numbers], "i8"))
    differs = write("Cast", write("Not", write("Equal", one, other)), to=Kind.INT64)
    first = write("ArgMax", differs, axis=2, keepdims=1)
    less = write("Cast", write("Less", one, other), to=Kind.INT64)
    last = write.constant([2], "i8")
    less = write("Squeeze", write("GatherElements", less, first, axis=2), last)
    same = write("Sub", _one(write), write("ReduceMax", differs, last, keepdims=0))
    earlier = write("Mul", same, write.constant(np.triu(np.ones((count, count)), 1), "i8"))
    before, rows = write("Add", less, earlier), write.constant([0], "i8")
    rank = write("ReduceSum", before, rows, keepdims=0)
    places = write.constant(np.arange(count), "i8")
    order = write("ScatterElements", write.constant(np.zeros(count), "i8"), rank, places)
    zero = write.constant(0, "i8")
    is_first = write("Equal", write("ReduceSum", earlier, rows, keepdims=0), zero)
    return order, write("Gather", is_first, order)


def _running(x: str, write: Writer) -> str:
    return write("CumSum", x, write.constant(0, "i8"))


def _one(write: Writer) -> str:
    return write.constant(1, "i8")


def _true(mask: str, write: Writer) -> str:
    """The places where a vector is true."""
    return write("Squeeze", write("NonZero", mask), write.constant([0], "i8"))


def _part(x: str, start: int, end: int, write: Writer) -> str:
    return write("Slice", x, *(write.constant([one], "i8") for one in (start, end, 0)))
