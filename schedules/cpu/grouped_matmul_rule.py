"""The CPU rule for grouped products: the contraction's blocks, of rows of one group.

for tiles of rows of a group, blocks of n (a task):
    the group of the tile, by halving; which of its rows
    a block of the contraction of that group
"""

from dataclasses import dataclass, replace

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul import G, GroupedMatmul, K, M, N
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import PANELS, ContractionConfig
from tvm_iree_ext.schedules.cpu.contraction.contraction_heuristic import (
    neighbour_products,
    panels_config,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_panels import PanelLoops
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_rule import panel_loops, parse_panels
from tvm_iree_ext.schedules.emit import held_index, i64, serial
from tvm_iree_ext.schedules.shared.grouped_rows import GroupedRows
from tvm_iree_ext.targets.cpu import cpu_features

_FEW_ROWS = 16  # of a group on average: what is packed for them serves too few


@dataclass(frozen=True)
class GroupedPlan(ContractionPlan):
    """The contraction of all groups with all rows, of which tasks are of one group.

    Its dims are those of the op, and of rows only a task knows how many it has.
    """

    m = M
    n = N
    slabs = (G,)
    depth = (K,)
    swapped = False

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Each dim by itself."""
        return ((G,), (M,), (N,), (K,))

    @property
    def maps(self) -> dict[str, IndexingMap]:
        """Maps of the op."""
        return dict(self.op.maps)

    def extent(self, dim: int | None) -> int | None:
        """Extent of a dim; None for rows."""
        return None if dim == M else super().extent(dim)


class CpuGroupedMatmul(CpuRule):
    """Grouped products on an LLVM CPU target."""

    name = "cpu.grouped_matmul"
    lowers = GroupedMatmul

    def usual(self, op: GroupedMatmul, target: Target) -> ContractionConfig:
        """The contraction's for an unknown number of rows; little is packed for few of them."""
        plan = GroupedPlan(op.full)
        features = cpu_features(target)
        parallel = self.is_large(op)
        config = panels_config(plan, features, parallel)
        rows, groups = plan.count((M,)), plan.count((G,))
        if rows is None or groups is None:
            return config
        each = -(-rows // groups)
        height = min(config.block_m, -(-each // 2) * 2)
        config = replace(config, block_m=-(-height // config.rows) * config.rows)
        whole = plan.lies_along("rhs", [N]) and (plan.extent(N) or 1) % config.lanes == 0
        few = each <= _FEW_ROWS and whole and config.algorithm == PANELS
        if few and config.block_n % config.tile.width == 0:
            return replace(config, promote=("lhs",))
        return config

    def parse(self, op: GroupedMatmul, target: Target, config: LoweringConfig) -> ContractionConfig:
        """The rule's numbers in a config."""
        return parse_panels(GroupedPlan(op.full), self.check(config), cpu_features(target))

    def kernel(self, op: GroupedMatmul, target: Target, config: ContractionConfig) -> tirx.PrimFunc:
        """The function of ``op``."""
        plan = GroupedPlan(op.full)
        factors = neighbour_products(plan, cpu_features(target)).get(config.algorithm)
        with IRBuilder() as builder, I.prim_func():
            operands = ContractionOperands(plan, op, without=(G,))
            loops = panel_loops(plan, operands, config, factors)
            with loops.declared():
                _tasks(op, operands, loops)
        return builder.get()


def _tasks(op: GroupedMatmul, operands: ContractionOperands, loops: PanelLoops) -> None:
    offsets = operands.buffers["offsets"]
    groups, rows, columns, _ = operands.space.extents
    tiles = GroupedRows(rows, groups, loops.block_m, lambda group: offsets[group], "int64")
    blocks = emit.ceil_div(columns, loops.block_n)
    loop = I.parallel if loops.config.parallel else I.serial
    with loop(i64(0), i64(tiles.tiles) * i64(blocks)) as task:
        tile = I.Bind(task // i64(blocks))
        group = _group(tiles, tile)
        first, end = tiles.range(group, tile)
        first = i64(held_index(first))
        count = held_index(emit.smaller(loops.block_m, end - first))
        column = i64(held_index(task % i64(blocks) * loops.block_n))
        wide = emit.part(emit.smaller(loops.block_n, columns), columns, column)
        with I.If(i64(count) > i64(0)), I.Then(), I.If(group < i64(groups)):
            with I.Then():
                slab = {**operands.origin, G: group}
                loops.task(slab, first, count, column, wide)
            with I.Else():
                _clear(operands, first, count, column, wide)


def _group(tiles: GroupedRows, tile: emit.Expr) -> emit.Expr:
    """The group of a tile."""
    found = emit.registers(1, "int64")
    at = [i64(0)]
    I.buffer_store(found, i64(0), at)
    with serial(tiles.halvings) as number:
        step = i64(1) << (i64(tiles.halvings - 1) - number)
        I.buffer_store(found, tiles.halved(found[i64(0)], step, tile), at)
    return I.Bind(found[i64(0)])


def _clear(operands: ContractionOperands, *block: emit.Index) -> None:
    """Zeros for rows of no group."""
    first, count, column, wide = block
    view = operands.views["result"]
    with serial(count) as i, serial(wide) as j:
        at = {**operands.origin, M: i64(first) + i, N: i64(column) + j}
        view.store(at, emit.cast(i64(0), view.dtype))
