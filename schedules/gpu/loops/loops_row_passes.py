"""What a lane does for its row: passes over its elements, and reductions between them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.loops.loops_lanes import At, Runs, is_whole, store_run
from tvm_iree_ext.schedules.gpu.loops.loops_row_steps import RowLine, RowMemory, RowStep
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, substitute
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestPoint, noted

_MOST_KEPT_BYTES = 256  # of a lane's registers
_MOST_RUNS = 16  # of a lane, each of which is written out


@dataclass(frozen=True)
class RowLanes:
    """The lanes of a row: which of ``sharing`` this one is, and whether there is such a row."""

    workgroup: Any
    layout: NestedLayout
    along: Expr
    sharing: int
    exists: Any

    def leads(self) -> Any:
        """Whether it is the lane that writes what a row has one of."""
        first = self.along == 0
        return first if self.exists is None else tirx.And(first, self.exists)


class RowPasses:
    """What a lane does for its row."""

    def __init__(
        self,
        steps: Sequence[RowStep],
        memory: RowMemory,
        lanes: RowLanes,
        elements: Index,
        run: int,
    ) -> None:
        self._steps, self._memory, self._lanes = steps, memory, lanes
        self._elements, self._run = elements, run
        self._turns = emit.ceil_div(elements, lanes.sharing * run)
        memory.values.clear()
        for step in steps:
            memory.values[step.buffer] = tirx.Var("here", str(step.buffer.ty.dtype))
        self._lines = {
            step.buffer: RowLine.of(step, memory) for step in steps if not step.is_single
        }
        self._results = {step.buffer for step in steps if step.buffer in memory.flat}
        self._last = max(step.level for step in steps)
        self._kept: dict[ir.Var, Any] = {}  # registers of what is computed once
        self._read: dict[Any, Any] = {}  # and of what is read once
        self._filled: set[Any] = set()  # those of both that are, by an earlier pass

    def _needed_in(self, level: int) -> list[RowStep]:
        """What a pass computes of each element, in order."""
        found: list[RowStep] = []
        read: set[ir.Var] = set()
        for step in reversed(self._steps):
            if step.is_single or step.level > level:
                continue
            is_end = step.level == level and (step.nest.reduced or step.buffer in self._results)
            if is_end or (step.buffer in read and not step.nest.reduced):
                found.insert(0, step)
                read |= step.read if step.buffer not in self._filled else set()
        return found

    def emit(self) -> None:
        """All passes."""
        self._keep()
        for level in range(self._last + 1):
            for step in self._steps:
                if step.is_single and not step.nest.reduced and step.level == level:
                    self._single(step)
            if needed := self._needed_in(level):
                self._pass(needed, level)

    # What is kept in registers.

    def _keep(self) -> None:
        """Make registers for what several passes read, or compute at a cost."""
        turns = known(self._turns)
        if turns is None or turns > _MOST_RUNS:
            return
        count = turns * self._run
        left = _MOST_KEPT_BYTES
        passes: dict[Any, set[int]] = {}
        for level, steps in enumerate(map(self._needed_in, range(self._last + 1))):
            for step in steps:
                if _is_costly(step.nest) and not step.nest.reduced:
                    passes.setdefault(step.buffer, set()).add(level)
                for key, access in self._runs_of(step).values():
                    passes.setdefault((key, access.buffer), set()).add(level)
        for key, levels in passes.items():
            is_read = isinstance(key, tuple)
            dtype = _held(key[1] if is_read else key)
            size = count * item_bytes(dtype)
            if len(levels) > 1 and size <= left:
                left -= size
                tile = emit.registers(count, dtype)
                IRBuilder.name("kept", tile)
                if is_read:
                    self._read[key[0]] = tile
                else:
                    self._kept[key] = tile

    def _runs_of(self, step: RowStep) -> dict[int, tuple[Any, Any]]:
        """The accesses of memory along runs, by their order: each by a name, and as it is."""
        line = self._lines[step.buffer]
        last = line.axes[-1] if line.axes else None
        runs = Runs.of(line.look, last, step.nest.axes, self._run).places
        if self._run == 1 and last is not None:
            runs = dict(enumerate(line.look.accesses))
        named = {axis.var: _axis(number) for number, axis in enumerate(line.axes)}
        extents = [axis.extent for axis in line.axes]
        found = {}
        for order, access in runs.items():
            if access.buffer in self._memory.values or access.guarded:
                continue
            position = substitute(substitute(access.position, _only(line)), named)
            name = tvm_ffi.StructuralKey([access.buffer, position, *extents])
            found[order] = (name, access)
        return found

    # Passes.

    def _pass(self, steps: Sequence[RowStep], level: int) -> None:
        """Go through the elements of the row, then reduce over the lanes."""
        reductions = [step for step in steps if step.nest.reduced]
        totals = {step.buffer: emit.registers(1, _held(step.buffer)) for step in reductions}
        first = {step.buffer: self._first(step) for step in reductions}
        for step in reductions:
            combiner = step.combiner
            start = first[step.buffer]
            if combiner.neutral is not None:
                start = combiner.neutral(_dtype(step.buffer))
            _put(totals[step.buffer], start)
        turns = known(self._turns)
        is_exact = is_whole(self._elements, self._lanes.sharing * self._run)
        with _turns(self._turns, is_written_out=bool(self._kept or self._read)) as each:
            for turn in each:
                offset = turn * (self._lanes.sharing * self._run)
                place = I.Bind(i64(offset) + self._lanes.along * self._run)
                is_inside = None if is_exact else place < i64(self._elements)
                if turns is not None and isinstance(turn, int) and turn < turns - 1:
                    is_inside = None
                with where(is_inside):
                    self._elements_at(steps, level, place, turn, totals)
        self._filled.update(step.buffer for step in steps if step.buffer in self._kept)
        names = {name for step in steps for name, _ in self._runs_of(step).values()}
        self._filled |= names & self._read.keys()
        for step in reductions:
            found = self._reduced(step, totals[step.buffer])
            combiner = step.combiner
            value = combiner.of(first[step.buffer], emit.cast(found, _dtype(step.buffer)))
            self._hold_single(step, value)

    def _elements_at(
        self,
        steps: Sequence[RowStep],
        level: int,
        place: Expr,
        turn: Any,
        totals: Mapping[ir.Var, Any],
    ) -> None:
        """A run of elements: what is computed of each, in order."""
        before = int(turn) * self._run if isinstance(turn, int) else 0
        ways = {}
        for step in steps:
            if step.buffer in self._filled:
                continue
            line = self._lines[step.buffer]
            line.cells.make(self._run)
            at = line.at(place)
            ways[step.buffer] = (line, at, self._loaded(step, at, before))
        stored: dict[ir.Var, list[Expr]] = {step.buffer: [] for step in steps}
        for number in range(self._run):
            for step in steps:
                tile = self._kept.get(step.buffer)
                if step.buffer in self._filled:
                    self._memory.values[step.buffer] = _get(tile, step.buffer, before + number)
                    continue
                line, at, tiles = ways[step.buffer]
                here = at
                if number:
                    var = line.axes[-1].var
                    here = {**at, var: at[var] + number}
                value = self._value(step, line, here, tiles, number)
                if step.nest.reduced:
                    total = totals[step.buffer]
                    combiner = step.combiner
                    _put(total, combiner.of(_get(total, step.buffer), value))
                    continue
                if tile is None:
                    tile, index = emit.registers(1, _held(step.buffer)), 0
                else:
                    index = before + number
                _put(tile, value, index)
                self._memory.values[step.buffer] = _get(tile, step.buffer, index)
                stored[step.buffer].append(self._memory.values[step.buffer])
        for step in steps:
            if step.nest.reduced or step.buffer not in self._results or step.level != level:
                continue
            line, at, _ = ways[step.buffer]
            (store,) = step.nest.stores
            position = NestPoint(self._memory, at, step.nest, Cells()).place(store)
            with where(self._lanes.exists):
                store_run(self._memory, step.buffer, position, stored[step.buffer])

    def _loaded(self, step: RowStep, at: At, before: int) -> dict[int, Any]:
        """What a nest reads in runs, in registers, by the order of its accesses."""
        found: dict[int, Any] = {}
        if self._run == 1 and not self._read:
            return found
        accesses = self._at(step, at)
        for order, (name, access) in self._runs_of(step).items():
            tile, start = self._read.get(name), before
            if tile is None:
                tile, start = emit.registers(self._run, _held(access.buffer)), 0
                IRBuilder.name("run", tile)
            if name not in self._filled:
                memory = self._memory.flat[access.buffer]
                value = memory[emit.run(accesses[order].position, self._run)]
                I.buffer_store(tile, value, [emit.run(start, self._run)])
            found[order] = _From(tile, start)
        return found

    def _at(self, step: RowStep, at: At) -> Sequence[Any]:
        """The accesses of a nest at a point, in their order."""
        if not step.nest.reduced:
            return noted(step.nest, self._memory, Cells(), at).accesses
        look = NestPoint(self._memory, at, step.nest, Cells())
        look.value(step.element)
        return look.accesses

    def _value(
        self, step: RowStep, line: RowLine, at: At, tiles: Mapping[int, Any], number: int
    ) -> Expr:
        line.cells.rewind()
        point = NestPoint(self._memory, at, step.nest, line.cells, i64(number), gathered=tiles)
        return point.value(step.element)

    # What a row has one of.

    def _first(self, step: RowStep) -> Expr:
        """A result before anything is added."""
        return NestPoint(self._memory, {}, step.nest, Cells()).value(step.nest.init[0].value)

    def _reduced(self, step: RowStep, total: Any) -> Expr:
        dtype, combiner = _dtype(step.buffer), step.combiner
        lanes = self._lanes
        held = _held(step.buffer)
        across = Across(lanes.workgroup, lanes.layout, 1, [held], commutes=True)

        def combine(a: Values, b: Values) -> Values:
            value = combiner.of(emit.cast(a[0], dtype), emit.cast(b[0], dtype))
            return (emit.cast(value, held),)

        ((found,),) = across.reduce([(total[i64(0)],)], combine)
        return found

    def _single(self, step: RowStep) -> None:
        """One element that all lanes compute."""
        cells = Cells()
        noted(step.nest, self._memory, cells)
        cells.make(1)
        point = NestPoint(self._memory, {}, step.nest, cells)
        self._hold_single(step, point.value(step.nest.stores[0].value))

    def _hold_single(self, step: RowStep, value: Expr) -> None:
        cell = emit.registers(1, _held(step.buffer))
        _put(cell, value)
        self._memory.values[step.buffer] = _get(cell, step.buffer)
        if step.buffer in self._results:
            (store,) = step.nest.stores
            position = NestPoint(self._memory, {}, step.nest, Cells()).place(store)
            with where(self._lanes.leads()):
                self._memory.store(step.buffer, position, self._memory.values[step.buffer])


@dataclass(frozen=True)
class _From:
    """Registers from one on."""

    tile: Any
    start: int

    def __getitem__(self, number: Any) -> Expr:
        return self.tile[i64(self.start + int(number))]


@contextmanager
def _turns(count: Index, *, is_written_out: bool) -> Iterator[Sequence[Any]]:
    """The turns of a loop: numbers where they are written out, or a variable."""
    number = known(count)
    if number is not None and (is_written_out or number == 1):
        yield range(number)
        return
    with emit.serial(count) as turn:
        yield [turn]


def _only(line: RowLine) -> dict[ir.Var, Expr]:
    """Zero for the axes of a nest that were put into others."""
    kept = {axis.var for axis in line.axes}
    return {var: zero for var, zero in line.gone.items() if var not in kept}


@cache
def _axis(number: int) -> ir.Var:
    """A name for the axis of any nest."""
    return tirx.Var(f"axis{number}", "int64")


def _is_costly(nest: LoopNest) -> bool:
    found: list[Any] = []
    for value in nest.values():
        tvm_ffi.structural_walk(value, [(ir.Call, found.append), (tirx.Div, found.append)])
    return bool(found)


def _dtype(buffer: ir.Var) -> str:
    return str(buffer.ty.dtype)


def _held(buffer: ir.Var) -> str:
    dtype = _dtype(buffer)
    return "int8" if dtype == "bool" else dtype


def _put(tile: Any, value: Expr, place: int = 0) -> None:
    I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [i64(place)])


def _get(tile: Any, buffer: ir.Var, place: int = 0) -> Expr:
    return emit.cast(tile[i64(place)], _dtype(buffer))
