"""What lies before a part of a line, from the workgroups that have the parts before it.

One pass over memory, after Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled
Look-back" (NVIDIA, NVR-2016-002).  There a workgroup walks back until it meets a prefix; which one
that is, and so how a sum of floats is bracketed, is chance.  Here parts are in groups of a fixed
size, and each result is the same whenever it is computed:

    before a part = what lies before its group + totals of the group's parts before it, in order

    total of a part          published as soon as its workgroup has it
    what lies before a group published by the workgroup of the last part of the group before

So only from group to group does one wait for another.  Workgroups take parts in the order in which
they start (:mod:`~tvm_iree_ext.intrin.handed_words`): those before are under way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import DataType, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.intrin.handed_words import awaited, publish, seen, ticket
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Combine, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, for_each, global_memory
from tvm_iree_ext.schedules.gpu.emit.word_halves import halves, joined
from tvm_iree_ext.tir.tir_expressions import Expr

PARTS_OF_LANE = 4
"""Parts of a group for each lane that looks back.

128 of a subgroup of 32: with tiles of 16 KiB 2 MiB of a line, for which its memory takes as long as
the way of a word from one core to another (1.4 TB/s of reads, 1.4 us; not measured)."""

_WORD_BITS = 32  # of a value in a published word
_THERE = 1 << _WORD_BITS  # the bit that says that it is


def take_ticket(
    ids: WorkgroupIds, tickets: Any, position: Index, wait: Callable[[], None] | None = None
) -> Expr:
    """The workgroup's number in the order in which workgroups ask, an ``int32``.

    Args:
        ids: of the lane that code is emitted for.
        tickets: numbers of ``int32`` in global memory, cleared before the kernel.
        position: which of them is counted.
        wait: the workgroup's barrier, of a kernel that places its own.
    """
    number = I.alloc_buffer((1,), "int32", scope="shared")
    with I.If(tirx.And(ids.subgroup == 0, ids.lane == 0)), I.Then():
        I.buffer_store(number, ticket(ids.kind, tickets, i64(position)), [0])
    if wait is not None:
        wait()
    found = held(number[0])
    if ids.kind == "rocm":  # the same for all lanes, which LLVM does not know
        found = I.Bind(tirx.call_llvm_intrin("int32", "llvm.amdgcn.readfirstlane", found))
    return found


@dataclass(frozen=True)
class PartsMemory:
    """What workgroups that have parts of lines hand one another, in global memory.

    Attributes:
        kind: of the target.
        lines, parts: how many lines there are, and parts of each.
        group: parts of a group.
        dtype: of values.
    """

    kind: str
    lines: Index
    parts: Index
    group: int
    dtype: str
    words: Any
    tickets: Any

    @staticmethod
    def declare(kind: str, lines: Index, parts: Index, lanes: int, dtype: str) -> "PartsMemory":
        """Memory for lines that ``lanes`` look back along."""
        group = PARTS_OF_LANE * lanes
        entries = emit.total([parts, emit.ceil_div(parts, group)])
        count = emit.product([lines, entries, _pieces(dtype)])
        words = global_memory("words_of_parts", i64(count), "uint64")
        tickets = global_memory("tickets", i64(1), "int32")
        return PartsMemory(kind, lines, parts, group, dtype, words, tickets)

    def clear(self, shape: WorkgroupShape) -> None:
        """The kernel that goes before."""
        groups = emit.ceil_div(self.parts, self.group)
        entries = emit.total([self.parts, groups])
        with for_each(emit.product([self.lines, entries, _pieces(self.dtype)]), shape) as at:
            I.buffer_store(self.words, tirx.const(0, "uint64"), [at])
            with I.If(at == 0), I.Then():
                I.buffer_store(self.tickets, tirx.const(0, "int32"), [0])

    def place(self, line: Expr, part: Expr) -> Expr:
        """Index of the first word for a part's total."""
        return (line * i64(self.parts) + part) * _pieces(self.dtype)

    def place_of_group(self, line: Expr, group: Expr) -> Expr:
        """Index of the first word for what lies before a group."""
        groups = i64(emit.ceil_div(self.parts, self.group))
        before = i64(emit.product([self.lines, self.parts]))
        return (before + (line * groups + group)) * _pieces(self.dtype)

    def publish(self, place: Expr, value: Expr) -> None:
        """Publish a value, in one lane."""
        for piece, word in enumerate(_words(value, self.dtype)):
            I.evaluate(publish(self.kind, self.words, I.Bind(place + piece), word))


class LookBack:
    """A subgroup's look back, while emitted: all of its lanes come by.

    Args:
        memory: of the parts.
        across: the subgroup's lanes along a line.
        part: the workgroup's.
    """

    def __init__(self, memory: PartsMemory, across: Across, part: Expr) -> None:
        self.memory, self.across, self.part = memory, across, part
        self.group = held(tirx.floordiv(part, i64(memory.group)))
        self.first = held(self.group * memory.group)
        self.within = held(tirx.Cast("int32", part - self.first))

    def before(self, line: Expr, total: Values, combine: Combine, publishes: Expr) -> Values:
        """What lies before the part of a line, in all lanes; of the first part, whatever.

        Args:
            line: which one.
            total: of the part.
            combine: two neighbouring parts.
            publishes: holds in one lane of each line that there is.
        """
        memory = self.memory
        with where(publishes):
            memory.publish(memory.place(line, self.part), total[0])
        of_parts = self._of_parts(line, combine)
        of_group = self._value([held(memory.place_of_group(line, self.group))], [self.group > 0])[0]
        both = tirx.Select(self.group > 0, combine(of_group, of_parts)[0], of_parts[0])
        before = (held(tirx.Select(self.within > 0, both, of_group[0])),)
        is_last = tirx.And(self.within == memory.group - 1, self.part + 1 < i64(memory.parts))
        with where(tirx.And(publishes, is_last)):
            place = memory.place_of_group(line, self.group + 1)
            memory.publish(place, held(combine(before, total)[0]))
        return before

    def _of_parts(self, line: Expr, combine: Combine) -> Values:
        """The totals of the group's parts before this one; of none, whatever."""
        across, lanes = self.across, self.across.lanes
        numbers = [across.digit + turn * lanes for turn in range(PARTS_OF_LANE)]
        places = [held(self.memory.place(line, self.first + wide(one))) for one in numbers]
        values = self._value(places, [one < self.within for one in numbers])
        total: Values | None = None
        for turn, value in enumerate(values):
            last = tirx.max(tirx.min(self.within - (1 + turn * lanes), lanes - 1), 0)
            upto = across.of_digit(across.scan_lanes(value, combine), last)
            if total is None:
                total = upto
            else:
                more = combine(total, upto)[0]
                total = (held(tirx.Select(self.within > turn * lanes, more, total[0])),)
        assert total is not None
        return total

    def _value(self, places: list[Expr], wanted: list[Expr]) -> list[Values]:
        """Published values, where they are wanted; all are under way at once."""
        memory = self.memory
        pieces = range(_pieces(memory.dtype))
        cells = [[emit.registers(1, "uint64") for _ in pieces] for _ in places]
        for place, condition, words in zip(places, wanted, cells, strict=True):
            for cell in words:
                I.buffer_store(cell, tirx.const(0, "uint64"), [0])
            with where(condition):
                for piece, cell in enumerate(words):
                    I.buffer_store(cell, seen(memory.kind, memory.words, place + piece), [0])
        for place, condition, words in zip(places, wanted, cells, strict=True):
            with where(condition):
                for piece, cell in enumerate(words):
                    word = awaited(memory.kind, memory.words, place + piece, cell[0])
                    I.buffer_store(cell, word, [0])
        return [(held(_value_of([cell[0] for cell in one], memory.dtype)),) for one in cells]


def _pieces(dtype: str) -> int:
    """Words of a value."""
    return -(-8 * item_bytes(dtype) // _WORD_BITS)


def _words(value: Expr, dtype: str) -> list[Expr]:
    """A value as words that say that they are there."""
    unsigned = f"uint{8 * item_bytes(dtype)}"
    parts = [value if dtype == unsigned else tirx.reinterpret(unsigned, value)]
    while len(parts) < _pieces(dtype):
        parts = [half for part in parts for half in halves(held(part))]
    return [tirx.Cast("uint64", part) | tirx.const(_THERE, "uint64") for part in parts]


def _value_of(words: list[Expr], dtype: str) -> Expr:
    """The value that words have."""
    bits = 8 * item_bytes(dtype)
    first = f"uint{min(bits, _WORD_BITS)}"
    parts = [held(tirx.Cast(first, word)) for word in words]
    while len(parts) > 1:
        width = f"uint{2 * DataType(str(parts[0].ty.dtype)).bits}"
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [held(joined(low, high, width)) for low, high in pairs]
    return parts[0] if dtype == f"uint{bits}" else tirx.reinterpret(dtype, parts[0])
