"""Digits of keys as order-preserving unsigned integers, and stable passes by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


def ordered_bits(bits: Expr, dtype: str, descending: bool) -> Expr:
    """An unsigned integer that is smaller the earlier an element goes, and equal for ties.

    Where a NaN goes is not said.
    """
    width = item_bytes(dtype) * 8
    unsigned = f"uint{width}"
    ones, sign = (tirx.const(number, unsigned) for number in (2**width - 1, 2 ** (width - 1)))
    key = bits if str(bits.ty.dtype) == unsigned else tirx.reinterpret(unsigned, bits)
    if dtype.startswith("int"):
        key = key ^ sign
    elif dtype in FLOATS:
        negative = (key & sign) != tirx.const(0, unsigned)
        flipped = key ^ tirx.Select(negative, ones, sign)
        key = tirx.Select(key == sign, sign, flipped)
    return key ^ ones if descending else key


@dataclass(frozen=True)
class RadixDigits:
    """The digits of elements that are sorted, and the passes by them.

    ``dtypes`` are those of all operands that are moved, ``operand`` is the one that is compared.
    """

    dtypes: Sequence[str]
    operand: int
    descending: bool
    bits: int

    @property
    def buckets(self) -> int:
        """How many values a digit has."""
        return 1 << self.bits

    @property
    def shifts(self) -> range:
        """Shifts of the digits, the least significant one first."""
        return range(0, item_bytes(self.dtypes[self.operand]) * 8, self.bits)

    def digit(self, value: Expr, shift: int) -> Expr:
        """One digit of a key."""
        key = ordered_bits(value, self.dtypes[self.operand], self.descending)
        unsigned = str(key.ty.dtype)
        if shift:
            key = key >> tirx.const(shift, unsigned)
        return tirx.Cast("int64", key & tirx.const(self.buckets - 1, unsigned))

    def sort(self, stages: Sequence[tuple[SortLine, SortLine]], length: Index) -> None:
        """All passes over one line by one task; pass p moves from the one to the other line."""
        counts = emit.scratch([len(self.shifts), self.buckets], "int64")
        with serial(len(self.shifts)) as p, serial(self.buckets) as d:
            I.buffer_store(counts, i64(0), [p, d])
        with serial(length) as i:
            value = I.Bind(stages[0][0].load(self.operand, i))
            for p, shift in enumerate(self.shifts):
                count(counts, [i64(p), I.Bind(self.digit(value, shift))])
        for p, (shift, (here, there)) in enumerate(zip(self.shifts, stages, strict=True)):
            total = emit.registers(1, "int64")
            I.buffer_store(total, i64(0), [0])
            with serial(self.buckets) as d:
                begin_at(counts, [i64(p), d], total)
            self.move(here, there, shift, counts, [i64(p)], (0, length))

    def sort_between(self, line: SortLine, other: SortLine, length: Index) -> SortLine:
        """Sort a line to and fro between two; the one in which it ends."""
        places = [line, other]
        chain = [places[p % 2] for p in range(len(self.shifts) + 1)]
        self.sort(list(pairwise(chain)), length)
        return chain[-1]

    def move(
        self,
        here: SortLine,
        there: SortLine,
        shift: int,
        places: Any,
        at: Sequence[Expr],
        part: tuple[Index, Index],
    ) -> None:
        """Move each element to the next place of its digit."""
        with serial(part[1], part[0]) as i:
            values = [I.Bind(here.load(operand, i)) for operand in range(len(self.dtypes))]
            slot = [*at, I.Bind(self.digit(values[self.operand], shift))]
            place = I.Bind(places[tuple(slot)])
            for operand, value in enumerate(values):
                there.store(operand, place, value)
            I.buffer_store(places, place + 1, slot)


def count(counts: Any, at: Sequence[Expr]) -> None:
    """One more at a place."""
    I.buffer_store(counts, counts[tuple(at)] + 1, at)


def begin_at(counts: Any, at: Sequence[Expr], total: Any) -> None:
    """Make a count the place of the first element; ``total[0]`` is how many there are before."""
    number = I.Bind(counts[tuple(at)])
    I.buffer_store(counts, total[0], at)
    I.buffer_store(total, total[0] + number, [0])
