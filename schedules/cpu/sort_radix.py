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
from itertools import pairwise
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.cpu.sort_lines import Line, Lines

from tvm_iree_ext.dtypes import FLOATS, item_bytes
from tvm_iree_ext.ops.sort import Sort


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


class _Radix:
    """The kernel under construction."""

    def __init__(self, lines: Lines, config: LoweringConfig) -> None:
        op = lines.op
        assert op.order is not None
        self.lines, self.config, self.order = lines, config, op.order
        self.operands = range(len(op.dtypes))
        self.digit_bits = config.register_tile["digit_bits"]
        self.buckets = 1 << self.digit_bits
        key_bits = item_bytes(op.dtypes[self.order.operand]) * 8
        self.shifts = range(0, key_bits, self.digit_bits)

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def digit(self, value: Expr, shift: int) -> Expr:
        """One digit of a key."""
        dtype = self.lines.op.dtypes[self.order.operand]
        key = ordered_bits(value, dtype, self.order.descending)
        unsigned = str(key.ty.dtype)
        if shift:
            key = key >> tirx.const(shift, unsigned)
        return tirx.Cast("int64", key & tirx.const(self.buckets - 1, unsigned))

    def stages(self, source: Line, scratch: Line, target: Line) -> list[tuple[Line, Line]]:
        """From where to where each pass moves, ending in ``target`` unless it is ``source``."""
        places = [target, scratch]
        if source is target:
            places = [source, scratch]
            chain = [places[p % 2] for p in range(len(self.shifts) + 1)]
        else:
            chain = [places[p % 2] for p in range(len(self.shifts))][::-1]
            chain = [source, *chain]
        return list(pairwise(chain))

    def sort_line(self, source: Line, target: Line) -> None:
        """All passes over one line by one task."""
        length = self.lines.length
        counts = emit.scratch([len(self.shifts), self.buckets], "int64")
        with serial(len(self.shifts)) as p, serial(self.buckets) as d:
            I.buffer_store(counts, i64(0), [p, d])
        with serial(length) as i:
            value = I.Bind(source.load(self.order.operand, i))
            for p, shift in enumerate(self.shifts):
                place = [i64(p), I.Bind(self.digit(value, shift))]
                I.buffer_store(counts, counts[tuple(place)] + 1, place)
        scratch = Line(self.lines.scratch([length]))
        stages = self.stages(source, scratch, target)
        for p, (shift, (here, there)) in enumerate(zip(self.shifts, stages, strict=True)):
            self.start_places(counts, [i64(p)])
            self.move(here, there, shift, counts, [i64(p)], (0, length))
        if stages[-1][1] is not target:
            scratch.copy_to(target, length)

    def start_places(self, counts: Any, at: Sequence[Expr]) -> None:
        """Make counts the places of the first elements of each digit."""
        total = emit.registers(1, "int64")
        I.buffer_store(total, i64(0), [0])
        with serial(self.buckets) as d:
            place = [*at, d]
            count = I.Bind(counts[tuple(place)])
            I.buffer_store(counts, total[0], place)
            I.buffer_store(total, total[0] + count, [0])

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
            values = [I.Bind(here.load(operand, i)) for operand in self.operands]
            digit = I.Bind(self.digit(values[self.order.operand], shift))
            slot = [*at, digit]
            place = I.Bind(places[tuple(slot)])
            for operand, value in enumerate(values):
                there.store(operand, place, value)
            I.buffer_store(places, place + 1, slot)

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length = self.config.splits, self.lines.length
        counts = emit.scratch([splits, self.buckets], "int64")
        scratch = Line(self.lines.scratch([length]))
        share = I.Bind(i64(emit.ceil_div(length, splits)))
        with serial(self.lines.outer) as line:
            source, target = self.lines.in_place(line)
            stages = self.stages(source, scratch, target)
            for shift, (here, there) in zip(self.shifts, stages, strict=True):
                with I.parallel(i64(0), i64(splits)) as split:
                    with serial(self.buckets) as d:
                        I.buffer_store(counts, i64(0), [split, d])
                    with serial(*self.part(split, share)[::-1]) as i:
                        place = [split, I.Bind(self.digit(here.load(self.order.operand, i), shift))]
                        I.buffer_store(counts, counts[tuple(place)] + 1, place)
                total = emit.registers(1, "int64")
                I.buffer_store(total, i64(0), [0])
                with serial(self.buckets) as d, serial(splits) as split:
                    count = I.Bind(counts[split, d])
                    I.buffer_store(counts, total[0], [split, d])
                    I.buffer_store(total, total[0] + count, [0])
                with I.parallel(i64(0), i64(splits)) as split:
                    self.move(here, there, shift, counts, [split], self.part(split, share))

    def part(self, split: Expr, share: Expr) -> tuple[Index, Index]:
        """The elements of one part of a line."""
        first = I.Bind(i64(emit.smaller(split * share, self.lines.length)))
        return first, I.Bind(i64(emit.smaller(first + share, self.lines.length)))
