"""Nests whose points are independent: each store is a function of what it reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.loops_axes import chunked, pieces, tasks
from tvm_iree_ext.schedules.cpu.loops_strided import Strided, is_strided
from tvm_iree_ext.schedules.cpu.loops_transpose import emit_transpose, fits, transpose_of
from tvm_iree_ext.schedules.emit import Expr, Index, i64
from tvm_iree_ext.schedules.loops_form import Axis, Nest, linear_index
from tvm_iree_ext.schedules.loops_point import Cells, Memory, Point
from tvm_iree_ext.schedules.loops_steps import Steps, in_order, merged

from tvm_iree_ext.target.cpu import CpuFeatures

_CALL_COST = 8  # a call of a function such as exp, in simple operations


def emit_map(nest: Nest, memory: Memory, features: CpuFeatures) -> None:
    """The loops of a nest without reduction."""
    form = _Map(nest, memory, features)
    move = transpose_of(nest, memory, form.axes, form.steps, features)
    if move is None:
        form.emit()
        return
    condition = fits(move)
    if condition is None:
        emit_transpose(move, form.steps, memory, form.gone, features)
        return
    with I.If(condition):
        with I.Then():
            emit_transpose(move, form.steps, memory, form.gone, features)
        with I.Else():
            form.emit()


class _Map:
    """Lines along the axis in which the stores are next to each other, in vectors."""

    def __init__(self, nest: Nest, memory: Memory, features: CpuFeatures) -> None:
        self.nest, self.memory, self.features = nest, memory, features
        self.cells = Cells()
        self.look = Point(memory, {}, nest, self.cells)
        for store in nest.stores:
            self.look.value(store.value)
        stored = [linear_index(store.buffer, list(store.indices)) for store in nest.stores]
        read = [access.position for access in self.look.accesses]
        self.steps = Steps((*stored, *read), nest.axes)
        self.axes = merged(in_order(nest), self.steps, self.look.named)
        kept = [axis.var for axis in self.axes]
        self.gone = {
            a.var: i64(0) for a in nest.axes if not any(a.var.same_as(var) for var in kept)
        }

    def emit(self) -> None:
        """The loops."""
        if not self.axes:
            self.cells.make(1)
            self._at_point(self.gone, None)
            return
        *outer, line = self.axes
        stores = len(self.nest.stores)
        lanes = lanes_along(line, self.steps, stores, self.nest, self.look, self.features)
        strided = Strided(self.look.accesses, self.steps.of(line)[stores:])
        rows = emit.product([axis.count for axis in outer])
        chunks, length = chunked(line, rows, self.features.cores)

        def row(at: Mapping[ir.Var, Expr]) -> None:
            self.cells.make(lanes)
            strided.make(lanes)
            start: Index = 0
            count: Index = line.count
            if chunks is not None:
                start = at[chunks.var] * length
                count = emit.held_index(emit.smaller(length, i64(line.count) - start))

            def piece(place: Index, width: int) -> None:
                if width == 1:
                    self._at_point({**self.gone, **at, line.var: i64(place)}, None)
                    return
                here = {**self.gone, **at, line.var: i64(place)}
                gathered = self._gathered(strided, here, width)
                with emit.vector_loop(width) as lane:
                    self._at_point({**here, line.var: i64(place) + lane}, lane, gathered)

            pieces(count, lanes, start, piece)

        loops = outer if chunks is None else [*outer, chunks]
        within = line.count if chunks is None else length
        tasks(loops, cost_of(self.nest), within, self.features.cores, row)

    def _gathered(
        self, strided: Strided, at: Mapping[ir.Var, Expr], lanes: int
    ) -> Mapping[int, Any] | None:
        if not strided:
            return None
        first = Point(self.memory, at, self.nest, Cells())
        for store in self.nest.stores:
            first.value(store.value)
        return strided.gather(self.memory, first.accesses, lanes)

    def _at_point(
        self,
        at: Mapping[ir.Var, Expr],
        lane: Expr | None,
        gathered: Mapping[int, Any] | None = None,
    ) -> None:
        self.cells.rewind()
        point = Point(self.memory, at, self.nest, self.cells, lane, gathered=gathered)
        values = [point.value(store.value) for store in self.nest.stores]
        for store, value in zip(self.nest.stores, values, strict=True):
            place = [point.value(index) for index in store.indices]
            self.memory.store(store.buffer, linear_index(store.buffer, place), value)


def lanes_along(
    line: Axis, steps: Steps, stores: int, nest: Nest, look: Point, features: CpuFeatures
) -> int:
    """How many points along an axis one vector takes; 1 where the compiler does better.

    Stores must be next to each other, and reads be so, or of one element, or a few apart.
    """
    along = steps.of(line)
    if any(one != 1 for one in along[:stores]) or look.is_scalar:
        return 1
    read = list(zip(look.accesses, along[stores:], strict=True))
    if any(one not in (0, 1) and not is_strided(access.buffer, one) for access, one in read):
        return 1
    buffers = [store.buffer for store in nest.stores]
    buffers += [access.buffer for access, one in read if one != 0]
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
