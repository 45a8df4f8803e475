"""arg_compare along the last dimension by a comparison that may be computed in any order.

The lanes of several vectors walk along the line side by side, each from the init on, and note in
which step they found their best; then the lanes are merged, ties by position: the first for a
strict comparison, the last for another.  A lane that found nothing has the init, whatever it is, so
a NaN there is never replaced.  Few long lines are cut into ``splits`` parts, merged likewise.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.arg_compare_operands import (
    NONE,
    ArgCompareOperands,
    compare,
)
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.arg_compare import ArgCompare

# Memory goes on to be read, of this line or the next one, while the lanes of a line are merged.
_AHEAD_BYTES = 8 * 1024


def tree_kernel(op: ArgCompare, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; ``config`` has ``register_tile["vectors"]``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = ArgCompareOperands.declare(op)
        lines, splits = operands.lines, config.splits
        loop = I.parallel if config.parallel else I.serial
        with I.sblock("root"):
            if splits == 1:
                with loop(i64(0), i64(lines.outer)) as row:
                    tree = _Tree(operands, config, row)
                    tree.walk(0, lines.length)
                    operands.finish(row, 0, tree.best[0], tree.position[0])
            else:
                with serial(lines.outer) as row:
                    _emit_split(operands, config, row)
    return builder.get()


def _emit_split(operands: ArgCompareOperands, config: LoweringConfig, row: Expr) -> None:
    """One line, in parts."""
    length, splits = operands.lines.length, config.splits
    best = emit.scratch([splits], operands.held)
    position = emit.scratch([splits], "int64")
    part = emit.ceil_div(length, splits)
    loop = I.parallel if config.parallel else I.serial
    with loop(i64(0), i64(splits)) as split:
        tree = _Tree(operands, config, row)
        first = I.Bind(i64(emit.smaller(split * part, length)))
        tree.walk(first, I.Bind(i64(emit.smaller(first + part, length))))
        I.buffer_store(best, tree.best[0], [split])
        I.buffer_store(position, tree.position[0], [split])
    tree = _Tree(operands, config, row)
    tree.begin()
    with serial(splits) as split:
        tree.merge(best[split], position[split])
    operands.finish(row, 0, tree.best[0], tree.position[0])


class _Tree:
    """The best of a line so far: ``best[0]`` at ``position[0]``."""

    def __init__(self, operands: ArgCompareOperands, config: LoweringConfig, row: Expr) -> None:
        self.operands, self.row = operands, row
        self.sign = operands.op.comparison or ""
        self.lanes, self.vectors = config.vector_lanes, config.register_tile["vectors"]
        self.best = emit.registers(1, operands.held)
        self.position = emit.registers(1, "int64")

    def begin(self) -> None:
        """Only the init."""
        I.buffer_store(self.best, self.operands.start(self.row, 0), [0])
        I.buffer_store(self.position, i64(NONE), [0])

    def load(self, position: Index, lanes: int = 1) -> Expr:
        """Elements of the line."""
        return self.operands.input.load(self.operands.lines.at(self.row, position), lanes)

    def walk(self, first: Index, stop: Index) -> None:
        """Make it the best of the init and the elements of ``first .. stop - 1``."""
        self.begin()
        lanes, block = self.lanes, self.lanes * self.vectors
        low, high = known(first), known(stop)
        blocks: Index = (
            (high - low) // block
            if low is not None and high is not None
            else I.Bind(tirx.floordiv(i64(stop) - i64(first), i64(block)))
        )
        best = emit.registers(block, self.operands.held)
        step = emit.registers(block, "int32")
        for v in range(self.vectors):
            with emit.vector_loop(lanes) as lane:
                I.buffer_store(best, self.best[0], [v * lanes + lane])
                I.buffer_store(step, tirx.const(NONE, "int32"), [v * lanes + lane])
        ahead = _AHEAD_BYTES // item_bytes(self.operands.input.dtype)
        with serial(blocks) as at:
            for v in range(self.vectors):
                vector = self.operands.lines.at(self.row, first + at * block + v * lanes)
                emit.prefetch(self.operands.input.buffer, vector + ahead)
                with emit.vector_loop(lanes) as lane:
                    element = self.load(first + at * block + (v * lanes + lane))
                    slot = v * lanes + lane
                    wins = compare(self.sign, element, best[slot])
                    found = tirx.Select(wins, emit.cast(at, "int32"), step[slot])
                    I.buffer_store(step, found, [slot])
                    I.buffer_store(best, tirx.Select(wins, element, best[slot]), [slot])
        self.merge_vectors(best, step)
        with serial(lanes) as lane:
            # ``step`` counts vectors now.
            number = emit.cast(step[lane], "int64")
            found = tirx.Select(number < 0, i64(NONE), first + number * lanes + lane)
            self.merge(best[lane], found)
        with serial(stop, first + blocks * block) as position:
            self.merge(self.load(position), position)

    def merge_vectors(self, best: Any, step: Any) -> None:
        """Merge the vectors lane by lane into the first; steps become numbers of vectors."""
        lanes, count = self.lanes, self.vectors
        for v in range(count):
            with emit.vector_loop(lanes) as lane:
                slot = v * lanes + lane
                vector = tirx.Select(step[slot] < 0, step[slot], step[slot] * count + v)
                I.buffer_store(step, vector, [slot])
        value, number = emit.registers(lanes, self.operands.held), emit.registers(lanes, "int32")
        for v in range(1, count):
            with emit.vector_loop(lanes) as lane:
                slot = v * lanes + lane
                wins = self.operands.beats(best[slot], step[slot], best[lane], step[lane])
                I.buffer_store(value, tirx.Select(wins, best[slot], best[lane]), [lane])
                I.buffer_store(number, tirx.Select(wins, step[slot], step[lane]), [lane])
                I.buffer_store(best, value[lane], [lane])
                I.buffer_store(step, number[lane], [lane])

    def merge(self, value: Expr, position: Expr) -> None:
        """Take ``value`` at ``position`` into account."""
        wins = self.operands.beats(value, position, self.best[0], self.position[0])
        with I.If(wins), I.Then():
            I.buffer_store(self.best, value, [0])
            I.buffer_store(self.position, position, [0])
