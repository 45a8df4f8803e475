"""arg_compare along the last dimension by a comparison that may be computed in any order.

The lanes of several vectors walk along the line side by side, each from the init on, and note in
which step they found their best; then the lanes are merged, ties by position: the first for a
strict comparison, the last for another.  A lane that found nothing has the init, whatever it is, so
a NaN there is never replaced.  Few long lines are cut into ``splits`` parts, merged likewise.

Lanes are merged in vectors, half of them with the other half: which of two wins is not foreseen,
and a branch for each lane cost more than all else of a line in the second cache.  With
``fetch_ahead`` memory goes on to be read, of this line or the next one, meanwhile.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_config import ArgCompareConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.arg_compare_operands import NONE, ArgCompareOperands

# How far ahead is fetched.
_AHEAD_BYTES = 8 * 1024


def tree_kernel(op: ArgCompare, config: ArgCompareConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
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


def _emit_split(operands: ArgCompareOperands, config: ArgCompareConfig, row: Expr) -> None:
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

    def __init__(self, operands: ArgCompareOperands, config: ArgCompareConfig, row: Expr) -> None:
        self.operands, self.row, self.fetch_ahead = operands, row, config.fetch_ahead
        self.lanes, self.vectors = config.lanes, config.vectors
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
        block = self.lanes * self.vectors
        low, high = known(first), known(stop)
        count = high - low if low is not None and high is not None else I.Bind(i64(stop) - first)
        if isinstance(count, int):
            if count >= block:
                self.walk_blocks(first, stop, count)
            else:
                self.walk_elements(first, stop)
            return
        with I.If(count >= block):
            with I.Then():
                self.walk_blocks(first, stop, count)
            with I.Else():
                self.walk_elements(first, stop)

    def walk_elements(self, first: Index, stop: Index) -> None:
        """Walk the elements of a part that is shorter than a block."""
        with serial(stop, first) as position:
            self.merge(self.load(position), position)

    def walk_blocks(self, first: Index, stop: Index, count: Index) -> None:
        """In blocks of vectors, of which the last may repeat some elements of the one before."""
        lanes, block = self.lanes, self.lanes * self.vectors
        exact = isinstance(count, int) and count % block == 0

        def start(step: Expr, dtype: str = "int64") -> Expr:
            """Start of a block."""
            place = emit.cast(i64(first), dtype) + emit.cast(step, dtype) * block
            return place if exact else tirx.min(place, emit.cast(i64(stop) - block, dtype))

        best = emit.registers(block, self.operands.held)
        found = emit.registers(block, "int32")
        # In every lane: a mask would be paid for with a move from a scalar register, each time.
        step = emit.registers(lanes, "int32")
        with emit.vector_loop(lanes) as lane:
            I.buffer_store(step, tirx.const(0, "int32"), [lane])
        for v in range(self.vectors):
            with emit.vector_loop(lanes) as lane:
                I.buffer_store(best, self.best[0], [v * lanes + lane])
                I.buffer_store(found, tirx.const(NONE, "int32"), [v * lanes + lane])
        ahead = _AHEAD_BYTES // item_bytes(self.operands.input.dtype)
        with serial(emit.ceil_div(count, block)) as number:
            place = I.Bind(start(number))
            for v in range(self.vectors):
                if self.fetch_ahead:
                    vector = self.operands.lines.at(self.row, place + v * lanes)
                    emit.prefetch(self.operands.input.buffer, vector + ahead)
                with emit.vector_loop(lanes) as lane:
                    element = self.load(place + (v * lanes + lane))
                    slot = v * lanes + lane
                    wins = self.operands.wins(element, best[slot])
                    I.buffer_store(found, tirx.Select(wins, step[lane], found[slot]), [slot])
                    I.buffer_store(best, tirx.Select(wins, element, best[slot]), [slot])
            with emit.vector_loop(lanes) as lane:
                I.buffer_store(step, step[lane] + 1, [lane])
        dtype = self.operands.position_dtype
        position = emit.registers(block, dtype)
        for v in range(self.vectors):
            with emit.vector_loop(lanes) as lane:
                slot = v * lanes + lane
                place = start(found[slot], dtype) + emit.cast(slot, dtype)
                place = tirx.Select(found[slot] < 0, tirx.const(NONE, dtype), place)
                I.buffer_store(position, place, [slot])
        self.merge_vectors(best, position)

    def merge_vectors(self, best: Any, position: Any) -> None:
        """Take the lanes of all vectors, which have begun with the init, for the best so far."""
        lanes = self.lanes
        for v in range(1, self.vectors):
            self.merge_lanes(best, position, v * lanes, lanes)
        while lanes > 1:
            lanes //= 2
            self.merge_lanes(best, position, lanes, lanes)
        I.buffer_store(self.best, best[0], [0])
        I.buffer_store(self.position, emit.cast(position[0], "int64"), [0])

    def merge_lanes(self, best: Any, position: Any, others: int, lanes: int) -> None:
        """Take lanes from ``others`` on into account in those from 0 on."""
        value = emit.registers(lanes, self.operands.held)
        place = emit.registers(lanes, self.operands.position_dtype)
        with emit.vector_loop(lanes) as lane:
            other = others + lane
            pairs = (best[other], position[other], best[lane], position[lane])
            wins = self.operands.beats(*pairs)
            I.buffer_store(value, tirx.Select(wins, best[other], best[lane]), [lane])
            I.buffer_store(place, tirx.Select(wins, position[other], position[lane]), [lane])
            I.buffer_store(best, value[lane], [lane])
            I.buffer_store(position, place[lane], [lane])

    def merge(self, value: Expr, position: Expr) -> None:
        """Take ``value`` at ``position`` into account."""
        wins = self.operands.beats(value, position, self.best[0], self.position[0])
        with I.If(wins), I.Then():
            I.buffer_store(self.best, value, [0])
            I.buffer_store(self.position, position, [0])
