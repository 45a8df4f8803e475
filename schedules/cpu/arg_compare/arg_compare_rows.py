"""arg_compare along the last dimension in the order of the loop, for any comparator.

``rows`` takes one line after the other.  ``lanes`` takes as many lines at once as a vector has
lanes, from square tiles that are transposed in registers.  Lines past the end repeat the last one:
they store the same results.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_config import ArgCompareConfig
from tvm_iree_ext.schedules.cpu.emit.cpu_lines import rows_in_lanes
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.arg_compare_operands import NONE, ArgCompareOperands


def rows_kernel(op: ArgCompare, config: ArgCompareConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, a line per task."""
    with IRBuilder() as builder, I.prim_func():
        operands = ArgCompareOperands.declare(op)
        lines = operands.lines
        loop = I.parallel if config.parallel else I.serial
        with I.sblock("root"), loop(i64(0), i64(lines.outer)) as row:
            best = emit.registers(1, operands.held)
            position = emit.registers(1, operands.position_dtype)
            I.buffer_store(best, operands.start(row, 0), [0])
            I.buffer_store(position, tirx.const(NONE, operands.position_dtype), [0])
            with serial(lines.length) as column:
                element = operands.input.load(lines.at(row, column))
                wins = operands.wins(element, best[0])
                here = emit.cast(column, operands.position_dtype)
                I.buffer_store(position, tirx.Select(wins, here, position[0]), [0])
                I.buffer_store(best, tirx.Select(wins, element, best[0]), [0])
            operands.finish(row, 0, best[0], position[0])
    return builder.get()


def lanes_kernel(op: ArgCompare, config: ArgCompareConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, ``lanes`` lines per task."""
    with IRBuilder() as builder, I.prim_func():
        operands = ArgCompareOperands.declare(op)
        lanes = config.lanes
        loop = I.parallel if config.parallel else I.serial
        tasks = i64(emit.ceil_div(operands.lines.outer, lanes))
        with I.sblock("root"), loop(i64(0), tasks) as task:
            _emit_lanes(operands, lanes, rows_in_lanes(task, lanes, operands.lines.outer))
    return builder.get()


def _emit_lanes(operands: ArgCompareOperands, lanes: int, rows: list[Expr]) -> None:
    lines, source, kind = operands.lines, operands.input, operands.position_dtype
    best, position = emit.registers(lanes, operands.held), emit.registers(lanes, kind)
    for lane, row in enumerate(rows):
        I.buffer_store(best, operands.start(row, 0), [lane])
        I.buffer_store(position, tirx.const(NONE, kind), [lane])

    def advance(values: Any, first: Index, column: Index) -> None:
        here = emit.cast(i64(column), kind)
        with emit.vector_loop(lanes) as lane:
            element = values[first + lane]
            wins = operands.wins(element, best[lane])
            I.buffer_store(position, tirx.Select(wins, here, position[lane]), [lane])
            I.buffer_store(best, tirx.Select(wins, element, best[lane]), [lane])

    number = known(lines.length)
    blocks: Index = number // lanes if number is not None else i64(lines.length) // lanes
    # In memory, and the steps in a loop: LLVM needs minutes where a comparison of floats goes
    # through the selections of many unrolled steps.
    tile = emit.scratch([lanes * lanes], operands.held)
    with serial(blocks) as block:
        loaded = [source.load(lines.at(row, block * lanes), lanes) for row in rows]
        for j, vector in enumerate(emit.transpose(loaded)):
            I.buffer_store(tile, vector, [emit.run(j * lanes, lanes)])
        with serial(lanes) as j:
            advance(tile, j * lanes, block * lanes + j)
    with serial(lines.length, blocks * lanes) as column:
        values = emit.registers(lanes, operands.held)
        for lane, row in enumerate(rows):
            I.buffer_store(values, source.load(lines.at(row, column)), [lane])
        advance(values, 0, column)
    for lane, row in enumerate(rows):
        operands.finish(row, 0, best[lane], position[lane])
