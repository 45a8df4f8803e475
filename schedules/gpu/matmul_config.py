"""Which instruction and which tiles, for a product that was never tuned."""

from itertools import product

from tvm.target import Target
from tvm_iree_ext.schedules.gpu.matmul import MatmulConfig, plan_matmul
from tvm_iree_ext.schedules.gpu.matmul_tiles import MatmulShape

from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.layout.analysis import Placement, coalescing
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.target.mma import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.target.mma_layouts import contraction_layouts
from tvm_iree_ext.target.mma_table import mma_table

_TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (32, 32), (1, 1))
"""Rows and columns of a workgroup, the best for large products first."""
_SMALL = 64 * 64  # not worth making smaller to keep all cores busy
_DEPTH_BYTES = 128  # of a row along k: a line of memory, and a pass over 32 banks
_ACCESS_BITS = 128


def matmul_kind(shape: MatmulShape, target: Target) -> Mma:
    """The instruction for a product's types: fragments in accesses of 16 bytes, then the fewest.

    Raises:
        ScheduleError: when the chip has none, naming the types that it multiplies.
    """
    chip, size = gpu_chip(target), subgroup_size(target)
    wanted = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    offered = [
        mma
        for mma in mma_table().values()
        if mma.on(chip.name) and mma.subgroup_size == size and mma.blocks == 1
        if mma.kind in ("native", "virtual") and mma.lhs and mma.rhs and mma.acc
    ]
    fitting = [mma for mma in offered if _dtypes(mma) == wanted and max(mma.m, mma.n) <= 16]
    if not fitting:
        types = sorted({"*".join(_dtypes(mma)[:2]) for mma in offered})
        raise ScheduleError(
            f"matmul: {chip.name} has no instruction for {wanted[0]} * {wanted[1]} in {wanted[2]};"
            f" it multiplies {', '.join(types) or 'nothing'}"
        )
    return max(fitting, key=lambda mma: (_run_bits(mma), mma.kind == "native", mma.flops))


def _dtypes(mma: Mma) -> tuple[str, str, str]:
    return tvm_dtype(mma.a), tvm_dtype(mma.b), tvm_dtype(mma.c)


def _run_bits(mma: Mma) -> int:
    """How much of an operand's row a lane reads at once."""
    assert mma.lhs is not None
    return min(_ACCESS_BITS, mma.lhs.element[-1] * dtype_bits(mma.a))


def matmul_config(shape: MatmulShape, target: Target) -> MatmulConfig:
    """The config for a product: the largest tiles, of no more than it needs, that fit the chip.

    Raises:
        ScheduleError: when nothing fits, with what the last attempt lacked.
    """
    mma = matmul_kind(shape, target)
    bytes_per_k = mma.k * dtype_bits(mma.a) // 8
    k_tiles = max(1, min(_DEPTH_BYTES // bytes_per_k, -(-shape.k // mma.k)))
    subgroups = (
        2 if shape.m > mma.m else 1,
        2 if shape.n > mma.n else 1,
    )
    column_major = _column_major(mma)
    error: ScheduleError | None = None
    for rows, columns in _TILES:
        tiles = (
            _tiles(shape.m, subgroups[0], mma.m, rows),
            _tiles(shape.n, subgroups[1], mma.n, columns),
        )
        if _workgroups(shape, rows, columns) < _cores(target) and rows * columns > _SMALL:
            continue
        for stages, depth in product((3, 2, 1), (k_tiles, -(-k_tiles // 2))):
            config = MatmulConfig(mma.name, subgroups, tiles, depth, stages, column_major)
            try:
                plan_matmul(shape, target, config)
            except ScheduleError as refused:
                error = refused
            else:
                return config
    assert error is not None
    raise error


def _workgroups(shape: MatmulShape, rows: int, columns: int) -> int:
    return -(-shape.m // rows) * -(-shape.n // columns)


def _cores(target: Target) -> int:
    parts = gpu_chip(target).parts
    return parts[0].cores if parts else 1


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
