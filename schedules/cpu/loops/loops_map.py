"""Nests whose points are independent: each store is a function of what it reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.loops.loops_axes import chunked, pieces, tasks
from tvm_iree_ext.schedules.cpu.loops.loops_strided import Strided, is_strided
from tvm_iree_ext.schedules.cpu.loops.loops_transpose import emit_transpose, fits, transpose_of
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.shared.loops.loops_guards import Bounds, cuts
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, LoopNest, linear_index
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint, noted
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, in_order, merged
from tvm_iree_ext.targets.cpu import CpuFeatures

_MOST_PARTS = 8  # of a line that conditions cut
_CALL_COST = 8  # a call of a function such as exp, in simple operations


def emit_map(nest: LoopNest, memory: NestMemory, features: CpuFeatures) -> None:
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

    def __init__(self, nest: LoopNest, memory: NestMemory, features: CpuFeatures) -> None:
        self.nest, self.memory, self.features = nest, memory, features
        look = noted(nest, memory, Cells())
        stored = [linear_index(store.buffer, list(store.indices)) for store in nest.stores]
        read = [access.position for access in look.accesses]
        self.steps = Steps((*stored, *read), nest.axes)
        self.axes = merged(in_order(nest), self.steps, look.named)
        self.conditions = look.conditions
        kept = [axis.var for axis in self.axes]
        self.gone = {
            a.var: i64(0) for a in nest.axes if not any(a.var.same_as(var) for var in kept)
        }

    def emit(self) -> None:
        """The loops."""
        if not self.axes:
            whole = _Part(self, None)
            whole.make()
            whole.at_point(self.gone, None)
            return
        *outer, line = self.axes
        rows = emit.product([axis.count for axis in outer])
        chunks, length = chunked(line, rows, self.features.cores)
        parts = self._parts(line)
        for several in [parts] if chunks is None else [[part] for part in parts]:
            self._rows(outer, several, chunks, length)

    def _parts(self, line: Axis) -> list["_Part"]:
        """The line, cut where conditions change if it is then vectors that are not one by one."""
        whole = _Part(self, line)
        extent = known(line.extent)
        if whole.lanes > 1 or not self.conditions or extent is None:
            return [whole]
        ends = [0, *cuts(self.conditions, line), extent]
        if not 2 < len(ends) <= _MOST_PARTS + 1:
            return [whole]
        parts = [_Part(self, line, *ends[n : n + 2]) for n in range(len(ends) - 1)]
        return parts if any(part.lanes > 1 for part in parts) else [whole]

    def _rows(
        self, outer: Sequence[Axis], parts: Sequence["_Part"], chunks: Axis | None, length: int
    ) -> None:
        line = self.axes[-1]
        if chunks is not None:
            (part,) = parts
            chunks, length = chunked(
                Axis(line.var, i64(part.count), False),
                emit.product([axis.count for axis in outer]),
                self.features.cores,
            )

        def row(at: Mapping[ir.Var, Expr]) -> None:
            for part in parts:
                part.make()
            for part in parts:
                start: Index = part.first
                count: Index = part.count
                if chunks is not None:
                    start = at[chunks.var] * length
                    count = emit.held_index(emit.smaller(length, i64(part.count) - start))
                    start = start + part.first
                part.emit({**self.gone, **at}, start, count)

        loops = outer if chunks is None else [*outer, chunks]
        within: Any = emit.product([part.count for part in parts]) if chunks is None else length
        tasks(loops, cost_of(self.nest), within, self.features.cores, row)


class _Part:
    """A part of the line, in which conditions may be decided."""

    def __init__(self, form: _Map, line: Axis | None, first: int = 0, stop: int | None = None):
        self.nest, self.memory, self.line = form.nest, form.memory, line
        self.first = first
        self.cells, self.bounds = Cells(), None
        self.lanes, self.count = 1, line.count if line is not None else 1
        if line is not None and stop is not None:
            self.count = stop - first
            self.bounds = Bounds(form.axes, line, first, stop)
        look = noted(self.nest, self.memory, self.cells, within=self.bounds)
        stores = len(self.nest.stores)
        written = [store.buffer for store in self.nest.stores]
        self.in_place = any(access.buffer.same_as(b) for access in look.accesses for b in written)
        self.strided = Strided((), ())
        if line is not None:
            read = tuple(access.position for access in look.accesses)
            steps = Steps((*form.steps.positions[:stores], *read), self.nest.axes)
            self.lanes = lanes_along(line, steps, stores, look, self.nest, form.features)
            self.strided = Strided(look.accesses, steps.of(line)[stores:])

    def make(self) -> None:
        """Make the tiles, in front of the loops."""
        self.cells.make(self.lanes)
        self.strided.make(self.lanes)

    def emit(self, at: Mapping[ir.Var, Expr], start: Index, count: Index) -> None:
        """``count`` points of the line."""
        assert self.line is not None
        var = self.line.var

        def piece(place: Index, width: int) -> None:
            here = {**at, var: i64(place)}
            if width == 1:
                self.at_point(here, None)
                return
            gathered = self._gathered(here, width)
            with emit.vector_loop(width) as lane:
                self.at_point({**here, var: i64(place) + lane}, lane, gathered)

        # What is computed from what it replaces must not be computed twice.
        pieces(count, self.lanes, start, piece, may_overlap=not self.in_place)

    def _gathered(self, at: Mapping[ir.Var, Expr], lanes: int) -> Mapping[int, Any] | None:
        if not self.strided:
            return None
        first = noted(self.nest, self.memory, Cells(), at, within=self.bounds)
        return self.strided.gather(self.memory, first.accesses, lanes)

    def at_point(
        self,
        at: Mapping[ir.Var, Expr],
        lane: Expr | None,
        gathered: Mapping[int, Any] | None = None,
    ) -> None:
        """The stores at a point."""
        self.cells.rewind()
        point = NestPoint(
            self.memory, at, self.nest, self.cells, lane, gathered=gathered, within=self.bounds
        )
        values = [point.value(store.value) for store in self.nest.stores]
        for store, value in zip(self.nest.stores, values, strict=True):
            self.memory.store(store.buffer, point.place(store), value)


def lanes_along(
    line: Axis, steps: Steps, stores: int, look: NestPoint, nest: LoopNest, features: CpuFeatures
) -> int:
    """How many points along an axis one vector takes; 1 where the compiler does better.

    Stores must be next to each other, and reads be so, or of one element, or a few apart.
    """
    along = steps.of(line)
    if any(one != 1 for one in along[:stores]) or look.is_one_by_one(line):
        return 1
    read = list(zip(look.accesses, along[stores:], strict=True))
    if any(one not in (0, 1) and not is_strided(access, one) for access, one in read):
        return 1
    buffers = [store.buffer for store in nest.stores]
    buffers += [access.buffer for access, one in read if one != 0]
    return features.lanes(widest_bits(buffers))


def widest_bits(buffers: Sequence[ir.Var]) -> int:
    """Bits of the widest elements, of which a bool has 8."""
    return max(max(DataType(str(buffer.ty.dtype)).bits for buffer in buffers), 8)


def cost_of(nest: LoopNest) -> int:
    """Simple operations at a point, roughly."""
    calls: list[Any] = []
    for value in nest.values():
        tvm_ffi.structural_walk(value, (ir.Call, calls.append))
    return 1 + _CALL_COST * len(calls)
