"""Tiled matrix product on matrix instructions, derived from layouts alone.

    before:  for m, n, k: accumulator[m, n] += lhs[m, k] * rhs[k, n]
    after:   for tile of rows, of columns in blockIdx:
                 for subgroup in threadIdx.y:
                     accumulator fragments = 0
                     for tile of k:
                         all lanes copy the tiles of lhs and rhs to shared memory
                         for instruction along k:
                             load the fragments of its lhs and rhs
                             for instruction along m, n: multiply
                     each lane stores what it holds of the accumulator, as far as the result reaches

Everything follows from the layouts of the instruction's operands: which subgroup has which rows and
columns, the order of registers, how the tiles lie in shared memory, who stores what.  One rule for
all chips: what differs is a row of the MMA table and of the chips' limits.
"""

from dataclasses import replace
from typing import Any

from tvm import DataType, s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.intrin.tensor_intrins import MmaIntrins, mma_intrins
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.schedules.gpu.products.matmul_blocks import MatmulBlocks, TilePlan, shared_name
from tvm_iree_ext.schedules.gpu.products.matmul_plan import MatmulPlan
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_registers import MatmulRegisters
from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    SIDES,
    CopiedOperands,
    MatmulOperands,
    MatmulShape,
    PlainOperands,
)
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.schedules.gpu.products.padded_operands import PaddedOperands
from tvm_iree_ext.schedules.gpu.products.stream_k_blocks import SharedOutBlocks
from tvm_iree_ext.schedules.gpu.sblocks.elementwise import schedule_elementwise_block
from tvm_iree_ext.schedules.gpu.sblocks.fragments import into_fragments, tensorize_tiles
from tvm_iree_ext.schedules.gpu.sblocks.launch_bounds import with_least_workgroups
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import distribute, vector_elements


def schedule_matmul(
    shape: MatmulShape,
    target: Target,
    config: MatmulConfig,
    operands: MatmulOperands | None = None,
    form: type[MatmulBlocks] = MatmulBlocks,
) -> tirx.PrimFunc:
    """The product scheduled for a GPU, by default of three matrices.

    ``form`` are the blocks of a product that is not of whole matrices.

    Raises:
        ScheduleError: as :func:`plan_matmul`.
    """
    plan = plan_matmul(shape, target, config)
    operands = operands or PlainOperands(shape)
    if config.pad:
        operands = PaddedOperands(operands, plan.shape)
    tiles = TilePlan(
        plan.tile, plan.runs, plan.scope, plan.orders, plan.through_registers, plan.direct,
        config.splits,
    )  # fmt: skip
    blocks = form(operands, tiles)
    if config.workgroups:
        blocks = SharedOutBlocks(operands, tiles, config.workgroups)
    sch = s_tir.Schedule(blocks.func())
    _Scheduling(sch, plan, blocks).run()
    if blocks.merges:
        schedule_elementwise_block(sch, "merged", target, run=plan.runs["result"])
    for name in operands.copied_first if isinstance(operands, CopiedOperands) else ():
        schedule_elementwise_block(sch, name, target, run=1)
    swizzles = {
        shared_name(side): one.placement.swizzle
        for side, one in plan.placements.items()
        if one.placement.swizzle is not None
    }
    func = with_swizzles(sch.mod["main"], swizzles) if swizzles else sch.mod["main"]
    # Not as a schedule: to make one TVM looks at all accesses, 18 s for an open number of rows.
    count = _limited_workgroups(plan)
    return func if count is None else with_least_workgroups(func, "result", count)


def _limited_workgroups(plan: MatmulPlan) -> int | None:
    """The workgroups of a core, where ``ptxas`` would save registers for more, and rather spill.

    That is where shared memory has room for fewer, since it knows nothing of what a launch asks
    for; and, without matrix instructions, where addresses of rows whose length is known at call
    time take registers beside the sums.
    """
    if plan.chip.kind != "cuda":
        return None
    try:
        found = MatmulRegisters(plan).occupancy
    except TargetError:  # registers that only ptxas can save
        return None
    open_sums = plan.mma.kind == "fma" and any(map(plan.shape.has_open_rows, SIDES))
    limited = found.limit == "shared memory" or open_sums
    return found.workgroups_per_core if limited else None


class _Scheduling:
    def __init__(self, sch: s_tir.Schedule, plan: MatmulPlan, blocks: MatmulBlocks) -> None:
        self.sch, self.plan, self.blocks = sch, plan, blocks
        self.intrins: MmaIntrins = mma_intrins(plan.mma.name, column_major=plan.config.column_major)
        self.product = sch.get_sblock("product")

    def run(self) -> None:
        sch, plan, mma = self.sch, self.plan, self.plan.mma
        (sm, sn), (tm, tn) = plan.config.subgroups, plan.config.tiles
        self._by_instructions()
        i, j, k = sch.get_loops(self.product)
        i_grid, i_subgroup, i_tile, i_in = sch.split(i, [None, sm, tm, mma.m])
        j_grid, j_subgroup, j_tile, j_in = sch.split(j, [None, sn, tn, mma.n])
        k_step, k_tile, k_in = sch.split(k, [None, plan.config.k_tiles, mma.k])
        sch.reorder(
            i_grid, j_grid, i_subgroup, j_subgroup, k_step, k_tile, i_tile, j_tile, i_in, j_in, k_in
        )
        self.blocks.bind(sch, i_grid, j_grid)
        subgroup = self._subgroups(i_subgroup, j_subgroup)
        fragments = {
            side: sch.cache_read(self.product, at, "local")
            for at, side in enumerate(SIDES)
            if side not in plan.direct
        }
        for side in SIDES:
            if side in fragments:
                # Of two tiles in shared memory, one is read while products of another are issued.
                sch.compute_at(fragments[side], k_step if plan.by_turns else k_tile)
            self._stage(side, k_step)
        self._store(subgroup)
        fill = sch.decompose_reduction(self.product, k_step)
        for side in SIDES:
            block = fragments.get(side) or sch.get_sblock(f"{side}_tile")
            into_fragments(sch, block, self.intrins, side, plan.orders[side], plan.interleave)
        into_fragments(sch, self.product, self.intrins, "acc", interleave=plan.interleave)
        for side, block in fragments.items():
            self._load(side, block)
        fill_loops = sch.get_loops(fill)[-4:]
        # A step of lanes' own multiply-adds is code enough.
        steps = () if mma.kind == "fma" else (k_tile,)
        for loop in (*fill_loops[:2], *steps, i_tile, j_tile):
            sch.unroll(loop)
        self._pipeline(k_step)
        sch.tensorize(fill_loops[2], self.intrins.fill())
        sch.tensorize(i_in, self.intrins.multiply())

    def _by_instructions(self) -> None:
        """Count columns as instructions have them, where those of a lane lie side by side."""
        run, width = self.plan.interleave, self.plan.mma.n

        def counted(i: Any, j: Any, k: Any) -> list[Any]:
            return [i, j // (run * width) * (run * width) + j % run * width + j // run % width, k]

        if run > 1:
            self.sch.transform_block_layout(self.product, counted)

    def _pipeline(self, k_step: Any) -> None:
        """Copy the tiles of coming steps while one is multiplied."""
        stages = self.plan.config.stages
        if stages == 1:
            return
        if not self.plan.through_registers:  # both copies, the product
            stage, order = [0, 0, stages - 1], [0, 1, 2]
            self.sch.annotate(k_step, "software_pipeline_async_stages", [0])
        else:  # for each operand, into registers and on to shared memory; the product
            last = stages - 1
            reads = [last] if self.plan.by_turns else []  # fragments, where they are read apart
            stage = []
            for side in SIDES:
                stage += [*[0] * len(self.plan.shape.read(side)), 1, *reads]
            # In the order of time: on to shared memory, into registers, the product.
            turns = sorted(range(len(stage)), key=lambda at: (stage[at] > 1, -stage[at]))
            order = [*(turns.index(at) for at in range(len(turns))), len(turns)]
            stage.append(last)
        self.sch.annotate(k_step, "software_pipeline_stage", stage)
        self.sch.annotate(k_step, "software_pipeline_order", order)

    def _subgroups(self, *loops: Any) -> Any:
        """One loop over the workgroup's subgroups, in the order of the accumulator's strides."""
        strides = self.plan.layouts.acc.subgroup_strides
        order = sorted(range(len(loops)), key=lambda dim: -strides[dim])
        self.sch.reorder(*[loops[dim] for dim in order])
        subgroup = self.sch.fuse(*[loops[dim] for dim in order])
        self.sch.bind(subgroup, "threadIdx.y")
        return subgroup

    def _stage(self, side: str, at: Any) -> None:
        """All lanes copy an operand's tile to shared memory, or each what it multiplies."""
        sch, plan = self.sch, self.plan
        block, prologue = sch.get_sblock(f"{side}_tile"), plan.shape.prologue(side)
        layout = plan.copy(side)
        count: int | None = plan.config.num_subgroups
        if direct := side in plan.direct:  # of its subgroup
            layout, count = replace(layout, subgroup_tile=(1, 1), subgroup_strides=(0, 0)), None
        parts = [(block, permute(layout, (1, 0)) if plan.transposes(side) else layout)]
        together = layout.element_tile[-1]
        runs = [together if direct else plan.written_run(side)]
        if side in plan.through_registers:
            for name, dtype in plan.shape.read(side).items():
                parts.append((sch.get_sblock(f"{name}_registers"), layout))
                apart = prologue is not None and name in prologue.apart
                at_once = 1 if apart else vector_elements(DataType(dtype).bits, together)
                runs.append(min(together, at_once))
        for (part, its), run in zip(parts, runs, strict=True):
            sch.compute_at(part, at)
            loops = sch.get_loops(part)[-2:]
            distribute(
                sch, part, its, count, plan.mma.subgroup_size,
                loops=loops, grid=False, vector=run, replicas="all" if direct else "first",
            )  # fmt: skip
        if direct:
            return
        placement, size = plan.placements[side].placement, plan.element_bytes(side)
        row, pad = placement.shape[-1], placement.pad_bytes // size
        if rows := placement.block_rows:
            sch.transform_layout(block, ("write", 0), lambda i, j: [i // rows, i % rows, j])
            block_pad = placement.block_pad_bytes // size
            sch.storage_align(block, 0, axis=-3, factor=rows * (row + pad), offset=block_pad)
        if pad:  # that much modulo twice as much, since padding may be more than a row
            sch.storage_align(block, 0, axis=-2, factor=2 * (row + pad), offset=row + pad)

    def _load(self, side: Any, block: Any) -> None:
        order = self.plan.orders[side]
        placement = self.plan.placements[side].placement
        pitch = placement.shape[-1] * placement.element_bytes + placement.pad_bytes
        apart = pitch | placement.block_pad_bytes
        widest = min(WIDEST_ACCESS_BYTES, apart & -apart)
        if placement.swizzle is not None:
            widest = min(widest, placement.swizzle.access_elements * placement.element_bytes)
        name = self.intrins.load(
            side,
            self.plan.scope,
            order=order,
            ldmatrix=side in self.plan.ldmatrix,
            widest_bytes=widest,
        )
        tile = self.intrins.tile(side)
        extents = tuple(tile[dim] for dim in order)
        tensorize_tiles(self.sch, self.sch.get_loops(block)[-2:], extents, name)

    def _store(self, subgroup: Any) -> None:
        """Each lane stores its part of the accumulator."""
        sch, layout = self.sch, self.plan.layouts.acc
        block = sch.get_sblock("result")
        sch.reverse_compute_at(block, subgroup)
        one = replace(layout, subgroup_tile=(1, 1), subgroup_strides=(0, 0))
        loops, run = sch.get_loops(block)[-2:], self.plan.runs["result"]
        distribute(
            sch, block, one, None, self.plan.mma.subgroup_size,
            loops=loops, grid=False, vector=run,
        )  # fmt: skip
