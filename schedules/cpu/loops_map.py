"""Nests whose points are independent: each store is a function of what it reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import Expr, Index, i64
from tvm_iree_ext.schedules.cpu.loops_axes import Steps, chunked, in_order, merged, pieces, tasks
from tvm_iree_ext.schedules.cpu.loops_form import Axis, Nest, linear_index
from tvm_iree_ext.schedules.cpu.loops_point import Cells, Memory, Point

from tvm_iree_ext.target.cpu import CpuFeatures

_CALL_COST = 8  # a call of a function such as exp, in simple operations


def emit_map(nest: Nest, memory: Memory, features: CpuFeatures) -> None:
    """The loops of a nest without reduction."""
    cells = Cells()
    look = Point(memory, {}, nest, cells)
    for store in nest.stores:
        look.value(store.value)
    stored = [linear_index(store.buffer, list(store.indices)) for store in nest.stores]
    read = [access.position for access in look.accesses]
    steps = Steps((*stored, *read), nest.axes)
    axes = merged(in_order(nest), steps, look.named)
    gone = {a.var: i64(0) for a in nest.axes if all(not a.var.same_as(b.var) for b in axes)}

    def at_point(at: Mapping[ir.Var, Expr], lane: Expr | None) -> None:
        cells.rewind()
        point = Point(memory, at, nest, cells, lane)
        values = [point.value(store.value) for store in nest.stores]
        places = [[point.value(index) for index in store.indices] for store in nest.stores]
        for store, value, place in zip(nest.stores, values, places, strict=True):
            memory.store(store.buffer, linear_index(store.buffer, place), value)

    if not axes:
        cells.make(1)
        at_point(gone, None)
        return
    *outer, line = axes
    lanes = lanes_along(line, steps, len(stored), nest, look, features)
    rows = emit.product([axis.count for axis in outer])
    chunks, length = chunked(line, rows, features.cores)

    def row(at: Mapping[ir.Var, Expr]) -> None:
        cells.make(lanes)
        start: Index = 0
        count: Index = line.count
        if chunks is not None:
            start = at[chunks.var] * length
            count = emit.held_index(emit.smaller(length, i64(line.count) - start))

        def piece(place: Index, width: int) -> None:
            if width == 1:
                at_point({**gone, **at, line.var: i64(place)}, None)
                return
            with emit.vector_loop(width) as lane:
                at_point({**gone, **at, line.var: i64(place) + lane}, lane)

        pieces(count, lanes, start, piece)

    loops = outer if chunks is None else [*outer, chunks]
    within = line.count if chunks is None else length
    tasks(loops, cost_of(nest), within, features.cores, row)


def lanes_along(
    line: Axis, steps: Steps, stores: int, nest: Nest, look: Point, features: CpuFeatures
) -> int:
    """How many points along an axis one vector takes; 1 where the compiler does better.

    Stores must be next to each other, and reads be so or of one element.
    """
    along = steps.of(line)
    if any(one != 1 for one in along[:stores]) or look.is_guarded:
        return 1
    if any(one not in (0, 1) for one in along[stores:]):
        return 1
    read = zip(look.accesses, along[stores:], strict=True)
    buffers = [store.buffer for store in nest.stores]
    buffers += [access.buffer for access, one in read if one == 1]
    return features.lanes(widest_bits(buffers))


def widest_bits(buffers: Sequence[ir.Var]) -> int:
    """Bits of the widest elements, of which a bool has 8."""
    return max(max(DataType(str(buffer.ty.dtype)).bits for buffer in buffers), 8)


def cost_of(nest: Nest) -> int:
    """Simple operations at a point, roughly."""
    calls: list[Any] = []
    for value in nest.values():
        tvm_ffi.structural_walk(value, (ir.Call, calls.append))
    return 1 + _CALL_COST * len(calls)
