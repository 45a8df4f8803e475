"""Counts of every digit of a line's keys, for all digits at once: the keys are read once.

histogram   a workgroup has a share of a line, and counts in shared memory, for each digit in
            several places, so that lanes with equal keys meet less often
bases       over the digits: how many elements of the line have a smaller one
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.atomics import atomic_update, shared_add
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64
from tvm_iree_ext.schedules.gpu.collectives.workgroup_prefix import WorkgroupPrefix
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import (
    WorkgroupShape,
    wait,
    workgroups,
    workgroups_each,
)
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGIT_BITS, DIGITS
from tvm_iree_ext.schedules.gpu.sort.radix_ranks import shared_memory
from tvm_iree_ext.schedules.gpu.sort.radix_tile import RadixColumns
from tvm_iree_ext.tir.tir_expressions import Expr

_LOADS = 8  # keys of a lane that are under way at once
_COUNTERS = 4096  # of a workgroup: 16 KiB
_MOST_PLACES = 4  # for each digit


class Histogram:
    """The counts of all digits, and the kernels that make them, while emitted.

    Args:
        columns: the operands.
        kind: of the target.
        shape: of the workgroups.
        sharing: how many workgroups share the lines.
    """

    def __init__(
        self, columns: RadixColumns, kind: str, shape: WorkgroupShape, sharing: int, counts: Any
    ) -> None:
        self.columns, self.kind, self.shape, self.sharing = columns, kind, shape, sharing
        self.lines, self.length = columns.operands.lines, columns.operands.length
        self.passes = columns.key.digits
        self.counts = counts

    def emit(self) -> None:
        """The two kernels, for counts that are cleared."""
        self._count()
        self._sum()

    def place(self, turn: Index, line: Expr, digit: Expr) -> Expr:
        """Index of a digit's count, or of its base."""
        return (i64(turn) * i64(self.lines) + line) * DIGITS + wide(digit)

    def _count(self) -> None:
        shape, step = self.shape, _LOADS * self.shape.lanes
        steps = emit.ceil_div(self.length, step)
        shares = emit.larger(emit.smaller(workgroups_each(self.sharing, self.lines), steps), 1)
        each = emit.product([emit.ceil_div(steps, shares), step])
        launch = workgroups(
            emit.product([self.lines, shares]), shape.subgroups, shape.size, self.kind
        )
        with launch as (number, ids):
            line, share = map(held, emit.divide(wide(number), shares))
            lane = I.Bind(ids.subgroup * shape.size + ids.lane)
            counters = _Counters(self.passes, shape, lane, ids)
            counters.clear()
            first = held(share * i64(each))
            stop = held(tirx.min(first + i64(each), i64(self.length)))
            turns = tirx.floordiv(tirx.max(stop - first, i64(0)) + (step - 1), i64(step))
            with I.serial(i64(0), held(turns)) as turn:
                begin = held(first + turn * step)
                places = [held(begin + (at * shape.lanes + wide(lane))) for at in range(_LOADS)]
                words = [
                    self.columns.load_key(line, held(tirx.min(place, stop - 1))) for place in places
                ]
                for place, word in zip(places, words, strict=True):
                    with I.If(place < stop), I.Then():
                        for digit in range(self.passes):
                            shift = tirx.const(digit * DIGIT_BITS, "int32")
                            counters.add(digit, self.columns.key.digit(word, shift))
            wait()
            with counters.each() as (digit_turn, digit, count), I.If(count > 0), I.Then():
                at = self.place(wide(digit_turn), line, digit)
                I.evaluate(atomic_update(self.kind, "add", self.counts, I.Bind(at), count))

    def _sum(self) -> None:
        shape = self.shape
        count = emit.product([self.passes, self.lines])
        with workgroups(count, shape.subgroups, shape.size, self.kind) as (number, ids):
            lane = I.Bind(ids.subgroup * shape.size + ids.lane)
            of_lane = max(1, DIGITS // shape.lanes)
            condition = None if shape.lanes <= DIGITS else lane < DIGITS
            first = I.Bind(wide(number) * DIGITS)
            digits = [I.Bind(lane * of_lane + at) for at in range(of_lane)]
            cells = [emit.registers(1, "int32") for _ in digits]
            for cell, digit in zip(cells, digits, strict=True):
                I.buffer_store(cell, tirx.const(0, "int32"), [0])
                with where(condition):
                    I.buffer_store(cell, self.counts[first + wide(digit)], [0])
            sums = WorkgroupPrefix(ids).sums([cell[0] for cell in cells])
            with where(condition):
                for digit, before in zip(digits, sums, strict=True):
                    I.buffer_store(self.counts, before, [first + wide(digit)])


class _Counters:
    """A workgroup's counters in shared memory, while emitted."""

    def __init__(self, passes: int, shape: WorkgroupShape, lane: Expr, ids: WorkgroupIds) -> None:
        self.digits, self.lanes, self.lane, self.ids = passes * DIGITS, shape.lanes, lane, ids
        self.places = min(_MOST_PLACES, max(1, _COUNTERS // self.digits))
        self.memory = shared_memory("counters", self.digits * self.places, "int32")

    def clear(self) -> None:
        with I.serial(0, -(-self.digits * self.places // self.lanes)) as turn:
            at = I.Bind(turn * self.lanes + self.lane)
            with where(self._within(at, self.digits * self.places)):
                I.buffer_store(self.memory, tirx.const(0, "int32"), [at])
        wait()

    def add(self, turn: int, digit: Expr) -> None:
        """Count a key's digit of a turn."""
        place = (digit + turn * DIGITS) * self.places + self.ids.lane % self.places
        one = tirx.const(1, "int32")
        I.evaluate(shared_add(self.ids.kind, self.memory, I.Bind(place), one))

    @contextmanager
    def each(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """For each of the lane's counts: the digit's turn, the digit, how many have it."""
        with I.serial(0, -(-self.digits // self.lanes)) as turn:
            at = I.Bind(turn * self.lanes + self.lane)
            with where(self._within(at, self.digits)):
                count = self.memory[at * self.places]
                for place in range(1, self.places):
                    count = count + self.memory[at * self.places + place]
                yield at // DIGITS, at % DIGITS, held(count)

    def _within(self, at: Expr, count: int) -> Expr | None:
        return None if count % self.lanes == 0 else at < count
