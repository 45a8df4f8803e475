"""The loops of the Winograd transforms of images.

Some tiles of a row, and some vectors of channels, are transformed at once:

    input:   for columns of the image that the tiles cover:   scratch[:, column] = B^T (column)
             for rows a of scratch, tiles:                    result[a, :] = B^T (elements of row a)
    output:  for columns of tiles:                            scratch[:, column] = A^T (column)
             for rows of scratch, tiles:                      result row = A^T (elements of the row)

so that the products along columns are shared by windows that overlap, and that memory is read and
written in few runs at a time: rows of tiles are apart by any number of bytes, and many lines at the
same place in a page drive each other out of the first cache.  With channels innermost, vectors are
read and written where they are; otherwise a square of channels and columns is transposed in
registers, on its way to or from scratch, a vector of channels after the other.
"""

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_row import ScratchRows, WinogradRow
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import ChannelVectors, store
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Lines fetched in each of the places that a tile goes to; measured: 1, 3 and 4 help less.
_VECTORS_AHEAD = 2


class InputRow(WinogradRow):
    """``input_transform``."""

    @staticmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """The columns of the image that the tiles cover."""
        i, r = op.input_tile_size, op.output_tile_size
        return op.across(i)[0], tiles * r + i - r

    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channels: ChannelVectors
    ) -> None:
        """Products along columns to scratch, then those along rows to the tiles."""
        i, r = self.i, self.r
        scratch = self.rows_of_scratch(channels.lanes)
        top, left = I.Bind(h * self.r_down - self.padding[0]), I.Bind(first * r - self.padding[1])
        needed = I.Bind(i64(count) * r + (i - r))
        # The columns of scratch that are in the image: from, to.
        begin: Index = 0
        if self.padding[1]:
            begin = I.Bind(i64(emit.larger(emit.smaller(-left, needed), 0)))
        end = I.Bind(i64(emit.larger(emit.smaller(needed, i64(self.columns) - left), begin)))

        if self.direct(channels.lanes):
            with I.If(self._inside(top, self.i_down)):
                with I.Then():
                    self._columns(scratch, n, top, left, begin, end, channels, True)
                with I.Else():
                    self._columns(scratch, n, top, left, begin, end, channels, False)
        else:
            self._transposed_columns(scratch, n, top, left, begin, end, channels)
        for low, high in ((0, begin), (end, needed)):
            if not (low == 0 and begin == 0):
                with serial(high, low) as column, serial(channels.blocks) as block:
                    for a in range(self.i_down):
                        scratch.put(a, column, self.zero(channels.lanes), block)
        with serial(self.i_down) as a, serial(count) as tile, serial(channels.blocks) as block:
            values = [scratch.get(a, tile * r + b, block) for b in range(i)]
            channel = I.Bind(channels.first(block))
            for b, value in enumerate(self.product(self.across, values)):
                at = self.place(a, b, n, h, first + tile, channel)
                store(self.result, at, value, channels.lanes)
                if self.fetches:
                    ahead = at + _VECTORS_AHEAD * channels.lanes
                    emit.prefetch(self.result, ahead, write=True)

    def _inside(self, y: Expr, count: int = 1) -> Expr:
        """Whether so many rows from y on are in the image."""
        below = y + count <= i64(self.rows)
        return tirx.And(y >= 0, below) if self.padding[0] else below

    def _columns(
        self,
        scratch: ScratchRows,
        n: Expr,
        top: Expr,
        left: Expr,
        begin: Index,
        end: Expr,
        channels: ChannelVectors,
        whole: bool,
    ) -> None:
        """Products along columns; where not all rows are in the image, zeros stand for those."""
        with serial(end, begin) as column, serial(channels.blocks) as block:
            channel = I.Bind(channels.first(block))
            values = [
                self._element(n, top + a, left + column, channel, scratch.lanes, whole)
                for a in range(self.i_down)
            ]
            for a, value in enumerate(self.product(self.down, values)):
                scratch.put(a, column, value, block)

    def _element(self, n: Expr, y: Expr, x: Expr, channel: Expr, lanes: int, whole: bool) -> Expr:
        value = self.load(self.pixel(n, y, x, channel), lanes)
        if whole:
            return value
        return tirx.if_then_else(self._inside(y), value, self.zero(lanes))

    def _transposed_columns(
        self,
        scratch: ScratchRows,
        n: Expr,
        top: Expr,
        left: Expr,
        begin: Index,
        end: Expr,
        channels: ChannelVectors,
    ) -> None:
        """The same, of columns that lie apart for each channel."""
        with serial(channels.blocks) as block:
            channel = I.Bind(channels.first(block))
            # One square of code for all rows: the compiler takes long over each.
            with serial(self.i_down) as a:
                y = I.Bind(top + a)
                self._transposed_row(scratch, a, n, y, left, begin, end, channel, block)
            with serial(end, begin) as column:
                values = [scratch.get(a, column, block) for a in range(self.i_down)]
                for a, value in enumerate(self.product(self.down, values)):
                    scratch.put(a, column, value, block)

    def _transposed_row(
        self,
        scratch: ScratchRows,
        a: Expr,
        n: Expr,
        y: Expr,
        left: Expr,
        begin: Index,
        end: Expr,
        channel: Expr,
        vector: Expr,
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
                        scratch.put(a, column + j, value, vector)
                with serial(end, begin + blocks * lanes) as column:
                    for lane in range(lanes):
                        value = self.load(self.pixel(n, y, left + column, channel + lane), 1)
                        I.buffer_store(
                            scratch.buffer, value, [scratch.at(a, column, vector) + lane]
                        )
            with I.Else(), serial(end, begin) as column:
                scratch.put(a, column, self.zero(lanes), vector)


class OutputRow(WinogradRow):
    """``output_transform``."""

    @staticmethod
    def scratch_shape(op: Winograd, tiles: int, direct: bool) -> tuple[int, int]:
        """Columns of tiles; then, where they are to be transposed, rows of the image."""
        i, r = op.input_tile_size, op.output_tile_size
        return op.across(r)[0], tiles * (i if direct else i + r)

    def transform(
        self, n: Expr, h: Expr, first: Expr, count: Index, channels: ChannelVectors
    ) -> None:
        """Products along columns to scratch, then those along rows to the image."""
        i, r, lanes = self.i, self.r, channels.lanes
        direct = self.direct(lanes)
        scratch = self.rows_of_scratch(lanes)
        top, left = I.Bind(h * self.r_down), I.Bind(first * r)
        with serial(i) as b, serial(count) as tile, serial(channels.blocks) as block:
            channel = I.Bind(channels.first(block))
            values = [
                self.load(self.place(a, b, n, h, first + tile, channel), lanes)
                for a in range(self.i_down)
            ]
            for p, value in enumerate(self.product(self.down, values)):
                scratch.put(p, tile * i + b, value, block)
        with serial(self.r_down) as p, serial(count) as tile, serial(channels.blocks) as block:
            values = self.product(
                self.across, [scratch.get(p, tile * i + b, block) for b in range(i)]
            )
            if direct:
                channel = I.Bind(channels.first(block))
                self._store_row(n, top + p, left + tile * r, channel, values, lanes)
            else:
                for q, value in enumerate(values):
                    scratch.put(p, tile * r + (q + self.tiles * i), value, block)
        if direct:
            return
        wide = I.Bind(i64(count) * r)
        if self.crop:
            wide = I.Bind(tirx.min(wide, i64(self.columns) - left))
        high: Index = self.r_down
        if self.crop:
            high = I.Bind(tirx.min(i64(self.rows) - top, i64(high)))
        with serial(high) as p, serial(channels.blocks) as block:
            channel = I.Bind(channels.first(block))
            self._transposed_row(scratch, p, n, top + p, left, wide, channel, block)

    def _store_row(
        self, n: Expr, y: Expr, x: Expr, channel: Expr, values: Sequence[Expr], lanes: int
    ) -> None:
        """A row of a tile, as far as it is in the image; that below it is fetched."""

        def put(guarded: bool) -> None:
            for q, value in enumerate(values):
                if self.fetches:
                    below = self.pixel(n, y + 1, x + q, channel)
                    emit.prefetch(self.result, below, write=True)
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
        self,
        scratch: ScratchRows,
        p: Expr,
        n: Expr,
        y: Expr,
        left: Expr,
        count: Expr,
        channel: Expr,
        vector: Expr,
    ) -> None:
        """A row of scratch to a vector of channels of a row of the image."""
        skipped, lanes = self.tiles * self.i, scratch.lanes
        blocks = tirx.floordiv(count, i64(lanes))
        with serial(blocks) as block:
            vectors = [scratch.get(p, block * lanes + (j + skipped), vector) for j in range(lanes)]
            for lane, value in enumerate(emit.transpose(vectors)):
                self.write(n, y, left + block * lanes, channel + lane, value, lanes)
        with serial(count, blocks * lanes) as column:
            for lane in range(lanes):
                value = scratch.buffer[scratch.at(p, column + skipped, vector) + lane]
                self.write(n, y, left + column, channel + lane, value, 1)
