"""The loops of pack and unpack.

Both walk the unpacked operand, so that its rows are read or written in order, and a tile of the
packed one at a time:

    for dims but the last, a few tiles of the last (a task):
        for tiles of the last:
            for positions in the tile of dims but the innermost:
                rows:       copy the run of the dim that is innermost in both operands
                transpose:  squares of the two dims that are innermost in one and in the other

Of an unpacked result that is stored non-temporally, rows across a few tiles are gathered first:
the two loops inside a task change places.  Each row then reads a little of every tile, which no
hardware foresees: with ``fetch_ahead`` the next tiles are fetched meanwhile, in their order.

A dim without tiles that is innermost is walked as a run, too.  What is past the end of the unpacked
operand is padded or left out by a test for each run or square; where it holds, by a test for each
element.  Elements are moved as unsigned integers, so that every bit pattern is kept.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.pack import Packing
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import fence, result, stream_run
from tvm_iree_ext.schedules.cpu.pack.pack_config import PackConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.emit.padding_words import padding_word
from tvm_iree_ext.targets.cpu import CpuFeatures

# What is gathered of a row of the result with the next tiles fetched meanwhile: little, so that
# memory is read all the time that it is written.
_FETCHED_RUN_BYTES = 2 * 1024


@dataclass(frozen=True)
class PackedRun:
    """A dim along which elements lie next to each other: within its tile, or across tiles of 1."""

    dim: int
    inner: bool


def runs(op: Packing) -> tuple[PackedRun, PackedRun]:
    """The runs of the packed and of the unpacked operand; axes of extent 1 do not count."""
    last = next(
        (d for d in reversed(range(len(op.unpacked.shape))) if op.unpacked.shape[d] != 1), 0
    )
    unpacked = PackedRun(last, op.tile(last) != 1)
    for dim, tile in reversed(list(zip(op.inner_dims_pos, op.inner_tiles, strict=True))):
        if tile != 1:
            return PackedRun(dim, True), unpacked
    rank = len(op.unpacked.shape)
    axis = next((a for a in reversed(range(rank)) if op.packed.shape[a] != 1), rank - 1)
    return PackedRun(op.outer_dims_perm[axis], False), unpacked


def pack_kernel(op: Packing, config: PackConfig, features: CpuFeatures) -> tirx.PrimFunc:
    """The PrimFunc of ``op``."""
    with IRBuilder() as builder, I.prim_func():
        _Loops(op, config, features).emit()
    return builder.get()


class _Loops:
    """The function under construction."""

    def __init__(self, op: Packing, config: PackConfig, features: CpuFeatures) -> None:
        self.op, self.config = op, config
        # What is gathered of a row of the result: it is in the first cache still when it is stored.
        self.run_bytes = (
            _FETCHED_RUN_BYTES if config.fetch_ahead else features.first_cache_bytes // 2
        )
        self.lanes = config.lanes
        parameters = Parameters.declare(op)
        bits = item_bytes(op.unpacked.dtype) * 8
        self.word = f"uint{bits}"
        self.packed_run, self.unpacked_run = runs(op)
        names = ("result", "input") if op.packs else ("input", "result")
        self.packed, self.unpacked = (emit.flat_words(parameters.buffers[name]) for name in names)
        self.rank = len(op.unpacked.shape)
        self.extents = [parameters.extent(e) for e in op.unpacked.shape]
        self.packed_shape = [parameters.extent(e) for e in op.packed.shape]
        self.outer = [self.packed_shape[op.outer_axis(dim)] for dim in range(self.rank)]
        self.tiles = [parameters.extent(op.tile(dim)) for dim in range(self.rank)]
        passed = parameters.scalars.get("padding_value")
        word = padding_word(op.padding, passed, op.unpacked.dtype)
        self.padding: Expr = I.Bind(word) if op.packs else i64(0)

    # Where elements are.

    def _move(
        self,
        outer: Sequence[Index],
        inner: Sequence[Index],
        lanes: int = 1,
        pad: bool = False,
        streaming: bool = False,
    ) -> None:
        """Copy, or pad, what is at tile numbers and positions within the tile, by dim."""
        packed = self._packed_at(outer, inner)
        unpacked = self._unpacked_at(outer, inner)
        if self.op.packs:
            value = self.unpacked[emit.run(unpacked, lanes)]
            value = emit.splat(self.padding, lanes) if pad else value
            result(self.packed, streaming).store(packed, value, lanes)
        else:
            value = self.packed[emit.run(packed, lanes)]
            I.buffer_store(self.unpacked, value, [emit.run(unpacked, lanes)])

    def _packed_at(self, outer: Sequence[Index], inner: Sequence[Index]) -> Expr:
        positions = [inner[dim] for dim in self.op.inner_dims_pos]
        return emit.flat_index(self.op.packed_index(outer, positions), self.packed_shape)

    def _unpacked_at(self, outer: Sequence[Index], inner: Sequence[Index]) -> Expr:
        index = [self._position(dim, outer, inner) for dim in range(self.rank)]
        return emit.flat_index(index, self.extents)

    def _position(self, dim: int, outer: Sequence[Index], inner: Sequence[Index]) -> Expr:
        tile = self.tiles[dim]
        return i64(outer[dim]) if tile == 1 else i64(outer[dim]) * i64(tile) + i64(inner[dim])

    def _is_inside(self, dim: int, outer: Sequence[Index], inner: Sequence[Index]) -> list[Expr]:
        """The test that a position exists in the unpacked operand, where it may not."""
        if self.op.divides(dim):
            return []
        return [self._position(dim, outer, inner) < i64(self.extents[dim])]

    # Loops.

    def emit(self) -> None:
        """The whole function."""
        across = {run.dim for run in (self.packed_run, self.unpacked_run) if not run.inner}
        steps = [self.config.run if d in across else 1 for d in range(self.rank)]
        counts = [emit.ceil_div(o, s) for o, s in zip(self.outer, steps, strict=True)]
        tiles = self.config.tiles
        if steps[-1] > 1:
            tiles = max(1, tiles // steps[-1])
        shares = emit.ceil_div(counts[-1], tiles)
        places = emit.IterationSpace((*counts[:-1], shares))
        every = tuple(range(self.rank))
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(places.count(every))) as task:
            at = places.spread(task, every)
            outer: list[Index] = [I.Bind(i64(at[dim]) * steps[dim]) for dim in range(self.rank - 1)]
            first = I.Bind(i64(at[self.rank - 1]) * tiles)
            stop = emit.smaller(counts[-1], first + tiles)
            exact = known(counts[-1])
            count = i64(tiles) if exact is not None and exact % tiles == 0 else stop - first
            streaming = self.config.streaming
            in_rows = streaming and not self.op.packs and self.unpacked_run.inner
            walk = self._stream_rows if in_rows else self._tiles
            walk(count, lambda number: [*outer, (first + number) * steps[-1]])
            if streaming:
                fence()

    def _tiles(self, count: Index, outer_of: Callable[[Index], list[Index]]) -> None:
        """So many tiles; with runs across tiles, as many as a run has."""
        copy = self._rows if self.config.algorithm == "rows" else self._transpose
        with serial(count) as number, ExitStack() as stack:
            outer = outer_of(number)
            inner = self._positions(stack)
            tests = self._tests(outer, inner)
            if not tests:
                copy(outer, inner, False)
                return
            with I.If(tirx.all(*tests)):
                with I.Then():
                    copy(outer, inner, False)
                if self.op.packs:
                    with I.Else():
                        copy(outer, inner, True)

    def _positions(self, loops: ExitStack) -> list[Index]:
        """The positions in a tile where a run, or runs, begin: loops over dims without one."""
        loose = {run.dim for run in (self.packed_run, self.unpacked_run) if run.inner}
        inner: list[Index] = [0] * self.rank
        for dim in self.op.inner_dims_pos:
            if dim not in loose and known(self.tiles[dim]) != 1:
                inner[dim] = loops.enter_context(serial(self.tiles[dim]))
        return inner

    def _tests(self, outer: Sequence[Index], inner: Sequence[Index]) -> list[Expr]:
        """The tests that a run begins inside the unpacked operand."""
        return [
            test
            for dim in range(self.rank)
            if dim not in (self.packed_run.dim, self.unpacked_run.dim)
            for test in self._is_inside(dim, outer, inner)
        ]

    def _stream_rows(self, count: Index, outer_of: Callable[[Index], list[Index]]) -> None:
        """So many tiles, as rows across some of them that are stored non-temporally."""
        run = self.unpacked_run
        size = int(self.op.tile(run.dim))  # the rule refuses a name
        fetch_ahead = self.config.fetch_ahead
        per = max(self.run_bytes // item_bytes(self.word) // size, 1)
        scratch = emit.scratch([per * size], self.word)
        with serial(emit.ceil_div(count, per)) as part, ExitStack() as stack:
            first = I.Bind(part * per)
            tiles = I.Bind(emit.smaller(per, i64(count) - first))
            inner = self._positions(stack)
            outer = outer_of(first)
            # There may be more tiles than the result has room for.
            tests = self._tests(outer, inner) + self._is_inside(run.dim, outer, inner)
            if tests:
                stack.enter_context(I.If(tirx.all(*tests)))
                stack.enter_context(I.Then())
            if fetch_ahead:
                begin = self._packed_at(outer, [0] * self.rank)
                row = self._packed_at(outer, inner) - begin
                tile = emit.product(self.packed_shape[self.rank :])
                ahead = I.Bind(begin + tiles * i64(tile) + row * tiles)
            with serial(tiles) as number:
                if fetch_ahead:
                    # The line of the last element is the next tile's first, or has been asked for.
                    for line in emit.line_starts(size, self.word)[:-1] or [0]:
                        place = ahead + number * size + line
                        emit.prefetch(self.packed, place, nearest=False)

                def piece(place: Index, lanes: int) -> None:
                    at = self._packed_at(*self._along(run, outer_of(first + number), inner, place))
                    vector = self.packed[emit.run(at, lanes)]
                    I.buffer_store(scratch, vector, [emit.run(number * size + place, lanes)])

                emit.in_vectors(size, self.lanes, piece)
            left = i64(self.extents[run.dim]) - i64(outer[run.dim]) * size
            length = emit.smaller(tiles * size, left)
            stream_run(self.unpacked, self._unpacked_at(outer, inner), scratch, 0, length)

    def _run(self, run: PackedRun, outer: Sequence[Index]) -> tuple[Index, Index]:
        """How long a run is, and how much of it is in the unpacked operand."""
        dim = run.dim
        if run.inner:
            length: Index = self.tiles[dim]
            left = i64(self.extents[dim]) - i64(outer[dim]) * i64(length)
        else:
            step = self.config.run
            exact = known(self.outer[dim])
            if exact is not None and (exact <= step or exact % step == 0):
                length = min(exact, step)
            else:
                length = I.Bind(emit.smaller(step, i64(self.outer[dim]) - i64(outer[dim])))
            left = i64(self.extents[dim]) - i64(outer[dim])
        if self.op.divides(dim):
            return length, length
        return length, I.Bind(emit.larger(emit.smaller(length, left), 0))

    def _along(
        self, run: PackedRun, outer: Sequence[Index], inner: Sequence[Index], place: Index
    ) -> tuple[list[Index], list[Index]]:
        """The point at a place of a run."""
        outer, inner = list(outer), list(inner)
        if run.inner:
            inner[run.dim] = place
        else:
            outer[run.dim] = i64(outer[run.dim]) + i64(place)
        return outer, inner

    # A run that is innermost in both.

    def _rows(self, outer: Sequence[Index], inner: Sequence[Index], pad: bool) -> None:
        run = self.packed_run
        length, inside = self._run(run, outer)

        streaming = self.config.streaming

        def move(count: Index, pad: bool = False, streaming: bool = False) -> None:
            def piece(place: Index, lanes: int) -> None:
                self._move(*self._along(run, outer, inner, place), lanes, pad, streaming)

            emit.in_vectors(count, self.lanes, piece)

        def copy(count: Index) -> None:
            if not streaming or run.inner:
                # Whole runs: a line that is stored to as usual, too, would go to memory twice.
                move(count, streaming=streaming and count is length)
                return
            where = self._along(run, outer, inner, 0)
            packed = self.packed, self._packed_at(*where)
            unpacked = self.unpacked, self._unpacked_at(*where)
            to, source = (packed, unpacked) if self.op.packs else (unpacked, packed)
            stream_run(*to, *source, count)

        if pad:
            move(length, pad, streaming)
        elif inside is length:
            copy(length)
        else:
            with I.If(i64(inside) == i64(length)):
                with I.Then():
                    copy(length)
                with I.Else():
                    copy(inside)
                    if self.op.packs:
                        with serial(length, inside) as place:
                            self._move(*self._along(run, outer, inner, place), pad=True)

    # Runs of two dims.

    def _transpose(self, outer: Sequence[Index], inner: Sequence[Index], pad: bool) -> None:
        rows, columns = self.packed_run, self.unpacked_run
        (row_count, rows_inside), (column_count, columns_inside) = (
            self._run(run, outer) for run in (rows, columns)
        )

        def point(row: Index, column: Index) -> tuple[list[Index], list[Index]]:
            return self._along(columns, *self._along(rows, outer, inner, row), column)

        def scalars(first_row: Index, first_column: Index, row_stop: Index, stop: Index) -> None:
            """Element by element, each tested."""
            with serial(row_stop, first_row) as row, serial(stop, first_column) as column:
                where = point(row, column)
                tests = [
                    i64(at) < i64(inside)
                    for at, inside, count in (
                        (row, rows_inside, row_count),
                        (column, columns_inside, column_count),
                    )
                    if inside is not count
                ]
                if not tests or pad:
                    self._move(*where, pad=pad)
                    return
                with I.If(tirx.all(*tests)):
                    with I.Then():
                        self._move(*where)
                    if self.op.packs:
                        with I.Else():
                            self._move(*where, pad=True)

        if pad:
            scalars(0, 0, row_count, column_count)
            return
        lanes = self.lanes
        row_blocks, column_blocks = (
            emit.ceil_div(row_count, lanes),
            emit.ceil_div(column_count, lanes),
        )
        with serial(row_blocks) as row_block, serial(column_blocks) as column_block:
            row, column = row_block * lanes, column_block * lanes
            whole = [
                i64(at) + lanes <= i64(inside)
                for at, inside in ((row, rows_inside), (column, columns_inside))
                if not _is_multiple(inside, lanes)
            ]

            def square() -> None:
                self._square(point, row, column)

            if not whole:
                square()
                return
            with I.If(tirx.all(*whole)):
                with I.Then():
                    square()
                with I.Else():
                    row_stop = emit.smaller(row + lanes, row_count)
                    scalars(row, column, row_stop, emit.smaller(column + lanes, column_count))

    def _square(
        self,
        point: Callable[[Index, Index], tuple[list[Index], list[Index]]],
        row: Index,
        column: Index,
    ) -> None:
        """A square, as vectors of one operand's run that are stored as vectors of the other's."""
        lanes = self.lanes
        packed = [self._packed_at(*point(row, i64(column) + j)) for j in range(lanes)]
        unpacked = [self._unpacked_at(*point(i64(row) + i, column)) for i in range(lanes)]
        source, target = (self.unpacked, self.packed), (unpacked, packed)
        if not self.op.packs:
            source, target = source[::-1], target[::-1]
        vectors = emit.transpose([source[0][emit.run(first, lanes)] for first in target[0]])
        for first, vector in zip(target[1], vectors, strict=True):
            I.buffer_store(source[1], vector, [emit.run(first, lanes)])


def _is_multiple(count: Index, unit: int) -> bool:
    number = known(count)
    return number is not None and number % unit == 0
