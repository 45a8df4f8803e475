"""CPU sort by partitions in vectors: plain comparisons of one operand, lines in one piece.

Keys (see :mod:`..sort_keys`) are partitioned by a pivot, the median of a sample: an instruction
packs those of a vector that are smaller, and they are stored behind the last such ones, whole
vectors at a time; so are those that are larger, elsewhere.  What equals the pivot is only counted,
and written where it belongs.  The larger keys are sorted next, then the smaller; what a few vectors
hold is sorted in registers (see :mod:`..sort_registers`) and stored as elements where it belongs.

Smaller keys stay where the result will be, larger ones go to scratch, which is free again when they
are sorted.  Either kind may stay in the memory that is being read, since no more is written than
was read.

A pivot that cuts off less than an eighth is followed by one in the middle between the smallest and
the largest key, so that no input takes more than length x (log2(length) + bits of a key) steps.

A line is sorted by one task; or, where there are fewer lines than cores, in ``splits`` parts, whose
bounds are taken from a sample: tasks count what belongs to each part, and move it there.

Work: length x log2(length).  Scratch: a line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.compress import Compress
from tvm_iree_ext.schedules.cpu.sort_keys import Keys, Place
from tvm_iree_ext.schedules.cpu.sort_lines import Line, Lines
from tvm_iree_ext.schedules.cpu.sort_parts import Parts
from tvm_iree_ext.schedules.cpu.sort_registers import RegisterSort
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

from tvm_iree_ext.ops.sort import Sort

# Partitions that are put off: each leaves at most 7/8, or half of the range of keys.
_DEPTH = 512

# A sample is two vectors from so many places of a line.
_SAMPLED = 8

# How far ahead of what is read and stored memory is fetched: no near cache holds long parts.
_READ_AHEAD_BYTES = 4096
_STORED_AHEAD_BYTES = 2048

# Vectors of a step of a partition.
_UNROLLED = 2

# Tiles that are sorted in registers have multiples of so many vectors.
_TILE_STEP = 4


def quick_kernel(op: Sort, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form, for one operand and a plain comparison.

    ``config`` has ``vector_lanes``, ``register_tile["rows"]`` (the most vectors that are sorted in
    registers) and ``splits``.
    """
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        _Quick(Lines(op), config).emit()
    return builder.get()


# Where the keys of a part are.
_TARGET, _SPARE, _SOURCE = range(3)


def _put(cell: Any, value: Expr) -> None:
    I.buffer_store(cell, value, [0])


def _flag(condition: Expr) -> Expr:
    return tirx.Select(condition, i64(1), i64(0))


@dataclass(frozen=True)
class _Part:
    """The part of a line that is sorted now, in cells."""

    first: Any
    size: Any
    where: Any
    is_uneven: Any

    def become(self, first: Index, size: Index, where: int, is_uneven: Index) -> None:
        """Take another part; ``is_uneven`` where the pivot that made it cut off little."""
        for cell, value in (
            (self.first, first),
            (self.size, size),
            (self.where, where),
            (self.is_uneven, is_uneven),
        ):
            _put(cell, i64(value))

    def where_it_is(
        self, places: Sequence[tuple[int, Place]], body: Callable[[Place], None]
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


class _Quick:
    """The kernel under construction."""

    def __init__(self, lines: Lines, config: LoweringConfig) -> None:
        assert lines.op.order is not None
        self.lines, self.config, self.lanes = lines, config, config.vector_lanes
        self.keys = Keys(lines.op.dtypes[0], lines.op.order.descending)
        self.vectors = Compress(self.keys.width, self.lanes)
        rows = config.register_tile["rows"]
        self.tiles = [*range(_TILE_STEP, rows, _TILE_STEP), rows]
        self.bytes = self.keys.width // 8
        self.most = rows * self.lanes
        """How many keys are sorted in registers."""

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"), self.vectors.declared():
            self.lines.declare()
            if self.config.splits > 1:
                self.emit_split_lines()
            else:
                self.lines.each(self.config.parallel, self.sort_line)

    def sort_line(self, source: Line, target: Line) -> None:
        """One line by one task."""
        length = self.lines.length
        given, words = self.keys.words(source), self.keys.words(target)
        scratch = Line([emit.scratch([length], self.keys.unsigned)])
        goal, spare = (Place.of_keys(self.keys, line) for line in (words, scratch))
        self.sort_part(goal, spare, length, Place.of_words(self.keys, given))
        self.keys.settle_zeros(given, words, length)

    def emit_split_lines(self) -> None:
        """The lines one after another, each by all cores."""
        splits, length = self.config.splits, self.lines.length
        scratch = Line([emit.scratch([length], self.keys.unsigned)])
        parts = Parts(self.keys, self.vectors, splits)
        with serial(self.lines.outer) as line, I.If(i64(length) > 0), I.Then():
            given, words = (self.keys.words(line) for line in self.lines.in_place(line))
            target, spare = (Place.of_keys(self.keys, line) for line in (words, scratch))
            starts = parts.move(Place.of_words(self.keys, given), target, length)
            with I.parallel(i64(0), i64(splits)) as part:
                first, stop = (I.Bind(starts[n * splits]) for n in (part, part + 1))
                self.sort_part(target.shifted(first), spare.shifted(first), stop - first)
            self.keys.settle_zeros(given, words, length)

    def sort_part(
        self, target: Place, spare: Place, length: Index, source: Place | None = None
    ) -> None:
        """Sort the keys of ``source``, or else of ``target``, into ``target``, as elements."""
        # Seen through another buffer: TVM would shrink this one to what it thinks is used.
        stack = emit.flat(emit.scratch([3 * _DEPTH], "int64"))
        part = _Part(*(emit.registers(1, "int64") for _ in range(4)))
        depth = emit.registers(1, "int64")
        part.become(0, length, _SOURCE if source else _TARGET, 0)
        _put(depth, i64(0))
        with I.While(depth[0] >= 0):
            size, first = I.Bind(part.size[0]), I.Bind(part.first[0])
            here = [(_SPARE, spare), (_TARGET, target.shifted(first))]
            # A line is read as it came once only, as a whole.
            here += [(_SOURCE, source)] if source else []
            with I.If(size > self.most):
                with I.Then():
                    pivot = emit.registers(1, self.keys.unsigned)
                    counts = [emit.registers(1, "int64") for _ in range(2)]
                    goals = target.shifted(first), spare

                    def split(place: Place) -> None:
                        with I.If(part.is_uneven[0] == 1):
                            with I.Then():
                                self.take_middle(place, size, pivot)
                            with I.Else():
                                self.take_median(place, size, pivot)
                        self.partition(place, size, I.Bind(pivot[0]), goals, counts)

                    part.where_it_is(here, split)
                    low, high = (I.Bind(count[0]) for count in counts)
                    with serial(first + size - high, first + low) as i:
                        equal = self.keys.element(pivot[0])
                        I.buffer_store(target.buffer, equal, [target.at(i)])
                    few = I.Bind(size - tirx.floordiv(size, i64(8)))
                    for n, value in enumerate((first, low, _flag(low > few))):
                        I.buffer_store(stack, value, [3 * depth[0] + n])
                    _put(depth, depth[0] + 1)
                    part.become(first + size - high, high, _SPARE, _flag(high > few))
                with I.Else():
                    self.sort_tile(part, here, target.shifted(first), size)
                    _put(depth, depth[0] - 1)
                    with I.If(depth[0] >= 0), I.Then():
                        put_off = [I.Bind(stack[3 * depth[0] + n]) for n in range(3)]
                        part.become(put_off[0], put_off[1], _TARGET, put_off[2])

    def take_median(self, place: Place, size: Expr, pivot: Any) -> None:
        """Take a key in the middle of some from all over a part."""
        stride = I.Bind(tirx.floordiv(size, i64(_SAMPLED)))
        width = 2 * self.lanes // _SAMPLED
        middle = tirx.floordiv(stride, i64(2))
        tiles = [emit.registers(width, self.keys.unsigned) for _ in range(_SAMPLED)]
        for n, tile in enumerate(tiles):
            keys = place.key(place.buffer[emit.run(place.at(stride * n + middle), width)])
            I.buffer_store(tile, keys, [emit.run(0, width)])
        _put(pivot, RegisterSort(tiles, width, self.keys.ones).emit()[_SAMPLED // 2][0])

    def take_middle(self, place: Place, size: Expr, pivot: Any) -> None:
        """Take what lies between the smallest and the largest key of a part."""
        whole = emit.run(0, self.lanes)
        tiles = [emit.registers(self.lanes, self.keys.unsigned) for _ in range(2)]

        def include(keys: Expr) -> None:
            I.buffer_store(tiles[0], tirx.min(tiles[0][whole], keys), [whole])
            I.buffer_store(tiles[1], tirx.max(tiles[1][whole], keys), [whole])

        for tile in tiles:
            I.buffer_store(tile, place.vector(self.vectors, 0), [whole])
        with serial(tirx.floordiv(size, i64(self.lanes))) as block:
            include(place.vector(self.vectors, block * self.lanes))
        include(place.vector(self.vectors, size - self.lanes))
        low, high = self.vectors.smallest(tiles[0][whole]), self.vectors.largest(tiles[1][whole])
        low, high = I.Bind(low), I.Bind(high)
        _put(pivot, low + ((high - low) >> self.keys.number(1)))

    def partition(
        self,
        place: Place,
        size: Expr,
        pivot: Expr,
        goals: Sequence[Place],
        counts: Sequence[Any],
    ) -> None:
        """Move keys that are smaller than the pivot and those that are larger, and count them."""
        pivots = emit.splat(pivot, self.lanes)
        for count in counts:
            _put(count, i64(0))

        def move(keys: Expr, among: Index | None = None) -> None:
            sides = zip(goals, counts, (keys, pivots), (pivots, keys), strict=True)
            for goal, count, left, right in sides:
                at = emit.run(goal.at(count[0]), self.lanes)
                packed = self.vectors.packed(keys, left, right, among)
                I.buffer_store(goal.buffer, packed, [at])
                if among is None:
                    emit.prefetch(
                        goal.buffer, goal.at(count[0]) + _STORED_AHEAD_BYTES // self.bytes
                    )
                _put(count, count[0] + self.vectors.count(left, right, among))

        # What is left over from whole blocks comes first, so that the next block can be read before
        # whole vectors are stored where it is.
        block = _UNROLLED * self.lanes
        starts = range(0, block, self.lanes)
        rest = I.Bind(tirx.floormod(size, i64(block)))
        first = [place.vector(self.vectors, start) for start in starts]
        second = [place.vector(self.vectors, rest + start) for start in starts]
        for start, keys in zip(starts, first, strict=True):
            move(keys, rest - start)
        for keys in second:
            move(keys)
        with serial(tirx.floordiv(size, i64(block)), 1) as number:
            for start in starts:
                i = I.Bind(rest + number * block + start)
                emit.prefetch(place.buffer, place.at(i + _READ_AHEAD_BYTES // self.bytes))
                move(place.vector(self.vectors, i))

    def sort_tile(
        self, part: "_Part", here: Sequence[tuple[int, Place]], target: Place, size: Expr
    ) -> None:
        """Sort few keys in registers, in the smallest tile that holds them."""

        def choose(tiles: Sequence[int]) -> None:
            if len(tiles) == 1:
                self.sort_rows(part, here, target, size, tiles[0])
                return
            half = len(tiles) // 2
            with I.If(size <= tiles[half - 1] * self.lanes):
                with I.Then():
                    choose(tiles[:half])
                with I.Else():
                    choose(tiles[half:])

        choose(self.tiles)

    def sort_rows(
        self,
        part: "_Part",
        here: Sequence[tuple[int, Place]],
        target: Place,
        size: Expr,
        rows: int,
    ) -> None:
        """Sort a tile of ``rows`` vectors."""
        tiles = [emit.registers(self.lanes, self.keys.unsigned) for _ in range(rows)]
        whole = emit.run(0, self.lanes)
        # Vectors that are filled: the others are for shorter parts.
        filled = max((shorter for shorter in self.tiles if shorter < rows), default=0)

        def load(place: Place) -> None:
            for row, tile in enumerate(tiles):
                first = row * self.lanes
                if row < filled:
                    keys = place.vector(self.vectors, first)
                else:
                    keys = place.last_vector(self.vectors, first, size - first)
                I.buffer_store(tile, keys, [whole])

        part.where_it_is(here, load)
        for row, tile in enumerate(RegisterSort(tiles, self.lanes, self.keys.ones).emit()):
            first = row * self.lanes
            elements = I.Bind(self.keys.element(tile[whole]))
            if row < filled:
                I.buffer_store(target.buffer, elements, [emit.run(target.at(first), self.lanes)])
            else:
                self.vectors.store(target.buffer, target.at(first), elements, size - first)
