"""Products of large tiles by turns, where a chip has shared memory for two of them.

While a subgroup multiplies a tile, it writes the next one to the other's place, which
:mod:`~tvm_iree_ext.codegen.gpu.passes.amd_order` puts between the products.  One subgroup on each
scheduler has a quarter of 256 x 256 sums in its registers, which leaves none for an epilogue; or
two of them have a quarter of 256 x 128 each, with steps half as deep.
"""

from dataclasses import dataclass

from tvm import DataType
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.schedules.gpu.products.matmul_cost import MatmulTiling, cost_us
from tvm_iree_ext.schedules.gpu.products.matmul_kinds import DEPTH_BYTES, multiplying_kinds
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits

_SIDE = 32  # of the instruction: fewer of them take fewer turns of a scheduler
_SUBGROUPS, _STAGES = (2, 2), 3
_RUN_BITS = 128  # of an operand, that a lane reads at once


@dataclass(frozen=True)
class _Turns:
    """Instructions of a subgroup, parts of a full step, and workgroups that a core must have.

    ``shares`` are of the matrix units' time by the model in inspection.loop_time, f16 on gfx950,
    2026-11-26: where operands lie as they are multiplied, and where a copy transposes one.
    """

    tiles: tuple[int, int]
    parts: int
    workgroups: int
    shares: tuple[float, float]


_ALONE = _Turns((4, 4), 1, 1, (0.91, 0.0))  # transposing takes registers, too: 0.78
_TWO = _Turns((4, 2), 2, 2, (0.88, 0.81))


def config_by_turns(shape: MatmulShape, target: Target) -> tuple[float, MatmulConfig] | None:
    """The cost of a product by turns, in microseconds, and its config; None where it has none.

    The loop is put in order where it holds nothing else: rows are whole tiles, and operands lie
    there as they are multiplied.
    """
    mma = _kind(shape, target)
    plain = not (shape.more_dims or any(map(shape.prologue, SIDES)))
    if mma is None or not plain or any(map(shape.converts, SIDES)):
        return None
    bare = shape.memory_dtype("result") == shape.result_dtype and not shape.epilogue_bits
    found = [_taken(shape, target, mma, turns) for turns in (*[_ALONE] * bare, _TWO)]
    return min((one for one in found if one), key=lambda one: one[0], default=None)


def _taken(
    shape: MatmulShape, target: Target, mma: Mma, turns: _Turns
) -> tuple[float, MatmulConfig] | None:
    k_tiles = DEPTH_BYTES * 8 // (turns.parts * mma.k * dtype_bits(mma.a))
    if not k_tiles:
        return None
    config = MatmulConfig(
        mma.name, _SUBGROUPS, turns.tiles, k_tiles, _STAGES, column_major=mma.column_major
    )
    try:
        plan = plan_matmul(shape, target, config)
    except ScheduleError:
        return None
    extents = (shape.m, shape.n, shape.k)
    whole = all(one and one % size == 0 for one, size in zip(extents, plan.tile, strict=True))
    room = plan.chip.shared_memory_per_core_bytes // plan.shared_memory_bytes
    if not plan.by_turns or not whole or plan.has_bank_conflicts or room < turns.workgroups:
        return None
    share = turns.shares[any(map(plan.transposes, SIDES))]
    if not share:
        return None
    rows, columns, depth = plan.tile
    tiling = MatmulTiling(rows, columns, depth, _STAGES, 1, share=share)
    widths = [DataType(shape.memory_dtype(side)).bits / 8 for side in SIDES]
    return cost_us(shape, plan.chip, tiling, (widths[0], widths[1])), config


def _kind(shape: MatmulShape, target: Target) -> Mma | None:
    """The instruction of 32 rows and columns for a product's types."""
    types = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    offered = [
        mma
        for mma in multiplying_kinds(target, _SIDE).get(types, [])
        if mma.m == mma.n == _SIDE and mma.lhs is not None
        if mma.lhs.element[-1] * dtype_bits(mma.a) >= _RUN_BITS
    ]
    return max(offered, key=lambda mma: (mma.kind == "native", mma.flops), default=None)
