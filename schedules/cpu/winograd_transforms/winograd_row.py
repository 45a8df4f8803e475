"""Rows of Winograd transforms of images: vectors of channels, scratch, positions in an image.

Some tiles of a row, and some vectors of channels, are transformed at once: as many as scratch in
the first cache has room for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import (
    ChannelVectors,
    TileTransform,
    store,
)
from tvm_iree_ext.schedules.emit import Expr, Index, i64
from tvm_iree_ext.targets.cpu import CpuFeatures

Place = Callable[[Index, Index, Expr, Expr, Index, Expr], Expr]

Write = Callable[[Expr, Expr, Expr, Expr, Expr, int], None]
"""``write(n, y, x, channel, value, lanes)``: a vector along the image's last axis."""

# Vectors of channels that are transformed at once, where channels are innermost.
_VECTORS = 4


def vectors_at_once(op: Winograd, blocks: int | None) -> int:
    """How many vectors of channels are transformed at once, of so many, None for any number."""
    if not op.channels_last:
        return 1
    return min(blocks or _VECTORS, _VECTORS)


def tiles_at_once(op: Winograd, vectors: int, vector_bytes: int, features: CpuFeatures) -> int:
    """How many tiles of a row have room in scratch.

    That shares the first cache with what is read and written.
    """
    i, r = op.input_tile_size, op.output_tile_size
    rows, _ = op.across(i)
    room = features.first_cache_bytes * 7 // 8
    return max((room // (rows * vectors * vector_bytes) + r - i) // r, 1)


@dataclass(frozen=True)
class ScratchRows:
    """Scratch: rows of columns of vectors, from a position of a buffer on."""

    buffer: Any
    base: Index
    width: int
    vectors: int
    lanes: int

    def at(self, row: Index, column: Index, block: Index = 0) -> Expr:
        """The position of a vector."""
        vector = (i64(column) + row * self.width) * self.vectors + i64(block)
        return i64(self.base) + vector * self.lanes

    def get(self, row: Index, column: Index, block: Index = 0) -> Expr:
        """The vector."""
        return self.buffer[emit.run(self.at(row, column, block), self.lanes)]

    def put(self, row: Index, column: Index, value: Expr, block: Index = 0) -> None:
        """Write the vector."""
        I.buffer_store(self.buffer, value, [emit.run(self.at(row, column, block), self.lanes)])


class WinogradRow(TileTransform, ABC):
    """Some tiles of a row, and some vectors of channels.

    Args:
        plane: batch, rows, columns and channels of the image.
        place: ``place(a, b, n, h, w, channel)``: the position of an element of the tiles.
        tiles, vectors: how many tiles of a row, and vectors of channels, are transformed at once.
        padding: zeros before the first row and column of an image that is read.
        crop: whether tiles may reach past the last row and column of an image that is written.
        fetches: whether lines of what is written next are fetched: it goes to many places at once,
            which the hardware does not foresee, and each waits for its line.
        scratch: of :meth:`scratch_vectors`, from a position on; by default, its own.
        write: takes what is written to an image; by default it goes to ``result``.
    """

    def __init__(
        self,
        op: Winograd,
        source: Any,
        result: Any,
        plane: Sequence[Index],
        place: Place,
        tiles: int,
        vectors: int,
        *,
        padding: tuple[int, int] = (0, 0),
        crop: bool = False,
        fetches: bool = False,
        scratch: tuple[Any, Index] | None = None,
        write: Write | None = None,
    ) -> None:
        super().__init__(op, source)
        self.result = result
        self.batch, self.rows, self.columns, self.channels = plane
        self.r_down, self.r = op.across(op.output_tile_size)
        self.i_down, self.i = op.across(op.input_tile_size)
        self.place, self.padding, self.crop = place, padding, crop
        self.tiles, self.vectors = tiles, vectors
        self.fetches, self.scratch = fetches, scratch
        self.write = write or self.store_pixel

    @abstractmethod
    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channels: ChannelVectors
    ) -> None:
        """Tiles ``first .. first + count - 1`` of row h."""

    @staticmethod
    @abstractmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """Rows and columns of the vectors that :meth:`transform` needs."""

    @classmethod
    def scratch_vectors(cls, op: Winograd, tiles: int, vectors: int) -> int:
        """How many vectors of scratch :meth:`transform` needs at most."""
        return vectors * max(prod(cls.scratch_shape(op, tiles, way)) for way in (False, True))

    def direct(self, lanes: int) -> bool:
        """Whether vectors of channels are read and written where they are."""
        return self.op.channels_last or lanes == 1

    def rows_of_scratch(self, lanes: int) -> ScratchRows:
        """Scratch for vectors of so many lanes."""
        rows, width = self.scratch_shape(self.op, self.tiles, self.direct(lanes))
        if self.scratch is not None:
            return ScratchRows(*self.scratch, width, self.vectors, lanes)
        memory = emit.scratch([rows * width * self.vectors * lanes], self.dtype)
        return ScratchRows(memory, 0, width, self.vectors, lanes)

    def store_pixel(
        self, n: Expr, y: Expr, x: Expr, channel: Expr, value: Expr, lanes: int
    ) -> None:
        """Write to the image."""
        store(self.result, self.pixel(n, y, x, channel), value, lanes)

    def pixel(self, n: Expr, y: Index, x: Index, channel: Index) -> Expr:
        """The position of an element of the image."""
        if self.op.channels_last:
            shape = (self.batch, self.rows, self.columns, self.channels)
            return emit.flat_index([n, y, x, channel], shape)
        shape = (self.batch, self.channels, self.rows, self.columns)
        return emit.flat_index([n, channel, y, x], shape)
