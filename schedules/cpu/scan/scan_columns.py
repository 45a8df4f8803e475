"""Scans along a dimension that is not the last: lines lie side by side, in the lanes of vectors.

A task owns a tile of neighbouring columns and walks along the dimension, in order: each step reads
a row of the tile, combines it with the row of the output that it wrote before, which is still in
the first cache, and writes the next one.  All traffic is whole rows of the tile, front to back.
An output that is stored non-temporally cannot be read again: the last row is kept beside it, and
copied from there; or, fetching ahead, vectors are stored as they are computed, from where a line of
the cache begins in each row, and a later row is fetched meanwhile.

Where combinations round, may be bracketed, and are many, totals begin anew after each run of 64
rows, and those of runs after 64 of these: an output is of hardly more additions in a row than that.
"""

from collections.abc import Callable, Iterator

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.codegen.cpu.non_temporal_stores import PART_BYTES
from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit import streaming_stores
from tvm_iree_ext.schedules.cpu.emit.cpu_lines import ColumnTile, column_parts, column_tiles
from tvm_iree_ext.schedules.cpu.scan.scan_config import ScanConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.lines import FlatOperand, held_dtype
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands

_RUN = 64
"""Rows of a run, and runs whose totals are combined one after another."""

_LONG = 1024
"""Rows up to which all are combined one after another."""

# What is fetched of the rows to come, at least.
_AHEAD_BYTES = 8192


def begin_in_parts(inner: Extent | None, columns: int, dtype: str) -> bool:
    """Whether rows of tiles of so many columns begin where non-temporal stores may."""
    return all(streaming_stores.begins_parts(count, dtype) for count in (inner, columns))


def _begins_anew(op: Scan) -> bool:
    """Whether the totals of runs of rows are kept apart."""
    length = known(op.type.shape[op.dimension])
    # The output that is read again is rounded: sums of bfloat16 would stay where they are.
    is_rounded = held_dtype(op.type.dtype) != op.type.dtype
    most = 1 if is_rounded else _LONG
    return op.rounds and not op.in_order and (length is None or length > most)


def columns_kernel(op: Scan, config: ScanConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    emit_tile = _kept_tile if _begins_anew(op) else _emit_tile
    if config.streaming:
        emit_tile = _fetching_tile if config.fetch_ahead else _stream_tile
    with IRBuilder() as builder, I.prim_func():
        operands = ScanOperands.declare(op)
        with column_tiles(operands.lines, config.columns, config.parallel) as tile:
            emit_tile(operands, config.lanes, tile)
    return builder.get()


def _emit_tile(operands: ScanOperands, lanes: int, tile: ColumnTile) -> None:
    lines, source, target = operands.lines, operands.input, operands.output
    outer, parts = tile.outer, column_parts(tile.columns, lanes)

    def each(body: Callable[[Expr], None]) -> None:
        """``body(column)`` for all columns of the tile, as vector code."""
        for start, count, width in parts:
            with serial(count) as vector, emit.vector_loop(width) as lane:
                body(tile.first + start + vector * width + lane)

    def begin(column: Expr) -> None:
        value = (
            source.load(lines.at(outer, 0, column))
            if operands.op.inclusive
            else operands.init.load(lines.line(outer, column))
        )
        target.store(lines.at(outer, 0, column), value)

    each(begin)
    with serial(i64(lines.length) - 1) as before:
        read = before + 1 if operands.op.inclusive else before

        def advance(column: Expr) -> None:
            previous = target.load(lines.at(outer, before, column))
            element = source.load(lines.at(outer, read, column))
            value = operands.combine(previous, element)
            target.store(lines.at(outer, before + 1, column), value)

        each(advance)
    each(lambda column: operands.finish(outer, column))


def _kept_tile(operands: ScanOperands, lanes: int, tile: ColumnTile) -> None:
    """Emit a tile with the row written last in scratch, too; see :func:`_emit_tile`."""
    last = FlatOperand(emit.scratch([tile.size], operands.output.dtype))

    def each(position: Index, _read: Index, value: Callable[[Expr], Expr]) -> None:
        for place in _places(lanes, tile):
            last.store(place, value(place))
            at = operands.lines.at(tile.outer, position, tile.first + place)
            operands.output.store(at, last.load(place))

    _walk(operands, lanes, tile, last, each)


def _places(lanes: int, tile: ColumnTile) -> Iterator[Expr]:
    """Each place of a tile, in vector code."""
    for start, count, width in column_parts(tile.columns, lanes):
        with serial(count) as vector, emit.vector_loop(width) as lane:
            yield start + vector * width + lane


def _stream_tile(operands: ScanOperands, lanes: int, tile: ColumnTile) -> None:
    """Emit a tile with the row written last in scratch of its own; see :func:`_emit_tile`."""
    last = FlatOperand(emit.scratch([tile.size], operands.output.dtype))

    def each(position: Index, _read: Index, value: Callable[[Expr], Expr]) -> None:
        """A row of outputs, ``value(place)`` with places in the tile."""
        for place in _places(lanes, tile):
            last.store(place, value(place))
        at = operands.lines.at(tile.outer, position, tile.first)
        streaming_stores.stream_run(operands.output.buffer, at, last.buffer, 0, tile.columns)

    _walk(operands, lanes, tile, last, each)
    streaming_stores.fence()


def _fetching_tile(operands: ScanOperands, lanes: int, tile: ColumnTile) -> None:
    """Emit a tile like :func:`_stream_tile`, with a non-temporal store of each vector at once.

    Where all rows begin alike, vectors may go in parts, and are those of whole lines that are read:
    one across two lines waits for both.  Else they are those of whole lines that are written.
    """
    lines, outer, source = operands.lines, tile.outer, operands.input.buffer
    output, target = operands.output.buffer, streaming_stores.result(operands.output.buffer, True)
    item = item_bytes(operands.output.dtype)
    per_line = max(emit.LINE_BYTES // item, 1)
    # Lines of the last row are those of the first one that is read, and of others that begin alike.
    origin = I.Bind(lines.at(outer, 0, tile.first))
    ragged = streaming_stores.next_line(source, origin, origin + per_line) - origin
    room = emit.scratch([tile.size + per_line], operands.output.dtype)
    last = FlatOperand(
        I.decl_buffer(
            [i64(tile.size)],
            operands.output.dtype,
            data=room.data,
            elem_offset=I.Bind(per_line - ragged),
            align=item,
        )
    )
    rows_ahead = emit.ceil_div(_AHEAD_BYTES, tile.size * item)
    in_parts = begin_in_parts(known(lines.inner), tile.size, source.dtype)
    least = max(PART_BYTES // item, 1) if in_parts else 1
    several = max(per_line // lanes, 1)  # vectors that a line has

    def each(position: Index, read: Index, value: Callable[[Expr], Expr]) -> None:
        """A row of outputs, ``value(place)`` with places in the tile."""
        at = I.Bind(lines.at(outer, position, tile.first))
        ahead = I.Bind(lines.at(outer, i64(read) + rows_ahead, tile.first))

        def put(place: Expr, count: int) -> None:
            with emit.vector_loop(count) as lane:
                last.store(place + lane, value(place + lane))
            target.store(at + place, last.load(place, count), count)

        def edge(count: Expr, start: Index = 0) -> None:
            with serial(tirx.floordiv(count, i64(least))) as number:
                put(start + number * least, least)

        # The whole lines of what is read, or of what is written if that cannot go in parts.
        whole, begin = (source, lines.at(outer, read, tile.first)) if in_parts else (output, at)
        begin = I.Bind(begin)
        head = I.Bind(streaming_stores.next_line(whole, begin, begin + i64(tile.columns)) - begin)
        if in_parts:
            head = I.Bind(tirx.floordiv(head, i64(least)) * least)
        for end in (i64(0), i64(tile.columns) - 1):
            emit.prefetch(source, ahead + end)
            if not in_parts:
                # What is stored as usual waits for its line, and what is stored later for that.
                line = at + end + rows_ahead * i64(lines.inner)
                emit.prefetch(output, line, write=True)
        edge(head)
        steps = I.Bind(tirx.floordiv(i64(tile.columns) - head, i64(several * lanes)))
        with serial(steps) as step:
            first = head + step * (several * lanes)
            # The line after the one below: where rows are a little shorter than some pages, that
            # has the place in a page of what was just stored, and waits for the store.
            emit.prefetch(source, ahead + first + per_line)
            for vector in range(several):
                put(first + vector * lanes, lanes)
        done = I.Bind(head + steps * (several * lanes))
        edge(i64(tile.columns) - done, done)

    _walk(operands, lanes, tile, last, each)
    streaming_stores.fence()


def _walk(
    operands: ScanOperands,
    lanes: int,
    tile: ColumnTile,
    last: FlatOperand,
    each: Callable[[Index, Index, Callable[[Expr], Expr]], None],
) -> None:
    """All rows of a tile: ``each(position, read, value)`` stores one, and keeps it in ``last``."""
    lines, outer, source = operands.lines, tile.outer, operands.input
    op = operands.op
    runs = _Runs(operands, lanes, tile, last) if _begins_anew(op) else None

    def begin(place: Expr) -> Expr:
        column = tile.first + place
        if op.inclusive:
            return source.load(lines.at(outer, 0, column))
        return operands.init.load(lines.line(outer, column))

    each(0, 0, begin)
    with serial(i64(lines.length) - 1) as before:
        read = before + 1 if op.inclusive else before

        def element(place: Expr) -> Expr:
            return source.load(lines.at(outer, read, tile.first + place))

        if runs is not None:
            runs.take(before, element)
            each(before + 1, read, runs.total)
        else:
            each(before + 1, read, lambda place: operands.combine(last.load(place), element(place)))
    for place in _places(lanes, tile):
        operands.finish(outer, tile.first + place)


class _Runs:
    """The totals of runs of rows, a row of each in scratch.

    An output is ``before`` combined with ``run``, what there is of a run; ``before`` is ``first``
    combined with ``of_runs``, the runs since the last 64 of them ended.
    """

    def __init__(
        self, operands: ScanOperands, lanes: int, tile: ColumnTile, last: FlatOperand
    ) -> None:
        self.combine, self.last = operands.combine, last
        self.lanes, self.tile = lanes, tile
        self.run, self.before, self.of_runs, self.first = (
            FlatOperand(emit.scratch([tile.size], operands.held)) for _ in range(4)
        )

    def total(self, place: Expr) -> Expr:
        """The output of the row that was taken last."""
        return self.combine(self.before.load(place), self.run.load(place))

    def take(self, row: Expr, element: Callable[[Expr], Expr]) -> None:
        """One more row, the ``row``-th; the output before it is in ``last``."""
        place_in_run = I.Bind(tirx.floormod(row, i64(_RUN)))
        number = I.Bind(tirx.floormod(tirx.floordiv(row, i64(_RUN)), i64(_RUN)))
        with I.If(place_in_run == 0):
            with I.Then():
                self._begin_run(number, element)
            with I.Else():
                for place in _places(self.lanes, self.tile):
                    self.run.store(place, self.combine(self.run.load(place), element(place)))

    def _begin_run(self, number: Expr, element: Callable[[Expr], Expr]) -> None:
        with I.If(number == 0):
            with I.Then():
                for place in _places(self.lanes, self.tile):
                    self.first.store(place, self.last.load(place))
                    self.before.store(place, self.last.load(place))
                    self.run.store(place, element(place))
            with I.Else():
                for place in _places(self.lanes, self.tile):
                    both = self.combine(self.of_runs.load(place), self.run.load(place))
                    of_runs = tirx.Select(number == 1, self.run.load(place), both)
                    self.of_runs.store(place, of_runs)
                    so_far = self.combine(self.first.load(place), self.of_runs.load(place))
                    self.before.store(place, so_far)
                    self.run.store(place, element(place))
