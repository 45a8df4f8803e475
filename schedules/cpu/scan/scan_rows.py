"""Scans along the last dimension, in the order of the definition.

``rows`` walks along one line after the other: each step waits for the one before.  ``lanes`` walks
along as many lines at once as a vector has lanes: square tiles are transposed in registers, so
that each step is one vector operation, and memory is still read and written in whole vectors.
Lines past the end repeat the last one: they store the same values.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.cpu_lines import rows_in_lanes
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import fence, next_line, stream_run
from tvm_iree_ext.schedules.cpu.scan.scan_config import ScanConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.lines import FlatOperand
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands

# What is gathered of each line for a run: that of all lies in the second cache.  With what is read
# next fetched meanwhile, less, so that memory is read all the time that it is written.
_RUN_BYTES = 4 * 1024
_FETCHED_RUN_BYTES = 2 * 1024

# How far ahead it is fetched.
_AHEAD_BYTES = 2 * 1024


def rows_kernel(op: Scan, config: ScanConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, a line per task."""
    with IRBuilder() as builder, I.prim_func():
        operands = ScanOperands.declare(op)
        lines, source, target = operands.lines, operands.input, operands.output
        loop = I.parallel if config.parallel else I.serial
        with I.sblock("root"), loop(i64(0), i64(lines.outer)) as row:
            carry = emit.registers(1, operands.held)
            start = source.load(lines.at(row, 0)) if op.inclusive else operands.init.load(row)
            I.buffer_store(carry, start, [0])
            target.store(lines.at(row, 0), carry[0])
            with serial(i64(lines.length) - 1) as before:
                element = source.load(lines.at(row, before + 1 if op.inclusive else before))
                I.buffer_store(carry, operands.step(carry[0], element), [0])
                target.store(lines.at(row, before + 1), carry[0])
            operands.finish(row, 0)
    return builder.get()


def lanes_kernel(op: Scan, config: ScanConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, ``lanes`` lines per task."""
    with IRBuilder() as builder, I.prim_func():
        operands = ScanOperands.declare(op)
        lanes = config.lanes
        loop = I.parallel if config.parallel else I.serial
        tasks = i64(emit.ceil_div(operands.lines.outer, lanes))
        with I.sblock("root"), loop(i64(0), tasks) as task:
            _Lanes(operands, config, task).emit()
    return builder.get()


class _Lanes:
    """One task of the lanes form."""

    def __init__(self, operands: ScanOperands, config: ScanConfig, task: Expr) -> None:
        self.operands, self.lanes = operands, config.lanes
        self.streaming, self.fetch_ahead = config.streaming, config.fetch_ahead
        self.lines = operands.lines
        self.rows = rows_in_lanes(task, self.lanes, self.lines.outer)
        self.carry = emit.registers(self.lanes, operands.held)
        self.next = emit.registers(self.lanes, operands.held)

    def emit(self) -> None:
        """All columns, in square tiles as far as these are whole, the others one by one."""
        if not self.operands.op.inclusive:
            for lane, row in enumerate(self.rows):
                I.buffer_store(self.carry, self.operands.init.load(row), [lane])
        done = self.stream_tiles() if self.streaming else self.tiles()
        with serial(self.lines.length, done) as column:
            self.column(column)
        for row in self.rows:
            self.operands.finish(row, 0)
        if self.streaming:
            fence()

    def tiles(self) -> Index:
        """Tiles from the first column on; returns the next column."""
        lanes, length = self.lanes, self.lines.length
        number = known(length)
        blocks: Index = number // lanes if number is not None else i64(length) // lanes
        begun = 0
        if self.operands.op.inclusive:
            # The first column has none before it; it comes in the first tile, if there is one.
            begun = 1
            if number is None:
                with I.If(i64(length) >= lanes):
                    with I.Then():
                        self.tile(0, begins=True)
                    with I.Else():
                        self.column(0, begins=True)
            else:
                (self.tile if blocks else self.column)(0, begins=True)
        if number is None or number // lanes > begun:
            with serial(blocks, begun) as block:
                self.tile(block * lanes)
        return emit.larger(begun, blocks * lanes)

    def stream_tiles(self) -> Index:
        """Scan tiles like :meth:`tiles`, with non-temporal stores, in runs of some tiles.

        Columns before a line of the cache begins are done one by one: rows that lie a power of 2
        apart would push out of the first cache what a tile has begun of their lines.
        """
        lanes, source, output = self.lanes, self.operands.input, self.operands.output
        origin, begun = self.lines.at(self.rows[0], 0), 0
        if self.operands.op.inclusive:
            self.column(0, begins=True)
            begun = 1
        stop = origin + i64(self.lines.length)
        first = I.Bind(next_line(source.buffer, origin + begun, stop) - origin)
        with serial(first, begun) as column:
            self.column(column)
        blocks = I.Bind(tirx.floordiv(i64(self.lines.length) - first, i64(lanes)))
        item = item_bytes(output.dtype)
        most = max((_FETCHED_RUN_BYTES if self.fetch_ahead else _RUN_BYTES) // item // lanes, 1)
        # Rows are a line more than a power of 2 apart here.
        stride = (most + 1) * lanes
        gathered = FlatOperand(emit.scratch([lanes * stride], output.dtype))
        with serial(emit.ceil_div(blocks, most)) as part:
            start = I.Bind(first + part * (most * lanes))
            count = I.Bind(emit.smaller(most, blocks - part * most))
            with serial(count) as block:
                if self.fetch_ahead:
                    ahead = start + block * lanes + _AHEAD_BYTES // item
                    for row in self.rows:
                        emit.prefetch(source.buffer, self.lines.at(row, ahead))
                at = [block * lanes + lane * stride for lane in range(lanes)]
                self.tile(start + block * lanes, gathered, at)
            for lane, row in enumerate(self.rows):
                to = self.lines.at(row, start)
                stream_run(output.buffer, to, gathered.buffer, lane * stride, count * lanes)
        return first + blocks * lanes

    def tile(
        self,
        first: Index,
        output: FlatOperand | None = None,
        places: Sequence[Expr] = (),
        *,
        begins: bool = False,
    ) -> None:
        """The columns from ``first`` on, as many as there are lanes.

        Their outputs go to ``places`` of ``output``, or where they belong.
        """
        lanes, operands = self.lanes, self.operands
        tile = emit.registers(lanes * lanes, operands.held)

        def vector(i: int) -> Expr:
            return emit.run(i * lanes, lanes)

        loaded = [operands.input.load(self.lines.at(row, first), lanes) for row in self.rows]
        for j, value in enumerate(emit.transpose(loaded)):
            I.buffer_store(tile, value, [vector(j)])
        for j in range(lanes):
            with emit.vector_loop(lanes) as lane:
                self.advance(tile, j * lanes + lane, lane, begins=begins and j == 0)
        stored = emit.transpose([tile[vector(j)] for j in range(lanes)])
        if output is None:
            output = operands.output
            places = [self.lines.at(row, first) for row in self.rows]
        for place, value in zip(places, stored, strict=True):
            output.store(place, value, lanes)

    def column(self, column: Index, *, begins: bool = False) -> None:
        """One column."""
        lanes, operands = self.lanes, self.operands
        values = emit.registers(lanes, operands.held)
        for lane, row in enumerate(self.rows):
            I.buffer_store(values, operands.input.load(self.lines.at(row, column)), [lane])
        with emit.vector_loop(lanes) as lane:
            self.advance(values, lane, lane, begins=begins)
        for lane, row in enumerate(self.rows):
            operands.output.store(self.lines.at(row, column), values[lane])

    def advance(self, values: Any, place: Expr, lane: Expr, *, begins: bool) -> None:
        """Replace an element by its output, and go on with the carry."""
        element = values[place]
        if begins:
            I.buffer_store(self.carry, element, [lane])
        elif self.operands.op.inclusive:
            I.buffer_store(self.carry, self.operands.step(self.carry[lane], element), [lane])
            I.buffer_store(values, self.carry[lane], [place])
        else:
            I.buffer_store(self.next, self.operands.step(self.carry[lane], element), [lane])
            I.buffer_store(values, self.carry[lane], [place])
            I.buffer_store(self.carry, self.next[lane], [lane])
