"""Convolution by Winograd: the transforms' own loops around a product for each place in a tile.

    transform the filter: panels[place, c, f], once
    for groups, blocks of tiles, parts of the filters (a task):
        tiles[place, tile, c] = input_transform of the block          (scratch)
        for the i * i places:
            products[tile, f] = tiles * panels                        (scratch)
        output_transform of the products, cropped to the result

so what a task works on stays in its caches, and neither tiles nor products are ever there as a
whole.
"""

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.conv_2d_loops import Block, ConvLoops
from tvm_iree_ext.schedules.cpu.lines import column_parts
from tvm_iree_ext.schedules.cpu.matmul import (
    RegisterTile,
    multiply_panels,
    odd_lines,
    panels,
    zeros,
)
from tvm_iree_ext.schedules.cpu.winograd_filter import FilterTransform
from tvm_iree_ext.schedules.cpu.winograd_image import InputRow, OutputRow
from tvm_iree_ext.schedules.cpu.winograd_tile import first_channel, over_channels
from tvm_iree_ext.schedules.emit import Expr, Index, Space, held_index, i64, serial

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.conv_2d import Conv2d

# Channels of a filter that is to be transposed, at once.
_CHANNELS = 16


class WinogradLoops(ConvLoops):
    """Either layout: tiles and products have channels last."""

    def __init__(self, op: Conv2d, config: LoweringConfig) -> None:
        super().__init__(op, config)
        tile = config.register_tile
        self.tile = RegisterTile(tile["rows"], tile["vectors"], self.lanes)
        self.dtype = op.compute_dtype
        self.transforms = op.transforms
        self.r = op.output_tile_size or 0
        self.i = self.r + 2
        self.high, self.wide = (
            emit.ceil_div(extent, self.r) for extent in (self.out_rows, self.out_columns)
        )
        size = item_bytes(self.dtype)
        self.held = -(-self.group_filters // self.lanes) * self.lanes
        self.parts = config.splits
        self.part = self.held // self.parts
        self.tiles = config.workgroup_tile["pixels"]
        self.across = config.workgroup_tile["columns"]
        # Of a row of tiles or products; rows of places are then apart by an odd number of lines.
        self.channel_stride = odd_lines(self.group_channels, size)
        self.filter_stride = odd_lines(self.part, size)
        self.place_stride = odd_lines(self.held * self.group_channels, size)

    def emit(self) -> None:
        """The whole function."""
        places = self.i * self.i
        self.panels = emit.scratch([self.op.groups * places * self.place_stride], self.dtype)
        self.transform_filter()
        high = emit.product([self.batch, self.high])
        self.over_tasks(self.op.groups, high, self.wide, self.parts, self.task)

    def panel_start(self, group: Index, place: Index, filter_: Index) -> Expr:
        """Where the panel that begins at a filter begins; it is of all channels."""
        at = (i64(group) * (self.i * self.i) + place) * self.place_stride
        return at + i64(filter_) * self.group_channels

    def transform_filter(self) -> None:
        """Panels for each place; zeros past the last filter."""
        op, channels = self.op, self.group_channels
        chunk = 1 if op.channels_last else min(_CHANNELS, channels)
        chunks = emit.ceil_div(channels, chunk)
        space = Space((op.groups, chunks))
        with self.over_filter(op.groups * chunks) as index:
            at = space.spread(index, (0, 1))
            group, channel = held_index(at[0]), I.Bind(i64(at[1]) * chunk)
            for first, count, lanes in self._filter_parts():
                with serial(count) as block:
                    f = I.Bind(first + block * lanes)
                    self._transform_vector(group, channel, chunk, f, lanes)
            with serial(emit.smaller(chunk, channels - channel)) as c:
                self._clear_rest(group, channel + c)

    def _filter_parts(self) -> Sequence[tuple[Index, Index, int]]:
        """Runs of vectors of a group's filters: the first filter, how many vectors, their lanes."""
        filters, lanes = self.group_filters, self.lanes
        first, count, vectors = panels(self.held, self.tile)[-1]
        start = filters - lanes
        if filters % lanes and start >= first + (count - 1) * vectors * lanes:
            # The last vector overlaps the one before in a panel.
            return [(0, filters // lanes, lanes), (start, 1, lanes)]
        return column_parts(filters, lanes)

    def _clear_rest(self, group: Index, channel: Expr) -> None:
        """Zeros for the filters that are not there, so that no sum is of what memory held."""
        rest = self.held - self.group_filters
        if not rest:
            return
        with serial(self.i * self.i) as place, serial(rest) as lane:
            f = I.Bind(self.group_filters + lane)
            I.buffer_store(
                self.panels, tirx.const(0, self.dtype), [self._at(group, place, channel, f)]
            )

    def _at(self, group: Index, place: Index, channel: Expr, f: Expr) -> Expr:
        """The position of an element of the transformed filter."""
        panel = self._panel_of(f)
        start = self.panel_start(group, place, panel)
        return start + channel * self._width_of(f) + (f - panel)

    def _transform_vector(
        self, group: Index, channel: Expr, chunk: int, f: Expr, lanes: int
    ) -> None:
        """A vector of a group's filters, ``chunk`` channels at most."""
        op = self.op

        def place(p: int, q: int, c: Expr, _: Expr) -> Expr:
            return self._at(group, p * self.i + q, c, f)

        kernels = self.transforms["filter"]
        channels, filters = self.group_channels, op.filters
        transform = FilterTransform(kernels, self.filter, self.panels, channels, filters, place)
        source = I.Bind(i64(group) * self.group_filters + f)
        if op.channels_last:
            transform.in_place(channel, source, lanes)
        else:
            transform.transposed(channel, chunk, source, lanes)

    def _panel_of(self, f: Expr) -> Expr:
        """The first filter of the panel of a filter."""
        return tirx.floordiv(f, i64(self.tile.width)) * self.tile.width

    def _width_of(self, f: Expr) -> Index:
        """The columns of the panel of a filter: the last may be narrower."""
        *_, (first, count, vectors) = panels(self.held, self.tile)
        if vectors == self.tile.vectors:
            return self.tile.width
        if first == 0 and count == 1:
            return vectors * self.lanes
        return tirx.Select(f >= first, i64(vectors * self.lanes), i64(self.tile.width))

    def task(self, block: Block) -> None:
        """A block of tiles, a part of a group's filters."""
        places = self.i * self.i
        rows = -(-self.tiles // self.tile.rows) * self.tile.rows
        of_tiles = places * rows * self.channel_stride
        of_products = places * rows * self.filter_stride
        shapes = [
            made.scratch_shape(self.transforms[kind], self.across, False)
            for kind, made in (("input", InputRow), ("output", OutputRow))
        ]
        # One allocation is one call of the runtime.
        rest = max(high * wide for high, wide in shapes) * self.lanes
        memory = emit.scratch([of_tiles + of_products + rest], self.dtype)
        scratch = (memory, of_tiles + of_products)
        group, column, columns = block.group, block.column, block.columns
        f0 = held_index(i64(block.part) * self.part)

        with serial(block.lines) as line:
            n, h = self.line(block.first + line, self.high)
            c0 = i64(group) * self.group_channels

            def tile_at(a: int, b: int, n: Expr, h: Expr, w: Index, channel: Expr) -> Expr:
                tile = (a * self.i + b) * rows + line * i64(columns) + (w - column)
                return tile * self.channel_stride + (channel - c0)

            row = InputRow(
                self.transforms["input"],
                self.source,
                memory,
                (self.batch, self.rows, self.columns, self.op.image[3]),
                tile_at,
                self.across,
                padding=(self.op.padding[0][0], self.op.padding[1][0]),
                scratch=scratch,
            )

            def load(lanes: int, blocks: Index) -> None:
                with serial(blocks) as block:
                    channel = I.Bind(c0 + first_channel(block, self.group_channels, lanes))
                    row.transform(n, h, column, columns, channel, lanes)

            over_channels(self.group_channels, self.lanes, load)

        with serial(places) as place:
            panel = I.Bind(self.panel_start(group, place, f0))

            def finish(at: Expr, f: Expr, value: Expr) -> None:
                start = of_tiles + (place * rows + at) * self.filter_stride + f
                I.buffer_store(memory, value, [emit.run(start, self.lanes)])

            multiply_panels(
                self.tile,
                rows=block.count,
                columns=self.part,
                depth=self.group_channels,
                dtype=self.dtype,
                a=lambda at, k: memory[(place * rows + at) * self.channel_stride + k],
                b=lambda f, vectors, k, j: self.panels[
                    emit.run(
                        panel + f * self.group_channels + (k * vectors + j) * self.lanes,
                        self.lanes,
                    )
                ],
                start=lambda at, f: zeros(self.dtype, self.lanes),
                finish=finish,
            )

        with serial(block.lines) as line:
            n, h = self.line(block.first + line, self.high)
            g0 = I.Bind(i64(group) * self.group_filters + f0)

            def product_at(a: int, b: int, n: Expr, h: Expr, w: Index, f: Expr) -> Expr:
                tile = (a * self.i + b) * rows + line * i64(columns) + (w - column)
                return of_tiles + tile * self.filter_stride + (f - g0)

            result = OutputRow(
                self.transforms["output"],
                memory,
                self.result,
                (self.batch, self.out_rows, self.out_columns, self.op.filters),
                product_at,
                self.across,
                crop=True,
                scratch=scratch,
                write=self.store,
            )
            filters = min(self.part, self.group_filters)

            def save(lanes: int, blocks: Index) -> None:
                with serial(blocks) as block:
                    f = I.Bind(g0 + first_channel(block, filters, lanes))
                    result.transform(n, h, column, columns, f, lanes)

            over_channels(filters, self.lanes, save)
