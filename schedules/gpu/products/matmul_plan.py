"""What the layouts of an instruction say of a tiled product, before it is scheduled.

Which subgroup has which rows and columns, how the tiles lie in shared memory, how much is accessed
at once, and whether registers and shared memory of the chip have room for it.
"""

from dataclasses import dataclass, replace
from math import prod

from tvm import DataType
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.intrin.nvidia import ldmatrix_form
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.layout.analysis import BANK_BYTES, WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig, check_numbers
from tvm_iree_ext.schedules.gpu.products.register_model import MatmulRegisters
from tvm_iree_ext.schedules.gpu.sblocks.copies import (
    ChosenPlacement,
    TileAccess,
    choose_placement,
    copy_layout,
    transposing_layout,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip, Occupancy, gpu_chip, occupancy
from tvm_iree_ext.targets.mma.contraction_layouts import ContractionLayouts, contraction_layouts
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits


@dataclass(frozen=True)
class MatmulPlan:
    """What the layouts say of a product before it is scheduled.

    Attributes:
        tile: rows, columns and depth of a workgroup's tile.
        layouts: of the operands, with their dims as they lie in memory.
        placements: of the operands' tiles in shared memory.
        runs: elements that a lane accesses at once in ``lhs``, ``rhs`` and ``result``.
        ldmatrix: the operands that are loaded by it.
        orders: of the dims of ``lhs`` and ``rhs`` where they are multiplied from; where one is not
            that of global memory, the copy transposes.
        interleave: columns that lie side by side in memory and belong to as many instructions, the
            same lane's: it reads them at once where ``rhs`` is in registers.
    """

    shape: MatmulShape
    config: MatmulConfig
    mma: Mma
    chip: GpuChip
    tile: Ints
    layouts: ContractionLayouts
    placements: dict[str, ChosenPlacement]
    runs: dict[str, int]
    ldmatrix: frozenset[str]
    orders: dict[str, Ints]
    interleave: int = 1

    @property
    def direct(self) -> frozenset[str]:
        """The operands whose tiles are in registers alone."""
        return frozenset(SIDES).difference(self.config.promote)

    @property
    def asynchronous(self) -> bool:
        """Whether copies go past the registers, where nothing can be transposed or converted."""
        if self.direct:
            return False
        worked = any(self.transposes(side) or self.converts(side) for side in SIDES)
        return "cp.async" in self.chip.async_copy_bits and not worked

    @property
    def through_registers(self) -> frozenset[str]:
        """The operands whose tiles stop in registers on their way: to wait, or to be turned."""
        if self.config.stages > 1 and not self.asynchronous:
            return frozenset(SIDES)
        return frozenset(side for side in SIDES if self.transposes(side))

    def converts(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.shape.converts(side)

    def transposes(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.orders[side] != self.shape.order(side)

    @property
    def scope(self) -> str:
        """Of shared memory."""
        return "shared.dyn" if self.chip.kind == "cuda" else "shared"

    @property
    def shared_memory_bytes(self) -> int:
        """Of a workgroup."""
        return self.stages * sum(placement.bytes for placement in self.placements.values())

    @property
    def has_bank_conflicts(self) -> bool:
        """Whether shared memory takes more passes than its accesses are wide."""
        return any(placement.excess for placement in self.placements.values())

    @property
    def stages(self) -> int:
        """Tiles of an operand in shared memory at once."""
        return self.config.stages if self.asynchronous else 1

    def tile_bytes(self, side: str) -> int:
        """Of an operand's tile in shared memory, without padding."""
        return prod(self.tile_shape(side)) * self.element_bytes(side)

    def row_bytes(self, side: str) -> int:
        """Of a row of it, as it lies there."""
        return self.tile_shape(side, self.orders[side])[-1] * self.element_bytes(side)

    @property
    def registers(self) -> MatmulRegisters:
        """Of a lane, as far as they can be foreseen."""
        return MatmulRegisters(self)

    @property
    def occupancy(self) -> Occupancy:
        """Of a core, as far as registers can be foreseen.

        Raises:
            TargetError: where not even one workgroup would fit.
        """
        return occupancy(
            self.chip,
            registers=min(self.registers.total, self.chip.max_registers),
            shared_memory_bytes=self.shared_memory_bytes,
            lanes=self.config.num_subgroups * self.mma.subgroup_size,
            subgroup_size=self.mma.subgroup_size,
        )

    def tile_shape(self, side: str, order: Ints | None = None) -> Ints:
        """The tile of ``lhs`` or ``rhs``, by default as it lies in global memory."""
        rows, columns, depth = self.tile
        own = (rows, depth) if side == "lhs" else (depth, columns)
        return tuple(own[dim] for dim in order or self.shape.order(side))

    def element_bytes(self, side: str) -> int:
        """Of an element of ``lhs`` or ``rhs``."""
        return dtype_bits(getattr(self.mma, side).dtype) // 8

    def memory_bits(self, side: str) -> int:
        """Of an element of ``lhs``, ``rhs`` or ``result`` in memory."""
        return DataType(self.shape.memory_dtype(side)).bits

    def shared_run(self, side: str) -> int:
        """The most elements that a lane of the copy writes to shared memory at once."""
        run = min(self.runs[side], WIDEST_ACCESS_BYTES // self.element_bytes(side))
        # CUDA has arithmetic on vectors of four elements at most.
        return min(run, 4) if self.converts(side) and self.chip.kind == "cuda" else run

    def written_run(self, side: str) -> int:
        """Elements that it writes at once where its tile lies."""
        widths = self.placements[side].widths
        narrowest = (
            widths[0] // self.element_bytes(side) if len(widths) > 1 else self.shared_run(side)
        )
        return min(self.shared_run(side), narrowest)

    def copy(self, side: str) -> NestedLayout:
        """The layout of the copy of an operand's tile, as it lies in global memory."""
        if side in self.direct:
            own: NestedLayout = getattr(self.layouts, side)
            return permute(own, (1, 0)) if self.transposes(side) else own
        make = transposing_layout if self.transposes(side) else copy_layout
        count, size = self.config.num_subgroups, self.mma.subgroup_size
        bits = self.memory_bits(side)
        return make(self.tile_shape(side), bits, count, size, run=self.runs[side])


def plan_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """Derive the layouts of a product and check them against the chip.

    Raises:
        ScheduleError: for a config that the chip or the shape cannot have, saying why.
    """
    plan = _placed(_laid_out(shape, target, config))
    if plan.shared_memory_bytes > plan.chip.shared_memory_bytes:
        plan = _placed(plan, padded=False)
    _check_memory(plan, plan.shared_memory_bytes)
    return plan


def check_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> None:
    """The checks of :func:`plan_matmul` without its search for placements, which takes longest.

    Raises:
        ScheduleError: as there.
    """
    plan = _laid_out(shape, target, config)
    if all(plan.row_bytes(side) % _alignment(plan, side) == 0 for side in config.promote):
        _check_memory(plan, plan.stages * sum(map(plan.tile_bytes, config.promote)))
    else:  # rows that must be padded, by as much as is found
        plan_matmul(shape, target, config)


def _laid_out(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """The plan but for the placements."""
    chip, mma = gpu_chip(target), mma_intrins(config.mma_kind).mma
    check_numbers(shape, target, mma, config)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    tile = (sm * tm * mma.m, sn * tn * mma.n, config.k_tiles * mma.k)
    orders = {side: _shared_order(shape, mma, side) for side in SIDES}
    lhs, rhs = (
        tuple(loops[dim] for dim in orders[side])
        for side, loops in zip(SIDES, ((0, 2), (2, 1)), strict=True)
    )
    layouts = contraction_layouts(
        mma, "mnk", tile, (sm, sn, 1), lhs=lhs, rhs=rhs, column_major=config.column_major
    )
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
        if mma.vendor == "nvidia" and ldmatrix_form(operand, orders[side]) is not None:
            ldmatrix.add(side)
    widest = max(dtype_bits(mma.c), plan.memory_bits("result"), shape.epilogue_bits)
    runs["result"] = vector_elements(widest, plan.layouts.acc.element_tile[-1], shape.row("result"))
    plan = replace(plan, runs=runs, ldmatrix=frozenset(ldmatrix))
    _check_registers(plan)
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
    """Of each ``run`` batches along a dim, an element each, with neighbours in a lane."""

    def scaled(tile: Ints, to: int) -> Ints:
        return (*tile[:dim], to, *tile[dim + 1 :])

    return replace(
        layout,
        batch_tile=scaled(layout.batch_tile, layout.batch_tile[dim] // run),
        element_tile=scaled(layout.element_tile, layout.element_tile[dim] * run),
    )


def _shared_order(shape: MatmulShape, mma: Mma, side: str) -> Ints:
    """The order in which a lane's run of K is contiguous.

    ``ldmatrix`` transposes elements of 16 bits itself.
    """
    operand, order = getattr(mma, side), shape.order(side)
    along_k = operand.dims.index("K")
    if order[-1] == along_k or operand.element[along_k] == 1 or dtype_bits(operand.dtype) >= 32:
        return order
    if mma.vendor == "nvidia" and dtype_bits(operand.dtype) > 8:
        return order
    return order[::-1]


def _check_registers(plan: MatmulPlan) -> None:
    chip, most = plan.chip, 8 if plan.asynchronous else 2
    if not 1 <= plan.config.stages <= most:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {plan.config.stages} stages; expected 1 to {most},"
            f" as the copies are {'' if plan.asynchronous else 'not '}asynchronous"
        )
    resident = -(-plan.config.num_subgroups // chip.simds_per_core)
    held = min(chip.max_registers, chip.register_file // resident)
    if plan.registers.total > held:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {plan.registers.fragments} registers of a lane for"
            f" fragments; {chip.name} has {held}, of which {plan.registers.others} are for the rest"
        )


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
    """What a lane writes at once."""
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
    """What ``ldmatrix`` reads at once: 8 rows of 16 bytes, by 8 lanes."""
    steps = (shape[0] // 8, shape[1] // run)
    return NestedLayout((1, 1), steps, (1, 1), (8, 1), (1, run), (0, 0), (1, 0))
