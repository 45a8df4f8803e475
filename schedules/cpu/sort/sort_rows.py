"""Sorting the rows of a tile by exchanges of whole rows: in each lane, a line is sorted.

Which rows are exchanged does not depend on the data, so each exchange is a vector comparison and
selections, with no branch and no gather.  Blocks of rows are sorted in registers by Batcher's
odd-even merges.  Longer runs are merged two by two: the second is compared backwards with the
first, then rows at ever smaller distances are compared, two distances in one pass, the last ones
in registers.  Whatever lies beyond the last row counts as larger than all, and is left out.

A chunk of rows that the first cache holds is sorted before the next; merges of chunks leave it only
for distances that do.  Loops run over distances, so the code is as short for any number of rows.

Not stable: whose ties can be told apart adds a buffer of places to what is compared.
Work: rows x log2(rows)^2 / 4 exchanges.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.batcher_network import Pair, batcher, cleaner
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Rows of a vector that the first cache holds beside what else is in use: a power of two, and with
# vectors of 64 bytes half of 32 KiB.
CHUNK = 256


@dataclass(frozen=True)
class RowSort:
    """Sorts ``rows`` rows of ``lanes`` elements in some buffers, which are permuted together.

    ``swaps(left, right)`` says in each lane whether the elements of the right row, one of each
    buffer, must go before those of the left.  ``block``, a power of two, is how many rows of all
    buffers are held in registers.
    """

    buffers: Sequence[Any]
    rows: int
    lanes: int
    block: int
    swaps: Callable[[Sequence[Expr], Sequence[Expr]], Expr]

    def emit(self) -> None:
        """All rows."""
        if self.rows <= CHUNK:
            self.sort_chunk(i64(0), i64(self.rows))
            return
        chunks = -(-self.rows // CHUNK)
        with serial(chunks) as chunk:
            self.sort_chunk(*self.chunk(chunk))
        half, distance = emit.registers(1, "int64"), emit.registers(1, "int64")
        I.buffer_store(half, i64(CHUNK), [0])
        with I.While(half[0] < self.rows):
            self.fold(i64(0), i64(self.rows), half[0])
            I.buffer_store(distance, tirx.floordiv(half[0], i64(2)), [0])
            self.descend(i64(0), i64(self.rows), distance, CHUNK)
            with serial(chunks) as chunk:
                base, count = self.chunk(chunk)
                I.buffer_store(distance, i64(CHUNK // 2), [0])
                self.clean(base, count, distance)
            I.buffer_store(half, half[0] * 2, [0])

    def chunk(self, chunk: Expr) -> tuple[Expr, Expr]:
        """Start of a chunk, and its number of rows."""
        base = I.Bind(chunk * CHUNK)
        return base, I.Bind(i64(emit.smaller(CHUNK, self.rows - base)))

    def sort_chunk(self, base: Expr, count: Expr) -> None:
        """Sort some rows that stay in the cache."""
        self.each_block(base, count, batcher)
        half, distance = emit.registers(1, "int64"), emit.registers(1, "int64")
        I.buffer_store(half, i64(self.block), [0])
        with I.While(half[0] < count):
            self.fold(base, count, half[0])
            I.buffer_store(distance, tirx.floordiv(half[0], i64(2)), [0])
            self.clean(base, count, distance)
            I.buffer_store(half, half[0] * 2, [0])

    def clean(self, base: Expr, count: Expr, distance: Any) -> None:
        """Sort bitonic runs of twice the distance."""
        self.descend(base, count, distance, self.block)
        self.each_block(base, count, lambda rows: cleaner(rows, self.block // 2))

    def each_block(self, base: Expr, count: Expr, pairs: Callable[[int], list[Pair]]) -> None:
        """Exchanges inside blocks of rows, the last of which may be shorter."""
        size, rest = self.block, self.rows % self.block
        with serial(tirx.floordiv(count, i64(size))) as number:
            first = I.Bind(base + number * size)
            self.exchange([first + i for i in range(size)], pairs(size))
        if rest > 1:
            first = i64(self.rows - rest)
            with I.If(base + count == self.rows), I.Then():
                self.exchange([first + i for i in range(rest)], pairs(rest))

    def fold(self, base: Expr, count: Expr, half: Expr) -> None:
        """Compare the second half of each run backwards with the first."""
        with self.runs(base, count, 2 * half) as (low, size):
            missing = tirx.max(2 * half - size, i64(0))
            with serial(half, missing) as i:
                self.exchange([low + i, low + (2 * half - 1 - i)], [(0, 1)])

    def descend(self, base: Expr, count: Expr, distance: Any, stop: int) -> None:
        """Compare rows at a distance, and at each half of it down to ``stop``."""
        with I.While(distance[0] >= 2 * stop):
            self.compare_two(base, count, distance[0])
            I.buffer_store(distance, tirx.floordiv(distance[0], i64(4)), [0])
        with I.If(distance[0] >= stop), I.Then():
            self.compare_one(base, count, distance[0])
            I.buffer_store(distance, tirx.floordiv(distance[0], i64(2)), [0])

    def compare_one(self, base: Expr, count: Expr, distance: Expr) -> None:
        """Compare rows at a distance."""
        with self.runs(base, count, 2 * distance) as (low, size):
            pairs = I.Bind(tirx.max(tirx.min(size - distance, distance), i64(0)))
            with serial(pairs) as i:
                self.exchange([low + i, low + i + distance], [(0, 1)])

    def compare_two(self, base: Expr, count: Expr, distance: Expr) -> None:
        """Compare rows at a distance, then at its half, in one pass."""
        half = tirx.floordiv(distance, i64(2))
        with self.runs(base, count, 2 * distance) as (low, size):
            begin: Expr = i64(0)
            # Of the last run, not all four rows may be there.
            for there, pairs in (
                (4, [(0, 2), (1, 3), (0, 1), (2, 3)]),
                (3, [(0, 2), (0, 1)]),
                (2, [(0, 1)]),
            ):
                end = I.Bind(tirx.max(tirx.min(size - half * (there - 1), half), begin))
                with serial(end, begin) as i:
                    self.exchange([low + i + half * n for n in range(there)], pairs)
                begin = end

    @contextmanager
    def runs(self, base: Expr, count: Expr, length: Expr) -> Iterator[tuple[Expr, Expr]]:
        """A loop over runs of a length, giving where each begins and how many rows it has."""
        with serial(tirx.floordiv(count + length - 1, length)) as number:
            low = I.Bind(base + number * length)
            yield low, I.Bind(tirx.min(base + count - low, length))

    def exchange(self, rows: Sequence[Index], pairs: Sequence[Pair]) -> None:
        """Load some rows, exchange those of each pair that are out of order, and store them."""
        lanes = self.lanes
        at = [emit.run(I.Bind(i64(row) * lanes), lanes) for row in rows]
        whole = [emit.run(0, lanes)]
        # A tile for each row: TVM compares every two places of one with each other.
        tiles = [
            [emit.registers(lanes, str(buffer.dtype)) for buffer in self.buffers] for _ in rows
        ]
        for row, place in zip(tiles, at, strict=True):
            for tile, buffer in zip(row, self.buffers, strict=True):
                I.buffer_store(tile, buffer[place], whole)
        for left, right in pairs:
            with emit.vector_loop(lanes) as lane:
                low, high = ([I.Bind(tile[lane]) for tile in tiles[row]] for row in (left, right))
                # Not bound: TVM cannot bind a vector of bools.
                swap = self.swaps(low, high)
                for n, (one, other) in enumerate(zip(low, high, strict=True)):
                    I.buffer_store(tiles[left][n], tirx.Select(swap, other, one), [lane])
                    I.buffer_store(tiles[right][n], tirx.Select(swap, one, other), [lane])
        for row, place in zip(tiles, at, strict=True):
            for tile, buffer in zip(row, self.buffers, strict=True):
                I.buffer_store(buffer, tile[emit.run(0, lanes)], [place])
