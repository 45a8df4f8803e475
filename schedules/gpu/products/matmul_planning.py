"""A plan of a tiled product for a config: its layouts and placements, checked against the chip."""

from dataclasses import replace
from math import prod

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.intrin.nvidia import ldmatrix_form
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.layout.analysis import BANK_BYTES, WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.schedules.gpu.products.matmul_plan import MatmulPlan
from tvm_iree_ext.schedules.gpu.products.matmul_registers import MatmulRegisters
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import (
    MatmulConfig,
    check_numbers,
    padded_shape,
)
from tvm_iree_ext.schedules.gpu.sblocks.copies import ChosenPlacement, TileAccess, choose_placement
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits


def plan_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """Derive the layouts of a product and check them against the chip.

    Raises:
        ScheduleError: for a config that the chip or the shape cannot have, saying why.
    """
    plan = _placed(laid_out_matmul(shape, target, config))
    if plan.shared_memory_bytes > plan.chip.shared_memory_bytes:
        plan = _placed(plan, padded=False)
    _check_memory(plan, plan.shared_memory_bytes)
    return plan


def check_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> None:
    """The checks of :func:`plan_matmul` without its search for placements, which takes longest.

    Raises:
        ScheduleError: as there.
    """
    plan = laid_out_matmul(shape, target, config)
    if all(plan.row_bytes(side) % _alignment(plan, side) == 0 for side in config.promote):
        _check_memory(plan, plan.stages * sum(map(plan.tile_bytes, config.promote)))
    else:  # rows that must be padded, by as much as is found
        plan_matmul(shape, target, config)


def laid_out_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """The plan but for the placements.

    Raises:
        ScheduleError: as :func:`plan_matmul`, but for shared memory.
    """
    shape = padded_shape(shape, config.pad, f"matmul by {config.mma_kind}")
    chip, mma = gpu_chip(target), mma_intrins(config.mma_kind).mma
    check_numbers(shape, target, mma, config)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    tile = (sm * tm * mma.m, sn * tn * mma.n, config.k_tiles * mma.k)
    orders = {side: _shared_order(shape, chip, mma, side) for side in SIDES}
    lhs, rhs = (
        tuple(loops[dim] for dim in orders[side])
        for side, loops in zip(SIDES, ((0, 2), (2, 1)), strict=True)
    )
    layouts = contraction_layouts(
        mma, "mnk", tile, (sm, sn, 1), lhs=lhs, rhs=rhs, column_major=config.column_major,
        counted=config.counted,
    )  # fmt: skip
    plan = MatmulPlan(shape, config, mma, chip, tile, layouts, {}, {}, frozenset(), orders)
    plan = _interleaved(plan)
    runs, ldmatrix = {}, set()
    for side in SIDES:
        operand = getattr(mma, side)
        # A lane's own part of a row, where it copies no other's.
        row = plan.copy(side).element_tile if side in plan.direct else plan.tile_shape(side)
        runs[side] = vector_elements(plan.memory_bits(side), row[-1], shape.row(side))
        if side in plan.direct:
            continue
        if chip.loads_matrices and ldmatrix_form(operand, orders[side]) is not None:
            ldmatrix.add(side)
    widest = max(dtype_bits(mma.c), plan.memory_bits("result"), shape.epilogue_bits)
    runs["result"] = vector_elements(widest, plan.layouts.acc.element_tile[-1], shape.row("result"))
    plan = replace(plan, runs=runs, ldmatrix=frozenset(ldmatrix))
    _check_registers(plan)
    _check_copies(plan)
    return plan


def _placed(plan: MatmulPlan, *, padded: bool = True) -> MatmulPlan:
    """With the placements of both operands, whose rows may be padded or not."""
    placements = {side: _placement(plan, side, padded) for side in plan.config.promote}
    return replace(plan, placements=placements)


def _interleaved(plan: MatmulPlan) -> MatmulPlan:
    """With the columns of a lane side by side, where it reads them by itself.

    Which column of memory is which of an instruction is free, if ``rhs`` and the sums agree.
    """
    shape, count = plan.shape, plan.config.tiles[1]
    if "rhs" not in plan.direct or shape.rhs_order[-1] != 1:
        return plan
    most = 8 * WIDEST_ACCESS_BYTES // plan.memory_bits("rhs")
    run = min(most, count & -count)
    assert plan.layouts.rhs is not None
    layouts = replace(
        plan.layouts,
        rhs=_side_by_side(plan.layouts.rhs, plan.orders["rhs"].index(1), run),
        acc=_side_by_side(plan.layouts.acc, 1, run),
    )
    return replace(plan, layouts=layouts, interleave=run)


def _side_by_side(layout: NestedLayout, dim: int, run: int) -> NestedLayout:
    """A layout with each ``run`` batches along a dim, an element each, side by side in a lane."""

    def scaled(tile: Ints, to: int) -> Ints:
        return (*tile[:dim], to, *tile[dim + 1 :])

    return replace(
        layout,
        batch_tile=scaled(layout.batch_tile, layout.batch_tile[dim] // run),
        element_tile=scaled(layout.element_tile, layout.element_tile[dim] * run),
    )


def _shared_order(shape: MatmulShape, chip: GpuChip, mma: Mma, side: str) -> Ints:
    """The order in which a lane's run of K is contiguous.

    ``ldmatrix`` transposes elements of 16 bits itself.
    """
    operand, order = getattr(mma, side), shape.order(side)
    along_k = operand.dims.index("K")
    if order[-1] == along_k or operand.element[along_k] == 1 or dtype_bits(operand.dtype) >= 32:
        return order
    if chip.loads_matrices and mma.kind != "fma" and dtype_bits(operand.dtype) > 8:
        return order
    return order[::-1]


def _check_registers(plan: MatmulPlan) -> None:
    chip, most = plan.chip, 8 if plan.asynchronous else 2 + _can_take_turns(plan)
    if not 1 <= plan.config.stages <= most:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {plan.config.stages} stages; expected 1 to {most},"
            f" as the copies are {'' if plan.asynchronous else 'not '}asynchronous"
        )
    resident = -(-plan.config.num_subgroups // chip.simds_per_core)
    held = min(chip.max_registers, chip.register_file // resident)
    registers = MatmulRegisters(plan)
    if registers.total > held:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {registers.fragments} registers of a lane for"
            f" fragments; {chip.name} has {held}, of which {registers.others} are for the rest"
        )


_MOST_LOADS = 64  # of a lane for a tile; with 112 of 4 bytes LLVM spilled 527 registers on gfx1201


def _check_copies(plan: MatmulPlan) -> None:
    """Refuse copies through registers that compilers do not take, or that fill the registers.

    Where more lanes copy than a tile of an open K has elements, TVM takes the whole operand for
    what a workgroup keeps of it in registers.
    """
    for side in plan.through_registers - plan.direct:
        copied, tile = plan.copy(side).undistributed_shape, plan.tile_shape(side)
        if plan.shape.k is None and any(a > b for a, b in zip(copied, tile, strict=True)):
            raise ScheduleError(
                f"matmul by {plan.mma.name}: all lanes copy {list(copied)} of {side} at once; a"
                f" tile has {list(tile)}"
            )
        loads = MatmulRegisters(plan).loads(side)
        if loads > _MOST_LOADS:
            raise ScheduleError(
                f"matmul by {plan.mma.name}: {loads} loads of a lane for a tile of {side};"
                f" {_MOST_LOADS} are the most"
            )


def _can_take_turns(plan: MatmulPlan) -> bool:
    """Whether a step is copies and products alone: one tile may be copied beside another."""
    worked = any(plan.converts(side) or plan.shape.prologue(side) for side in SIDES)
    return not (worked or plan.direct or plan.config.workgroups or plan.mma.kind == "fma")


def _check_memory(plan: MatmulPlan, size: int) -> None:
    chip = plan.chip
    if size > chip.shared_memory_bytes:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: tiles of {size} bytes;"
            f" a workgroup of {chip.name} has {chip.shared_memory_bytes} of shared memory"
        )


def _placement(plan: MatmulPlan, side: str, padded: bool) -> ChosenPlacement:
    """How an operand's tile lies in shared memory, by what is done with it."""
    shape, bits = plan.tile_shape(side, plan.orders[side]), 8 * plan.element_bytes(side)
    count, size = plan.config.num_subgroups, plan.mma.subgroup_size
    copy = _written(plan, side)
    accesses = []
    if copy.undistributed_shape == shape:
        narrower, run_bytes = not plan.asynchronous, _written_bytes(plan, side)
        accesses.append(TileAccess(copy, count, size, run_bytes, narrower=narrower))
    if side in plan.ldmatrix:
        accesses.append(TileAccess(_matrix_rows(shape, 128 // bits), 1, 8, 16))
    else:
        accesses.append(TileAccess(getattr(plan.layouts, side), count, size))
    return choose_placement(
        shape,
        bits // 8,
        accesses,
        banks=plan.chip.banks,
        limit_bytes=None if padded else prod(shape) * bits // 8,
        alignment_bytes=_alignment(plan, side),
        swizzles=plan.config.swizzle,
        block_rows=_rows_read_together(plan, side),
    )


def _written(plan: MatmulPlan, side: str) -> NestedLayout:
    """The layout of the copy, as the tile lies in shared memory."""
    return permute(plan.copy(side), (1, 0)) if plan.transposes(side) else plan.copy(side)


def _written_bytes(plan: MatmulPlan, side: str) -> int:
    """Bytes that a lane writes at once."""
    run = min(_written(plan, side).element_tile[-1], plan.shared_run(side))
    return run * plan.element_bytes(side)


def _alignment(plan: MatmulPlan, side: str) -> int:
    """Bytes that rows in shared memory are aligned to."""
    if side in plan.ldmatrix:
        return 16
    # Writes that are no part of the costs keep their width.
    shape = plan.tile_shape(side, plan.orders[side])
    fixed = plan.asynchronous or _written(plan, side).undistributed_shape != shape
    return _written_bytes(plan, side) if fixed else BANK_BYTES


def _rows_read_together(plan: MatmulPlan, side: str) -> int:
    """Rows of a tile that one instruction takes."""
    mma = plan.mma
    own = (mma.m, mma.k) if side == "lhs" else (mma.k, mma.n)
    return own[plan.orders[side][0]]


def _matrix_rows(shape: Ints, run: int) -> NestedLayout:
    """Layout of one ``ldmatrix``: 8 rows of 16 bytes, by 8 lanes."""
    steps = (shape[0] // 8, shape[1] // run)
    return NestedLayout((1, 1), steps, (1, 1), (8, 1), (1, run), (0, 0), (1, 0))
