"""Convolution whose windows are read where they lie, with channels last.

    pack the filter: panels of filters, all of K after one another
    for groups, blocks of lines, parts of the filters (a task):
        band[line, kh, x, c] = the rows of the image under a line, with zeros past its edges
        for panels of filters, lines, register tiles of pixels of a line:
            sums[pixel, f] = sum over kh, kw, c of band[line, kh, pixel * s + kw * d, c] * filter
            result = sums, out of registers

An image without padding, in the type of products, is its own band.  A matrix of windows holds each
element once for each tap; that is a large part of the work where channels are few.  Register tiles
end with their line, so it takes lines that are long, and whose length is known.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_filter import FilterLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvBlock, product_dtype
from tvm_iree_ext.schedules.cpu.products.register_product import multiply_tile
from tvm_iree_ext.schedules.cpu.products.register_tiles import SAME_SETS_BYTES, odd_lines, zeros
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial


class DirectLoops(FilterLoops):
    """NHWC with HWCF; the image's columns are known."""

    overlapping = True

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        super().__init__(op, config)
        self.wide = known(self.out_columns) or 0
        self.in_place = reads_in_place(op)
        self.pixel_stride = op.image[3] if self.in_place else _band_pixel(op)
        row = (known(self.columns) or 0) * op.image[3] * op.dilations[0]
        self.row_stride = row if self.in_place else _band_row(op)
        self.line_stride = op.kernel[0] * self.row_stride
        # Whether the taps of a row are one run.
        self.joined = self.pixel_stride == self.group_channels and op.dilations[1] == 1
        self.lines = max(config.pixels // self.wide, 1)

    def task(self, block: ConvBlock) -> None:
        """Some lines, a part of a group's filters."""
        if not self.in_place:
            self.band = emit.scratch([self.lines * self.line_stride], self.dtype)
            with serial(block.lines) as line:
                self.pack_line(block, line)
        start = self.panel_start(block)
        for first, count, vectors in self.panels_of(self.held // self.parts):
            with serial(count) as panel, serial(block.lines) as line:
                column = first + panel * (vectors * self.lanes) if count > 1 else first
                at = I.Bind(start + column * self.depth)
                self.multiply_line(block, line, column, at, vectors)

    def pack_line(self, block: ConvBlock, line: Expr) -> None:
        """The rows of the image under a line."""
        op = self.op
        n, y = self.line(block.first + line)
        with serial(op.kernel[0]) as kh:
            row = I.Bind(i64(y) * op.strides[0] + (kh * op.dilations[0] - op.padding[0][0]))
            target = I.Bind(line * self.line_stride + kh * self.row_stride)
            c0 = i64(block.group) * self.group_channels
            if op.padding[0] == (0, 0):
                self.pack_row(I.Bind(self.pixel(n, row, 0, c0)), target)
            else:
                with I.If(tirx.And(row >= 0, row < i64(self.rows))):
                    with I.Then():
                        self.pack_row(I.Bind(self.pixel(n, row, 0, c0)), target)
                    with I.Else():
                        self.clear(target, self.row_stride)

    def pack_row(self, source: Expr, target: Expr) -> None:
        """A row of the image from a position on, between zeros."""
        op = self.op
        width = _band_width(op)
        left = min(op.padding[1][0], width)
        inside = min(known(self.columns) or 0, width - left)
        begin, end = left * self.pixel_stride, (left + inside) * self.pixel_stride
        self.clear(target, begin)
        if self.pixel_stride == op.image[3]:
            self.copy(source, I.Bind(target + begin), end - begin)
        else:
            with serial(inside) as x:
                to = I.Bind(target + begin + x * self.pixel_stride)
                self.copy(I.Bind(source + x * op.image[3]), to, self.group_channels)
        self.clear(I.Bind(target + end), width * self.pixel_stride - end)

    def copy(self, source: Expr, target: Expr, count: int) -> None:
        """A run of the image to the band."""

        def move(place: Index, lanes: int) -> None:
            value = self.load(self.source, source + place, lanes, self.dtype)
            I.buffer_store(self.band, value, [emit.run(target + place, lanes)])

        emit.in_vectors(count, self.lanes, move)

    def clear(self, target: Expr, count: int) -> None:
        """Zeros in the band."""
        emit.in_vectors(
            count,
            self.lanes,
            lambda place, lanes: I.buffer_store(
                self.band, zeros(self.dtype, lanes), [emit.run(target + place, lanes)]
            ),
        )

    def multiply_line(
        self, block: ConvBlock, line: Expr, column: Index, panel: Expr, vectors: int
    ) -> None:
        """A line times the panel of filters at a position, whose first column is given."""
        op, rows = self.op, self.tile.rows
        n, y = self.line(block.first + line)
        start: Expr = line * self.line_stride
        if self.in_place:
            c0 = i64(block.group) * self.group_channels
            start = self.pixel(n, i64(y) * op.strides[0], 0, c0)
        start = I.Bind(start)
        f0 = i64(block.group) * self.group_filters
        f0 = f0 + i64(block.part) * (self.held // self.parts)
        starts = [j * self.lanes for j in range(vectors)]
        lives = [self.lanes] * vectors
        fixed = known(column)
        if fixed is not None:
            starts = [self.vector_start(fixed + at) - fixed for at in starts]
            lives = [min(self.lanes, self.group_filters - fixed - at) for at in starts]

        def tile(x: Index, height: int) -> None:
            def finish(i: int, j: int, value: Expr) -> None:
                self.write(n, y, i64(x) + i, f0 + (column + starts[j]), value, lives[j])

            multiply_tile(
                rows=height,
                vectors=vectors,
                lanes=self.lanes,
                depth=self.depth_loops,
                dtype=self.dtype,
                x=lambda k, j: self.packed[
                    emit.run(panel + (self.place(k) * vectors + j) * self.lanes, self.lanes)
                ],
                y=self.factor(I.Bind(start + x * (op.strides[1] * self.pixel_stride))),
                start=lambda i, j: zeros(self.dtype, self.lanes),
                finish=finish,
            )

        whole = self.wide // rows
        with serial(whole) as index:
            tile(index * rows, rows)
        if self.wide % rows:
            tile(whole * rows, self.wide % rows)

    @property
    def depth_loops(self) -> tuple[int, ...]:
        """The taps' rows, and what is one run in both the filter and the band."""
        rows, columns = self.op.kernel
        channels = self.group_channels
        return (rows, columns * channels) if self.joined else (rows, columns, channels)

    def place(self, k: tuple[Expr, ...]) -> Expr:
        """The flat position in K."""
        return emit.flat_index(k, self.depth_loops)

    def factor(self, start: Expr) -> Callable[[int, tuple[Expr, ...]], Expr]:
        """Factor of a filter's element, for pixels from one on."""
        source: Any = self.source if self.in_place else self.band
        across = self.op.strides[1] * self.pixel_stride
        tap = 0 if self.joined else self.op.dilations[1] * self.pixel_stride

        def element(i: int, k: tuple[Expr, ...]) -> Expr:
            kh, *inner, c = k
            at = start + kh * self.row_stride + c + i * across
            for kw in inner:
                at = at + kw * tap
            return source[at]

        return element

    def write(self, n: Expr, y: Expr, x: Expr, f: Expr, value: Expr, live: int) -> None:
        """A vector of sums, of which so many are there, to the result."""
        if live == self.lanes:
            self.store(n, y, x, f, value, live)
            return
        sums = emit.registers(self.lanes, self.dtype)
        I.buffer_store(sums, value, [emit.run(0, self.lanes)])
        emit.in_vectors(
            live,
            self.lanes,
            lambda at, lanes: self.store(n, y, x, f + at, sums[emit.run(at, lanes)], lanes),
        )


def reads_in_place(op: Conv2d) -> bool:
    """Whether the image is its own band."""
    apart = op.strides[1] * op.image[3] * item_bytes(op.dtype)
    plain = op.padding == ((0, 0), (0, 0)) and op.dtype == product_dtype(op)
    return plain and apart % SAME_SETS_BYTES != 0


def band_elements(op: Conv2d) -> int:
    """Elements of the band of a line."""
    return 0 if reads_in_place(op) else op.kernel[0] * _band_row(op)


def _band_pixel(op: Conv2d) -> int:
    """How far pixels of a band are apart."""
    size, channels = item_bytes(product_dtype(op)), op.group_channels
    apart = op.strides[1] * channels * size
    return odd_lines(channels, size) if apart % SAME_SETS_BYTES == 0 else channels


def _band_width(op: Conv2d) -> int:
    """Pixels of a row of a band."""
    wide = op.output[2]
    assert isinstance(wide, int)
    return (wide - 1) * op.strides[1] + op.spread[1]


def _band_row(op: Conv2d) -> int:
    """How far rows of a band are apart."""
    return odd_lines(_band_width(op) * _band_pixel(op), item_bytes(product_dtype(op)))
