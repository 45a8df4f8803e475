"""The loops of the Winograd transforms of images.

A task takes some tiles of a row of tiles, and one vector of channels:

    input:   for columns of the image that the tiles cover:   scratch[:, column] = B^T (column)
             for tiles:  for rows of scratch:                 result[a, :] = B^T (8 elements of it)
    output:  for tiles:  for columns of the tile:             scratch[:, column] = A^T (column)
                         for rows of scratch:                 result row = A^T (row)

so that the products along columns are shared by windows that overlap.  With channels innermost,
vectors are read and written where they are; otherwise a square of channels and columns is
transposed in registers, on its way to or from scratch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.winograd_tile import (
    TileTransform,
    first_channel,
    over_channels,
    store,
    tasks,
)
from tvm_iree_ext.schedules.emit import Expr, Index, Space, i64, serial

from tvm_iree_ext.ops.parameters import Parameters
from tvm_iree_ext.ops.winograd import Winograd

Place = Callable[[int, int, Expr, Expr, Index, Expr], Expr]

Write = Callable[[Expr, Expr, Expr, Expr, Expr, int], None]
"""``write(n, y, x, channel, value, lanes)``: a vector along the image's last axis."""


@dataclass(frozen=True)
class Rows:
    """Scratch: rows of vectors, from a position of a buffer on."""

    buffer: Any
    base: Index
    width: int
    lanes: int

    def at(self, row: Index, column: Index) -> Expr:
        """The position of a vector."""
        return i64(self.base) + (i64(column) + row * self.width) * self.lanes

    def get(self, row: Index, column: Index) -> Expr:
        """The vector."""
        return self.buffer[emit.run(self.at(row, column), self.lanes)]

    def put(self, row: Index, column: Index, value: Expr) -> None:
        """Write the vector."""
        I.buffer_store(self.buffer, value, [emit.run(self.at(row, column), self.lanes)])


class RowTransform(TileTransform, ABC):
    """Some tiles of a row, and one vector of channels.

    Args:
        plane: batch, rows, columns and channels of the image.
        place: ``place(a, b, n, h, w, channel)``: the position of an element of the tiles.
        tiles: how many tiles of a row there are at once, at most.
        padding: zeros before the first row and column of an image that is read.
        crop: whether tiles may reach past the last row and column of an image that is written.
        scratch: of :meth:`scratch_size` elements, from a position on; by default, its own.
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
        *,
        padding: tuple[int, int] = (0, 0),
        crop: bool = False,
        scratch: tuple[Any, Index] | None = None,
        write: Write | None = None,
    ) -> None:
        super().__init__(op, source)
        self.result = result
        self.batch, self.rows, self.columns, self.channels = plane
        self.r, self.i = op.output_tile_size, op.input_tile_size
        self.place, self.tiles, self.padding, self.crop = place, tiles, padding, crop
        self.scratch = scratch
        self.write = write or self.store_pixel

    @abstractmethod
    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channel: Expr, lanes: int
    ) -> None:
        """Tiles ``first .. first + count - 1`` of row h, channels from ``channel`` on."""

    @staticmethod
    @abstractmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """Rows and columns of the vectors that :meth:`transform` needs."""

    def direct(self, lanes: int) -> bool:
        """Whether vectors of channels are read and written where they are."""
        return self.op.channels_last or lanes == 1

    def rows_of_scratch(self, lanes: int) -> Rows:
        """Scratch for vectors of so many lanes."""
        rows, width = self.scratch_shape(self.op, self.tiles, self.direct(lanes))
        if self.scratch is not None:
            return Rows(*self.scratch, width, lanes)
        return Rows(emit.scratch([rows * width * lanes], self.dtype), 0, width, lanes)

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


class InputRow(RowTransform):
    """``input_transform``."""

    @staticmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """The columns of the image that the tiles cover."""
        i, r = op.input_tile_size, op.output_tile_size
        return i, tiles * r + i - r

    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channel: Expr, lanes: int
    ) -> None:
        """Products along columns to scratch, then those along rows to the tiles."""
        i, r = self.i, self.r
        scratch = self.rows_of_scratch(lanes)
        top, left = (I.Bind(at * r - pad) for at, pad in zip((h, first), self.padding, strict=True))
        needed = I.Bind(i64(count) * r + (i - r))
        # The columns of scratch that are in the image: from, to.
        begin: Index = 0
        if self.padding[1]:
            begin = I.Bind(i64(emit.larger(emit.smaller(-left, needed), 0)))
        end = I.Bind(i64(emit.larger(emit.smaller(needed, i64(self.columns) - left), begin)))

        if self.direct(lanes):
            with I.If(self._inside(top, i)):
                with I.Then():
                    self._columns(scratch, n, top, left, begin, end, channel, True)
                with I.Else():
                    self._columns(scratch, n, top, left, begin, end, channel, False)
        else:
            # One square of code for all rows: the compiler takes long over each.
            with serial(i) as a:
                self._transposed_row(scratch, a, n, I.Bind(top + a), left, begin, end, channel)
            with serial(end, begin) as column:
                values = [scratch.get(a, column) for a in range(i)]
                for a, value in enumerate(self.product(values)):
                    scratch.put(a, column, value)
        for low, high in ((0, begin), (end, needed)):
            if not (low == 0 and begin == 0):
                with serial(high, low) as column:
                    for a in range(i):
                        scratch.put(a, column, self.zero(lanes))
        with serial(count) as tile:
            for a in range(i):
                values = [scratch.get(a, tile * r + b) for b in range(i)]
                for b, value in enumerate(self.product(values)):
                    store(self.result, self.place(a, b, n, h, first + tile, channel), value, lanes)

    def _inside(self, y: Expr, count: int = 1) -> Expr:
        """Whether so many rows from y on are in the image."""
        below = y + count <= i64(self.rows)
        return tirx.And(y >= 0, below) if self.padding[0] else below

    def _columns(
        self,
        scratch: Rows,
        n: Expr,
        top: Expr,
        left: Expr,
        begin: Index,
        end: Expr,
        channel: Expr,
        whole: bool,
    ) -> None:
        """Products along columns; where not all rows are in the image, zeros stand for those."""
        with serial(end, begin) as column:
            values = [
                self._element(n, top + a, left + column, channel, scratch.lanes, whole)
                for a in range(self.i)
            ]
            for a, value in enumerate(self.product(values)):
                scratch.put(a, column, value)

    def _element(self, n: Expr, y: Expr, x: Expr, channel: Expr, lanes: int, whole: bool) -> Expr:
        value = self.load(self.pixel(n, y, x, channel), lanes)
        if whole:
            return value
        return tirx.if_then_else(self._inside(y), value, self.zero(lanes))

    def _transposed_row(
        self,
        scratch: Rows,
        a: Expr,
        n: Expr,
        y: Expr,
        left: Expr,
        begin: Index,
        end: Expr,
        channel: Expr,
    ) -> None:
        """A row of the image, a vector of channels of it, to a row of scratch."""
        lanes = scratch.lanes
        with I.If(self._inside(y)):
            with I.Then():
                blocks = I.Bind(tirx.floordiv(end - begin, i64(lanes)))
                with serial(blocks) as block:
                    column = I.Bind(begin + block * lanes)
                    starts = [
                        self.pixel(n, y, left + column, channel + lane) for lane in range(lanes)
                    ]
                    square = emit.transpose([self.load(start, lanes) for start in starts])
                    for j, value in enumerate(square):
                        scratch.put(a, column + j, value)
                with serial(end, begin + blocks * lanes) as column:
                    for lane in range(lanes):
                        value = self.load(self.pixel(n, y, left + column, channel + lane), 1)
                        I.buffer_store(scratch.buffer, value, [scratch.at(a, column) + lane])
            with I.Else(), serial(end, begin) as column:
                scratch.put(a, column, self.zero(lanes))


class OutputRow(RowTransform):
    """``output_transform``."""

    @staticmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """A tile's columns; then, where they are to be transposed, rows of the image."""
        i, r = op.input_tile_size, op.output_tile_size
        return r, i if direct else i + tiles * r

    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channel: Expr, lanes: int
    ) -> None:
        """Products along columns to scratch, then those along rows to the image."""
        i, r = self.i, self.r
        direct = self.direct(lanes)
        scratch = self.rows_of_scratch(lanes)
        top, left = I.Bind(h * r), I.Bind(first * r)
        with serial(count) as tile:
            for b in range(i):
                values = [
                    self.load(self.place(a, b, n, h, first + tile, channel), lanes)
                    for a in range(i)
                ]
                for p, value in enumerate(self.product(values)):
                    scratch.put(p, b, value)
            for p in range(r):
                values = self.product([scratch.get(p, b) for b in range(i)])
                if direct:
                    self._store_row(n, top + p, left + tile * r, channel, values, lanes)
                    continue
                for q, value in enumerate(values):
                    scratch.put(p, tile * r + (q + i), value)
        if direct:
            return
        wide = I.Bind(i64(count) * r)
        if self.crop:
            wide = I.Bind(tirx.min(wide, i64(self.columns) - left))
        high: Index = r
        if self.crop:
            high = I.Bind(tirx.min(i64(self.rows) - top, i64(r)))
        with serial(high) as p:
            self._transposed_row(scratch, p, n, top + p, left, wide, channel)

    def _store_row(
        self, n: Expr, y: Expr, x: Expr, channel: Expr, values: Sequence[Expr], lanes: int
    ) -> None:
        """A row of a tile, as far as it is in the image."""

        def put(guarded: bool) -> None:
            for q, value in enumerate(values):
                if not guarded:
                    self.write(n, y, x + q, channel, value, lanes)
                    continue
                with I.If(x + q < i64(self.columns)), I.Then():
                    self.write(n, y, x + q, channel, value, lanes)

        if not self.crop:
            put(False)
            return
        with I.If(y < i64(self.rows)), I.Then(), I.If(x + self.r <= i64(self.columns)):
            with I.Then():
                put(False)
            with I.Else():
                put(True)

    def _transposed_row(
        self, scratch: Rows, p: Expr, n: Expr, y: Expr, left: Expr, count: Expr, channel: Expr
    ) -> None:
        """A row of scratch to a vector of channels of a row of the image."""
        skipped, lanes = self.i, scratch.lanes
        blocks = tirx.floordiv(count, i64(lanes))
        with serial(blocks) as block:
            vectors = [scratch.get(p, block * lanes + (j + skipped)) for j in range(lanes)]
            for lane, value in enumerate(emit.transpose(vectors)):
                self.write(n, y, left + block * lanes, channel + lane, value, lanes)
        with serial(count, blocks * lanes) as column:
            for lane in range(lanes):
                value = scratch.buffer[scratch.at(p, column + skipped) + lane]
                self.write(n, y, left + column, channel + lane, value, 1)


def emit_images(op: Winograd, config: LoweringConfig) -> None:
    """The whole function of ``input_transform`` or ``output_transform``."""
    parameters = Parameters.declare(op)
    source, result = (emit.flat(parameters.buffers[name]) for name in ("input", "result"))
    plane = op.plane(parameters)
    tiled = op.output if op.kind == "input" else op.input
    high, wide = [parameters.extent(e) for e in tiled.shape[3:5]] or [1, 1]
    tiles = config.workgroup_tile["tiles"]
    if isinstance(wide, int):
        tiles = min(tiles, wide)
    batch, _, _, channels = plane
    i = op.input_tile_size

    def place(a: int, b: int, n: Expr, h: Expr, w: Index, channel: Expr) -> Expr:
        return emit.flat_index([a, b, n, h, w, channel], (i, i, batch, high, wide, channels))

    made: type[RowTransform] = InputRow if op.kind == "input" else OutputRow
    row = made(op, source, result, plane, place, tiles)

    def run(lanes: int, blocks: Index) -> None:
        space = Space((batch, high, emit.ceil_div(wide, tiles), blocks))
        with tasks(space.count((0, 1, 2, 3)), config) as task:
            at = space.spread(task, (0, 1, 2, 3))
            n, h = (I.Bind(i64(at[dim])) for dim in (0, 1))
            first = I.Bind(i64(at[2]) * tiles)
            channel = I.Bind(first_channel(at[3], channels, lanes))
            count = I.Bind(i64(emit.smaller(tiles, i64(wide) - first)))
            row.transform(n, h, first, count, channel, lanes)

    over_channels(channels, config.vector_lanes, run)
