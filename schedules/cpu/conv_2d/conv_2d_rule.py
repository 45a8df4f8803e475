"""The CPU rule for convolutions: which loops, with which tiles."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_depthwise import DepthwiseLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_direct import DirectLoops, band_elements
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_im2col import Im2colLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_im2col_nchw import ColumnLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvLoops, product_dtype
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_winograd import WinogradLoops
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_winograd_panels import rest_of
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    EXACT_DEPTH,
    LONGEST,
    RegisterTile,
    column_vectors,
    depth_tile,
    register_tile,
    row_cycles,
    whole_tile,
)
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# Pixels, or tiles of Winograd, of a task: the more, the less often the filter is read again, until
# what the task holds outgrows the second cache.
_MOST = {"im2col": 192, "winograd": 48}

DIRECT = "direct"  # windows of im2col that are read where they lie

# How much longer register tiles that end with their line may take: what packing windows costs.
_WORTH = 1.05

# Products of a sum up to which register tiles have half the rows: a processor looks some hundred
# instructions ahead, so it multiplies the next tile while it takes a short one to the result.
_SHORT = 64

# What a task costs beside its products, in products with one vector of filters.
_OVERHEAD = 32

# What an extent that is known at call time counts as.
_TYPICAL = 64

_LARGEST_SCRATCH_BYTES = 64 << 20

_LINES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32)  # of a task, for a tuner


@dataclass(frozen=True)
class _Grid:
    """Grid of tasks' blocks: ``lines`` of ``wide`` columns, and vectors of filters."""

    groups: int
    lines: int
    wide: int
    vectors: int
    cores: int

    def cost(self, lines: int, columns: int, parts: int, rounded: Callable[[int], int]) -> int:
        """How long the thread with the most tasks takes, by the products it computes."""
        tasks = self.groups * parts * -(-self.lines // lines) * -(-self.wide // columns)
        # A pixel's window is packed for each part of the filters: about two vectors' products.
        pixels = rounded(lines * columns) * (-(-self.vectors // parts) + 2)
        return -(-tasks // self.cores) * (pixels + _OVERHEAD)


class CpuConv2d(CpuRule):
    """Convolutions on an LLVM CPU target."""

    name = "cpu.conv_2d"
    lowers = Conv2d

    def usual(self, op: Conv2d, target: Target) -> ConvConfig:
        """Register tiles that fit the target, blocks that fit its caches and share out evenly."""
        return self._configs(op, cpu_features(target))[0]

    def space(self, op: Conv2d, target: Target) -> TuningSpace:
        """Lines and columns of a task, register tiles, depth, parts of the filters."""
        features, choice = cpu_features(target), ConvConfig.choice
        usual, *others = self._configs(op, features)
        wide = op.output[2]
        columns = _TYPICAL if isinstance(wide, str) else -(-wide // (op.output_tile_size or 1))
        cores, lanes = features.cores, usual.lanes
        choices = [
            choice("pixels", _LINES, ("columns",)),
            choice("rows", tuple(range(1, 15))),
            choice("vectors", (1,) if is_depthwise(op) else (1, 2, 3, 4, 6)),
            choice("lanes", powers_of_two(max(lanes // 2, 1), lanes)),
            choice("splits", (1, 2, cores, 2 * cores)),
            choice("parallel", (False, True)),
            # Only where windows are packed.
            choice("depth", (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)),
        ]
        in_columns = choice("columns", tuple({-(-columns // n) for n in (1, 2, 3, 4)}))
        forms = [
            form(base.lowering(), *([] if base.algorithm == DIRECT else [in_columns]), *choices)
            for base in (usual, *others)
        ]
        return TuningSpace.of(usual.lowering(), forms, self.refusals(op, target))

    def vectors_held(self, config: ConvConfig) -> int:
        """Sums, and the factors of one step."""
        return (config.rows + 1) * config.vectors + 1

    def _configs(self, op: Conv2d, features: CpuFeatures) -> list[ConvConfig]:
        """One for each form there is, the best first."""
        size = item_bytes(product_dtype(op))
        if is_depthwise(op):
            return [self._depthwise(op, features, features.lanes(size * 8))]
        in_lanes = _filters_in_lanes(op)
        # The transforms of Winograd have channels in the lanes, too.
        is_narrow = in_lanes and op.algorithm == "im2col"
        along = column_vectors(features, size, op.group_filters if is_narrow else None)
        lanes = along.lanes
        filters = op.group_filters
        if op.algorithm == "winograd":
            filters -= rest_of(filters, op.group_channels, lanes)[0]
        rows, columns = (None, max(filters, 1)) if in_lanes else (filters, None)
        tile = register_tile(features, along, rows, columns)
        found = [self._config(op, features, op.algorithm, tile)]
        if _may_be_direct(op):
            wide, vectors = op.output[2], -(-op.group_filters // lanes)
            assert isinstance(wide, int)
            of_line = register_tile(features, along, wide, op.group_filters)
            good = row_cycles(of_line, wide, vectors) <= _WORTH * row_cycles(tile, None, vectors)
            if op.depth <= _SHORT:
                of_line = replace(of_line, rows=-(-of_line.rows // 2))
            direct = self._config(op, features, DIRECT, of_line)
            found = [direct, *found] if good else [*found, direct]
        if op.filter_panels is None:
            return found
        return [one for one in found if one.tile.width == op.filter_panels] or [
            self._config(
                op, features, op.algorithm, _tile_of_panels(op.filter_panels, features, lanes)
            )
        ]

    def _config(
        self, op: Conv2d, features: CpuFeatures, algorithm: str, tile: RegisterTile
    ) -> ConvConfig:
        """Config of a form, with blocks that fit a tile."""
        depth = depth_tile(features, tile, item_bytes(product_dtype(op)))
        pixels, columns, parts = _block(op, tile, features)
        if algorithm == "winograd" and parts == 1:
            tile = _tile_of_block(op, tile, features, pixels, columns)
        if algorithm == DIRECT:
            wide = op.output[2]
            assert isinstance(wide, int)
            pixels, columns = max(pixels // wide, 1) * wide, wide
        return ConvConfig(
            algorithm,
            pixels=pixels,
            columns=columns,
            depth=depth if algorithm == "im2col" else 0,
            rows=tile.rows,
            vectors=tile.vectors,
            lanes=tile.lanes,
            splits=parts,
            parallel=self.is_large(op),
        )

    def _depthwise(self, op: Conv2d, features: CpuFeatures, lanes: int) -> ConvConfig:
        while lanes > op.filters:
            lanes //= 2
        batch, rows, wide, _ = op.output
        columns = wide if isinstance(wide, int) else _TYPICAL
        tasks = -(-op.filters // lanes) * (batch if isinstance(batch, int) else 1)
        # Lines of a task share rows of the image: as many as leave each core several tasks.
        lines = -(-(rows if isinstance(rows, int) else _TYPICAL) * tasks // (8 * features.cores))
        return ConvConfig(
            op.algorithm,
            pixels=lines * columns,
            columns=columns,
            rows=features.vector_registers // 4,
            vectors=1,
            lanes=lanes,
            parallel=self.is_large(op),
        )

    def parse(self, op: Conv2d, target: Target, config: LoweringConfig) -> ConvConfig:
        """The rule's numbers in a config."""
        check = self.check(config)
        typed = ConvConfig.parse(check, op.algorithm, *([DIRECT] if _may_be_direct(op) else []))
        direct, wide, depthwise = typed.algorithm == DIRECT, op.output[2], is_depthwise(op)
        fits = typed.columns <= typed.pixels
        typed.expect(check, "columns", fits, f"1 to {typed.pixels}")
        typed.expect(check, "columns", not direct or typed.columns == wide, f"a line of {wide}")
        if op.algorithm == "im2col" and not direct and not depthwise:
            exact = op.is_whole and product_dtype(op) == "float32"
            check.tile("reduction_tile", "k", EXACT_DEPTH if exact else None)
        panels = op.filter_panels
        fits = panels is None or typed.tile.width == panels
        typed.expect(check, "vectors", fits, f"panels of {panels} columns, as the filter has")
        typed.expect(
            check,
            "splits",
            _divides(op, typed.tile, typed.splits),
            f"1, or a number of parts of the {op.group_filters} filters that are whole panels",
        )
        scratch = _scratch_elements(op, typed) * typed.pixels * item_bytes(product_dtype(op))
        check.need(
            scratch <= _LARGEST_SCRATCH_BYTES or depthwise,
            f"blocks of {typed.pixels} pixels take {scratch} bytes a thread;"
            f" expected at most {_LARGEST_SCRATCH_BYTES}",
        )
        return typed

    def emit(self, op: Conv2d, config: ConvConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        if op.algorithm == "winograd":
            WinogradLoops(op, config, features).emit()
            return
        loops: type[ConvLoops] = Im2colLoops if op.channels_last else ColumnLoops
        if config.algorithm == DIRECT:
            loops = DirectLoops
        elif is_depthwise(op):
            loops = DepthwiseLoops
        loops(op, config).emit()


def is_depthwise(op: Conv2d) -> bool:
    """Whether a filter's window is one channel, and channels are side by side."""
    by_im2col = op.algorithm == "im2col" and op.filter_panels is None
    return by_im2col and op.channels_last and op.groups > 1 and op.group_channels == 1


def _may_be_direct(op: Conv2d) -> bool:
    """Whether windows can be read where they lie, and all of K is one chain of sums."""
    last = op.channels_last and op.algorithm == "im2col" and not is_depthwise(op)
    return last and isinstance(op.image[2], int) and op.depth <= LONGEST


def _tile_of_panels(width: int, features: CpuFeatures, lanes: int) -> RegisterTile:
    """The tile whose columns are a panel's."""
    while width % lanes:
        lanes //= 2
    vectors = width // lanes
    return RegisterTile(
        max((features.vector_registers - 1 - vectors) // vectors, 1), vectors, lanes
    )


def _filters_in_lanes(op: Conv2d) -> bool:
    """Whether vectors hold filters; otherwise pixels."""
    return op.channels_last or op.algorithm == "winograd"


def _block(op: Conv2d, tile: RegisterTile, features: CpuFeatures) -> tuple[int, int, int]:
    """Pixels (or tiles) and columns of a task, and parts of the filters."""
    r = op.output_tile_size or 1

    def tiles(extent: Extent) -> int:
        return -(-(extent if isinstance(extent, int) else _TYPICAL) // r)

    batch, rows, wide, _ = op.output
    count = batch if isinstance(batch, int) else 1
    most = _most(op, features)
    in_lanes = _filters_in_lanes(op)
    unit, across = (tile.rows, tile.lanes) if in_lanes else (tile.lanes, tile.rows)
    grid = _Grid(
        groups=op.groups,
        lines=count * tiles(rows),
        wide=tiles(wide),
        vectors=-(-op.group_filters // across) * (1 if in_lanes else tile.rows),
        cores=features.cores,
    )
    if op.algorithm == "winograd":
        # Register tiles are chosen for the block; somewhat more than most beat pieces of few.
        unit, pieces = 1, max(round(grid.wide / most), 1)
    else:
        pieces = -(-grid.wide // most)
    columns = most
    if isinstance(wide, int):
        columns = -(-grid.wide // pieces)
    if columns < grid.wide:
        columns = -(-columns // unit) * unit
    splits = [parts for parts in (1, features.cores) if _divides(op, tile, parts)]
    _, fewer, parts = min(
        (grid.cost(n, min(columns, grid.wide), parts, lambda p: -(-p // unit) * unit), -n, parts)
        for n in range(1, min(max(1, most // columns), grid.lines) + 1)
        for parts in splits
    )
    if isinstance(wide, str) or isinstance(rows, str) or isinstance(batch, str):
        return most, columns, 1
    return -fewer * columns, columns, parts


def _tile_of_block(
    op: Conv2d, tile: RegisterTile, features: CpuFeatures, pixels: int, columns: int
) -> RegisterTile:
    """The tile for the rows of a task of Winograd, whose number may not be known to the kernel."""
    batch, rows, wide, _ = op.output
    if not (isinstance(batch, int) and isinstance(rows, int) and isinstance(wide, int)):
        return tile
    r, lanes = op.output_tile_size or 1, tile.lanes
    lines, across = batch * -(-rows // r), -(-wide // r)
    filters = max(op.group_filters - rest_of(op.group_filters, op.group_channels, lanes)[0], 1)
    alike = across % columns == 0 and lines % (pixels // columns) == 0
    if not alike:
        return whole_tile(features, lanes, pixels, filters)
    along = column_vectors(features, item_bytes(product_dtype(op)), None)
    return register_tile(features, along, pixels, filters)


def _most(op: Conv2d, features: CpuFeatures) -> int:
    """Pixels, or tiles, of a task at most, or somewhat more.

    A transformed filter stays in the second cache, and tiles and products share it where it does:
    288 of 1024 KiB were the fastest on a Zen 4.
    """
    most = _MOST[op.algorithm]
    if op.algorithm != "winograd":
        return most
    channels, filters = op.group_channels, op.group_filters
    place = ((op.output_tile_size or 0) + 2) ** 2 * item_bytes(op.compute_dtype)
    if op.groups * channels * filters * place > features.second_cache_bytes:
        return most
    task_bytes = features.second_cache_bytes * 9 // 32
    return min(max(task_bytes // ((channels + filters) * place), 1), most)


def _divides(op: Conv2d, tile: RegisterTile, parts: int) -> bool:
    """Whether the filters of a group are so many parts, of whole panels."""
    if is_depthwise(op):
        return parts == 1
    panel = tile.width if _filters_in_lanes(op) else tile.rows
    return parts == 1 or op.group_filters % (panel * parts) == 0


def _scratch_elements(op: Conv2d, config: ConvConfig) -> int:
    """Scratch elements of a task for each pixel."""
    if config.algorithm == DIRECT:
        return band_elements(op) // config.columns + 1
    if op.algorithm == "winograd":
        return ((op.output_tile_size or 0) + 2) ** 2 * (op.group_channels + op.group_filters)
    return max(config.depth, op.kernel[0] * op.kernel[1]) + op.group_filters
