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
from tvm_iree_ext.schedules.cpu.compress import Compress
from tvm_iree_ext.schedules.cpu.sort_keys import Keys, Place
from tvm_iree_ext.schedules.cpu.sort_radix import begin_at
from tvm_iree_ext.schedules.cpu.sort_registers import RegisterSort
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Vectors of a sample: so many are sorted in registers.
_SAMPLE = 16


@dataclass(frozen=True)
class Parts:
    """``splits`` parts of a line that are made by as many tasks."""

    keys: Keys
    vectors: Compress
    splits: int

    def move(self, source: Place, target: Place, length: Index) -> Any:
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

    def take_bounds(self, source: Place, length: Index, bounds: Any) -> None:
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

    def each_vector(
        self, source: Place, size: Expr, body: Callable[[Expr, Index | None], None]
    ) -> None:
        """``body(keys, count)`` for vectors of keys; of the last one ``count`` are keys."""
        lanes = self.vectors.lanes
        blocks = I.Bind(tirx.floordiv(size, i64(lanes)))
        with serial(blocks) as block:
            body(source.vector(self.vectors, block * lanes), None)
        rest = I.Bind(size - blocks * lanes)
        body(source.last_vector(self.vectors, blocks * lanes, rest), rest)

    def count(self, source: Place, size: Expr, bounds: Any, starts: Any, task: Expr) -> None:
        """How many keys of a share belong to each part."""
        splits = self.splits
        smaller = [emit.registers(1, "int64") for _ in range(1, splits)]
        for cell in smaller:
            I.buffer_store(cell, i64(0), [0])
        least = self.splats(bounds)

        def add(keys: Expr, count: Index | None) -> None:
            for cell, bound in zip(smaller, least, strict=True):
                number = self.vectors.count(keys, bound, count)
                I.buffer_store(cell, cell[0] + number, [0])

        self.each_vector(source, size, add)
        sums = [i64(0), *(cell[0] for cell in smaller), size]
        for part in range(splits):
            number = sums[part + 1] - sums[part]
            I.buffer_store(starts, number, [i64(part * splits) + task])

    def scatter(
        self, source: Place, size: Expr, bounds: Any, target: Place, starts: Any, task: Expr
    ) -> None:
        """Move the keys of a share to their parts."""
        splits, lanes = self.splits, self.vectors.lanes
        places = [emit.registers(1, "int64") for _ in range(splits)]
        ends = []
        for part, place in enumerate(places):
            first = i64(part * splits) + task
            I.buffer_store(place, starts[first], [0])
            ends.append(I.Bind(starts[first + 1]))
        least = self.splats(bounds)

        def move(keys: Expr, count: Index | None) -> None:
            sides = self.sides(keys, least)
            for place, end, (left, right) in zip(places, ends, sides, strict=True):
                at = I.Bind(target.at(place[0]))

                def pack_rest(at: Expr = at, left: Expr = left, right: Expr = right) -> None:
                    rest = lanes if count is None else count
                    self.vectors.pack(target.buffer, at, keys, left, right, rest)

                if count is not None:
                    pack_rest()
                else:
                    with I.If(place[0] + lanes <= end):
                        with I.Then():
                            packed = self.vectors.packed(keys, left, right)
                            I.buffer_store(target.buffer, packed, [emit.run(at, lanes)])
                        with I.Else():
                            pack_rest()
                I.buffer_store(place, place[0] + self.vectors.count(left, right, count), [0])

        self.each_vector(source, size, move)

    def splats(self, bounds: Any) -> list[Expr]:
        """The least key of each part but the first, in every lane."""
        numbers = [I.Bind(bounds[part]) for part in range(1, self.splits)]
        return [emit.splat(number, self.vectors.lanes) for number in numbers]

    def sides(self, keys: Expr, least: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
        """For each part two vectors: the left is less than the right where it has the key."""
        one = emit.splat(self.keys.number(1), self.vectors.lanes)
        yield keys, least[0]
        for low, high in pairwise(least):
            # Unsigned, so that a key below the part is far above it.
            yield keys - low, high - low
        yield least[-1] - one, keys
