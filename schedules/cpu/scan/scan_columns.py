"""Scans along a dimension that is not the last: lines lie side by side, in the lanes of vectors.

A task owns a tile of neighbouring columns and walks along the dimension, in order: each step reads
a row of the tile, combines it with the row of the output that it wrote before, which is still in
the first cache, and writes the next one.  All traffic is whole rows of the tile, front to back.
An output that is stored non-temporally cannot be read again: the last row is kept beside it, and
copied from there; or, fetching ahead, vectors are stored as they are computed, from where a line of
the cache begins in each row, and a later row is fetched meanwhile.
"""

from collections.abc import Callable

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
from tvm_iree_ext.schedules.shared.lines import FlatOperand
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands

# What is fetched of the rows to come, at least.
_AHEAD_BYTES = 8192


def begin_in_parts(inner: Extent | None, columns: int, dtype: str) -> bool:
    """Whether rows of tiles of so many columns begin where non-temporal stores may."""
    return all(streaming_stores.begins_parts(count, dtype) for count in (inner, columns))


def columns_kernel(op: Scan, config: ScanConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    emit_tile = _emit_tile
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


def _stream_tile(operands: ScanOperands, lanes: int, tile: ColumnTile) -> None:
    """Emit a tile with the row written last in scratch of its own; see :func:`_emit_tile`."""
    last = FlatOperand(emit.scratch([tile.size], operands.output.dtype))

    def each(position: Index, _read: Index, value: Callable[[Expr], Expr]) -> None:
        """A row of outputs, ``value(place)`` with places in the tile."""
        for start, count, width in column_parts(tile.columns, lanes):
            with serial(count) as vector, emit.vector_loop(width) as lane:
                place = start + vector * width + lane
                last.store(place, value(place))
        at = operands.lines.at(tile.outer, position, tile.first)
        streaming_stores.stream_run(operands.output.buffer, at, last.buffer, 0, tile.columns)

    _walk(operands, lanes, tile, last, each)


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


def _walk(
    operands: ScanOperands,
    lanes: int,
    tile: ColumnTile,
    last: FlatOperand,
    each: Callable[[Index, Index, Callable[[Expr], Expr]], None],
) -> None:
    """All rows of a tile, non-temporally: ``each(position, read, value)`` keeps one in ``last``."""
    lines, outer, source = operands.lines, tile.outer, operands.input
    inclusive = operands.op.inclusive

    def begin(place: Expr) -> Expr:
        column = tile.first + place
        if inclusive:
            return source.load(lines.at(outer, 0, column))
        return operands.init.load(lines.line(outer, column))

    each(0, 0, begin)
    with serial(i64(lines.length) - 1) as before:
        read = before + 1 if inclusive else before

        def advance(place: Expr) -> Expr:
            element = source.load(lines.at(outer, read, tile.first + place))
            return operands.combine(last.load(place), element)

        each(before + 1, read, advance)
    for start, count, width in column_parts(tile.columns, lanes):
        with serial(count) as vector, emit.vector_loop(width) as lane:
            operands.finish(outer, tile.first + start + vector * width + lane)
    streaming_stores.fence()
