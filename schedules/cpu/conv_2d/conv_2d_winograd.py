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

from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.ops.families.winograd.winograd_matrices import Kind
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvBlock, ConvLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_winograd_panels import FilterPanels, FilterRun
from tvm_iree_ext.schedules.cpu.products.register_tiles import odd_lines
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_filter import FilterTransform
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_image import InputRow, OutputRow
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_row import (
    WinogradRow,
    tiles_at_once,
    vectors_at_once,
)
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import (
    ChannelVectors,
    over_channels,
)
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, held_index, i64, serial
from tvm_iree_ext.targets.cpu import CpuFeatures

# Channels of a filter that are transformed at once: where filters are innermost, and where they are
# to be transposed.
_IN_PLACE, _TRANSPOSED = 4, 16


class WinogradLoops(ConvLoops):
    """Either layout: tiles and products have channels last."""

    def __init__(self, op: Conv2d, config: ConvConfig, features: CpuFeatures) -> None:
        super().__init__(op, config)
        self.features = features
        self.tile = config.tile
        self.dtype = op.compute_dtype
        self.transforms = op.transforms
        self.r = op.output_tile_size or 0
        self.i = self.r + 2
        self.high, self.wide = (
            emit.ceil_div(extent, self.r) for extent in (self.out_rows, self.out_columns)
        )
        self.places = self.i * self.i
        self.parts = config.splits
        self.tiles = config.pixels
        self.across = config.columns

    def emit(self) -> None:
        """The whole function."""
        op = self.op
        self.panels = FilterPanels(
            self.tile, op.groups, self.places, self.group_filters, self.group_channels, self.dtype
        )
        # Of a row of tiles or products; rows of places are then apart by an odd number of lines.
        self.part = self.panels.held // self.parts
        size = item_bytes(self.dtype)
        self.channel_stride = odd_lines(self.group_channels, size)
        self.filter_stride = odd_lines(self.part, size)
        self.transform_filter()
        high = emit.product([self.batch, self.high])
        self.over_tasks(op.groups, high, self.wide, self.parts, self.task)

    def transform_filter(self) -> None:
        """Panels for each place."""
        op, channels = self.op, self.group_channels
        chunk = min(_IN_PLACE if op.channels_last else _TRANSPOSED, channels)
        chunks = emit.ceil_div(channels, chunk)
        space = IterationSpace((op.groups, chunks))
        with self.over_filter(op.groups * chunks) as index:
            at = space.spread(index, (0, 1))
            group, first = held_index(at[0]), I.Bind(i64(at[1]) * chunk)
            count = emit.part(chunk, channels, first)
            for run in self.panels.runs():
                self._transform_run(group, first, count, chunk, run)
            with serial(count) as c, serial(self.places) as place:
                self.panels.clear(self.panels.start(group, place), first + c)

    def _transform_run(
        self, group: Index, channel: Expr, channels: Index, chunk: int, run: FilterRun
    ) -> None:
        """A run of vectors of a group's filters, at ``chunk`` channels at most."""
        op = self.op
        f0 = i64(group) * self.group_filters

        def put(p: int, q: int, c: Expr, f: Expr, value: Expr, lanes: int) -> None:
            start = self.panels.start(group, p * self.i + q)
            self.panels.put(start, c, f - f0, value, lanes, run.skipped)

        kernels = self.transforms["filter"]
        transform = FilterTransform(kernels, self.filter, self.group_channels, op.filters, put)
        # All channels of a panel one after the other, as it lies in memory.
        of_panel = min(run.count, self.tile.vectors)
        with serial(emit.ceil_div(run.count, of_panel)) as panel:
            begin = I.Bind(panel * of_panel)
            count = emit.part(of_panel, run.count, begin)

            def first(vector: Expr) -> Expr:
                return I.Bind(f0 + run.first + (begin + vector) * run.lanes)

            if op.channels_last:
                with serial(channels) as c, serial(count) as vector:
                    transform.in_place(channel + c, first(vector), run.lanes)
            else:
                with serial(count) as vector:
                    transform.transposed(channel, chunk, first(vector), run.lanes)

    def task(self, block: ConvBlock) -> None:
        """A block of tiles, a part of a group's filters."""
        places = self.places
        rows = -(-self.tiles // self.tile.rows) * self.tile.rows
        of_tiles = places * rows * self.channel_stride
        of_products = places * rows * self.filter_stride
        made: tuple[tuple[Kind, type[WinogradRow]], ...]
        made = (("input", InputRow), ("output", OutputRow))
        rest = max(
            row.scratch_vectors(self.transforms[kind], *self.at_once(kind)) for kind, row in made
        )
        # One allocation is one call of the runtime.
        memory = emit.scratch([of_tiles + of_products + rest * self.lanes], self.dtype)
        scratch = (memory, of_tiles + of_products)
        group, column, columns = block.group, block.column, block.columns
        f0 = held_index(i64(block.part) * self.part)

        with serial(block.lines) as line:
            n, h = self.line(block.first + line, self.high)
            c0 = i64(group) * self.group_channels

            def tile_at(a: Index, b: Index, n: Expr, h: Expr, w: Index, channel: Expr) -> Expr:
                tile = (a * self.i + b) * rows + line * i64(columns) + (w - column)
                return tile * self.channel_stride + (channel - c0)

            row = InputRow(
                self.transforms["input"],
                self.source,
                memory,
                (self.batch, self.rows, self.columns, self.op.image[3]),
                tile_at,
                *self.at_once("input"),
                padding=(self.op.padding[0][0], self.op.padding[1][0]),
                scratch=scratch,
            )
            self.each_piece(row, n, h, block, c0, self.group_channels)

        with serial(places) as place:

            def tiles_from(at: Expr, k: Expr, lanes: int) -> Expr:
                return memory[emit.run((place * rows + at) * self.channel_stride + k, lanes)]

            def finish(at: Expr, f: Expr, value: Expr, lanes: int) -> None:
                start = of_tiles + (place * rows + at) * self.filter_stride + f
                I.buffer_store(memory, value, [emit.run(start, lanes)])

            start = I.Bind(self.panels.start(group, place))
            self.panels.multiply(start, f0, self.part, block.count, tiles_from, finish)

        with serial(block.lines) as line:
            n, h = self.line(block.first + line, self.high)
            g0 = I.Bind(i64(group) * self.group_filters + f0)

            def product_at(a: Index, b: Index, n: Expr, h: Expr, w: Index, f: Expr) -> Expr:
                tile = (a * self.i + b) * rows + line * i64(columns) + (w - column)
                return of_tiles + tile * self.filter_stride + (f - g0)

            result = OutputRow(
                self.transforms["output"],
                memory,
                self.result,
                (self.batch, self.out_rows, self.out_columns, self.op.filters),
                product_at,
                *self.at_once("output"),
                crop=True,
                fetches=True,
                scratch=scratch,
                write=self.store,
            )
            self.each_piece(result, n, h, block, g0, min(self.part, self.group_filters))

    def at_once(self, kind: Kind) -> tuple[int, int]:
        """Tiles of a row, and vectors of channels, that are transformed at once."""
        transform = self.transforms[kind]
        channels = self.group_channels if kind == "input" else self.group_filters
        vectors = vectors_at_once(transform, -(-channels // self.lanes))
        if not self.op.channels_last:
            return self.across, vectors
        size = self.lanes * item_bytes(self.dtype)
        return min(tiles_at_once(transform, vectors, size, self.features), self.across), vectors

    def each_piece(
        self, row: WinogradRow, n: Expr, h: Expr, block: ConvBlock, first: Expr, count: int
    ) -> None:
        """Transform a block's tiles of a row, ``count`` channels from ``first`` on."""
        tiles, vectors = row.tiles, row.vectors

        def some(lanes: int, blocks: Index) -> None:
            pieces = emit.ceil_div(blocks, vectors)
            with serial(emit.ceil_div(block.columns, tiles)) as tile, serial(pieces) as piece:
                begin = I.Bind(tile * tiles)
                here = I.Bind(i64(emit.smaller(tiles, i64(block.columns) - begin)))
                own = ChannelVectors.piece(piece, vectors, count, blocks, lanes, first)
                row.transform(n, h, I.Bind(block.column + begin), here, own)

        over_channels(count, self.lanes, some)
