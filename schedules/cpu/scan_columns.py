"""Scans along a dimension that is not the last: lines lie side by side, in the lanes of vectors.

A task owns a tile of neighbouring columns and walks along the dimension, in order: each step reads
a row of the tile, combines it with the row of the output that it wrote before, which is still in
the L1 cache, and writes the next one.  All traffic is whole rows of the tile, front to back.
"""

from collections.abc import Callable

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.lines import ColumnTile, column_parts, column_tiles
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.scan_operands import ScanOperands

from tvm_iree_ext.ops.scan import Scan


def columns_kernel(op: Scan, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; ``config`` has ``workgroup_tile["columns"]``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = ScanOperands.declare(op)
        with column_tiles(operands.lines, config) as tile:
            _emit_tile(operands, config.vector_lanes, tile)
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
