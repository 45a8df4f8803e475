"""CPU sort by merging: for any comparator.

Short runs are sorted in registers, a run in each lane of a vector, by exchanging neighbours that
are out of order; then runs are merged two by two, from one buffer to another and back.  Both steps
are stable, and whatever the comparator says their result is a permutation.

A line is sorted by one task; or, where there are fewer lines than cores, in ``splits`` parts, whose
merges are shared by as many tasks: a merge is cut where half of its output ends, each half again.
(Cuts that do not depend on each other could cross when the comparator is no weak order.)

Work: length x log2(length).  Scratch: a line.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.comparators import goes_before
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine, as_seen, stored
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import SortLines
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


def merge_kernel(op: Sort, config: SortConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
        _Merge(SortLines(op), config).emit()
    return builder.get()


class _Merge:
    """The kernel under construction."""

    def __init__(self, lines: SortLines, config: SortConfig) -> None:
        self.lines, self.config = lines, config
        self.dtypes = lines.op.dtypes
        self.operands = range(len(self.dtypes))
        self.run = config.run

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def must_swap(self, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
        """Whether elements that stand right must go before those that stand left."""
        seen = (
            [as_seen(value, dtype) for value, dtype in zip(side, self.dtypes, strict=True)]
            for side in (left, right)
        )
        return goes_before(self.lines.op.region, *seen)

    def loaded(self, line: SortLine, i: Index) -> list[Expr]:
        """The elements of all operands at a place."""
        return [line.load(operand, i) for operand in self.operands]

    def sort_line(self, source: SortLine, target: SortLine) -> None:
        """One line by one task."""
        length = self.lines.length
        scratch = SortLine(self.lines.scratch([length]))
        self.sort_part(source, target, scratch, 0, length)

    def sort_part(
        self, source: SortLine, target: SortLine, scratch: SortLine, begin: Index, end: Index
    ) -> None:
        """Sort ``begin .. end - 1`` of a line into ``target``, which may be ``source``."""
        self.sort_runs(source, target, begin, end)
        width = emit.registers(1, "int64")
        I.buffer_store(width, i64(self.run), [0])
        with I.While(width[0] < end - i64(begin)):
            # Two rounds, so that the runs are back in target: a run without another is copied.
            for here, there in ((target, scratch), (scratch, target)):
                with serial(self.pairs(begin, end, width[0])) as pair:
                    low = I.Bind(begin + pair * 2 * width[0])
                    middle = I.Bind(i64(emit.smaller(low + width[0], end)))
                    high = I.Bind(i64(emit.smaller(middle + width[0], end)))
                    self.merge(here, there, (low, middle), (middle, high), low)
                I.buffer_store(width, width[0] * 2, [0])

    def pairs(self, begin: Index, end: Index, width: Expr) -> Expr:
        """How many pairs of runs there are, the last one perhaps without a second run."""
        return tirx.floordiv(end - i64(begin) + (2 * width - 1), 2 * width)

    def sort_runs(self, source: SortLine, target: SortLine, begin: Index, end: Index) -> None:
        """Sort runs of elements next to each other, a run in each lane; the last ones singly."""
        lanes, run = self.config.lanes, self.run
        blocks = I.Bind(tirx.floordiv(end - i64(begin), i64(lanes * run)))
        tile = [emit.registers(run * lanes, stored(dtype)) for dtype in self.dtypes]
        with serial(blocks) as block:
            first = I.Bind(begin + block * (lanes * run))
            for operand in self.operands:
                for row in range(run):
                    with emit.vector_loop(lanes) as lane:
                        value = source.load(operand, first + lane * run + row)
                        I.buffer_store(tile[operand], value, [row * lanes + lane])
            with serial((run + 1) // 2):
                for row in (*range(0, run - 1, 2), *range(1, run - 1, 2)):
                    self.exchange_rows(tile, row, lanes)
            for operand in self.operands:
                for row in range(run):
                    with emit.vector_loop(lanes) as lane:
                        value = tile[operand][row * lanes + lane]
                        target.store(operand, first + lane * run + row, value)
        rest = I.Bind(begin + blocks * (lanes * run))
        with serial(emit.ceil_div(end - rest, run)) as number:
            first = I.Bind(rest + number * run)
            self.insert_in_order(source, target, first, emit.smaller(first + run, end))

    def exchange_rows(self, tile: Sequence[Any], row: int, lanes: int) -> None:
        """In each lane, exchange two neighbours that are out of order."""
        with emit.vector_loop(lanes) as lane:
            left, right = (
                [I.Bind(buffer[(row + r) * lanes + lane]) for buffer in tile] for r in range(2)
            )
            swap = self.must_swap(left, right)  # not bound: TVM cannot bind a vector of bools
            for buffer, low, high in zip(tile, left, right, strict=True):
                I.buffer_store(buffer, tirx.Select(swap, high, low), [row * lanes + lane])
                I.buffer_store(buffer, tirx.Select(swap, low, high), [(row + 1) * lanes + lane])

    def insert_in_order(self, source: SortLine, target: SortLine, begin: Expr, end: Index) -> None:
        """Sort a short run one element at a time."""
        hole = emit.registers(1, "int64")
        with serial(end, begin) as i:
            values = [I.Bind(value) for value in self.loaded(source, i)]
            I.buffer_store(hole, i, [0])
            before = self.loaded(target, tirx.max(hole[0] - 1, begin))
            with I.While(tirx.all(hole[0] > begin, self.must_swap(before, values))):
                for operand in self.operands:
                    target.store(operand, hole[0], target.load(operand, hole[0] - 1))
                I.buffer_store(hole, hole[0] - 1, [0])
            for operand, value in enumerate(values):
                target.store(operand, hole[0], value)

    def merge(
        self,
        here: SortLine,
        there: SortLine,
        left: tuple[Expr, Expr],
        right: tuple[Expr, Expr],
        first: Expr,
    ) -> None:
        """Merge two sorted ranges of ``here`` into ``there``, from ``first`` on."""
        at = emit.registers(3, "int64")
        i, j, k = (at[n] for n in range(3))
        for n, start in enumerate((left[0], right[0], first)):
            I.buffer_store(at, start, [n])
        with I.While(tirx.all(i < left[1], j < right[1])):
            one, other = ([I.Bind(value) for value in self.loaded(here, place)] for place in (i, j))
            swap = I.Bind(self.must_swap(one, other))
            for operand, pair in enumerate(zip(other, one, strict=True)):
                there.store(operand, k, tirx.Select(swap, *pair))
            step = I.Bind(tirx.Select(swap, i64(1), i64(0)))
            I.buffer_store(at, j + step, [1])
            I.buffer_store(at, i + (1 - step), [0])
            I.buffer_store(at, k + 1, [2])
        for n, (_, end) in enumerate((left, right)):
            start, place = I.Bind(at[n]), I.Bind(k)
            with serial(end - start) as step:
                for operand in self.operands:
                    there.store(operand, place + step, here.load(operand, start + step))
            I.buffer_store(at, place + (end - start), [2])

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length = self.config.splits, self.lines.length
        rounds = splits.bit_length() - 1
        scratch = SortLine(self.lines.scratch([length]))
        cuts = emit.scratch([splits + 1, 2], "int64")
        share = I.Bind(i64(emit.ceil_div(length, splits)))

        def bound(part: Index) -> Expr:
            return I.Bind(i64(emit.smaller(part * share, length)))

        with serial(self.lines.outer) as line:
            source, target = self.lines.in_place(line)
            # The rounds of merges alternate; the last one ends in target.
            here, there = (target, scratch) if rounds % 2 == 0 else (scratch, target)
            with I.parallel(i64(0), i64(splits)) as part:
                self.sort_part(source, here, there, bound(part), bound(part + 1))
            for level in range(rounds):
                group = 2 << level
                for first in range(0, splits, group):
                    middle, end = bound(first + group // 2), bound(first + group)
                    self.cut(
                        here, cuts, (first, first + group), (bound(first), middle, middle, end)
                    )
                with I.parallel(i64(0), i64(splits)) as part:
                    low = I.Bind(tirx.floordiv(part, i64(group)) * group)
                    middle = bound(low + group // 2)
                    last = (part + 1) % group == 0
                    left, right = (
                        (
                            I.Bind(cuts[part, side]),
                            I.Bind(tirx.Select(last, whole, cuts[part + 1, side])),
                        )
                        for side, whole in ((0, middle), (1, bound(low + group)))
                    )
                    first_place = I.Bind(left[0] + right[0] - middle)
                    self.merge(here, there, left, right, first_place)
                here, there = there, here

    def cut(
        self,
        line: SortLine,
        cuts: Any,
        parts: tuple[int, int],
        ranges: tuple[Expr, Expr, Expr, Expr],
    ) -> None:
        """Find the start of each part of a merge, in both of its ranges."""
        first, end = parts
        i0, i1, j0, j1 = ranges
        I.buffer_store(cuts, i0, [i64(first), 0])
        I.buffer_store(cuts, j0, [i64(first), 1])
        if end - first == 1:
            return
        half = I.Bind(tirx.floordiv((i1 - i0) + (j1 - j0), i64(2)))
        search = emit.registers(2, "int64")
        low, high = search[0], search[1]
        I.buffer_store(search, tirx.max(half - (j1 - j0), i64(0)), [0])
        I.buffer_store(search, tirx.min(half, i1 - i0), [1])
        # The fewest elements of the left range in the first half: the next of it must not precede
        # the last that the right range has there.
        with I.While(low < high):
            middle = I.Bind(tirx.floordiv(low + high, i64(2)))
            left = self.loaded(line, i0 + middle)
            right = self.loaded(line, j0 + half - middle - 1)
            enough = I.Bind(self.must_swap(left, right))
            I.buffer_store(search, tirx.Select(enough, low, middle + 1), [0])
            I.buffer_store(search, tirx.Select(enough, middle, high), [1])
        i, j = I.Bind(i0 + low), I.Bind(j0 + half - low)
        middle_part = (first + end) // 2
        self.cut(line, cuts, (first, middle_part), (i0, i, j0, j))
        self.cut(line, cuts, (middle_part, end), (i, i1, j, j1))
