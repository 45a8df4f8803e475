"""CPU sort by partitions in vectors: plain comparisons, lines in one piece.

Keys (see :mod:`.ordering.sort_keys`) are partitioned by a pivot, the median of a sample (see
:mod:`.sort_partition`): those that are smaller, and the others.  The others are sorted next, then
the smaller ones; what a few vectors hold is sorted in registers (see :mod:`.sort_tiles`) and
stored as elements where it belongs.  Where the pivot is the least key that there can be in a part,
its equals are in their place once they are partitioned from larger keys.

Smaller keys stay where the result will be, others go to scratch, which is free again when they are
sorted.  Keys alone that no near cache holds are moved within the result (see
:mod:`.sort_two_ended_partition`).

Other operands go with the keys, and every step is stable: a single one that is as wide as the keys
is moved beside them; otherwise each key's place in the line is, and operands are read by it at the
end.

Where two pivots in turn cut off less than an eighth, one in the middle between the smallest and the
largest key follows, so that no input takes more than length x (log2(length) + bits of a key) steps.

A line is sorted by one task; or, where there are fewer lines than cores, in ``splits`` parts, whose
bounds are taken from a sample: tasks count what belongs to each part, and move it there.

Work: length x log2(length).  Scratch: a line, but of keys alone that one task sorts a megabyte at
most; with other operands two lines, or three.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import KeyPlace, Keys
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import SortLines
from tvm_iree_ext.schedules.cpu.sort.sort_parallel_parts import SortParts
from tvm_iree_ext.schedules.cpu.sort.sort_partition import Partition
from tvm_iree_ext.schedules.cpu.sort.sort_tiles import KeyTiles, PairTiles
from tvm_iree_ext.schedules.cpu.sort.sort_two_ended_partition import Ends
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial

# Partitions that are put off: each leaves at most 7/8, or half of the range of keys.
_DEPTH = 512

# Pivots in turn that cut off little before one in the middle of the keys is taken.
_PATIENCE = 2


def quick_kernel(op: Sort, config: SortConfig, near_bytes: int) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form, for a plain comparison.

    Parts of keys alone with more than ``near_bytes`` are moved within the line.
    """
    with IRBuilder() as builder, I.prim_func():
        _Quick(SortLines(op), config, near_bytes).emit()
    return builder.get()


# Where the keys of a part are.
_TARGET, _SPARE, _SOURCE = range(3)


def _put(cell: Any, value: Expr) -> None:
    I.buffer_store(cell, value, [0])


@dataclass(frozen=True)
class _Part:
    """The part of a line that is sorted now, in cells.

    Its keys lie between ``least`` and ``greatest``.  ``uneven`` pivots in turn have cut off little.
    """

    first: Any
    size: Any
    where: Any
    uneven: Any
    least: Any
    greatest: Any

    @staticmethod
    def of(keys: Keys) -> "_Part":
        """The cells."""
        indices = [emit.registers(1, "int64") for _ in range(4)]
        return _Part(*indices, *(emit.registers(1, keys.unsigned) for _ in range(2)))

    def become(self, where: Index, values: Sequence[Expr]) -> None:
        """Take another part: its ``first``, ``size``, ``uneven``, ``least`` and ``greatest``."""
        _put(self.where, i64(where))
        cells = (self.first, self.size, self.uneven, self.least, self.greatest)
        for cell, value in zip(cells, values, strict=True):
            _put(cell, value)

    def where_it_is(
        self, places: Sequence[tuple[int, KeyPlace]], body: Callable[[KeyPlace], None]
    ) -> None:
        """``body`` of the place where the keys are."""
        (where, place), *others = places
        if not others:
            body(place)
            return
        with I.If(self.where[0] == where):
            with I.Then():
                body(place)
            with I.Else():
                self.where_it_is(others, body)


class _Stack:
    """Parts that are put off; all of them are in the result."""

    def __init__(self, keys: Keys) -> None:
        # Seen through another buffer: TVM would shrink this one to what it thinks is used.
        self.values = emit.flat(emit.scratch([5 * _DEPTH], "int64"))
        self.keys = keys
        self.depth = emit.registers(1, "int64")
        _put(self.depth, i64(0))

    def push(self, values: Sequence[Expr]) -> None:
        """Put off a part, given as :meth:`_Part.become` takes it."""
        for n, value in enumerate(values):
            I.buffer_store(self.values, tirx.Cast("int64", value), [5 * self.depth[0] + n])
        _put(self.depth, self.depth[0] + 1)

    def pop(self, part: _Part) -> None:
        """Take the last part; without one, the depth is -1."""
        _put(self.depth, self.depth[0] - 1)
        with I.If(self.depth[0] >= 0), I.Then():
            values = [I.Bind(self.values[5 * self.depth[0] + n]) for n in range(5)]
            bounds = [I.Bind(tirx.Cast(self.keys.unsigned, value)) for value in values[3:]]
            part.become(_TARGET, [*values[:3], *bounds])


class _Quick:
    """The kernel under construction."""

    def __init__(self, lines: SortLines, config: SortConfig, near_bytes: int) -> None:
        order = lines.op.order
        assert order is not None
        self.lines, self.config = lines, config
        dtypes = lines.op.dtypes
        self.keys = Keys(dtypes[order.operand], order.descending, order.operand)
        self.vectors = Compress(self.keys.width, config.lanes)
        self.partition = Partition(self.keys, self.vectors)
        self.ends = Ends(self.keys, self.vectors)
        self.others = [n for n in range(len(dtypes)) if n != order.operand]
        sizes = [item_bytes(dtypes[n]) * 8 for n in self.others]
        self.by_place = bool(self.others) and sizes != [self.keys.width]
        """Whether places are moved with the keys, not an operand."""
        length, self.long = known(lines.length), near_bytes // (self.keys.width // 8)
        self.with_long = not self.others and (length is None or length > self.long)
        """Whether there are parts of keys alone that no near cache holds."""
        tiles = PairTiles if self.others else KeyTiles
        self.tiles = tiles(self.keys, self.vectors, config.rows)

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"), self.vectors.declared():
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def sort_line(self, source: SortLine, target: SortLine) -> None:
        """One line by one task."""
        length = self.lines.length
        given, words = self.keys.words(source), self.keys.words(target)
        spare, order = self.scratch(emit.smaller(length, self.long) if self.with_long else length)
        here, goal = self.places(given, words, spare, order)
        self.number_places(spare)
        self.sort_part(goal, spare, length, here)
        self.collect(given, words, order, 0, length)
        self.keys.settle_zeros(given, words, length)

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length = self.config.splits, self.lines.length
        spare, order = self.scratch(length)
        parts = SortParts(self.keys, self.vectors, splits)
        with serial(self.lines.outer) as line, I.If(i64(length) > 0), I.Then():
            given, words = (self.keys.words(line) for line in self.lines.in_place(line))
            here, goal = self.places(given, words, spare, order)
            self.number_places(spare)
            starts = parts.move(here, goal, length)
            with I.parallel(i64(0), i64(splits)) as part:
                first, stop = (I.Bind(starts[n * splits]) for n in (part, part + 1))
                self.sort_part(goal.shifted(first), spare.shifted(first), stop - first)
                self.collect(given, words, order, first, stop)
            self.keys.settle_zeros(given, words, length)

    def scratch(self, length: Index) -> tuple[KeyPlace, KeyPlace | None]:
        """Scratch for parts that are put off, and for the places of a line in order."""

        def line() -> KeyPlace:
            buffer = emit.scratch([length], self.keys.unsigned)
            return KeyPlace.of_keys(self.keys, buffer)

        spare = replace(line(), beside=line() if self.others else None)
        return spare, line() if self.by_place else None

    def places(
        self, given: SortLine, words: SortLine, spare: KeyPlace, order: KeyPlace | None
    ) -> tuple[KeyPlace, KeyPlace]:
        """Places of a line before and after sorting, with what goes with the keys."""
        operand = self.keys.operand
        here = KeyPlace.of_words(self.keys, given)
        goal = KeyPlace.of_keys(self.keys, words.buffers[operand], words.base)
        if order is not None:
            return replace(here, beside=spare.beside), replace(goal, beside=order)
        if self.others:
            here, goal = (
                replace(
                    place,
                    beside=KeyPlace.of_keys(self.keys, line.buffers[self.others[0]], line.base),
                )
                for place, line in ((here, given), (goal, words))
            )
        return here, goal

    def number_places(self, spare: KeyPlace) -> None:
        """Write the places of a line beside the keys, where they are what goes with them."""
        if self.by_place:
            assert spare.beside is not None
            with serial(self.lines.length) as i:
                I.buffer_store(spare.beside.buffer, tirx.Cast(self.keys.unsigned, i), [i])

    def collect(
        self, given: SortLine, words: SortLine, order: KeyPlace | None, first: Index, stop: Index
    ) -> None:
        """Read the other operands by their places, where these have gone with the keys."""
        if order is not None:
            for operand in self.others:
                with serial(stop, first) as i:
                    place = tirx.Cast("int64", order.buffer[order.at(i)])
                    words.store(operand, i, given.load(operand, place))

    def sort_part(
        self, target: KeyPlace, spare: KeyPlace, length: Index, source: KeyPlace | None = None
    ) -> None:
        """Sort the keys of ``source``, or else of ``target``, into ``target``, as elements."""
        part, stack = _Part.of(self.keys), _Stack(self.keys)
        self.tiles.declare()
        bounds = self.keys.number(0), self.keys.ones
        part.become(_SOURCE if source else _TARGET, [i64(0), i64(length), i64(0), *bounds])
        with I.While(stack.depth[0] >= 0):
            size, first = I.Bind(part.size[0]), I.Bind(part.first[0])
            bounds = I.Bind(part.least[0]), I.Bind(part.greatest[0])
            goal = target.shifted(first)
            # A line is read as it came once only, as a whole.
            places = [(_SPARE, spare), (_TARGET, goal)] + ([(_SOURCE, source)] if source else [])

            def at(body: Callable[[KeyPlace], None], places: Any = places) -> None:
                part.where_it_is(places, body)

            with I.If(self.tiles.holds(size, *bounds)):
                with I.Then():
                    self.tiles.sort(at, goal, size, *bounds)
                    stack.pop(part)
                with I.Else():
                    self.split_part(part, stack, places, (goal, spare))

    def split_part(
        self,
        part: _Part,
        stack: _Stack,
        places: Sequence[tuple[int, KeyPlace]],
        goals: tuple[KeyPlace, KeyPlace],
    ) -> None:
        """Partition a part, go on with its larger keys, and put off the others."""
        size, first = I.Bind(part.size[0]), I.Bind(part.first[0])
        least, greatest = I.Bind(part.least[0]), I.Bind(part.greatest[0])
        one = self.keys.number(1)
        cell, (low, high) = (
            emit.registers(1, self.keys.unsigned),
            [emit.registers(1, "int64") for _ in range(2)],
        )

        def is_least(pivot: Expr) -> Expr:
            # Not compared with each other: TVM would make that a sum with -1.
            return (pivot ^ least) == self.keys.number(0)

        def last(place: KeyPlace) -> Expr:
            with I.If(part.uneven[0] < _PATIENCE):
                with I.Then():
                    _put(cell, self.partition.median(place, size))
                with I.Else():
                    _put(cell, self.partition.middle(place, size))
            pivot = I.Bind(cell[0])
            return I.Bind(tirx.Select(is_least(pivot), pivot, pivot - one))

        def split(place: KeyPlace) -> None:
            self.partition.move(place, size, last(place), goals, (low, high))

        def split_long(place: KeyPlace) -> None:
            self.ends.move(place, size, last(place), goals[0], low)
            _put(high, size - low[0])

        where: Index = _SPARE
        if self.with_long:
            is_long = size > self.long
            with I.If(is_long):
                with I.Then():
                    part.where_it_is(places[1:], split_long)
                with I.Else():
                    part.where_it_is(places, split)
            where = I.Bind(tirx.Select(is_long, i64(_TARGET), i64(_SPARE)))
        else:
            part.where_it_is(places, split)
        pivot, few = I.Bind(cell[0]), size - tirx.floordiv(size, i64(8))

        def uneven(count: Expr) -> Expr:
            return tirx.Select(count > few, part.uneven[0] + 1, i64(0))

        counts = I.Bind(low[0]), I.Bind(high[0])
        larger = [I.Bind(value) for value in (first + counts[0], uneven(counts[1]))]
        with I.If(is_least(pivot)):
            with I.Then(), serial(counts[0]) as i:
                equal = self.keys.element(pivot)
                I.buffer_store(goals[0].buffer, equal, [goals[0].at(i)])
            with I.Else():
                stack.push([first, counts[0], uneven(counts[0]), least, pivot - one])
        part.become(where, [larger[0], counts[1], larger[1], pivot, greatest])
