"""Depthwise convolution, with channels last: vectors of filters, each of which sees one channel.

    for vectors of filters, blocks of lines (a task):
        for lines:
            for columns whose windows lie in the image, several at a time:
                for the window's rows that lie in the image:  sums += image * filter
            for the others, one at a time:  likewise, for the taps that lie in the image

A window is read where it is: a matrix of windows would hold each element once for each tap, for
one product.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d import conv_2d_operands
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.products.register_tiles import zeros
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import first_channel
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Taps of a row up to which they are unrolled, so that windows side by side share what they read.
_UNROLLED_TAPS = 8


class DepthwiseLoops(conv_2d_operands.ConvLoops):
    """NHWC with HWCF, groups of one channel."""

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        super().__init__(op, config)
        self.dtype = conv_2d_operands.product_dtype(op)
        self.together = config.rows

    def emit(self) -> None:
        """The whole function."""
        blocks = emit.ceil_div(self.op.filters, self.lanes)
        high = emit.product([self.batch, self.out_rows])
        self.over_tasks(blocks, high, self.out_columns, 1, self.task)

    def task(self, block: conv_2d_operands.ConvBlock) -> None:
        """A vector of filters, a block of pixels."""
        column = block.column
        f = I.Bind(first_channel(block.group, self.op.filters, self.lanes))
        with serial(block.lines) as line:
            n, y = self.line(block.first + line)
            top = I.Bind(i64(y) * self.op.strides[0] - self.op.padding[0][0])
            rows = self.taps_inside(0, top, self.rows)
            reach = conv_2d_operands.Reach.of(self.op, self.columns, block, self.op.kernel[1])

            def windows(x: Expr, count: int) -> None:
                left = I.Bind((column + x) * self.op.strides[1] - self.op.padding[1][0])
                self.windows(_Pixel(n, y, column + x), top, left, rows, f, count)

            def edge(x: Expr) -> None:
                left = I.Bind((column + x) * self.op.strides[1] - self.op.padding[1][0])
                self.edge(_Pixel(n, y, column + x), top, left, rows, f)

            whole = tirx.floordiv(reach.leaves - reach.enters, i64(self.together))
            with serial(whole) as group:
                windows(reach.enters + group * self.together, self.together)
            with serial(reach.leaves, reach.enters + whole * self.together) as x:
                windows(x, 1)
            if reach.has_edges:
                with serial(reach.enters) as x:
                    edge(x)
                with serial(block.columns, reach.leaves) as x:
                    edge(x)

    def taps_inside(self, axis: int, start: Expr, extent: Index) -> tuple[Index, Index]:
        """Range of the taps in the image, of a window that begins at ``start``."""
        count, dilation = self.op.kernel[axis], self.op.dilations[axis]
        if self.op.padding[axis] == (0, 0):
            return 0, count
        low = tirx.floordiv(i64(dilation - 1) - start, i64(dilation))
        high = tirx.floordiv(i64(extent) - start + (dilation - 1), i64(dilation))
        low = I.Bind(tirx.max(tirx.min(low, i64(count)), i64(0)))
        return low, I.Bind(tirx.max(tirx.min(high, i64(count)), low))

    def element(self, n: Expr, row: Expr, column: Expr, f: Expr) -> Expr:
        """Input of a vector of filters at a pixel."""
        pixel = self.pixel(n, row, column, 0)
        if self.group_filters == 1:
            return self.load(self.source, pixel + f, self.lanes, self.dtype)
        channel = tirx.floordiv(
            emit.run(f, self.lanes), emit.splat(i64(self.group_filters), self.lanes)
        )
        return self.numbers(self.source[emit.splat(pixel, self.lanes) + channel], self.dtype)

    def tap(self, kh: Expr, kw: Index, f: Expr) -> Expr:
        """A vector of filters at a tap."""
        at = (kh * self.op.kernel[1] + kw) * self.op.filters + f
        return self.load(self.filter, at, self.lanes, self.dtype)

    def sums(
        self,
        count: int,
        fill: Callable[[Callable[[int, Expr], None]], None],
        f: Expr,
        pixel: "_Pixel",
    ) -> None:
        """Sums of ``count`` pixels side by side in registers: what ``fill(add)`` adds to them."""
        tile = emit.registers(count * self.lanes, self.dtype)
        places = [emit.run(x * self.lanes, self.lanes) for x in range(count)]
        for place in places:
            I.buffer_store(tile, zeros(self.dtype, self.lanes), [place])

        def add(x: int, value: Expr) -> None:
            I.buffer_store(tile, tile[places[x]] + value, [places[x]])

        fill(add)
        for x, place in enumerate(places):
            self.store(pixel.n, pixel.y, pixel.x + x, f, tile[place], self.lanes)

    def windows(
        self,
        pixel: "_Pixel",
        top: Expr,
        left: Expr,
        rows: tuple[Index, Index],
        f: Expr,
        count: int,
    ) -> None:
        """``count`` pixels whose windows lie between the image's first and last column."""
        op, taps = self.op, self.op.kernel[1]

        def fill(add: Callable[[int, Expr], None]) -> None:
            with serial(rows[1], rows[0]) as kh:
                row = I.Bind(top + kh * op.dilations[0])
                unrolled = taps <= _UNROLLED_TAPS
                for kw in range(taps) if unrolled else ():
                    across(kh, row, kw, add)
                if not unrolled:
                    with serial(taps) as kw:
                        across(kh, row, kw, add)

        def across(kh: Expr, row: Expr, kw: Index, add: Callable[[int, Expr], None]) -> None:
            factor = I.Bind(self.tap(kh, kw, f))
            for x in range(count):
                at = left + (kw * op.dilations[1] + x * op.strides[1])
                add(x, self.element(pixel.n, row, at, f) * factor)

        self.sums(count, fill, f, pixel)

    def edge(
        self, pixel: "_Pixel", top: Expr, left: Expr, rows: tuple[Index, Index], f: Expr
    ) -> None:
        """A pixel whose window reaches past the image."""
        op = self.op
        low, high = self.taps_inside(1, left, self.columns)

        def fill(add: Callable[[int, Expr], None]) -> None:
            with serial(rows[1], rows[0]) as kh, serial(high, low) as kw:
                row, column = top + kh * op.dilations[0], left + kw * op.dilations[1]
                add(0, self.element(pixel.n, row, column, f) * self.tap(kh, kw, f))

        self.sums(1, fill, f, pixel)


@dataclass(frozen=True)
class _Pixel:
    """Place in the result: the first of some pixels side by side."""

    n: Expr
    y: Expr
    x: Expr
