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

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import Expr, Index, Space, i64, serial
from tvm_iree_ext.schedules.cpu.winograd_tile import TileLoops

from tvm_iree_ext.ops.winograd import Winograd


class _ImageLoops(TileLoops):
    """What both directions share: where elements are, and which tasks there are."""

    def __init__(self, op: Winograd, config: LoweringConfig) -> None:
        super().__init__(op, config)
        self.batch, self.rows, self.columns, self.channels = op.plane(self.parameters)
        self.r, self.i = op.output_tile_size, op.input_tile_size
        tiled = op.output if op.kind == "input" else op.input
        counts = [self.parameters.extent(e) for e in tiled.shape[3:5]] or [1, 1]
        self.high, self.wide = counts
        self.tiles = config.workgroup_tile["tiles"]
        if isinstance(self.wide, int):
            self.tiles = min(self.tiles, self.wide)

    def emit(self) -> None:
        """The whole function."""
        self.over_channels(self.channels, self._tasks)

    def _tasks(self, lanes: int, blocks: Index) -> None:
        groups = emit.ceil_div(self.wide, self.tiles)
        space = Space((self.batch, self.high, groups, blocks))
        with self.tasks(space.count((0, 1, 2, 3))) as task:
            at = space.spread(task, (0, 1, 2, 3))
            n, h = (I.Bind(i64(at[dim])) for dim in (0, 1))
            first = I.Bind(i64(at[2]) * self.tiles)
            channel = I.Bind(self.first_channel(at[3], self.channels, lanes))
            count = I.Bind(i64(emit.smaller(self.tiles, i64(self.wide) - first)))
            self._task(n, h, first, count, channel, lanes)

    def _task(self, n: Expr, h: Expr, first: Expr, count: Expr, channel: Expr, lanes: int) -> None:
        raise TypeError("a transform has its own")

    def pixel(self, n: Expr, y: Index, x: Index, channel: Index) -> Expr:
        """The position of an element of the image."""
        if self.op.channels_last:
            shape = (self.batch, self.rows, self.columns, self.channels)
            return emit.flat_index([n, y, x, channel], shape)
        shape = (self.batch, self.channels, self.rows, self.columns)
        return emit.flat_index([n, channel, y, x], shape)

    def tiled(self, a: Index, b: Index, n: Expr, h: Expr, w: Index, channel: Expr) -> Expr:
        """The position of an element of the tiles."""
        shape = (self.i, self.i, self.batch, self.high, self.wide, self.channels)
        return emit.flat_index([a, b, n, h, w, channel], shape)


class InputLoops(_ImageLoops):
    """``input_transform``."""

    def _task(self, n: Expr, h: Expr, first: Expr, count: Expr, channel: Expr, lanes: int) -> None:
        i, r = self.i, self.r
        width = self.tiles * r + i - r
        scratch = emit.fixed_scratch([i, width * lanes], self.dtype)
        top, left = I.Bind(h * r), I.Bind(first * r)
        needed = I.Bind(count * r + (i - r))
        inside = I.Bind(i64(emit.larger(emit.smaller(needed, i64(self.columns) - left), 0)))

        def place(column: Index) -> Expr:
            return emit.run(i64(column) * lanes, lanes)

        def fill(whole: bool) -> None:
            """The columns of scratch; where not all rows are in the image, with zeros."""
            if self.op.channels_last or lanes == 1:
                with serial(inside) as column:
                    values = [
                        self._element(n, top + a, left + column, channel, lanes, whole)
                        for a in range(i)
                    ]
                    for a, value in enumerate(self.product(values)):
                        I.buffer_store(scratch, value, [a, place(column)])
                return
            for a in range(i):
                self._transposed_row(scratch, a, n, top + a, left, inside, channel, lanes, whole)
            with serial(inside) as column:
                values = [scratch[a, place(column)] for a in range(i)]
                for a, value in enumerate(self.product(values)):
                    I.buffer_store(scratch, value, [a, place(column)])

        with I.If(top + i <= i64(self.rows)):
            with I.Then():
                fill(True)
            with I.Else():
                fill(False)
        with serial(needed, inside) as column:
            for a in range(i):
                I.buffer_store(scratch, self.zero(lanes), [a, place(column)])
        with serial(count) as tile:
            for a in range(i):
                values = [scratch[a, place(tile * r + b)] for b in range(i)]
                for b, value in enumerate(self.product(values)):
                    self.store(self.tiled(a, b, n, h, first + tile, channel), value, lanes)

    def _element(self, n: Expr, y: Expr, x: Expr, channel: Expr, lanes: int, whole: bool) -> Expr:
        value = self.load(self.pixel(n, y, x, channel), lanes)
        if whole:
            return value
        return tirx.if_then_else(y < i64(self.rows), value, self.zero(lanes))

    def _transposed_row(
        self,
        scratch: Expr,
        a: int,
        n: Expr,
        y: Expr,
        left: Expr,
        count: Expr,
        channel: Expr,
        lanes: int,
        whole: bool,
    ) -> None:
        """A row of the image, ``lanes`` channels of it, to a row of scratch."""

        def write(column: Index, value: Expr) -> None:
            I.buffer_store(scratch, value, [a, emit.run(i64(column) * lanes, lanes)])

        def copy() -> None:
            blocks = tirx.floordiv(count, i64(lanes))
            with serial(blocks) as block:
                starts = [
                    self.pixel(n, y, left + block * lanes, channel + lane) for lane in range(lanes)
                ]
                square = emit.transpose([self.load(start, lanes) for start in starts])
                for j, value in enumerate(square):
                    write(block * lanes + j, value)
            with serial(count, blocks * lanes) as column:
                for lane in range(lanes):
                    value = self.load(self.pixel(n, y, left + column, channel + lane), 1)
                    I.buffer_store(scratch, value, [a, column * lanes + lane])

        if whole:
            copy()
            return
        with I.If(y < i64(self.rows)):
            with I.Then():
                copy()
            with I.Else(), serial(count) as column:
                write(column, self.zero(lanes))


class OutputLoops(_ImageLoops):
    """``output_transform``."""

    def _task(self, n: Expr, h: Expr, first: Expr, count: Expr, channel: Expr, lanes: int) -> None:
        i, r = self.i, self.r
        direct = self.op.channels_last or lanes == 1
        # A tile's columns; then, where they are to be transposed, rows of the image.
        width = i if direct else i + self.tiles * r
        scratch = emit.fixed_scratch([r, width * lanes], self.dtype)

        def place(column: Index) -> Expr:
            return emit.run(i64(column) * lanes, lanes)

        top, left = I.Bind(h * r), I.Bind(first * r)
        with serial(count) as tile:
            for b in range(i):
                values = [
                    self.load(self.tiled(a, b, n, h, first + tile, channel), lanes)
                    for a in range(i)
                ]
                for p, value in enumerate(self.product(values)):
                    I.buffer_store(scratch, value, [p, place(b)])
            for p in range(r):
                values = self.product([scratch[p, place(b)] for b in range(i)])
                for q, value in enumerate(values):
                    column = tile * r + q
                    if direct:
                        self.store(self.pixel(n, top + p, left + column, channel), value, lanes)
                    else:
                        I.buffer_store(scratch, value, [p, place(column + i)])
        if not direct:
            for p in range(r):
                self._transposed_row(scratch, p, n, top + p, left, count * r, channel, lanes)

    def _transposed_row(
        self,
        scratch: Expr,
        p: int,
        n: Expr,
        y: Expr,
        left: Expr,
        count: Expr,
        channel: Expr,
        lanes: int,
    ) -> None:
        """A row of scratch to ``lanes`` channels of a row of the image."""
        skipped = self.i
        blocks = tirx.floordiv(count, i64(lanes))
        with serial(blocks) as block:
            vectors: Sequence[Expr] = [
                scratch[p, emit.run((block * lanes + j + skipped) * lanes, lanes)]
                for j in range(lanes)
            ]
            for lane, value in enumerate(emit.transpose(vectors)):
                at = self.pixel(n, y, left + block * lanes, channel + lane)
                self.store(at, value, lanes)
        with serial(count, blocks * lanes) as column:
            for lane in range(lanes):
                at = self.pixel(n, y, left + column, channel + lane)
                self.store(at, scratch[p, (column + skipped) * lanes + lane], 1)
