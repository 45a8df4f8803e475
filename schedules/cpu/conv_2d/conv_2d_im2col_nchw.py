"""Convolution by im2col, with channels first: the filter times the windows as columns of a matrix.

    for groups, blocks of lines, parts of the filters (a task):
        for blocks of channels:
            windows[k, pixel] = the image, a row at a time, shifted for each tap
            sums[f, pixel] += filter * windows        (scalars of the filter, vectors of pixels)
        result = sums

A filter of another type than the sums is converted first, once.
"""

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvBlock, ConvLoops, product_dtype
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    Sums,
    multiply_panels,
    odd_lines,
    zeros,
)
from tvm_iree_ext.schedules.emit import Expr, Index, copied, held_index, i64, known, serial

# Taps of a row whose loop is unrolled, so that the columns which they reach are constants.
_UNROLLED_TAPS = 8


class ColumnLoops(ConvLoops):
    """NCHW with FCHW."""

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        super().__init__(op, config)
        self.tile = config.tile
        self.dtype = product_dtype(op)
        self.parts = config.splits
        self.part_filters = self.group_filters // self.parts
        self.taps = op.kernel[0] * op.kernel[1]
        # A block of K is all taps of some channels.
        each = max(1, config.depth // self.taps)
        self.blocks = -(-self.group_channels // each)
        self.each = -(-self.group_channels // self.blocks)
        pixels = -(-config.pixels // self.tile.width) * self.tile.width
        self.stride = odd_lines(pixels, item_bytes(self.dtype))

    def emit(self) -> None:
        """The whole function."""
        self.factors: Any = self.filter
        if self.op.dtype != self.dtype:
            self.factors = emit.scratch([self.op.filters * self.depth], self.dtype)
            with self.over_filter(self.op.filters) as f:
                emit.in_vectors(
                    self.depth,
                    self.lanes,
                    lambda k, lanes: I.buffer_store(
                        self.factors,
                        self.load(self.filter, f * self.depth + k, lanes, self.dtype),
                        [emit.run(f * self.depth + k, lanes)],
                    ),
                )
        high = emit.product([self.batch, self.out_rows])
        self.over_tasks(self.op.groups, high, self.out_columns, self.parts, self.task)

    def task(self, block: ConvBlock) -> None:
        """A block of pixels, a part of a group's filters."""
        self.windows = emit.scratch([self.each * self.taps * self.stride], self.dtype)
        memory = emit.scratch([self.part_filters * self.stride], self.op.compute_dtype)
        sums = Sums(memory, self.stride, self.lanes, self.dtype, self.blocks == 1)
        pixels = block.count
        if known(pixels) is None:
            # Panels are whole where their number is not known.
            pixels = emit.ceil_div(pixels, self.tile.width) * self.tile.width
        sums.clear(self.part_filters, emit.ceil_div(pixels, self.lanes))
        part = i64(block.part) * self.part_filters
        f0 = held_index(i64(block.group) * self.group_filters + part)
        with serial(self.blocks) as number:
            begin = I.Bind(number * self.each)
            channels: Index = self.each
            if self.group_channels % self.each:
                channels = I.Bind(i64(emit.smaller(self.each, self.group_channels - begin)))
            c0 = I.Bind(i64(block.group) * self.group_channels + begin)
            with serial(channels) as channel, serial(block.lines) as line:
                n, y = self.line(block.first + line)
                target = channel * self.taps * self.stride + line * i64(block.columns)
                self.pack_line(n, y, c0 + channel, block, I.Bind(target))
            k0 = I.Bind(begin * self.taps)
            multiply_panels(
                self.tile,
                rows=self.part_filters,
                columns=pixels,
                depth=emit.product([channels, self.taps]),
                dtype=self.dtype,
                a=lambda row, k: self.factors[(f0 + row) * self.depth + (k0 + k)],
                b=lambda first, _, k, j: self.windows[sums.at(k, first + j * self.lanes)],
                start=sums.start,
                finish=sums.finish,
            )
        self.write(block, f0, sums)

    def write(self, block: ConvBlock, f0: Index, sums: Sums) -> None:
        """The sums to the result."""
        with serial(self.part_filters) as f, serial(block.lines) as line:
            n, y = self.line(block.first + line)
            source = I.Bind(f * self.stride + line * i64(block.columns))
            copied(
                block.columns,
                self.lanes,
                lambda x, lanes: self.store(
                    n,
                    y,
                    block.column + x,
                    f0 + f,
                    sums.buffer[emit.run(source + x, lanes)],
                    lanes,
                ),
            )

    def pack_line(self, n: Expr, y: Expr, channel: Expr, block: ConvBlock, target: Expr) -> None:
        """``windows[k, pixel]`` for all taps of a channel and the pixels of a line."""
        op = self.op
        (rows, taps), (step, across) = op.kernel, op.strides
        column, columns = block.column, block.columns
        with serial(rows) as kh:
            row = I.Bind(i64(y) * step + (kh * op.dilations[0] - op.padding[0][0]))
            source = I.Bind(self.pixel(n, row, 0, channel))
            at = I.Bind(target + kh * (taps * self.stride))

            def tap(kw: Index) -> None:
                shift = held_index(kw * op.dilations[1] - op.padding[1][0] + column * across)
                self.pack_run(source, shift, I.Bind(at + kw * self.stride), columns)

            def all_taps() -> None:
                if taps <= _UNROLLED_TAPS:
                    for kw in range(taps):
                        tap(kw)
                else:
                    with serial(taps) as kw:
                        tap(kw)

            def clear(width: Index, start: Expr) -> None:
                copied(
                    width,
                    self.lanes,
                    lambda x, lanes: I.buffer_store(
                        self.windows, zeros(self.dtype, lanes), [emit.run(start + x, lanes)]
                    ),
                )

            if op.padding[0] == (0, 0):
                all_taps()
            else:
                with I.If(tirx.And(row >= 0, row < i64(self.rows))):
                    with I.Then():
                        all_taps()
                    with I.Else(), serial(taps) as kw:
                        clear(columns, I.Bind(at + kw * self.stride))

    def pack_run(self, source: Expr, shift: Index, target: Expr, columns: Index) -> None:
        """``windows[target + x] = image[source + shift + x * step]``, zeros past the image."""
        step = self.op.strides[1]
        low, high = self.reach(shift, columns)

        def zero(x: Index) -> None:
            I.buffer_store(self.windows, tirx.const(0, self.dtype), [target + x])

        def move(x: Index, lanes: int) -> None:
            x = i64(low) + x
            first = source + (i64(shift) + x * step)
            I.buffer_store(self.windows, self.strided(first, lanes), [emit.run(target + x, lanes)])

        for start, stop in ((0, low), (high, columns)):
            if known(start) is None or known(start) != known(stop):
                with serial(stop, start) as x:
                    zero(x)
        span = i64(high) - low if known(high) is None or known(low) is None else high - low
        copied(span, self.lanes, move)

    def reach(self, shift: Index, columns: Index) -> tuple[Index, Index]:
        """The columns x for which ``shift + x * step`` is in the image: from, to."""
        step = self.op.strides[1]
        if self.op.padding[1] == (0, 0):
            return 0, columns
        numbers = [known(shift), known(columns), known(self.columns)]
        if None not in numbers:
            a, count, extent = (number or 0 for number in numbers)
            low = min(max(-(a // step), 0), count)
            return low, max(min(-((a - extent) // step), count), low)
        step_by, count_ = i64(step), i64(columns)
        low_ = tirx.floordiv(step_by - 1 - shift, step_by)
        high_ = tirx.floordiv(i64(self.columns) + (step_by - 1) - shift, step_by)
        low_ = i64(held_index(tirx.max(tirx.min(low_, count_), i64(0))))
        return low_, held_index(tirx.max(tirx.min(high_, count_), low_))

    def strided(self, first: Expr, lanes: int) -> Expr:
        """Elements of a row of the image, ``strides[1]`` apart, in the type of products."""
        step = self.op.strides[1]
        if step == 1 or lanes == 1:
            return self.load(self.source, first, lanes, self.dtype)
        if step == 2:
            # Two vectors, of which the second ends with the last element.
            pair = [
                I.Bind(self.load(self.source, first + start, lanes, self.dtype))
                for start in (0, lanes - 1)
            ]
            half = lanes // 2
            order = [*range(0, lanes, 2), *(lanes + 1 + 2 * lane for lane in range(half))]
            return tirx.Shuffle(pair, order)
        return self.numbers(self.source[tirx.Ramp(first, i64(step), lanes)], self.dtype)
