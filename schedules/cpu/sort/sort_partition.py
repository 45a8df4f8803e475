"""Keys moved to two places by a pivot, in vectors, with what is beside them, in their order.

Those keys of a vector that are smaller are packed, and stored behind the last such ones, whole
vectors at a time; so are the others, elsewhere.  Either may stay in the memory that is being read,
since no more is written than was read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import KeyPlace, Keys
from tvm_iree_ext.schedules.cpu.ordering.sort_registers import RegisterSort
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# A sample is two vectors from so many places of a line.
_SAMPLED = 8

# How far ahead of what is read and stored memory is fetched: no near cache holds long parts.
_READ_AHEAD_BYTES = 4096
_STORED_AHEAD_BYTES = 2048

# Vectors of a step of a partition.
_UNROLLED = 2


@dataclass(frozen=True)
class Partition:
    """Pivots of parts, and parts moved by them; a part has four vectors of keys at least."""

    keys: Keys
    vectors: Compress

    def median(self, place: KeyPlace, size: Expr) -> Expr:
        """A key in the middle of some from all over a part."""
        lanes = self.vectors.lanes
        stride = I.Bind(tirx.floordiv(size, i64(_SAMPLED)))
        width = 2 * lanes // _SAMPLED
        middle = tirx.floordiv(stride, i64(2))
        tiles = [emit.registers(width, self.keys.unsigned) for _ in range(_SAMPLED)]
        for n, tile in enumerate(tiles):
            keys = place.key(place.buffer[emit.run(place.at(stride * n + middle), width)])
            I.buffer_store(tile, keys, [emit.run(0, width)])
        return RegisterSort(tiles, width, self.keys.ones).emit()[_SAMPLED // 2][0]

    def middle(self, place: KeyPlace, size: Expr) -> Expr:
        """A key between the smallest and the largest key; above the one if they differ."""
        lanes = self.vectors.lanes
        whole = emit.run(0, lanes)
        tiles = [emit.registers(lanes, self.keys.unsigned) for _ in range(2)]

        def include(keys: Expr) -> None:
            I.buffer_store(tiles[0], tirx.min(tiles[0][whole], keys), [whole])
            I.buffer_store(tiles[1], tirx.max(tiles[1][whole], keys), [whole])

        for tile in tiles:
            I.buffer_store(tile, place.vector(self.vectors, 0), [whole])
        with serial(tirx.floordiv(size, i64(lanes))) as block:
            include(place.vector(self.vectors, block * lanes))
        include(place.vector(self.vectors, size - lanes))
        low, high = self.vectors.smallest(tiles[0][whole]), self.vectors.largest(tiles[1][whole])
        low, high = I.Bind(low), I.Bind(high)
        between, one = I.Bind(high - low), self.keys.number(1)
        return low + (between >> one) + (between & one)

    def move(
        self,
        place: KeyPlace,
        size: Expr,
        last: Expr,
        goals: Sequence[KeyPlace],
        counts: Sequence[Any],
    ) -> None:
        """Move keys up to ``last``, and those beyond, each to its goal, and count them."""
        lanes, (low, high) = self.vectors.lanes, counts
        bound = emit.splat(last, lanes)
        for count in counts:
            I.buffer_store(count, i64(0), [0])

        def read(i: Index) -> list[Expr]:
            return [stream.vector(self.vectors, i) for stream in place.streams]

        def move(words: Sequence[Expr], among: Index | None = None) -> None:
            keys, first = words[0], [I.Bind(count[0]) for count in counts]
            packs = (
                lambda word: self.vectors.packed_others(word, bound, keys, among),
                lambda word: self.vectors.packed(word, bound, keys, among),
            )
            for goal, start, packed in zip(goals, first, packs, strict=True):
                for stream, word in zip(goal.streams, words, strict=True):
                    at = stream.at(start)
                    I.buffer_store(stream.buffer, packed(word), [emit.run(at, lanes)])
                    if among is None:
                        emit.prefetch(stream.buffer, at + _STORED_AHEAD_BYTES // self.bytes)
            beyond = I.Bind(self.vectors.count(bound, keys, among))
            there = lanes if among is None else tirx.max(tirx.min(i64(among), lanes), 0)
            I.buffer_store(high, first[1] + beyond, [0])
            I.buffer_store(low, first[0] + (i64(there) - beyond), [0])

        # What is left over from whole blocks comes first, so that the next block can be read before
        # whole vectors are stored where it is.
        block = _UNROLLED * lanes
        starts = range(0, block, lanes)
        rest = I.Bind(tirx.floormod(size, i64(block)))
        first = [read(start) for start in starts]
        second = [read(rest + start) for start in starts]
        for start, words in zip(starts, first, strict=True):
            move(words, rest - start)
        for words in second:
            move(words)
        with serial(tirx.floordiv(size, i64(block)), 1) as number:
            for start in starts:
                i = I.Bind(rest + number * block + start)
                for stream in place.streams:
                    ahead = stream.at(i + _READ_AHEAD_BYTES // self.bytes)
                    emit.prefetch(stream.buffer, ahead)
                move(read(i))

    @property
    def bytes(self) -> int:
        """The size of a key."""
        return self.keys.width // 8
