"""Configs for contractions that were never tuned: register tiles, cache blocks, what is packed."""

from dataclasses import replace
from math import gcd, prod

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.contraction.factors import SIDES
from tvm_iree_ext.schedules.cpu.contraction.contraction_blocks import Grid
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import (
    DOTS,
    MATRIX,
    PANELS,
    ContractionConfig,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_few_rows import lines_at_once, vector_form
from tvm_iree_ext.schedules.cpu.contraction.contraction_packing import Neighbours
from tvm_iree_ext.schedules.cpu.contraction.contraction_panels import rounded_blocks
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionPlan
from tvm_iree_ext.schedules.cpu.contraction.contraction_sums import without_scratch
from tvm_iree_ext.schedules.cpu.products.amx import TILE, tile_product
from tvm_iree_ext.schedules.cpu.products.dot_products import LEAST_LANES, dot_product_of
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    SAME_SET_BYTES,
    RegisterTile,
    column_vectors,
    few_rows_tile,
    register_tile,
)
from tvm_iree_ext.targets.cpu import CpuFeatures

# What an extent that is known at call time counts as.
_TYPICAL = 384
# The rows of a block where their number is not known and n is shared out.
_UNKNOWN_ROWS = 2048
# Rows up to which b is read where it is: packing it would take as long as the products.
_FEW_ROWS = 16
# Rows of a block up to which b is read where it is, by the panels that it has: wherever its vectors
# begin, they cost less than packing.
_PANEL_ROWS = {1: 256, 2: 96}
# Lines of b that are read side by side where it is read in place: each is a run of memory, and sums
# are read and written once for all of them.
_FEW_ROWS_DEPTH = 16
# More of them where depth is long: the error of the sums of blocks grows with the count of these.
_LONG_DEPTH, _LONG_ROWS_DEPTH = 8192, 64
# The most columns whose sums a task holds.
_MOST_COLUMNS = 4096
# Of products of tiles: tiles of sums in registers; words of depth, a panel and rows of which fit
# the first cache; bytes of a block's sums, which stay in the second; its most rows; and what it
# costs to pack an element, in multiply-adds.
_PRODUCT_TILES = 2
_TILED_DEPTH = 128
_TILED_SUMS_BYTES = 1 << 19
_TILED_ROWS = 1024
_PACKED_FOR_TILES = 128


def neighbour_products(plan: ContractionPlan, features: CpuFeatures) -> dict[str, Neighbours]:
    """The instructions for neighbours in depth that the CPU has, by form, the fastest first."""
    lhs, rhs = (plan.op.types[name].dtype for name in ("lhs", "rhs"))
    if plan.op.factor_regions or lhs != rhs:
        return {}
    known = {MATRIX: tile_product(features, lhs), DOTS: dot_product_of(features, lhs)}
    return {f: p for f, p in known.items() if p and p.sums == plan.op.accumulator_dtype}


def panels_config(
    plan: ContractionPlan, features: CpuFeatures, parallel: bool, in_place: bool = True
) -> ContractionConfig:
    """Register tiles, and blocks around them; where it may be read ``in_place``, b is."""
    size = item_bytes(plan.product_dtype)
    rows, columns, depth = plan.extent(plan.m), plan.extent(plan.n), plan.count(plan.depth)
    few = in_place and rows is not None and rows <= _FEW_ROWS
    cores = features.cores if parallel else 1
    if in_place and (config := few_config(plan, features, cores)):
        return config
    algorithm, dot = next(iter(neighbour_products(plan, features).items()), (PANELS, None))
    if few:
        algorithm, dot = PANELS, None
    least = {MATRIX: TILE, DOTS: LEAST_LANES}.get(algorithm, 1)
    along = column_vectors(features, size, columns, least)
    lanes = along.lanes
    if algorithm == MATRIX:
        tile = RegisterTile(_PRODUCT_TILES * TILE, _PRODUCT_TILES, TILE)
    else:
        most_rows = None if dot else _most_rows(plan, features)
        tile = register_tile(features, along, rows, columns, most_rows)
    group = dot.group if dot else 1
    places = None if depth is None else -(-depth // group)
    promoted = ("lhs", "rhs") if dot else _promoted(plan)
    grid = Grid(
        plan.count(plan.slabs) or 1,
        rows if rows is not None else _TYPICAL,
        columns if columns is not None else _TYPICAL,
        places,
        tile,
        cores,
        # A block's part of b stays in the second cache beside a few rows.
        panels_bytes=features.second_cache_bytes * 3 // 4,
        place_bytes=size,
        sum_bytes=0 if without_scratch(plan, lanes, single=False) else size,
        direct=without_scratch(plan, lanes, single=True),
        packs_rows=plan.a in promoted,
    )
    if algorithm == MATRIX:
        grid = replace(
            grid,
            sum_bytes=size,
            direct=False,
            packed=_PACKED_FOR_TILES,
            most_rows=_TILED_ROWS,
            most_depth=_TILED_DEPTH,
            most_sums=_TILED_SUMS_BYTES,
        )
    m, n, k = grid.best()
    if in_place and promoted == (plan.b,) and m <= _rows_in_place(plan, tile, n):
        promoted = ()
        # A part of b stays in the first cache.
        most_depth = features.first_cache_bytes // (-(-n // lanes) * lanes * size)
        k = replace(grid, most_depth=most_depth).best()[2]
    if len(plan.depth) > 1 and any(plan.lies_in_runs(one, lanes * group) for one in SIDES):
        k = max(1, k // lanes) * lanes  # parts of depth begin where runs of it do
    if rows is None and m == _TYPICAL and without_scratch(plan, lanes, k == places):
        m = _UNKNOWN_ROWS
    return ContractionConfig(
        algorithm,
        block_m=m,
        block_n=n,
        block_k=k * group,
        rows=tile.rows,
        vectors=tile.vectors,
        lanes=lanes,
        promote=promoted,
        parallel=parallel,
    )


def few_config(
    plan: ContractionPlan, features: CpuFeatures, cores: int
) -> ContractionConfig | None:
    """For few rows times what is read once, where it is; None where it cannot be."""
    if form := vector_form(plan):
        return _vector_config(plan, form, features, cores)
    rows, columns = plan.extent(plan.m), plan.extent(plan.n)
    if rows is None or columns is None or rows > _FEW_ROWS:
        return None
    lanes = features.lanes(item_bytes(plan.product_dtype) * 8)
    while lanes // 2 >= columns:
        lanes //= 2
    tile = few_rows_tile(features, lanes, rows, columns)
    shares = -(-cores // (plan.count(plan.slabs) or 1))
    block = min(-(-columns // shares), _MOST_COLUMNS)
    block = -(-block // tile.lanes) * tile.lanes
    if not reads_in_place(plan, tile, rows, block):
        return None
    depth = plan.count(plan.depth) or _TYPICAL
    lines = _FEW_ROWS_DEPTH if depth < _LONG_DEPTH else _LONG_ROWS_DEPTH
    return ContractionConfig(
        PANELS,
        block_m=rows,
        block_n=block,
        block_k=min(lines, depth),
        rows=tile.rows,
        vectors=tile.vectors,
        lanes=tile.lanes,
        promote=(plan.a,),
        parallel=cores > 1,
    )


def _vector_config(
    plan: ContractionPlan, form: str, features: CpuFeatures, cores: int
) -> ContractionConfig:
    """An even share of n for each core, and lines of b side by side."""
    lanes = features.lanes(item_bytes(plan.op.accumulator_dtype) * 8)
    rows = plan.extent(plan.m) or 1
    columns = plan.extent(plan.n) or _TYPICAL * cores
    shares = -(-cores // (plan.count(plan.slabs) or 1))
    block = -(-columns // shares)
    block = min(-(-block // lanes) * lanes if shares > 1 else block, _MOST_COLUMNS)
    return ContractionConfig(
        form,
        block_n=block,
        rows=lines_at_once(form, rows, features.vector_registers),
        lanes=lanes,
        parallel=cores > 1,
    )


def _promoted(plan: ContractionPlan) -> tuple[str, ...]:
    """The factors that are packed: b, and a but for rows that are runs of memory."""
    return tuple(name for name in ("lhs", "rhs") if not (plan.lies_in_rows and name == plan.a))


def _most_rows(plan: ContractionPlan, features: CpuFeatures) -> int | None:
    """The rows of ``a`` whose lines stay in the first cache while the next ones are read.

    None where they are packed.  Rows that lie a multiple of 4 KiB apart are in the same set, which
    has as many lines as there are times 4 KiB: of 1024 x 1024 by 1024 x 16 on Zen 4, tiles of 29
    rows run at 23 GFLOP/s, of 12 at 87, of 8 at 115.
    """
    if not plan.lies_in_rows:
        return None
    axes, shape = plan.op.maps[plan.a].axes, plan.op.types[plan.a].shape
    if (plan.m,) not in axes:
        return None
    apart = shape[axes.index((plan.m,)) + 1 :]
    ways = features.first_cache_bytes // SAME_SET_BYTES
    known = [extent for extent in apart if isinstance(extent, int)]
    if len(known) < len(apart):
        return ways  # as if they were, which costs nothing
    size = item_bytes(plan.product_dtype)
    return ways * (SAME_SET_BYTES // gcd(prod(known) * size, SAME_SET_BYTES))


def _rows_in_place(plan: ContractionPlan, tile: RegisterTile, n: int) -> int:
    """Rows of a block up to which ``b`` is read as it lies in memory, in parts of depth."""
    columns = plan.extent(plan.n)
    same = plan.op.types[plan.b].dtype == plan.product_dtype and not plan.op.factor_regions
    if columns is None or not (same and plan.runs_along_n):
        return 0
    fits = reads_in_place(plan, tile, tile.rows, n)
    return _PANEL_ROWS.get(-(-columns // tile.width), 0) if fits else 0


def reads_in_place(plan: ContractionPlan, tile: RegisterTile, m: int, n: int) -> bool:
    """Whether vectors of ``b`` can be read where they are."""
    _, n = rounded_blocks(plan, tile, m, n)
    columns = plan.extent(plan.n)
    if plan.last_vector(tile.lanes, n) is not None:
        return True
    whole = columns is not None and columns % tile.lanes == 0 and (columns <= n or columns % n == 0)
    return whole and plan.lies_along(plan.b, [plan.n])
