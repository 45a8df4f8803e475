"""A line moved to parts, all keys of one smaller than those of the next, by several tasks.

The bounds of parts are taken from a sample that is sorted.  Each task counts how many keys of its
share of the line belong to each part; so it is known where each task's keys of each part begin, and
tasks move them there.  Whole vectors are stored, of which what is no key is overwritten by the
next ones, but where they would reach into what is another task's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.radix_digits import begin_at
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import KeyPlace, Keys
from tvm_iree_ext.schedules.cpu.ordering.sort_registers import RegisterSort
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Vectors of a sample: so many are sorted in registers.
_SAMPLE = 16


@dataclass(frozen=True)
class SortParts:
    """``splits`` parts of a line that are made by as many tasks."""

    keys: Keys
    vectors: Compress
    splits: int

    def move(self, source: KeyPlace, target: KeyPlace, length: Index) -> Any:
        """Move a line that is not empty, and give where in ``target`` each part begins.

        That is in a buffer at ``part * splits``, behind the last part the length.
        """
        splits = self.splits
        bounds = emit.scratch([splits], self.keys.unsigned)
        starts = emit.scratch([splits * splits + 1], "int64")
        share = I.Bind(i64(emit.ceil_div(length, splits)))

        def shared(task: Expr) -> tuple[Expr, Expr]:
            first = I.Bind(i64(emit.smaller(task * share, length)))
            return first, I.Bind(i64(emit.smaller(share, length - first)))

        self.take_bounds(source, length, bounds)
        with I.parallel(i64(0), i64(splits)) as task:
            first, size = shared(task)
            self.count(source.shifted(first), size, bounds, starts, task)
        total = emit.registers(1, "int64")
        I.buffer_store(total, i64(0), [0])
        I.buffer_store(starts, i64(0), [i64(splits * splits)])
        with serial(splits * splits + 1) as n:
            begin_at(starts, [n], total)
        with I.parallel(i64(0), i64(splits)) as task:
            first, size = shared(task)
            self.scatter(source.shifted(first), size, bounds, target, starts, task)
        return starts

    def take_bounds(self, source: KeyPlace, length: Index, bounds: Any) -> None:
        """Take the least key of each part but the first from a sample; none is 0."""
        lanes = self.vectors.lanes
        count = _SAMPLE * lanes
        sample = emit.scratch([count], self.keys.unsigned)
        with serial(count) as i:
            place = source.at(tirx.floordiv(i * i64(length), i64(count)))
            I.buffer_store(sample, source.key(source.buffer[place]), [i])
        tiles = [emit.registers(lanes, self.keys.unsigned) for _ in range(_SAMPLE)]
        for row, tile in enumerate(tiles):
            I.buffer_store(tile, sample[emit.run(row * lanes, lanes)], [emit.run(0, lanes)])
        for row, tile in enumerate(RegisterSort(tiles, lanes, self.keys.ones).emit()):
            I.buffer_store(sample, tile[emit.run(0, lanes)], [emit.run(row * lanes, lanes)])
        for part in range(1, self.splits):
            least = sample[part * count // self.splits]
            I.buffer_store(bounds, tirx.max(least, self.keys.number(1)), [part])

    def each_vector(self, size: Expr, body: Callable[[Expr, Index | None], None]) -> None:
        """``body(i, count)`` for vectors from ``i`` on; of the last one ``count`` lanes count."""
        lanes = self.vectors.lanes
        blocks = I.Bind(tirx.floordiv(size, i64(lanes)))
        with serial(blocks) as block:
            body(block * lanes, None)
        body(blocks * lanes, I.Bind(size - blocks * lanes))

    def read(self, place: KeyPlace, i: Expr, count: Index | None) -> Expr:
        """A vector, or as much of one as counts."""
        if count is None:
            return place.vector(self.vectors, i)
        return place.last_vector(self.vectors, i, count)

    def count(self, source: KeyPlace, size: Expr, bounds: Any, starts: Any, task: Expr) -> None:
        """How many keys of a share belong to each part."""
        splits = self.splits
        smaller = [emit.registers(1, "int64") for _ in range(1, splits)]
        for cell in smaller:
            I.buffer_store(cell, i64(0), [0])
        least = self.splats(bounds)

        def add(i: Expr, count: Index | None) -> None:
            keys = self.read(source, i, count)
            for cell, bound in zip(smaller, least, strict=True):
                number = self.vectors.count(keys, bound, count)
                I.buffer_store(cell, cell[0] + number, [0])

        self.each_vector(size, add)
        sums = [i64(0), *(cell[0] for cell in smaller), size]
        for part in range(splits):
            number = sums[part + 1] - sums[part]
            I.buffer_store(starts, number, [i64(part * splits) + task])

    def scatter(
        self, source: KeyPlace, size: Expr, bounds: Any, target: KeyPlace, starts: Any, task: Expr
    ) -> None:
        """Move the keys of a share to their parts."""
        splits, lanes = self.splits, self.vectors.lanes
        cells = [emit.registers(1, "int64") for _ in range(splits)]
        ends = []
        for part, cell in enumerate(cells):
            first = i64(part * splits) + task
            I.buffer_store(cell, starts[first], [0])
            ends.append(I.Bind(starts[first + 1]))
        least = self.splats(bounds)

        def move(i: Expr, count: Index | None) -> None:
            words = [self.read(stream, i, count) for stream in source.streams]
            sides = self.sides(words[0], least)
            for cell, end, (left, right) in zip(cells, ends, sides, strict=True):
                place = I.Bind(cell[0])

                def pack_rest(place: Expr = place, left: Expr = left, right: Expr = right) -> None:
                    rest = lanes if count is None else count
                    for stream, word in zip(target.streams, words, strict=True):
                        self.vectors.pack(stream.buffer, stream.at(place), word, left, right, rest)

                if count is not None:
                    pack_rest()
                else:
                    with I.If(place + lanes <= end):
                        with I.Then():
                            for stream, word in zip(target.streams, words, strict=True):
                                packed = self.vectors.packed(word, left, right)
                                at = emit.run(stream.at(place), lanes)
                                I.buffer_store(stream.buffer, packed, [at])
                        with I.Else():
                            pack_rest()
                I.buffer_store(cell, place + self.vectors.count(left, right, count), [0])

        self.each_vector(size, move)

    def splats(self, bounds: Any) -> list[Expr]:
        """The least key of each part but the first, in every lane."""
        numbers = [I.Bind(bounds[part]) for part in range(1, self.splits)]
        return [emit.splat(number, self.vectors.lanes) for number in numbers]

    def sides(self, keys: Expr, least: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
        """For each part two vectors: the left is less than the right where it has the key."""
        one, ones = (
            emit.splat(key, self.vectors.lanes) for key in (self.keys.number(1), self.keys.ones)
        )
        yield keys, least[0]
        for low, high in pairwise(least):
            yield tirx.Select(keys < low, ones, keys), high
        yield least[-1] - one, keys
