"""A workgroup's part of attention: its outer dims, its rows and those of its lanes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.emit import Index
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes, wide
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import known


@dataclass(frozen=True)
class WorkgroupPlace:
    """A workgroup's part of the op, while its kernel is emitted.

    Attributes:
        plan: of the kernel.
        operands: of the function.
        lanes: of the workgroup.
        outer: the values of the dims that are of the grid.
        row_dims: those that rows run along, of which there are ``row_count``.
        first_row, first_column: of the workgroup.
        key_count: of the keys that its rows may see.
    """

    plan: AttentionPlan
    operands: AttentionOperands
    lanes: WorkgroupLanes
    outer: dict[int, Any]
    row_dims: Ints
    row_count: Index
    first_row: Any
    first_column: Any
    key_count: Index

    @property
    def op(self) -> Attention:
        """What is computed."""
        return self.plan.op

    @cached_property
    def whole_rows(self) -> bool:
        """Whether all rows of all workgroups exist."""
        count = known(self.row_count)
        return count is not None and count % self.plan.rows == 0

    def row(self, tile: int, slot: int) -> Any:
        """The row of a lane's slot in a row tile; it need not exist."""
        plan = self.plan
        subgroup = np.arange(plan.subgroups)[:, None] * plan.row_tiles * plan.first.m
        held = plan.score_rows.held[None, :, slot]
        return self.first_row + wide(self.lanes.table(subgroup + tile * plan.first.m + held))

    def at_row(self, row: Any) -> dict[int, Any]:
        """The values of the dims at a row."""
        return {**self.outer, **self.operands.space.spread(row, self.row_dims)}
