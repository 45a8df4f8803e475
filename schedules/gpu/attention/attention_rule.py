"""The GPU rule for attention and online attention: one kernel for both vendors.

Scores, softmax and output stay in registers; what differs from chip to chip is the row of the MMA
table, and what follows from it (:mod:`.attention_plan`).
"""

from dataclasses import replace

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.attention.attention_config import (
    ALGORITHM,
    WARPGROUP_ALGORITHM,
    GpuAttentionConfig,
)
from tvm_iree_ext.schedules.gpu.attention.attention_heuristic import attention_config
from tvm_iree_ext.schedules.gpu.attention.attention_kernel import attention_kernel
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_planning import plan_attention
from tvm_iree_ext.schedules.gpu.attention.attention_products import first_kinds
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    chosen_warpgroups,
    plan_warpgroups,
)
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup_kernel import warpgroup_attention
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.products.multiplied_types import foreign_type
from tvm_iree_ext.schedules.shared.attention_operands import dynamic_columns
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size


class GpuAttention(GpuRule):
    """Attention on NVIDIA's and AMD's GPUs, by the online softmax over tiles of keys."""

    name = "gpu.attention"
    lowers = Attention

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if (reason := super().applies(op, target)) is not None or not isinstance(op, Attention):
            return reason
        if (reason := dynamic_columns(op)) is not None:
            return reason
        factors = [op.types[name].dtype for name in ("query", "key", "value")]
        if (reason := foreign_type(factors, target)) is not None:
            return reason
        try:
            attention_config(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Attention, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy; by warpgroups, if not by parts."""
        return self.usual(op, target).lowering()

    def usual(self, op: Attention, target: Target) -> GpuAttentionConfig:
        """The heuristic's config."""
        config = attention_config(op, target)
        return (chosen_warpgroups(op, target) if config.splits == 1 else None) or config

    def space(self, op: Attention, target: Target) -> TuningSpace:
        """Instructions, rows of a workgroup, keys of a step, where the query is, parts of keys."""
        best, usual = self.usual(op, target), attention_config(op, target)
        choice = GpuAttentionConfig.choice
        chip, size = gpu_chip(target), subgroup_size(target)
        rows = None if any(isinstance(op.extents[d], str) for d in op.dims["m"]) else op.count("m")
        columns = op.count("n")
        forms = []
        if best.algorithm != ALGORITHM:
            forms.append(form(best.lowering(), choice("stages", (2, 3))))
        for kind in first_kinds(chip, size, op, rows):
            other = replace(
                usual,
                mma_kind=kind.name,
                rows=usual.subgroups * kind.m,
                column_major=kind.column_major,
            )
            forms.append(
                form(
                    (usual if usual.mma_kind == kind.name else other).lowering(),
                    choice("subgroups", (1, 2, 4, 8)),
                    choice("rows", (kind.m, 2 * kind.m, 4 * kind.m), ("subgroups",)),
                    choice("columns", tuple({columns, -(-columns // 2), 64, 128})),
                    choice("keys", (16, 32, 64, 128, 256)),
                    choice("promote", ((), ("query",))),
                    choice("splits", (1, 2, 3, 4, 6, 8, 12, 16, 32)),
                )
            )

        def refused(config: LoweringConfig) -> str | None:
            def plan() -> None:
                self.plan(op, target, config)

            return refusal(plan)

        return TuningSpace.of(best.lowering(), forms, refused)

    def plan(self, op: Attention, target: Target, config: LoweringConfig) -> AttentionPlan:
        """What a kernel's workgroup is made of; of one by warpgroups, its warps.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        typed = _parsed(self.check(config))
        if typed.algorithm == WARPGROUP_ALGORITHM:
            return plan_warpgroups(op, target, typed).plan
        return plan_attention(op, target, typed)

    def lower(self, op: Attention, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        typed = _parsed(self.check(config))
        if typed.algorithm == WARPGROUP_ALGORITHM:
            func = warpgroup_attention(plan_warpgroups(op, target, typed))
        else:
            func = attention_kernel(plan_attention(op, target, typed))
        return ir.IRModule({op.entry: func})


def _parsed(check: ConfigCheck) -> GpuAttentionConfig:
    """A config's numbers.

    Raises:
        ScheduleError: for numbers that no kernel has.
    """
    typed = GpuAttentionConfig.parse(check, ALGORITHM, WARPGROUP_ALGORITHM)
    if typed.algorithm == ALGORITHM:
        typed.expect(check, "promote", set(typed.promote) <= {"query"}, "query, or nothing")
    return typed
