"""CPU sort by the digits of the keys, least significant first: for plain comparisons.

A pass counts how often each digit occurs and moves every element, with all that goes with it, to
the next place of its digit; each pass is stable, so is the sort.  Keys are compared as unsigned
integers: a signed one with its sign bit flipped, a float with all bits flipped where negative, and
-0.0 as 0.0, since they are equal.  For a descending order all bits are flipped.

A line is sorted by one task; or, where there are fewer lines than cores, in ``splits`` parts: each
counts its own, and moves its own behind those of the same digit from the parts before it.

Work: passes x length.  Scratch: a line, and a counter for each digit (of each part).
"""

from itertools import pairwise

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.cpu.ordering.radix_digits import RadixDigits, begin_at, count
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import SortLines
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


def radix_kernel(op: Sort, config: SortConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; its comparator must be a plain comparison."""
    with IRBuilder() as builder, I.prim_func():
        _Radix(SortLines(op), config).emit()
    return builder.get()


class _Radix:
    """The kernel under construction."""

    def __init__(self, lines: SortLines, config: SortConfig) -> None:
        op = lines.op
        assert op.order is not None
        self.lines, self.config = lines, config
        bits = config.digit_bits
        self.digits = RadixDigits(op.dtypes, op.order.operand, op.order.descending, bits)

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def stages(
        self, source: SortLine, scratch: SortLine, target: SortLine
    ) -> list[tuple[SortLine, SortLine]]:
        """From where to where each pass moves, ending in ``target``, which is not ``source``."""
        places = [target, scratch]
        chain = [places[p % 2] for p in range(len(self.digits.shifts))][::-1]
        return list(pairwise([source, *chain]))

    def sort_line(self, source: SortLine, target: SortLine) -> None:
        """All passes over one line by one task."""
        length = self.lines.length
        scratch = SortLine(self.lines.scratch([length]))
        if source is not target:
            self.digits.sort(self.stages(source, scratch, target), length)
        elif self.digits.sort_between(source, scratch, length) is scratch:
            scratch.copy_to(target, length)

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length, digits = self.config.splits, self.lines.length, self.digits
        counts = emit.scratch([splits, digits.buckets], "int64")
        scratch = SortLine(self.lines.scratch([length]))
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
