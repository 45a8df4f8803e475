"""Nests that reduce: along a line in several vectors of partial results, or of lines side by side.

``along``: the elements that are reduced lie next to each other; partial results are in as many
vectors as hide the latency of an addition, and are put together at the end.
``across``: the results lie next to each other, and so do the elements that go into them; a few
vectors of results stay in registers over all that is reduced.
Else one result after another.  Sums are sums of sums, by :mod:`cascaded_sums`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from tvm import ir, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.loops.loops_axes import ALONE, pieces, tasks
from tvm_iree_ext.schedules.cpu.loops.loops_map import cost_of, lanes_along, widest_bits
from tvm_iree_ext.schedules.cpu.loops.loops_strided import Strided
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.loops.cascaded_sums import (
    TERMS,
    PartialSums,
    in_runs,
    over,
    rounded_sums,
    run_lengths,
    sum_of_nothing,
)
from tvm_iree_ext.schedules.shared.loops.loops_combiners import Combiner, combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    LoopNest,
    linear_index,
    points,
    step,
)
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint, noted
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, in_order, merged
from tvm_iree_ext.targets.cpu import CpuFeatures

_VECTORS = 4  # of partial results; an addition takes 4 cycles

At = Mapping[ir.Var, Expr]
Tiles: TypeAlias = list[Any]  # of registers, one for each buffer that is accumulated


def emit_reduction(nest: LoopNest, memory: NestMemory, features: CpuFeatures) -> None:
    """The loops of a nest that reduces."""
    _Reduction(nest, memory, features).emit()


class _Reduction:
    def __init__(self, nest: LoopNest, memory: NestMemory, features: CpuFeatures) -> None:
        self.nest, self.memory, self.features = nest, memory, features
        self.buffers = [store.buffer for store in nest.stores]
        self.cells = Cells()
        self.is_sum = rounded_sums(nest)
        self.stand_ins = {b: tirx.Var("accumulated", str(b.ty.dtype)) for b in self.buffers}
        look = self.look = noted(nest, memory, self.cells, accumulated=self.stand_ins)
        self.strided = Strided((), ())
        stored = [linear_index(store.buffer, list(store.indices)) for store in nest.stores]
        self.steps = Steps((*stored, *(a.position for a in look.accesses)), nest.axes)
        self.first_cells = Cells()
        first = NestPoint(memory, {}, nest, self.first_cells)
        for store in nest.init:
            first.value(store.value)
        all_steps = Steps((*self.steps.positions, *(a.position for a in first.accesses)), nest.axes)
        named = [*look.named, *first.named]
        self.spatial = merged(in_order(nest), all_steps, named)
        self.reduced = merged(nest.reduced, self.steps, named)
        kept = [axis.var for axis in (*self.spatial, *self.reduced)]
        self.gone = {
            a.var: i64(0) for a in nest.axes if not any(a.var.same_as(var) for var in kept)
        }

    def emit(self) -> None:
        combiner = None
        if len(self.nest.stores) == 1 and not self.nest.cells:
            combiner = combiner_of(self.nest.stores[0].value, self.buffers[0])
        across = self._lanes_across()
        along = self._lanes_along_reduced() if combiner is not None else 1
        # A short line, such as that of a window, does not fill vectors.
        if combiner is not None and along > 1 and (along >= across or across == 1):
            self._emit_along(combiner, along)
            return
        if self.spatial:
            stores = len(self.nest.stores)
            self.strided = Strided(self.look.accesses, self.steps.of(self.spatial[-1])[stores:])
        self._emit_across(across)

    def _lanes_across(self) -> int:
        """Lanes of vectors along the last spatial axis; 1 for what is not next to each other."""
        if not self.spatial:
            return 1
        line, stores = self.spatial[-1], len(self.nest.stores)
        lanes = lanes_along(line, self.steps, stores, self.look, self.nest, self.features)
        length = known(line.extent)
        return 1 if length is not None and length < 4 else lanes

    def _lanes_along_reduced(self) -> int:
        """Lanes of vectors along the last reduced axis; 1 where reads are not next to another."""
        line = self.reduced[-1]
        steps = [step(a.position, line, self.nest.axes) for a in self.look.accesses]
        if (
            self.look.is_one_by_one(line)
            or 1 not in steps
            or any(one not in (0, 1) for one in steps)
        ):
            return 1
        read = zip(self.look.accesses, steps, strict=True)
        buffers = [*self.buffers, *(access.buffer for access, one in read if one)]
        lanes = self.features.lanes(widest_bits(buffers))
        length = known(line.extent)
        while length is not None and lanes > max(length, 1):
            lanes //= 2
        return lanes

    def _first(self, at: At, lane: Expr | None) -> list[Expr]:
        """Initial results, before anything is added."""
        if not self.nest.init:
            return [self._load(store, at) for store in self.nest.stores]
        point = NestPoint(self.memory, at, self.nest, self.first_cells, lane)
        values = {store.buffer: point.value(store.value) for store in self.nest.init}
        return [values[buffer] for buffer in self.buffers]

    def _place(self, store: Any, at: At) -> Expr:
        return NestPoint(self.memory, at, self.nest, Cells()).place(store)

    def _load(self, store: Any, at: At) -> Expr:
        return self.memory.load(store.buffer, self._place(store, at))

    def _steps(
        self,
        at: At,
        lane: Expr | None,
        accumulated: Sequence[Expr],
        gathered: Mapping[int, Any] | None = None,
    ) -> list[Expr]:
        """The new values of what is accumulated."""
        held = dict(zip(self.buffers, accumulated, strict=True))
        point = NestPoint(self.memory, at, self.nest, self.cells, lane, held, gathered=gathered)
        return [point.value(store.value) for store in self.nest.stores]

    def _gathered(self, at: At, lanes: int) -> Mapping[int, Any]:
        """Values of strided accesses whose first lane is at a point."""
        first = noted(self.nest, self.memory, Cells(), at, self.stand_ins)
        return self.strided.gather(self.memory, first.accesses, lanes)

    def _within(self) -> "int | Expr":
        return emit.product([axis.count for axis in self.reduced])

    def _make_cells(self, lanes: int) -> None:
        self.cells.make(lanes)
        self.strided.make(lanes)
        self.first_cells.make(lanes)

    # Results side by side.

    def _emit_across(self, lanes: int) -> None:
        cost = cost_of(self.nest)
        if not self.spatial:
            self._make_cells(1)
            self._tile({**self.gone}, None, 1)
            return
        *outer, line = self.spatial
        rows = emit.product([axis.count for axis in outer])
        width = lanes * _VECTORS if lanes > 1 else 1
        chunks, length = chunked_results(line, rows, width, self.features.cores)

        def row(at: At) -> None:
            self._make_cells(lanes)
            start: Index = 0
            count: Index = line.count
            if chunks is not None:
                start = at[chunks.var] * length
                count = emit.held_index(emit.smaller(length, i64(line.count) - start))

            def piece(place: Index, count: int) -> None:
                self._tile({**self.gone, **at, line.var: i64(place)}, line, count, lanes)

            pieces(count, width, start, piece, may_overlap=bool(self.nest.init))

        loops = outer if chunks is None else [*outer, chunks]
        per = line.count if chunks is None else length
        within = emit.product([per, self._within()])
        tasks(loops, cost, within, self.features.cores, row)

    def _tile(self, at: At, line: Axis | None, count: int, lanes: int = 1) -> None:
        """``count`` results from ``at`` on, in vectors."""
        lanes = min(lanes, count)
        parts = count // lanes
        tiles = self._tiles(count)

        several = self.buffers if len(self.buffers) > 1 else []
        fresh = [emit.registers(count, _held(buffer)) for buffer in several]
        gathered: Mapping[int, Any] | None = None

        def each(
            body: Callable[[At, Expr | None, Expr], None], at: At, *, gathers: bool = False
        ) -> None:
            nonlocal gathered
            for part in range(parts):
                self.cells.rewind()
                self.first_cells.rewind()
                if lanes == 1:
                    body(_moved(at, line, part), None, i64(part))
                    continue
                if gathers and self.strided:
                    gathered = self._gathered(_moved(at, line, part * lanes), lanes)
                with emit.vector_loop(lanes) as lane:
                    body(_moved(at, line, lane + part * lanes), lane, lane + part * lanes)

        def first(at: At, lane: Expr | None, place: Expr) -> None:
            for tile, value in zip(tiles, self._first(at, lane), strict=True):
                _put(tile, value, place)

        def add(tiles: Tiles, at: At, lane: Expr | None, place: Expr) -> None:
            before = [_get(t, b, place) for t, b in self._pairs(tiles)]
            values = self._steps(at, lane, before, gathered if lane is not None else None)
            if fresh:  # all are computed before any is stored
                for tile, value in zip(fresh, values, strict=True):
                    _put(tile, value, place)
                values = [_get(t, b, place) for t, b in self._pairs(fresh)]
            for tile, value in zip(tiles, values, strict=True):
                _put(tile, value, place)

        def finish(at: At, lane: Expr | None, place: Expr) -> None:
            for store, (tile, buffer) in zip(self.nest.stores, self._pairs(tiles), strict=True):
                self.memory.store(buffer, self._place(store, at), _get(tile, buffer, place))

        def add_all(at: At, tiles: Tiles) -> None:
            each(partial(add, tiles), at, gathers=True)

        each(first, at)
        over(self.reduced, at, tiles, self._partials(count, lanes), add_all)
        each(finish, at)

    def _tiles(self, count: int) -> Tiles:
        """Registers for as many values of each buffer."""
        return [emit.registers(count, _held(buffer)) for buffer in self.buffers]

    def _partials(self, count: int, lanes: int) -> PartialSums[Tiles] | None:
        """Partial sums of so many results, in vectors; None if these are no sums."""
        if not self.is_sum:
            return None

        def fresh() -> Tiles:
            tiles = self._tiles(count)
            for start, width in _vectors(count, lanes):
                with emit.vector_loop(width) as lane:
                    for tile, buffer in self._pairs(tiles):
                        _put(tile, sum_of_nothing(str(buffer.ty.dtype)), lane + start)
            return tiles

        def join(tiles: Tiles, lower: Tiles) -> None:
            for start, width in _vectors(count, lanes):
                with emit.vector_loop(width) as lane:
                    for upper, (tile, buffer) in zip(tiles, self._pairs(lower), strict=True):
                        place = lane + start
                        both = _get(upper, buffer, place) + _get(tile, buffer, place)
                        _put(upper, both, place)

        return PartialSums(fresh, join)

    def _pairs(self, tiles: Sequence[Any]) -> list[tuple[Any, ir.Var]]:
        return list(zip(tiles, self.buffers, strict=True))

    # A line of elements for each result.

    def _emit_along(self, combiner: Combiner, lanes: int) -> None:
        tasks(
            self.spatial,
            cost_of(self.nest),
            self._within(),
            self.features.cores,
            lambda at: self._line({**self.gone, **at}, combiner, lanes),
        )

    def _line(self, at: At, combiner: Combiner, lanes: int) -> None:
        self._make_cells(lanes)
        (buffer,) = self.buffers
        *others, line = self.reduced
        length = known(line.extent)
        vectors = _VECTORS
        while length is not None and vectors * lanes > length:
            vectors //= 2
        zero, block = i64(0), lanes * vectors
        sums = self._partials(1, 1)
        (total,) = self._tiles(1)
        self.cells.rewind()
        self.first_cells.rewind()
        _put(total, self._first(at, None)[0], zero)

        def element(at: At, lane: Expr | None) -> Expr:
            point = NestPoint(self.memory, at, self.nest, self.cells, lane)
            return point.value(combiner.element)

        def vector(
            tile: Any, at: At, place: Expr, width: int, to: int, *, is_first: bool = False
        ) -> None:
            """Elements from a place on, put to ``width`` of the tile's."""
            self.cells.rewind()
            with emit.vector_loop(width) as lane:
                value = element({**at, line.var: place + lane}, lane)
                here = lane + to
                if not is_first:
                    value = combiner.of(_get(tile, buffer, here), value)
                _put(tile, value, here)

        def whole(tile: Any, at: At, start: Expr, *, is_first: bool = False) -> None:
            """The elements of a block."""
            for to in range(0, block, lanes):
                vector(tile, at, start + to, lanes, to, is_first=is_first)

        def blocks_of(tile: Any, at: At, blocks: Index, rest: Index) -> None:
            """Whole blocks, at least one, and what whole vectors there are behind them."""
            partials = self._partials(block, lanes)
            if partials is not None and run_lengths(known(blocks)):
                for to in range(0, block, lanes):
                    with emit.vector_loop(lanes) as lane:
                        _put(tile, sum_of_nothing(str(buffer.ty.dtype)), lane + to)
                in_runs(
                    blocks,
                    TERMS,
                    [tile],
                    partials,
                    lambda number, tiles: whole(tiles[0], at, number * block),
                )
            else:
                whole(tile, at, zero, is_first=True)
                with serial(blocks, 1) as number:
                    whole(tile, at, number * block)
            behind = i64(blocks) * block
            if known(rest) is None:
                with serial(tirx.truncdiv(i64(rest), i64(lanes))) as number:
                    vector(tile, at, behind + number * lanes, lanes, 0)
            else:
                done, width = 0, lanes
                while done < (known(rest) or 0):
                    while width > (known(rest) or 0) - done:
                        width //= 2
                    vector(tile, at, behind + done, width, done if width == lanes else 0)
                    done += width

        def fold(tile: Any, total: Any) -> None:
            """All of the tile, by halves."""
            width = block
            while width > 1:
                width //= 2
                for start in range(0, width, lanes):
                    with emit.vector_loop(min(width, lanes)) as lane:
                        here = lane + start
                        both = combiner.of(*(_get(tile, buffer, here + by) for by in (0, width)))
                        _put(tile, both, here)
            both = combiner.of(_get(total, buffer, zero), _get(tile, buffer, zero))
            _put(total, both, zero)

        def lines(at: At, totals: Tiles) -> None:
            (total,), (tile,) = totals, self._tiles(block)
            if length is not None:
                blocks_of(tile, at, length // block, length % block)
                fold(tile, total)
                return
            count = i64(line.count)
            blocks = emit.held_index(tirx.truncdiv(count, i64(block)))
            with I.If(blocks > 0), I.Then():
                blocks_of(tile, at, blocks, emit.held_index(count - i64(blocks) * block))
                fold(tile, total)
            done = tirx.Select(i64(blocks) > 0, tirx.truncdiv(count, i64(lanes)) * lanes, zero)
            with serial(count, emit.held_index(done)) as place:
                self.cells.rewind()
                value = element({**at, line.var: place}, None)
                _put(total, combiner.of(_get(total, buffer, zero), value), zero)

        over(others, at, [total], sums if known(points(others)) != 1 else None, lines)
        (store,) = self.nest.stores
        self.memory.store(buffer, self._place(store, at), _get(total, buffer, zero))


def chunked_results(
    line: Axis, rows: "int | Expr", width: int, cores: int
) -> tuple[Axis | None, int]:
    """Chunks of one vector tile, where the rows are too few for the threads."""
    count, length = known(rows), known(line.extent)
    if cores == ALONE:
        return None, 0
    if (count is not None and count >= cores) or (length is not None and length < 2 * width):
        return None, 0
    chunks = emit.ceil_div(line.count, width)
    return Axis(tirx.Var("chunk", "int64"), i64(chunks), False), width


def _moved(at: At, line: Axis | None, by: "Expr | int") -> At:
    return at if line is None or known(by) == 0 else {**at, line.var: at[line.var] + by}


def _vectors(count: int, lanes: int) -> list[tuple[int, int]]:
    """Where vectors of a tile begin, and how wide they are."""
    lanes = min(lanes, count)
    return [(start, lanes) for start in range(0, count - count % lanes, lanes)]


def _held(buffer: ir.Var) -> str:
    dtype = str(buffer.ty.dtype)
    return "int8" if dtype == "bool" else dtype


def _put(tile: Any, value: Expr, place: Expr) -> None:
    I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [place])


def _get(tile: Any, buffer: ir.Var, place: Expr) -> Expr:
    return emit.cast(tile[place], str(buffer.ty.dtype))
