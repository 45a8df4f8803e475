"""Tiled matrix product on instructions of a whole warpgroup (``wgmma``), from the layouts.

    for tile of rows, of columns in blockIdx:
        accumulator fragments = 0
        for tile of k:
            all lanes copy the tiles of lhs and rhs to shared memory, swizzled as descriptors say
            multiply them there
        each lane stores what it holds of the accumulator, as far as the result reaches

The four subgroups of a workgroup issue the instruction together; it is as wide as a workgroup's
tile, and covers several steps along k.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import s_tir
from tvm.target import Target
from tvm_iree_ext.schedules.gpu.copies import copy_layout
from tvm_iree_ext.schedules.gpu.fragments import into_fragments
from tvm_iree_ext.schedules.gpu.matmul_shape import SIDES, MatmulShape, PlainOperands
from tvm_iree_ext.schedules.gpu.matmul_tiles import TilePlan, matmul_blocks, shared_name
from tvm_iree_ext.schedules.layouts import bind_grid, distribute, vector_elements

from tvm_iree_ext.errors import ScheduleError, TargetError
from tvm_iree_ext.intrin.swizzles import with_swizzles
from tvm_iree_ext.intrin.wgmma import SharedOperand, wgmma_intrins
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.target.gpu import gpu_chip
from tvm_iree_ext.target.mma import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.target.mma_layouts import contraction_layouts
from tvm_iree_ext.target.mma_table import mma_kind

_SHARED_BYTES = 48 * 1024  # of a kernel, without asking for more
_SWIZZLES = (128, 64, 32)


@dataclass(frozen=True)
class WarpgroupPlan:
    """What a product by a warpgroup's instruction is made of.

    Attributes:
        tile: rows, columns and depth of a workgroup's tile.
        operands: how their tiles lie in shared memory.
        acc: the layout of the accumulator.
        runs: elements that a lane accesses at once in ``lhs``, ``rhs`` and ``result``.
    """

    shape: MatmulShape
    mma: Mma
    stages: int
    tile: Ints
    operands: dict[str, SharedOperand]
    acc: NestedLayout
    runs: dict[str, int]

    def tile_shape(self, side: str) -> Ints:
        """The tile of ``lhs`` or ``rhs``, as it lies in memory."""
        rows, columns, depth = self.tile
        own = (rows, depth) if side == "lhs" else (depth, columns)
        return tuple(own[dim] for dim in self.shape.order(side))


def plan_warpgroup_matmul(
    shape: MatmulShape, target: Target, kind: str, *, steps: int = 4, stages: int = 1
) -> WarpgroupPlan:
    """Derive the layouts of a product, and check them against the chip.

    Args:
        shape: of the product.
        target: a chip that has the instruction.
        kind: of a warpgroup.
        steps: instructions along k between two copies to shared memory.
        stages: tiles of k that are under way at once.

    Raises:
        ScheduleError: for what the chip, the instruction or shared memory cannot have.
    """
    chip, mma = gpu_chip(target), mma_kind(kind)
    if mma.kind != "warpgroup" or not mma.on(chip.name):
        raise ScheduleError(f"matmul by {kind}: {chip.name} has no such warpgroup instruction")
    dtypes = tuple(tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    if dtypes != (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype):
        raise ScheduleError(f"matmul by {kind}: its types are {', '.join(dtypes)}")
    tile = (mma.m, mma.n, steps * mma.k)
    majors = {"lhs": shape.lhs_order == (0, 1), "rhs": shape.rhs_order == (1, 0)}
    try:
        operands = {side: _widest(mma, side, steps, majors[side]) for side in SIDES}
    except TargetError as error:
        raise ScheduleError(f"matmul by {error}") from error
    acc = contraction_layouts(mma, "mnk", tile, (1, 1, 1)).acc
    runs = {
        side: vector_elements(operands[side].bits, operands[side].width, shape.extents(side)[-1])
        for side in SIDES
    }
    runs["result"] = vector_elements(dtype_bits(mma.c), acc.element_tile[-1], shape.n)
    size = stages * sum(one.tile[0] * one.tile[1] * one.bits // 8 for one in operands.values())
    if size > _SHARED_BYTES:
        raise ScheduleError(
            f"matmul by {kind}: {stages} stages of tiles take {size} bytes of shared memory;"
            f" there are {_SHARED_BYTES}"
        )
    return WarpgroupPlan(shape, mma, stages, tile, operands, acc, runs)


def _widest(mma: Mma, side: str, steps: int, k_major: bool) -> SharedOperand:
    """The operand in the widest atoms of which its rows are multiples."""
    plain = SharedOperand(mma, side, steps, k_major, 16)
    row_bytes = plain.tile[1] * plain.bits // 8
    for swizzle_bytes in _SWIZZLES:
        if row_bytes == swizzle_bytes or (not k_major and row_bytes % swizzle_bytes == 0):
            return SharedOperand(mma, side, steps, k_major, swizzle_bytes)
    return plain


def schedule_warpgroup_matmul(
    shape: MatmulShape, target: Target, kind: str, *, steps: int = 4, stages: int = 1
) -> s_tir.Schedule:
    """The schedule of the product.

    Raises:
        ScheduleError: as :func:`plan_warpgroup_matmul`.
    """
    plan = plan_warpgroup_matmul(shape, target, kind, steps=steps, stages=stages)
    orders = {side: shape.order(side) for side in SIDES}
    tiles = TilePlan(plan.tile, plan.runs, "shared", orders)
    sch = s_tir.Schedule(matmul_blocks(PlainOperands(shape), tiles))
    intrins, product = wgmma_intrins(kind), sch.get_sblock("product")
    i, j, k = sch.get_loops(product)
    rows, columns, depth = plan.tile
    i_grid, i_in = sch.split(i, [None, rows])
    j_grid, j_in = sch.split(j, [None, columns])
    # One loop around the product, which is one of the statements that are pipelined.
    k_step, whole, k_in = sch.split(k, [None, 1, depth])
    sch.reorder(i_grid, j_grid, k_step, whole, i_in, j_in, k_in)
    *_, at = bind_grid(sch, [i_grid, j_grid])
    count, size = plan.mma.num_subgroups, plan.mma.subgroup_size
    for side in SIDES:
        block, operand = sch.get_sblock(f"{side}_tile"), plan.operands[side]
        sch.compute_at(block, k_step)
        layout = copy_layout(plan.tile_shape(side), operand.bits, count, size, run=plan.runs[side])
        loops = sch.get_loops(block)[-2:]
        distribute(sch, block, layout, count, size, loops=loops, grid=False, vector=plan.runs[side])
        sch.transform_layout(block, ("write", 0), _shared_map(operand))
    result = sch.get_sblock("result")
    sch.reverse_compute_at(result, at)
    loops = sch.get_loops(result)[-2:]
    distribute(
        sch, result, plan.acc, count, size, loops=loops, grid=False, vector=plan.runs["result"]
    )
    fill = sch.decompose_reduction(product, k_step)
    into_fragments(sch, product, intrins, "acc")
    if stages > 1:
        sch.annotate(k_step, "software_pipeline_stage", [0, 0, stages - 1])
        sch.annotate(k_step, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k_step, "software_pipeline_async_stages", [0])
    sch.tensorize(sch.get_loops(fill)[-2], intrins.fill())
    sch.tensorize(i_in, intrins.multiply(plan.operands["rhs"], plan.operands["lhs"]))
    swizzles = {
        shared_name(side): swizzle
        for side, operand in plan.operands.items()
        if (swizzle := operand.swizzle) is not None
    }
    return s_tir.Schedule(with_swizzles(sch.mod["main"], swizzles))


def _shared_map(operand: SharedOperand) -> Callable[..., list[Any]]:
    """From a place in the padded matrix to its tile, and the place in there."""
    rows, columns = operand.tile

    def places(row: Any, column: Any) -> list[Any]:
        tile = [row // rows, column // columns]
        return [*tile, *operand.place(row % rows, column % columns)]

    return places
