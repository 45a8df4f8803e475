"""CPU sort by the digits of the keys, least significant first: for plain comparisons.

A pass counts how often each digit occurs and moves every element, with all that goes with it, to
the next place of its digit; each pass is stable, so is the sort.  Keys are compared as unsigned
integers: a signed one with its sign bit flipped, a float with all bits flipped where negative, and
-0.0 as 0.0, since they are equal.  For a descending order all bits are flipped.

A line is sorted by one task; or, where there are fewer lines than cores, in ``splits`` parts: each
counts its own, and moves its own behind those of the same digit from the parts before it.

Work: passes x length.  Scratch: a line, and a counter for each digit (of each part).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import Line, Lines
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


def radix_kernel(op: Sort, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; its comparator must be a plain comparison.

    ``config`` has ``register_tile["digit_bits"]`` and ``splits``.
    """
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        _Radix(Lines(op), config).emit()
    return builder.get()


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
class Digits:
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
        """Where the digits begin, the least significant one first."""
        return range(0, item_bytes(self.dtypes[self.operand]) * 8, self.bits)

    def digit(self, value: Expr, shift: int) -> Expr:
        """One digit of a key."""
        key = ordered_bits(value, self.dtypes[self.operand], self.descending)
        unsigned = str(key.ty.dtype)
        if shift:
            key = key >> tirx.const(shift, unsigned)
        return tirx.Cast("int64", key & tirx.const(self.buckets - 1, unsigned))

    def sort(self, stages: Sequence[tuple[Line, Line]], length: Index) -> None:
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

    def sort_between(self, line: Line, other: Line, length: Index) -> Line:
        """Sort a line to and fro between two; the one in which it ends."""
        places = [line, other]
        chain = [places[p % 2] for p in range(len(self.shifts) + 1)]
        self.sort(list(pairwise(chain)), length)
        return chain[-1]

    def move(
        self,
        here: Line,
        there: Line,
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


class _Radix:
    """The kernel under construction."""

    def __init__(self, lines: Lines, config: LoweringConfig) -> None:
        op = lines.op
        assert op.order is not None
        self.lines, self.config = lines, config
        bits = config.register_tile["digit_bits"]
        self.digits = Digits(op.dtypes, op.order.operand, op.order.descending, bits)

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def stages(self, source: Line, scratch: Line, target: Line) -> list[tuple[Line, Line]]:
        """From where to where each pass moves, ending in ``target``, which is not ``source``."""
        places = [target, scratch]
        chain = [places[p % 2] for p in range(len(self.digits.shifts))][::-1]
        return list(pairwise([source, *chain]))

    def sort_line(self, source: Line, target: Line) -> None:
        """All passes over one line by one task."""
        length = self.lines.length
        scratch = Line(self.lines.scratch([length]))
        if source is not target:
            self.digits.sort(self.stages(source, scratch, target), length)
        elif self.digits.sort_between(source, scratch, length) is scratch:
            scratch.copy_to(target, length)

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length, digits = self.config.splits, self.lines.length, self.digits
        counts = emit.scratch([splits, digits.buckets], "int64")
        scratch = Line(self.lines.scratch([length]))
        share = I.Bind(i64(emit.ceil_div(length, splits)))
        with serial(self.lines.outer) as line:
            source, target = self.lines.in_place(line)
            stages = self.stages(source, scratch, target)
            for shift, (here, there) in zip(digits.shifts, stages, strict=True):
                with I.parallel(i64(0), i64(splits)) as split:
                    with serial(digits.buckets) as d:
                        I.buffer_store(counts, i64(0), [split, d])
                    with serial(*self.part(split, share)[::-1]) as i:
                        value = here.load(digits.operand, i)
                        count(counts, [split, I.Bind(digits.digit(value, shift))])
                total = emit.registers(1, "int64")
                I.buffer_store(total, i64(0), [0])
                with serial(digits.buckets) as d, serial(splits) as split:
                    begin_at(counts, [split, d], total)
                with I.parallel(i64(0), i64(splits)) as split:
                    digits.move(here, there, shift, counts, [split], self.part(split, share))

    def part(self, split: Expr, share: Expr) -> tuple[Index, Index]:
        """The elements of one part of a line."""
        first = I.Bind(i64(emit.smaller(split * share, self.lines.length)))
        return first, I.Bind(i64(emit.smaller(first + share, self.lines.length)))
