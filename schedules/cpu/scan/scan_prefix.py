"""Scans along the last dimension where any bracketing will do: prefixes inside vectors.

A vector of neighbouring elements becomes its own prefixes in log2(lanes) steps, each a combination
with the vector shifted by 1, 2, 4, ... lanes; the total of what lies before is combined last, so
that only one operation per vector waits for the vector before.  Operands keep their order, so the
region need not be commutative, nor have an identity.  Where combinations round, totals begin anew
after each run of 64 vectors, and those of runs after 64 of these, so that an output is of hardly
more roundings than that.

Many lines: a line per task.  Few long ones: each is cut into chunks that fit the second cache,
and ``splits`` chunks make a round.  A task scans its chunk of a round from the total before it,
then reduces its chunk of the next round, which leaves that chunk in the cache: memory is read once
and written once.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import fence, next_line, result
from tvm_iree_ext.schedules.cpu.scan.scan_config import ScanConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands

_RUN_VECTORS = 64


def prefix_kernel(op: Scan, config: ScanConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
        operands = ScanOperands.declare(op)
        with I.sblock("root"):
            if config.splits == 1:
                loop = I.parallel if config.parallel else I.serial
                with loop(i64(0), i64(operands.lines.outer)) as row:
                    line = _Line(operands, config, row)
                    carry = emit.registers(1, operands.held)
                    first = line.begin(carry)
                    line.scan(first, operands.lines.length, carry[0])
                    operands.finish(row, 0)
                    line.end()
            else:
                with serial(operands.lines.outer) as row:
                    _in_rounds(_Line(operands, config, row), config)
                    operands.finish(row, 0)
    return builder.get()


class _Line:
    """One line."""

    def __init__(self, operands: ScanOperands, config: ScanConfig, row: Expr) -> None:
        self.operands, self.row = operands, row
        self.lanes = config.lanes
        self.vectors = config.vectors
        self.block = self.lanes * self.vectors
        self.streaming = config.streaming
        self.run: int | None = None  # blocks, where combinations round
        length = known(operands.lines.length)
        is_short = length is not None and length <= 2 * _RUN_VECTORS * self.lanes
        if operands.op.rounds and not is_short:
            self.run = max(_RUN_VECTORS // self.vectors, 1)

    def load(self, position: Index, lanes: int = 1) -> Expr:
        """Elements of the line."""
        return self.operands.input.load(self.operands.lines.at(self.row, position), lanes)

    def store(self, position: Index, value: Expr, lanes: int = 1) -> None:
        """Outputs of the line."""
        target = result(self.operands.output.buffer, self.streaming)
        target.store(self.operands.lines.at(self.row, position), value, lanes)

    def end(self) -> None:
        """The end of a task."""
        if self.streaming:
            fence()

    def begin(self, carry: Any) -> Index:
        """Set ``carry[0]`` to what lies before the position that is returned.

        Inclusive scans have nothing before the first element: the first few outputs are computed
        here, a whole vector so that the rest is aligned as the line is.  What is stored past the
        caches begins where a line of the memory does: then vectors fill such lines.
        """
        output, length = self.operands.output, self.operands.lines.length
        begun = 1 if self.operands.op.inclusive else 0
        if begun:
            I.buffer_store(carry, self.load(0), [0])
            self.store(0, carry[0])
        else:
            I.buffer_store(carry, self.operands.init.load(self.row), [0])
        head = emit.smaller(self.lanes, length) if begun else 0
        if self.streaming:
            origin = self.operands.lines.at(self.row, 0)
            head = next_line(output.buffer, origin + begun, origin + i64(length)) - origin
        with serial(head, begun) as position:
            self.step(position, carry)
        return head

    def step(self, position: Index, carry: Any) -> None:
        """One output."""
        combined = self.operands.combine(carry[0], self.load(position))
        if self.operands.op.inclusive:
            I.buffer_store(carry, combined, [0])
            self.store(position, carry[0])
        else:
            self.store(position, carry[0])
            I.buffer_store(carry, combined, [0])

    def scan(self, first: Index, stop: Index, carry: Expr) -> None:
        """The outputs of ``first .. stop - 1``, from what lies before."""
        lanes, held = self.lanes, self.operands.held
        total = emit.registers(lanes, held)
        I.buffer_store(total, emit.splat(carry, lanes), [emit.run(0, lanes)])
        count = known(stop) is not None and known(first) is not None
        blocks: Index = (
            (known(stop) - known(first)) // self.block  # type: ignore[operator]
            if count
            else I.Bind(tirx.floordiv(i64(stop) - i64(first), i64(self.block)))
        )
        if self.run is None:
            with serial(blocks) as block:
                self.scan_block(first + block * self.block, total)
        else:
            self.scan_runs(first, blocks, total)
        last = emit.registers(1, held)
        I.buffer_store(last, total[0], [0])
        with serial(stop, first + blocks * self.block) as position:
            self.step(position, last)

    def scan_runs(self, first: Index, blocks: Index, total: Any) -> None:
        """The outputs of runs of blocks; ``total`` holds what lies before them, then after.

        The totals of runs begin anew after so many runs as a run has vectors.
        """
        assert self.run is not None
        combine, lanes = self.operands.combine, self.lanes
        within, of_runs, start = (emit.registers(lanes, self.operands.held) for _ in range(3))
        vector = emit.run(0, lanes)
        I.buffer_store(start, total[vector], [vector])
        with serial(emit.ceil_div(blocks, self.run)) as number:
            at = I.Bind(i64(first) + number * (self.run * self.block))
            self.scan_block(at, within, start, begins=True)
            with serial(emit.smaller(self.run, blocks - number * self.run), 1) as block:
                self.scan_block(at + block * self.block, within, start)
            place = I.Bind(tirx.floormod(number, i64(_RUN_VECTORS)))
            with emit.vector_loop(lanes) as lane:
                both = combine(of_runs[lane], within[lane])
                I.buffer_store(of_runs, tirx.Select(place == 0, within[lane], both), [lane])
            with emit.vector_loop(lanes) as lane:
                I.buffer_store(start, combine(total[lane], of_runs[lane]), [lane])
            with I.If(place == _RUN_VECTORS - 1), I.Then():
                I.buffer_store(total, start[vector], [vector])
        I.buffer_store(total, start[vector], [vector])

    def scan_block(
        self, first: Expr, before: Any, start: Any = None, *, begins: bool = False
    ) -> None:
        """The outputs of a block of vectors; ``before`` holds the total so far in each lane.

        Or that of a run so far, which ``start`` lies before, and which the block ``begins``.
        """
        lanes, combine = self.lanes, self.operands.combine
        values, other = (emit.registers(self.block, self.operands.held) for _ in range(2))
        for v in range(self.vectors):
            I.buffer_store(values, self.load(first + v * lanes, lanes), [self.place(v)])
        distance = 1
        while distance < lanes:
            shift = [max(lane - distance, 0) for lane in range(lanes)]
            for v in range(self.vectors):
                I.buffer_store(other, self.lanes_of(values, v, shift), [self.place(v)])
                with emit.vector_loop(lanes) as lane:
                    at = v * lanes + lane
                    combined = combine(other[at], values[at])
                    prefix = tirx.Select(lane >= distance, combined, values[at])
                    I.buffer_store(values, prefix, [at])
            distance *= 2
        for v in range(self.vectors):
            total = self.lanes_of(values, v, [lanes - 1] * lanes)
            I.buffer_store(other, total, [self.place(v)])
        for v in range(self.vectors):
            is_first = begins and v == 0
            so_far = start if is_first else before
            if start is not None and not is_first:
                so_far = emit.registers(lanes, self.operands.held)
                with emit.vector_loop(lanes) as lane:
                    I.buffer_store(so_far, combine(start[lane], before[lane]), [lane])
            with emit.vector_loop(lanes) as lane:
                at = v * lanes + lane
                I.buffer_store(values, combine(so_far[lane], values[at]), [at])
            output = values[self.place(v)]
            if not self.operands.op.inclusive:
                both = [so_far[emit.run(0, lanes)], output]
                output = tirx.Shuffle(both, [0, *range(lanes, 2 * lanes - 1)])
            self.store(first + v * lanes, output, lanes)
            with emit.vector_loop(lanes) as lane:
                advanced = other[v * lanes + lane]
                if not is_first:
                    advanced = combine(before[lane], advanced)
                I.buffer_store(before, advanced, [lane])

    def reduce(self, first: Expr, count: int, total: Any) -> None:
        """Set ``total[0]`` to the combination of a whole number of blocks."""
        blocks = count // self.block
        run = self.run or blocks
        self.reduce_run(first, min(run, blocks), total)
        if blocks > run:
            within = emit.registers(1, self.operands.held)
            with serial(emit.ceil_div(blocks, run), 1) as number:
                many = emit.smaller(run, blocks - number * run)
                self.reduce_run(first + number * (run * self.block), many, within)
                I.buffer_store(total, self.operands.combine(total[0], within[0]), [0])

    def reduce_run(self, first: Expr, blocks: Index, total: Any) -> None:
        """Set ``total[0]`` to the combination of so many blocks, one after the other."""
        self.reduce_block(first, total, begins=True)
        with serial(blocks, 1) as block:
            self.reduce_block(first + block * self.block, total)

    def reduce_block(self, first: Expr, total: Any, *, begins: bool = False) -> None:
        """Combine ``total[0]`` with a block, neighbours first."""
        lanes, combine = self.lanes, self.operands.combine
        values, other = (emit.registers(self.block, self.operands.held) for _ in range(2))
        for v in range(self.vectors):
            I.buffer_store(values, self.load(first + v * lanes, lanes), [self.place(v)])
        distance = 1
        while distance < lanes:
            shift = [min(lane + distance, lanes - 1) for lane in range(lanes)]
            for v in range(self.vectors):
                I.buffer_store(other, self.lanes_of(values, v, shift), [self.place(v)])
                with emit.vector_loop(lanes) as lane:
                    at = v * lanes + lane
                    I.buffer_store(values, combine(values[at], other[at]), [at])
            distance *= 2
        for v in range(self.vectors):
            value = values[v * lanes]
            if not (begins and v == 0):
                value = combine(total[0], value)
            I.buffer_store(total, value, [0])

    def place(self, v: int) -> Expr:
        """The indices of vector ``v`` in a buffer of a block."""
        return emit.run(v * self.lanes, self.lanes)

    def lanes_of(self, values: Any, v: int, order: list[int]) -> Expr:
        """Vector ``v`` with its lanes in another order."""
        value = values[self.place(v)]
        return tirx.Shuffle([value, value], order) if self.lanes > 1 else value


def _in_rounds(line: _Line, config: ScanConfig) -> None:
    """The line in chunks of which ``splits`` make a round."""
    splits, chunk = config.splits, config.length
    operands, length = line.operands, line.operands.lines.length
    combine, held = operands.combine, operands.held
    loop = I.parallel if config.parallel else I.serial
    carry = emit.scratch([1], held)
    totals = emit.scratch([splits], held)
    offsets = emit.scratch([splits], held)
    start = line.begin(carry)

    def first_of(round: Index, split: Index) -> Expr:
        return i64(start) + (i64(round) * splits + split) * chunk

    def reduce(round: Index, split: Expr) -> None:
        # The last chunk, and one that is cut short, has none behind it that would need its total.
        first = first_of(round, split)
        with I.If(first + chunk < i64(length)), I.Then():
            total = emit.registers(1, held)
            line.reduce(first, chunk, total)
            I.buffer_store(totals, total[0], [split])

    with serial(splits) as split:
        I.buffer_store(totals, carry[0], [split])
    with loop(i64(0), i64(splits)) as split:
        reduce(0, split)
    rounds = emit.ceil_div(i64(length) - i64(start), splits * chunk)
    with serial(rounds) as round:
        with serial(splits) as split:
            I.buffer_store(offsets, carry[0], [split])
            I.buffer_store(carry, combine(carry[0], totals[split]), [0])
        with loop(i64(0), i64(splits)) as split:
            first = I.Bind(first_of(round, split))
            with I.If(first < i64(length)), I.Then():
                line.scan(first, I.Bind(emit.smaller(first + chunk, length)), offsets[split])
                line.end()
            reduce(round + 1, split)
