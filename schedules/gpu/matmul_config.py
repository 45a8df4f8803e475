"""Which instruction and which tiles, for a product that was never tuned."""

from dataclasses import replace
from itertools import product

from tvm import DataType
from tvm.target import Target
from tvm_iree_ext.schedules.gpu.matmul_cost import Tiling, cost_us
from tvm_iree_ext.schedules.gpu.matmul_plan import MatmulConfig, MatmulPlan, plan_matmul
from tvm_iree_ext.schedules.gpu.matmul_shape import SIDES, MatmulShape

from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.layout.analysis import Placement, coalescing
from tvm_iree_ext.target.fma import FMA_TYPES, fma_kind, fma_lanes, fma_name
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.target.mma import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.target.mma_layouts import contraction_layouts
from tvm_iree_ext.target.mma_table import mma_table

_TILES = (
    (256, 256),
    (256, 128),
    (128, 128),
    (64, 256),
    (128, 64),
    (64, 128),
    (64, 64),
    (32, 32),
    (1, 1),
)
"""The most rows and columns of a workgroup."""
# Parts of K; of whole tiles only such as need no predicates.
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_MOST_SUMS = 256 * 128  # of a workgroup of four subgroups of 64 lanes
_STAGES = 2  # for which costs are compared
_LEAST_STEPS = 4  # tiles of K in each part of it
_DEPTH_BYTES = 128  # of a row along k: a line of memory, and a pass over 32 banks
_ACCESS_BITS = 128
_LARGEST_SIDE = 16  # of an instruction, along m and n: smaller ones fit more shapes
_LANE_ROWS = 8  # of 32-bit words, and columns, of a lane that multiplies by itself
_TYPICAL = 4096  # what an extent that is known at call time counts as
_TYPICAL_GROUPS = 16


_ROUNDING = ("tf32", "xf32")  # only where a config asks for them by name


def multiplying_kinds(target: Target) -> dict[tuple[str, str, str], list[Mma]]:
    """The instructions that a rule may choose, by the types that they multiply, and of sums."""
    chip, size = gpu_chip(target), subgroup_size(target)
    found: dict[tuple[str, str, str], list[Mma]] = {}
    for mma in mma_table().values():
        if not mma.on(chip.name) or mma.subgroup_size != size or mma.blocks > 1:
            continue
        if mma.kind not in ("native", "virtual") or not (mma.lhs and mma.rhs and mma.acc):
            continue
        if mma.a in _ROUNDING or mma.a == "i4" or max(mma.m, mma.n) > _LARGEST_SIDE:
            continue
        types = (tvm_dtype(mma.a), tvm_dtype(mma.b), tvm_dtype(mma.c))
        found.setdefault(types, []).append(mma)
    return found


def matmul_kind(shape: MatmulShape, target: Target) -> Mma:
    """The instruction for a product's types: fragments in accesses of 16 bytes, then the fewest.

    Raises:
        ScheduleError: when the chip has none, naming the types that it multiplies.
    """
    wanted = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    if by_lanes(wanted, target):
        return _lanes_kind(shape, subgroup_size(target))
    offered = multiplying_kinds(target)
    if wanted not in offered:
        types = sorted({"*".join(types[:2]) for types in offered})
        raise ScheduleError(
            f"matmul: {gpu_chip(target).name} has no instruction for {wanted[0]} * {wanted[1]} in"
            f" {wanted[2]}; it multiplies {', '.join(types) or 'nothing'}"
        )
    return max(offered[wanted], key=lambda mma: (_run_bits(mma), mma.kind == "native", mma.flops))


def by_lanes(types: tuple[str, str, str], target: Target) -> bool:
    """Whether products of these types are multiply-adds of lanes: the chip has nothing better."""
    same = types[0] == types[1] == types[2]
    known = types[2] in map(tvm_dtype, FMA_TYPES)
    return same and known and types not in multiplying_kinds(target)


def _lanes_kind(shape: MatmulShape, size: int) -> Mma:
    """As many rows and columns of a lane as the product has for it."""
    dtype = next(one for one in FMA_TYPES if tvm_dtype(one) == shape.result_dtype)
    most = _LANE_ROWS * 32 // dtype_bits(dtype)
    rows, columns = (
        min(most, 1 << (-(-(extent or _TYPICAL) // count) - 1).bit_length())
        for extent, count in zip((shape.m, shape.n), fma_lanes(size), strict=True)
    )
    along = ("MK"[shape.lhs_order[-1]], "KN"[shape.rhs_order[-1]])
    return fma_kind(fma_name(dtype, rows, columns, size, *along))


def _run_bits(mma: Mma) -> int:
    """How much of an operand's row a lane reads at once."""
    assert mma.lhs is not None
    return min(_ACCESS_BITS, mma.lhs.element[-1] * dtype_bits(mma.a))


def matmul_config(shape: MatmulShape, target: Target) -> MatmulConfig:
    """The config for a product: the largest tiles, of no more than it needs, that fit the chip.

    Raises:
        ScheduleError: when nothing fits, with what the last attempt lacked.
    """
    mma, chip = matmul_kind(shape, target), gpu_chip(target)
    m, n, k = (extent or _TYPICAL for extent in (shape.m, shape.n, shape.k))
    bytes_per_k = mma.k * dtype_bits(mma.a) // 8
    k_tiles = max(1, min(_DEPTH_BYTES // bytes_per_k, -(-k // mma.k)))
    column_major = _column_major(mma)
    bits = [DataType(shape.memory_dtype(side)).bits for side in SIDES]
    typical = replace(shape, m=m, n=n, k=k, groups=shape.groups or _TYPICAL_GROUPS)
    most = max(1, k // (_LEAST_STEPS * k_tiles * mma.k)) if _known(shape) else 1
    costs: dict[tuple[tuple[int, int], tuple[int, int], int], float] = {}
    for (rows, columns), splits in product(_TILES, _SPLITS):
        sums = rows * columns * dtype_bits(mma.c) // 32
        if sums > _MOST_SUMS and (mma.subgroup_size != 32 or dtype_bits(mma.c) > 32):
            continue
        subgroups = _subgroups(mma, m, n, rows, columns)
        tiles = (
            _tiles(m, subgroups[0], mma.m, rows),
            _tiles(n, subgroups[1], mma.n, columns),
        )
        tile = (subgroups[0] * tiles[0] * mma.m, subgroups[1] * tiles[1] * mma.n)
        whole = k % (k_tiles * mma.k) == 0
        if splits <= most and not (whole and k // (k_tiles * mma.k) % splits):
            tiling = Tiling(*tile, k_tiles * mma.k, _STAGES, splits)
            costs[subgroups, tiles, splits] = cost_us(
                typical, chip, tiling, (bits[0] / 8, bits[1] / 8)
            )
    refused: ScheduleError | None = None
    for subgroups, tiles, splits in sorted(costs, key=lambda key: costs[key]):
        lone: MatmulConfig | None = None
        for stages, depth in product((3, 2, 1), (k_tiles, -(-k_tiles // 2))):
            config = MatmulConfig(
                mma.name, subgroups, tiles, depth, stages, column_major, splits=splits
            )
            try:
                plan = plan_matmul(shape, target, config)
            except ScheduleError as error:
                refused = error
                continue
            if not _alone(plan):
                return config
            lone = lone or config
        if lone is not None:
            return lone
    assert refused is not None
    raise refused


def _alone(plan: MatmulPlan) -> bool:
    """Whether asynchronous copies leave a scheduler one subgroup, which waits for every answer."""
    if not plan.asynchronous or plan.config.num_subgroups < plan.chip.simds_per_core:
        return False
    workgroups = plan.chip.shared_memory_per_core_bytes // (
        plan.shared_memory_bytes + plan.chip.shared_memory_reserved_bytes
    )
    return workgroups * plan.config.num_subgroups < 2 * plan.chip.simds_per_core


def _known(shape: MatmulShape) -> bool:
    return None not in (shape.m, shape.n, shape.k, shape.groups)


def _subgroups(mma: Mma, m: int, n: int, rows: int, columns: int) -> tuple[int, int]:
    """A workgroup's, where the product has room for them.

    Those of 32 lanes have registers for 64 rows and columns of sums, and more of them share what is
    copied.  Few rows have no more of them instead: what a subgroup loads of lhs serves all its
    columns.
    """
    narrow = mma.subgroup_size == 32 and min(m, rows) >= 256
    down = 4 if mma.kind == "fma" or narrow else 2
    across = 4 if narrow and columns >= 256 else 2
    return min(down, -(-m // mma.m)), min(across, -(-n // mma.n))


def _column_major(mma: Mma) -> bool:
    """Whether lanes store the transposed accumulator in fewer segments of memory, or accesses."""
    costs = {}
    for column_major in (False, True) if mma.column_major else (False,):
        acc = contraction_layouts(
            mma, "mnk", (mma.m, mma.n, mma.k), (1, 1, 1), column_major=column_major
        ).acc
        row = Placement(acc.undistributed_shape, dtype_bits(mma.c) // 8)
        cost = coalescing(acc, row, 1, mma.subgroup_size, segment_bytes=64)
        costs[column_major] = (cost.total, cost.instructions)
    return min(costs, key=lambda key: costs[key])


def _tiles(extent: int, subgroups: int, native: int, most: int) -> int:
    """Instructions of a subgroup along a dim: as many as the extent or the tile has room for."""
    return max(1, min(most // (subgroups * native), -(-extent // (subgroups * native))))
