"""Where the elements of a workgroup's tile go by one digit: ranks, found by ballots.

    subgroup    has a run of the tile; lane l has every ``size``-th element from l on
    peers       lanes whose elements have the same digit: eight ballots, one for each bit
    counters    of each subgroup and digit, in shared memory: the first of the peers counts all
    prefixes    over the subgroups and digits; from there on the elements of a digit stand

Elements are counted in their order, so that ties keep it.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.settled_words import settled
from tvm_iree_ext.schedules.gpu.collectives.votes import (
    ballot,
    count,
    count_before,
    subgroup_wait,
)
from tvm_iree_ext.schedules.gpu.collectives.workgroup_prefix import WorkgroupPrefix
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGIT_BITS, DIGITS
from tvm_iree_ext.tir.tir_expressions import Expr

_ALIGNMENT = 16  # bytes
_RANK_BITS = 16  # how many of a subgroup's elements went before one, below its digit: a register


def shared_memory(name: str, count: int, dtype: str) -> Any:
    """Memory of a workgroup."""
    buffer = I.alloc_buffer((count,), dtype, scope="shared", align=_ALIGNMENT)
    IRBuilder.name(name, buffer)
    return buffer


def counter_bytes(subgroups: int) -> int:
    """Bytes of shared memory for the counters of a workgroup."""
    return 4 * subgroups * DIGITS


def base_bytes(subgroups: int) -> int:
    """Bytes of shared memory for the bases of digits, their sums, and a workgroup's number."""
    return 4 * (DIGITS + subgroups + 1)


class DigitRanks:
    """The counters of a workgroup, while emitted.

    Args:
        ids: of the lane that code is emitted for.
        room: bytes that their memory has at least, for what lies there after them.
    """

    def __init__(self, ids: WorkgroupIds, room: int = 0) -> None:
        self.ids, (self.subgroups, self.size) = ids, ids.hardware
        self.lanes = self.subgroups * self.size
        self.lane = I.Bind(ids.subgroup * self.size + ids.lane)
        count = max(self.subgroups * DIGITS, -(-room // 4))
        self.counters = shared_memory("counters", count, "int32")
        self.mine = I.Bind(ids.subgroup * DIGITS)  # where this subgroup's counters begin
        self.prefix = WorkgroupPrefix(ids)
        self.each = max(1, DIGITS // self.lanes)  # digits of a lane, side by side

    def count(self, digits: Iterable[Expr]) -> list[Expr]:
        """Count a lane's elements; of each its digit and rank, for :meth:`placed`."""
        zero = tirx.const(0, "int32")
        with I.serial(0, DIGITS // self.size) as turn:
            I.buffer_store(self.counters, zero, [self.mine + turn * self.size + self.ids.lane])
        subgroup_wait(self.ids.kind)
        ranks = []
        for digit in digits:
            peers = self._peers(digit)
            at = I.Bind(self.mine + digit)
            before = held(count_before(self.ids.kind, peers, self.ids.lane))
            counted = held(self.counters[at])
            subgroup_wait(self.ids.kind)
            with I.If(before == 0), I.Then():
                I.buffer_store(self.counters, counted + count(self.ids.kind, peers), [at])
            subgroup_wait(self.ids.kind)
            both = (digit << _RANK_BITS) | (counted + before)
            ranks.append(held(settled(self.ids.kind, both)))
        wait()
        return ranks

    def _peers(self, digit: Expr) -> Expr:
        """A bit for each lane that has the same digit."""
        agreeing = []
        for bit in range(DIGIT_BITS):
            one = ((digit >> bit) & 1) != 0
            votes = ballot(self.ids.kind, self.size, one)
            agreeing.append(tirx.Select(one, votes, tirx.bitwise_not(votes)))
        return held(reduce(lambda a, b: a & b, agreeing))

    def own_digits(self) -> Any:
        """Condition that a lane has digits of its own; None where all have."""
        return None if self.lanes <= DIGITS else self.lane < DIGITS

    def digit(self, number: int) -> Expr:
        """One of the lane's digits, or any where it has none."""
        first = self.lane * self.each + number
        return I.Bind(first if self.lanes <= DIGITS else tirx.min(first, DIGITS - 1))

    def total(self, digit: Expr) -> Expr:
        """How many of the tile have a digit."""
        total = self.counters[digit]
        for subgroup in range(1, self.subgroups):
            total = total + self.counters[digit + subgroup * DIGITS]
        return held(total)

    def guarded(self, number: Expr) -> Expr:
        """A number of one of the lane's digits; 0 where it has none."""
        own = self.own_digits()
        return number if own is None else held(tirx.Select(own, number, tirx.const(0, "int32")))

    def start(self, digits: Sequence[Expr], totals: Sequence[Expr]) -> list[Expr]:
        """Where in the tile each of the lane's digits begins, which all are told."""
        starts = self.prefix.sums(totals)
        for digit, start in zip(digits, starts, strict=True):
            self._begin(digit, start)
        return starts

    def _begin(self, digit: Expr, start: Expr) -> None:
        """Say where the elements of one of the lane's digits begin."""
        with where(self.own_digits()):
            place = held(start)
            for subgroup in range(self.subgroups):
                at = digit + subgroup * DIGITS
                counted = held(self.counters[at])
                I.buffer_store(self.counters, place, [at])
                place = held(place + counted)

    def placed(self, ranks: Sequence[Expr]) -> list[Expr]:
        """Where the lane's elements go in the tile; the workgroup has waited since ``start``."""
        begins = (self.counters[self.mine + (one >> _RANK_BITS)] for one in ranks)
        mask = (1 << _RANK_BITS) - 1
        return [held(begin + (one & mask)) for begin, one in zip(begins, ranks, strict=True)]
