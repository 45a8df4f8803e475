"""Scans along a dimension that is not the last: lines lie side by side, in the lanes of vectors.

A task owns a tile of neighbouring columns and walks along the dimension, in order: each step reads
a row of the tile, combines it with the row of the output that it wrote before, which is still in
the L1 cache, and writes the next one.  All traffic is whole rows of the tile, front to back.
"""

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.cpu.lines import column_parts
from tvm_iree_ext.schedules.cpu.scan_operands import ScanOperands

from tvm_iree_ext.ops.scan import Scan


def columns_kernel(op: Scan, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; ``config`` has ``workgroup_tile["columns"]``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = ScanOperands.declare(op)
        lines, tile = operands.lines, config.workgroup_tile["columns"]
        number = known(lines.inner)
        if number is not None:
            tile = min(tile, number)
        # At least one, which TVM cannot see where the number is dynamic: it divides by it.
        tiles = emit.larger(emit.ceil_div(lines.inner, tile), 1)
        loop = I.parallel if config.parallel else I.serial
        tasks = i64(emit.product([lines.outer, tiles]))
        with I.sblock("root"), loop(i64(0), tasks) as task:
            outer = I.Bind(tirx.floordiv(task, i64(tiles)))
            first = I.Bind(tirx.floormod(task, i64(tiles)) * tile)
            if number is not None and number % tile == 0:
                _emit_tile(operands, config.vector_lanes, outer, first, tile)
            else:
                columns = I.Bind(emit.smaller(tile, i64(lines.inner) - first))
                _emit_tile(operands, config.vector_lanes, outer, first, columns)
    return builder.get()


def _emit_tile(
    operands: ScanOperands, lanes: int, outer: Expr, first: Expr, columns: Index
) -> None:
    lines, source, target = operands.lines, operands.input, operands.output
    parts = column_parts(columns, lanes)

    def each(body: object) -> None:
        """``body(column)`` for all columns of the tile, as vector code."""
        for start, count, width in parts:
            with serial(count) as vector, emit.vector_loop(width) as lane:
                body(first + start + vector * width + lane)  # type: ignore[operator]

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
