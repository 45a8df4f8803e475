"""Convolution by im2col, with channels last: the windows as rows of a matrix, times the filter.

    pack the filter: panels of filters, all of K after one another
    for groups, blocks of lines, parts of the filters (a task):
        for blocks of K:
            windows[pixel, k] = the image, segment by segment, as im2col has it
            sums[pixel, f] += windows * filter        (scalars of windows, vectors of filters)
        result = sums

so the matrix of windows is never there but for the tile of a task.
"""

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_filter import FilterLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvBlock, Reach
from tvm_iree_ext.schedules.cpu.products.panels_ahead import panels_ahead
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    Sums,
    multiply_panels,
    odd_lines,
    zeros,
)
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.shared.im2col_windows import segment_dims


class Im2colLoops(FilterLoops):
    """NHWC with HWCF, windows packed."""

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        super().__init__(op, config)
        # Segments: taps whose channels lie next to each other in the image.
        joined = op.groups == 1 and segment_dims(op.columns) == 1
        limit = config.depth
        self.taps = op.kernel[1] if joined and op.kernel[1] * self.group_channels <= limit else 1
        self.segment = self.taps * self.group_channels
        self.segments = op.kernel[0] * op.kernel[1] // self.taps
        # A block of K is whole segments, or a part of one.
        self.pieces = -(-self.segment // limit)
        self.piece = -(-self.segment // self.pieces)
        each = max(1, limit // self.segment)
        self.blocks = -(-self.segments // each)
        self.each = -(-self.segments // self.blocks)
        self.stride = odd_lines(self.each * self.piece, item_bytes(self.dtype))
        pixels = config.pixels
        self.pixels = -(-pixels // self.tile.rows) * self.tile.rows

    def task(self, block: ConvBlock) -> None:
        """A block of pixels, a part of a group's filters."""
        held = self.held // self.parts
        self.windows = emit.scratch([self.pixels * self.stride], self.dtype)
        memory = emit.scratch([self.pixels * held], self.op.compute_dtype)
        single = self.blocks * self.pieces == 1
        sums = Sums(memory, held, self.lanes, self.dtype, single)
        panel = self.panel_start(block)
        sums.clear(block.count, held // self.lanes)
        with serial(self.blocks) as number, serial(self.pieces) as piece:
            begin = I.Bind(number * self.each)
            segments: Index = self.each
            if self.segments % self.each:
                segments = I.Bind(i64(emit.smaller(self.each, self.segments - begin)))
            low = I.Bind(piece * self.piece)
            length: Index = self.piece
            if self.segment % self.piece:
                length = I.Bind(i64(emit.smaller(self.piece, self.segment - low)))
            self.pack_windows(block, begin, segments, low, length)
            k0 = I.Bind(begin * self.segment + low)

            def b(first: Expr, vectors: int, k: Expr, j: int) -> Expr:
                at = panel + first * self.depth + ((k0 + k) * vectors + j) * self.lanes
                return self.packed[emit.run(at, self.lanes)]

            depth = emit.product([segments, length])
            elements = self.op.groups * self.held * self.depth

            def ahead(column: Expr, vectors: int, k: Expr, offset: Expr) -> None:
                width = vectors * self.lanes
                after = tirx.Select(
                    column + width < held,
                    (column + width) * self.depth + k0 * width,
                    (k0 + depth) * width,
                )
                emit.prefetch(self.packed, panel + after + k * width + offset, nearest=False)

            multiply_panels(
                self.tile,
                rows=block.count,
                columns=held,
                depth=depth,
                dtype=self.dtype,
                a=lambda row, k: self.windows[row * self.stride + k],
                b=b,
                start=sums.start,
                finish=sums.finish,
                beside=panels_ahead(self.tile, elements, self.dtype, block.count, ahead),
            )
        self.write(block, sums)

    def pack_windows(
        self, block: ConvBlock, begin: Expr, segments: Index, low: Expr, length: Index
    ) -> None:
        """``windows[pixel, k]`` for some segments, or elements of one from ``low`` on."""
        op = self.op
        across = op.kernel[1] // self.taps
        top = op.padding[0][0]
        step, dilation = op.strides, op.dilations
        column, columns = block.column, block.columns
        with serial(block.lines) as line:
            n, y = self.line(block.first + line)
            with serial(segments) as segment:
                kh, kw = emit.divide(begin + segment, across)
                row = I.Bind(i64(y) * step[0] + (kh * dilation[0] - top))
                first_tap = i64(kw) * (self.taps * dilation[1])
                reach = Reach.of(op, self.columns, block, self.taps, first_tap)
                offset = I.Bind(first_tap - op.padding[1][0])
                target = I.Bind(line * i64(columns) * self.stride + segment * length)
                source = I.Bind(self.pixel(n, row, 0, i64(block.group) * self.group_channels + low))
                channels = op.image[3]

                def copy(x: Expr, tap: int, taps: int) -> None:
                    place = I.Bind(offset + (column + x) * step[1] + tap * dilation[1])
                    at = I.Bind(target + x * self.stride + tap * self.group_channels)
                    count = length if self.taps == taps else self.group_channels

                    def move(i: Index, lanes: int) -> None:
                        value = self.load(
                            self.source, source + place * channels + i, lanes, self.dtype
                        )
                        I.buffer_store(self.windows, value, [emit.run(at + i, lanes)])

                    emit.in_vectors(count, self.lanes, move)

                def clear(x: Expr, tap: int, taps: int) -> None:
                    at = I.Bind(target + x * self.stride + tap * self.group_channels)
                    count = length if self.taps == taps else self.group_channels

                    def zero(i: Index, lanes: int) -> None:
                        value = zeros(self.dtype, lanes)
                        I.buffer_store(self.windows, value, [emit.run(at + i, lanes)])

                    emit.in_vectors(count, self.lanes, zero)

                def edge(x: Expr) -> None:
                    for tap in range(self.taps):
                        at = offset + (column + x) * step[1] + tap * dilation[1]
                        inside = tirx.And(at >= 0, at < i64(self.columns))
                        with I.If(inside):
                            with I.Then():
                                copy(x, tap, 1)
                            with I.Else():
                                clear(x, tap, 1)

                def whole_row() -> None:
                    with serial(reach.leaves, reach.enters) as x:
                        copy(x, 0, self.taps)
                    if reach.has_edges:
                        with serial(reach.enters) as x:
                            edge(x)
                        with serial(columns, reach.leaves) as x:
                            edge(x)

                if op.padding[0] == (0, 0):
                    whole_row()
                else:
                    with I.If(tirx.And(row >= 0, row < i64(self.rows))):
                        with I.Then():
                            whole_row()
                        with I.Else(), serial(columns) as x:
                            clear(x, 0, self.taps)

    def write(self, block: ConvBlock, sums: Sums) -> None:
        """The sums to the result."""
        first = i64(block.group) * self.group_filters + i64(block.part) * sums.stride
        with serial(block.lines) as line, serial(block.columns) as x:
            n, y = self.line(block.first + line)
            source = I.Bind((line * i64(block.columns) + x) * sums.stride)
            emit.in_vectors(
                min(sums.stride, self.group_filters),
                self.lanes,
                lambda place, lanes: self.store(
                    n,
                    y,
                    block.column + x,
                    first + place,
                    sums.buffer[emit.run(source + place, lanes)],
                    lanes,
                ),
            )
