"""Padding: a box of a padded tensor, and a padded tile as vectors.

No padded copy is made.  A box of ``pad(x)`` is the pad of a box of x, whose size is known at run
time; and that tile is read row by row: ``if it is inside: read it, else: the pad value``.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.insertion import IndexLike
from tvm_iree_ext.vector.ir.vector_types import vector
from tvm_iree_ext.vector.ops.tensors import sizes_of
from tvm_iree_ext.vector.programs.builder import Builder


def slice_of_pad(b: Builder, op: Operation, at: Sequence[Value], sizes: Sequence[int]) -> Value:
    """A box of a tensor.pad as the pad of a box.

    before:  p = pad x low[l] high[h];  box = slice p[o] [t]
    after:   s = slice x[o - l] [n];  box = pad s low[..] high[t - n]       with n = min(t, e - o)
    """
    source, value = op.operand("source"), op.operand("value")
    offsets: list[IndexLike] = []
    lengths: list[IndexLike] = []
    lows: list[IndexLike] = []
    highs: list[IndexLike] = []
    widths = zip(sizes_of(op, "low"), sizes_of(op, "high"), strict=True)
    for dim, (low, high) in enumerate(widths):
        o, t = at[dim], sizes[dim]
        if _is_zero(low) and _is_zero(high):
            parts: tuple[IndexLike, ...] = (o, t, 0, 0)
        else:
            parts = _inside(b, o, t, low, high, b.dim(source, dim))
        for found, part in zip((offsets, lengths, lows, highs), parts, strict=True):
            found.append(part)
    box = b.extract_slice(source, offsets, lengths)
    return b.pad(box, lows, highs, value, shape=sizes)


def _inside(
    b: Builder, o: Value, t: int, low: IndexLike, high: IndexLike, extent: Value
) -> tuple[IndexLike, ...]:
    """Offset and size of the part of a box from o of size t in the source, low and high pad."""
    if _is_zero(low) and isinstance(high, int) and high <= t:
        # The last box starts at extent + high - t, so inside: nothing needs to be clamped below.
        size = _least(b, t, b.arithmetic("sub", extent, o))
        return o, size, 0, b.arithmetic("sub", t, size)
    start = b.arithmetic("sub", o, low)
    first = _least(b, extent, _most(b, 0, start))
    last = _least(b, extent, _most(b, 0, b.arithmetic("add", start, t)))
    size = b.arithmetic("sub", last, first)
    before = _least(b, t, _most(b, 0, b.arithmetic("sub", low, o)))
    return first, size, before, b.arithmetic("sub", b.arithmetic("sub", t, before), size)


def _least(b: Builder, x: IndexLike, y: IndexLike) -> Value:
    return b.elementwise("minsi", b.index(x), b.index(y))


def _most(b: Builder, x: IndexLike, y: IndexLike) -> Value:
    return b.elementwise("maxsi", b.index(x), b.index(y))


def _is_zero(size: Any) -> bool:
    return (size.constant if isinstance(size, Value) else size) == 0


def vectorize_pad(b: Builder, op: Operation) -> Value:
    """A padded tile as conditional reads of rows, put together and written to a temporary.

    before:  p = pad x low[0, 0] high[h, w] : 1x3
    after:   for i in 0..2 (unrolled):  r = if i < n: read x[0, i] : [3]  else: constant [3]
             v = insert_strided_slice r_i at [i];  p = write v, empty
    """
    source, value, shape = op.operand("source"), op.operand("value"), op.result.shape
    lows, highs = sizes_of(op, "low"), sizes_of(op, "high")
    padded = [
        dim
        for dim, (low, high) in enumerate(zip(lows, highs, strict=True))
        if not (_is_zero(low) and _is_zero(high))
    ]
    # A row is what is never cut; where the last dim is padded, one element.
    lead = max(padded) + 1 if padded else len(shape) - 1
    row = tuple(shape[lead:]) or (1,)
    lead = len(shape) - len(row)
    unit = 0
    while unit < lead and shape[unit] == 1:
        unit += 1
    whole = tuple(shape[unit:])
    padding = _splat(b, value, row)
    gathered = b.constant(0, vector(whole, value.dtype))
    lanes = [range(shape[-1])] if lead in padded else []
    points = product(*(range(extent) for extent in shape[:lead]), *lanes)
    for point in points:
        at = [*point, *[0] * (len(shape) - len(point))]
        made = _row(b, op, padded, at, row, padding)
        gathered = made if whole == row else b.insert_strided_slice(made, gathered, at[unit:])
    return _written(b, gathered, b.empty(shape, source.dtype))


def _row(
    b: Builder,
    op: Operation,
    padded: Sequence[int],
    at: Sequence[int],
    row: tuple[int, ...],
    padding: Value,
) -> Value:
    """A row at a place of the padded tile: read where that lies in the source."""
    source = op.operand("source")
    lows, highs = sizes_of(op, "low"), sizes_of(op, "high")
    conditions = []
    place: list[IndexLike] = list(at)
    for dim in padded:
        low, high = lows[dim], highs[dim]
        if not _is_zero(low):
            conditions.append(b.compare("sle", b.index(low), b.index(at[dim])))
            place[dim] = b.arithmetic("sub", at[dim], low)
        if not _is_zero(high):
            conditions.append(b.compare("slt", b.index(place[dim]), b.dim(source, dim)))

    def read() -> Value:
        return b.transfer_read(source, place, row, in_bounds=[True] * len(row))

    if not conditions:
        return read()
    condition = conditions[0]
    for other in conditions[1:]:
        condition = b.elementwise("andi", condition, other)
    return b.if_(condition, read, lambda: padding)[0]


def _splat(b: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    if value.constant is not None:
        return b.constant(value.constant, vector(shape, value.dtype))
    return b.broadcast(value, shape)


def _written(b: Builder, value: Value, dest: Value) -> Value:
    made = b.transfer_write(value, dest, [0] * dest.rank, in_bounds=[True] * value.rank)
    assert made is not None
    return made
