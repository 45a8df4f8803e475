"""arg_compare along a dimension that is not the last: lines lie side by side, in vector lanes.

A task owns a tile of neighbouring columns, whose best values and positions stay in the first cache,
and reads the rows of the tile front to back, a few at a time: each lane sees its elements in the
order of the loop, so any comparator will do.
"""

from collections.abc import Callable

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_config import ArgCompareConfig
from tvm_iree_ext.schedules.cpu.emit.cpu_lines import ColumnTile, column_parts, column_tiles
from tvm_iree_ext.schedules.emit import Expr, i64, known, serial
from tvm_iree_ext.schedules.shared.arg_compare_operands import NONE, ArgCompareOperands


def columns_kernel(op: ArgCompare, config: ArgCompareConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
        operands = ArgCompareOperands.declare(op)
        with column_tiles(operands.lines, config.columns, config.parallel) as tile:
            _Tile(operands, config, tile).emit()
    return builder.get()


class _Tile:
    """One task."""

    def __init__(
        self, operands: ArgCompareOperands, config: ArgCompareConfig, tile: ColumnTile
    ) -> None:
        self.operands, self.columns = operands, tile.columns
        self.outer, self.first, self.size = tile.outer, tile.first, tile.size
        self.rows = config.rows
        self.parts = column_parts(tile.columns, config.lanes)
        self.best = emit.scratch([self.size], operands.held)
        self.position = emit.scratch([self.size], operands.position_dtype)

    def emit(self) -> None:
        """Start from the inits, walk over the rows, write the results."""
        operands, length = self.operands, self.operands.lines.length
        none = tirx.const(NONE, operands.position_dtype)

        def begin(column: Expr, width: int) -> None:
            with emit.vector_loop(width) as lane:
                start = operands.start(self.outer, self.first + column + lane)
                I.buffer_store(self.best, start, [column + lane])
                I.buffer_store(self.position, none, [column + lane])

        self.each(begin)
        blocks = emit.ceil_div(emit.larger(i64(length) - (self.rows - 1), 0), self.rows)
        number = known(length)
        if number is not None:
            blocks = number // self.rows
        with serial(blocks) as block:
            self.each(
                lambda column, width: self.advance(block * self.rows, self.rows, column, width)
            )
        with serial(length, blocks * self.rows) as row:
            self.each(lambda column, width: self.advance(row, 1, column, width))
        with serial(self.columns) as column:
            value, position = self.best[column], self.position[column]
            operands.finish(self.outer, self.first + column, value, position)

    def each(self, body: Callable[[Expr, int], None]) -> None:
        """``body(column, lanes)`` for the vectors that cover the tile."""
        for start, count, width in self.parts:
            with serial(count) as vector:
                body(start + vector * width, width)

    def advance(self, row: Expr, rows: int, column: Expr, width: int) -> None:
        """A vector of columns, over ``rows`` rows."""
        operands = self.operands
        best = emit.registers(width, operands.held)
        position = emit.registers(width, operands.position_dtype)
        with emit.vector_loop(width) as lane:
            I.buffer_store(best, self.best[column + lane], [lane])
            I.buffer_store(position, self.position[column + lane], [lane])
        for i in range(rows):
            self.foresee(row + rows, column * rows + i * width, position[0])
            here = emit.cast(row + i, operands.position_dtype)
            with emit.vector_loop(width) as lane:
                place = operands.lines.at(self.outer, row + i, self.first + column + lane)
                element = operands.input.load(place)
                wins = operands.wins(element, best[lane])
                I.buffer_store(position, tirx.Select(wins, here, position[lane]), [lane])
                I.buffer_store(best, tirx.Select(wins, element, best[lane]), [lane])
        with emit.vector_loop(width) as lane:
            I.buffer_store(self.best, best[lane], [column + lane])
            I.buffer_store(self.position, position[lane], [column + lane])

    def foresee(self, row: Expr, number: Expr, position: Expr) -> None:
        """Ask for an element of the rows from ``row`` on, by its number in them.

        Rows are computed side by side, and asked for one after another: memory is fastest so.  What
        is asked for all at once is no faster than nothing asked for, so the address waits for
        ``position``, the result of the row before, of which it takes 0, or -1 where it is ``NONE``.
        """
        waited = tirx.min(position, tirx.const(0, str(position.ty.dtype)))
        down, column = emit.divide(number + emit.cast(waited, "int64"), self.size)
        place = self.operands.lines.at(self.outer, row + down, self.first + column)
        emit.prefetch(self.operands.input.buffer, place)
