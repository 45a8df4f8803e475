"""Blocks of a contraction: for the caches, and shared out to the cores, by an estimate of time."""

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_iree_ext.schedules.cpu.products.register_tiles import LONGEST, RegisterTile

_MOST_COLUMNS = 1024  # of a block

# The most bytes of a block's sums where they are in scratch.
_MOST_SUMS_BYTES = 2 << 20

# Multiply-adds in as long as it takes to pack an element, for each lane of a vector; to read one of
# a where it is; and to read and write a sum between blocks of depth.
_PACKED_LANE = 2
_READ = 4
_KEPT = 8

# Parts of m for each core, up to which they are looked at.
_PARTS_PER_CORE = 8


@dataclass(frozen=True)
class Grid:
    """The grid that tasks are blocks of: so many slabs of ``m`` x ``n``, of ``depth`` places.

    A block's part of b has ``panels_bytes`` at most.  ``sum_bytes`` are those of a sum that is kept
    in scratch, 0 where none is; with ``direct`` none is where a block has all of depth.
    ``place_bytes`` are those of a place of depth, and ``packed`` is what it costs to pack an
    element, in multiply-adds.
    """

    slabs: int
    m: int
    n: int
    depth: int | None
    tile: RegisterTile
    cores: int
    panels_bytes: int
    place_bytes: int
    sum_bytes: int
    direct: bool = False
    packs_rows: bool = True
    packed: int | None = None
    most_rows: int | None = None
    most_depth: int = LONGEST
    most_sums: int = _MOST_SUMS_BYTES

    def best(self) -> tuple[int, int, int]:
        """Rows, columns and places of depth of the block of least cost."""
        return min((self.cost(*block), block) for block in self._blocks())[1]

    def cost(self, m: int, n: int, k: int) -> float:
        """How long the thread with the most tasks takes, for each place of depth."""
        packed = _PACKED_LANE * self.tile.lanes if self.packed is None else self.packed
        tasks = self.slabs * -(-self.m // m) * -(-self.n // n)
        blocks = -(-self.depth // k) if self.depth else 1
        kept = _KEPT * (blocks - 1) / self.depth if self.depth else 0
        own = m * n * (1 + kept) + packed * n + (packed if self.packs_rows else _READ) * m
        return -(-tasks // self.cores) * own

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        tile = self.tile
        for n in sorted({self._part(self.n, tile.width, parts) for parts in self._column_parts()}):
            k = max(min(self.most_depth, self.panels_bytes // (n * self.place_bytes)), 1)
            if self.depth:
                k = -(-self.depth // -(-self.depth // k))
            most = self.most_rows or self.m
            if self.sum_bytes and not (self.direct and k == self.depth):
                most = min(most, max(self.most_sums // (n * self.sum_bytes), tile.rows))
            least = -(-self.m // most)
            for parts in range(least, least + _PARTS_PER_CORE * self.cores):
                yield self._part(self.m, tile.rows, parts), n, k

    def _column_parts(self) -> range:
        whole = -(-self.n // self.tile.width)
        least = -(-self.n // _MOST_COLUMNS)
        return range(least, min(whole, least * _MOST_COLUMNS // self.tile.width) + 1)

    @staticmethod
    def _part(extent: int, tile: int, parts: int) -> int:
        """Extent of a part: whole register tiles where there are several."""
        part = -(-extent // parts)
        return -(-part // tile) * tile if parts > 1 else part
