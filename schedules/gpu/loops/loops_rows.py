"""Functions that go row by row, on a GPU: one kernel, in which lanes share a row.

    for each pass:  elements of the lane: load, compute, accumulate, store
                    reduce what was accumulated over the lanes

A pass ends where reductions are needed by what follows.  A lane has the same elements in each pass:
what it read, or computed at a cost, it keeps in registers where they are few enough, and reads or
computes again where they are not.  Nothing but reductions goes from lane to lane.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values, digits
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.loops.loops_lanes import (
    At,
    Runs,
    is_whole,
    spread,
    store_run,
    widest_run,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.schedules.shared.loops.loops_combiners import Combiner, combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_fusion import declare
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    LoopNest,
    linear_index,
    loads_of,
    points,
    substitute,
)
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint, noted
from tvm_iree_ext.schedules.shared.loops.loops_rows import RowNests
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, merged
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_MOST_OF_FEW = 1 << 16  # elements of a row, where rows do not fill the chip
_FEW = 4  # times fewer rows than cores leave a chip idle
_MOST_LANES = 512  # that share a row
_LANES_PER_CORE = 512  # that keep a chip busy
_ELEMENTS_PER_LANE = 16
_LANES_PER_WORKGROUP = 128
_MOST_KEPT_BYTES = 256  # of a lane's registers
_MOST_RUNS = 16  # of a lane, each of which is written out


def has_row_kernel(rows: Index, elements: Index, target: Target) -> bool:
    """Whether reductions over rows are best one kernel, with a workgroup at most for a row."""
    count, length = known(rows), known(elements)
    is_few = count is not None and _FEW * count < gpu_chip(target).parts[0].cores
    if length is None:
        return not is_few
    return length > 1 and (length <= _MOST_OF_FEW or not is_few)


def emit_rows(function: tirx.PrimFunc, rows: RowNests, name: str, target: Target) -> tirx.PrimFunc:
    """The function by the symbol ``name``."""
    memory = _RowMemory()
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        declare(function, name, memory)
        _Kernel(rows, memory, target).emit()
    return builder.get()


@dataclass
class _RowMemory(NestMemory):
    """The function's memory, and the values of what it writes at the elements of a lane."""

    values: dict[ir.Var, Expr] = field(default_factory=dict)

    def load(self, buffer: ir.Var, position: Expr) -> Expr:
        """The element of a buffer: its value here, where it has one."""
        found = self.values.get(buffer)
        return super().load(buffer, position) if found is None else found


@dataclass(frozen=True)
class _Step:
    """A nest of a row, as often as it is planned or emitted."""

    nest: LoopNest
    level: int  # the pass in which all that it reads is known

    @property
    def buffer(self) -> ir.Var:
        """What it writes."""
        buffer: ir.Var = self.nest.stores[0].buffer
        return buffer

    @property
    def is_single(self) -> bool:
        """Whether it computes one element of a row of others."""
        return not self.nest.axes

    @cached_property
    def read(self) -> frozenset[ir.Var]:
        """What it reads."""
        return frozenset(one for value in self.nest.values() for one in loads_of(value))


def _steps(nests: Sequence[LoopNest]) -> list[_Step]:
    levels: dict[ir.Var, int] = {}  # from which pass on a buffer is known
    steps = []
    for nest in nests:
        read = [one for value in nest.values() for one in loads_of(value)]
        (store,) = nest.stores
        level = max((levels.get(one, 0) for one in read if one is not store.buffer), default=0)
        steps.append(_Step(nest, level))
        levels[store.buffer] = level + bool(nest.reduced)
    return steps


@dataclass(frozen=True)
class _Line:
    """A nest's elements in its own axes: what is read, and what in runs along the last axis."""

    axes: tuple[Axis, ...]
    gone: dict[ir.Var, Expr]
    look: NestPoint
    cells: Cells

    @staticmethod
    def of(nest: LoopNest, memory: _RowMemory, element: Expr | None) -> "_Line":
        cells = Cells()
        look = NestPoint(memory, {}, nest, cells)
        look.value(nest.stores[0].value if element is None else element)
        stored = [
            linear_index(s.buffer, list(s.indices))
            for s in nest.stores
            if not nest.reduced and s.buffer in memory.flat
        ]
        read = [one.position for one in look.accesses if one.buffer in memory.flat]
        steps = Steps((*stored, *read), nest.axes)
        axes = tuple(merged(nest.axes, steps, look.named))
        return _Line(axes, {axis.var: i64(0) for axis in nest.axes}, look, cells)

    def at(self, element: Expr) -> At:
        """The values of the axes at an element of the row."""
        return {**self.gone, **spread(element, self.axes)}


class _Kernel:
    """The kernel of a function's rows."""

    def __init__(self, rows: RowNests, memory: _RowMemory, target: Target) -> None:
        self._rows, self._memory = rows, memory
        self._size, self._kind = subgroup_size(target), target.kind.name
        self._cores = gpu_chip(target).parts[0].cores
        row = i64(0) if rows.row is None else rows.row.var
        self._plan = _steps(rows.at(row).nests)
        for step in self._plan:
            memory.shared.update(step.nest.cells)
            dtype = str(step.buffer.ty.dtype)
            memory.values[step.buffer] = tirx.Var("here", dtype)
        self._elements: Index = points(
            next(step.nest.axes for step in self._plan if step.nest.reduced)
        )
        self._run = self._widest_run()

    def _widest_run(self) -> int:
        """How many neighbours of a row a lane takes at once."""
        runs, lines = [], []
        for step in self._plan:
            if step.is_single:
                continue
            nest, line = step.nest, self._line(step)
            lines.append(line.axes[-1])
            stored = [
                (s.buffer, linear_index(s.buffer, list(s.indices)))
                for s in nest.stores
                if not nest.reduced and s.buffer in self._memory.flat
            ]
            read = [one for one in line.look.accesses if one.buffer not in self._memory.values]
            steps = Steps(tuple(one.position for one in read), nest.axes)
            if stored or 1 in steps.of(lines[-1]):
                runs.append(widest_run(stored, read, lines[-1], nest.axes))
        run = min(runs, default=1)
        while run > 1 and any(known_factor(line.extent) % run for line in lines):
            run //= 2
        return run

    def _line(self, step: _Step) -> _Line:
        combiner = self._combiner(step) if step.nest.reduced else None
        return _Line.of(step.nest, self._memory, combiner.element if combiner else None)

    def _combiner(self, step: _Step) -> Combiner:
        found = combiner_of(step.nest.stores[0].value, step.buffer)
        assert found is not None, "a chain of rows reduces by combiners"
        return found

    def _layout(self) -> NestedLayout:
        """Layout of ``[rows, elements]``: lanes of a row, and rows of a workgroup."""
        length, count, size = known(self._elements), known(self._rows.count), self._size
        lanes, subgroups = size, _LANES_PER_WORKGROUP // size
        if length is not None:
            runs, lanes, subgroups = -(-length // self._run), 1, 1
            while lanes < size and lanes < runs:
                lanes *= 2
            wanted = 0 if count is None else self._cores * _LANES_PER_CORE // max(count, 1)
            most = _MOST_LANES if wanted < _MOST_LANES else 2 * _MOST_LANES
            while lanes * subgroups < min(runs, most) and (
                lanes * subgroups < wanted or length > lanes * subgroups * _ELEMENTS_PER_LANE
            ):
                subgroups *= 2
            subgroups = min(subgroups, -(-runs // lanes))
        apart = max(1, _LANES_PER_WORKGROUP // size // subgroups)
        while count is not None and apart > 1 and count * lanes < self._cores * size * apart:
            apart //= 2
        return NestedLayout(
            subgroup_tile=(apart, subgroups), batch_tile=(1, 1), outer_tile=(1, 1),
            thread_tile=(size // lanes, lanes), element_tile=(1, 1),
            subgroup_strides=(subgroups, 1), thread_strides=(lanes, 1),
        )  # fmt: skip

    def emit(self) -> None:
        """The kernel."""
        layout = self._layout()
        tile, sharing = layout.undistributed_shape
        subgroups = prod(layout.subgroup_tile)
        count = emit.ceil_div(self._rows.count, tile)
        with workgroups(count, subgroups, self._size, self._kind) as (number, workgroup):
            subgroup, lane = digits(layout, workgroup)
            row = wide(number) * tile + wide(subgroup[0] * layout.thread_tile[0] + lane[0])
            exists = None
            if not is_whole(self._rows.count, tile):
                row = I.Bind(row)
                exists = row < i64(self._rows.count)
                row = tirx.min(
                    row, i64(self._rows.count) - 1
                )  # all lanes take part in what is shared
            row = I.Bind(row)
            along = I.Bind(wide(subgroup[1] * layout.thread_tile[1] + lane[1]))
            steps = _steps(self._rows.at(row).nests)
            across = _Lanes(workgroup, layout, along, sharing, exists)
            _Row(steps, self._memory, across, self._elements, self._run).emit()


@dataclass(frozen=True)
class _Lanes:
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


class _Row:
    """What a lane does for its row."""

    def __init__(
        self,
        steps: Sequence[_Step],
        memory: _RowMemory,
        lanes: _Lanes,
        elements: Index,
        run: int,
    ) -> None:
        self._steps, self._memory, self._lanes = steps, memory, lanes
        self._elements, self._run = elements, run
        self._turns = emit.ceil_div(elements, lanes.sharing * run)
        memory.values.clear()
        for step in steps:
            memory.values[step.buffer] = tirx.Var("here", str(step.buffer.ty.dtype))
        self._combiners = {
            step.buffer: combiner_of(step.nest.stores[0].value, step.buffer)
            for step in steps
            if step.nest.reduced
        }
        self._lines = {step.buffer: self._line(step) for step in steps if not step.is_single}
        self._results = {step.buffer for step in steps if step.buffer in memory.flat}
        self._last = max(step.level for step in steps)
        self._kept: dict[ir.Var, Any] = {}  # registers of what is computed once
        self._read: dict[Any, Any] = {}  # and of what is read once
        self._filled: set[Any] = set()  # those of both that are, by an earlier pass

    def _line(self, step: _Step) -> _Line:
        combiner = self._combiners.get(step.buffer)
        return _Line.of(step.nest, self._memory, combiner.element if combiner else None)

    def _needed_in(self, level: int) -> list[_Step]:
        """What a pass computes of each element, in order."""
        found: list[_Step] = []
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

    def _runs_of(self, step: _Step) -> dict[int, tuple[Any, Any]]:
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

    def _pass(self, steps: Sequence[_Step], level: int) -> None:
        """Go through the elements of the row, then reduce over the lanes."""
        reductions = [step for step in steps if step.nest.reduced]
        totals = {step.buffer: emit.registers(1, _held(step.buffer)) for step in reductions}
        first = {step.buffer: self._first(step) for step in reductions}
        for step in reductions:
            combiner = self._combiner(step)
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
            combiner = self._combiner(step)
            value = combiner.of(first[step.buffer], emit.cast(found, _dtype(step.buffer)))
            self._hold_single(step, value)

    def _elements_at(
        self,
        steps: Sequence[_Step],
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
                    combiner = self._combiner(step)
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

    def _loaded(self, step: _Step, at: At, before: int) -> dict[int, Any]:
        """What a nest reads in runs, in registers, by the order of its accesses."""
        found: dict[int, Any] = {}
        line = self._lines[step.buffer]
        if self._run == 1 and not self._read:
            return found
        accesses = self._at(step, line, at)
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

    def _at(self, step: _Step, line: _Line, at: At) -> Sequence[Any]:
        """The accesses of a nest at a point, in their order."""
        combiner = self._combiners.get(step.buffer)
        if combiner is None:
            return noted(step.nest, self._memory, Cells(), at).accesses
        look = NestPoint(self._memory, at, step.nest, Cells())
        look.value(combiner.element)
        return look.accesses

    def _value(
        self, step: _Step, line: _Line, at: At, tiles: Mapping[int, Any], number: int
    ) -> Expr:
        line.cells.rewind()
        point = NestPoint(self._memory, at, step.nest, line.cells, i64(number), gathered=tiles)
        combiner = self._combiners.get(step.buffer)
        value = step.nest.stores[0].value if combiner is None else combiner.element
        return point.value(value)

    # What a row has one of.

    def _combiner(self, step: _Step) -> Combiner:
        found = self._combiners[step.buffer]
        assert found is not None, "a chain of rows reduces by combiners"
        return found

    def _first(self, step: _Step) -> Expr:
        """A result before anything is added."""
        return NestPoint(self._memory, {}, step.nest, Cells()).value(step.nest.init[0].value)

    def _reduced(self, step: _Step, total: Any) -> Expr:
        dtype, combiner = _dtype(step.buffer), self._combiner(step)
        lanes = self._lanes
        held = _held(step.buffer)
        across = Across(lanes.workgroup, lanes.layout, 1, [held], commutes=True)

        def combine(a: Values, b: Values) -> Values:
            value = combiner.of(emit.cast(a[0], dtype), emit.cast(b[0], dtype))
            return (emit.cast(value, held),)

        ((found,),) = across.reduce([(total[i64(0)],)], combine)
        return found

    def _single(self, step: _Step) -> None:
        """One element that all lanes compute."""
        cells = Cells()
        noted(step.nest, self._memory, cells)
        cells.make(1)
        point = NestPoint(self._memory, {}, step.nest, cells)
        self._hold_single(step, point.value(step.nest.stores[0].value))

    def _hold_single(self, step: _Step, value: Expr) -> None:
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


def _only(line: _Line) -> dict[ir.Var, Expr]:
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
