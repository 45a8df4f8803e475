"""The GPU rule for attention and online attention: one kernel for both vendors.

Scores, softmax and output stay in registers; what differs from chip to chip is the row of the MMA
table, and what follows from it (:mod:`.attention_plan`).
"""

from dataclasses import replace

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.attention.attention_heuristic import ALGORITHM, attention_config
from tvm_iree_ext.schedules.gpu.attention.attention_kernel import attention_kernel
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_planning import plan_attention
from tvm_iree_ext.schedules.gpu.attention.attention_products import first_kinds
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    WARPGROUP_ALGORITHM,
    chosen_warpgroups,
    plan_warpgroups,
)
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup_kernel import warpgroup_attention
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
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
        try:
            attention_config(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Attention, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy; by warpgroups, if not by parts."""
        config = attention_config(op, target)
        return (chosen_warpgroups(op, target) if config.splits == 1 else None) or config

    def space(self, op: Attention, target: Target) -> TuningSpace:
        """Instructions, rows of a workgroup, keys of a step, where the query is, parts of keys."""
        best, usual = self.heuristic(op, target), attention_config(op, target)
        chip, size = gpu_chip(target), subgroup_size(target)
        rows = None if any(isinstance(op.extents[d], str) for d in op.dims["m"]) else op.count("m")
        columns = op.count("n")
        forms = [form(best, Choice("stages", (2, 3)))] if best.algorithm != ALGORITHM else []
        for kind in first_kinds(chip, size, op, rows):
            tile = {"m": usual.subgroups["m"] * kind.m, "n": usual.workgroup_tile["n"]}
            other = replace(
                usual, mma_kind=kind.name, workgroup_tile=tile, column_major=kind.column_major
            )
            forms.append(
                form(
                    usual if usual.mma_kind == kind.name else other,
                    Choice("subgroups.m", (1, 2, 4, 8)),
                    Choice("workgroup_tile.m", (kind.m, 2 * kind.m, 4 * kind.m), ("subgroups.m",)),
                    Choice("workgroup_tile.n", tuple({columns, -(-columns // 2), 64, 128})),
                    Choice("reduction_tile.k2", (16, 32, 64, 128, 256)),
                    Choice("promote", ((), ("query",))),
                    Choice("splits", (1, 2, 3, 4, 6, 8, 12, 16, 32)),
                )
            )

        def refused(config: LoweringConfig) -> str | None:
            def plan() -> None:
                self.plan(op, target, config)

            return refusal(plan)

        return TuningSpace.of(best, forms, refused)

    def plan(self, op: Attention, target: Target, config: LoweringConfig) -> AttentionPlan:
        """What a kernel's workgroup is made of; of one by warpgroups, its warps.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(self.check(config))
        if config.algorithm == WARPGROUP_ALGORITHM:
            return plan_warpgroups(op, target, config).plan
        return plan_attention(op, target, config)

    def lower(self, op: Attention, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(self.check(config))
        if config.algorithm == WARPGROUP_ALGORITHM:
            func = warpgroup_attention(plan_warpgroups(op, target, config))
        else:
            func = attention_kernel(plan_attention(op, target, config))
        return ir.IRModule({op.entry: func})


def _check(check: ConfigCheck) -> None:
    """Raise ScheduleError for numbers that no kernel has."""
    config = check.config
    algorithm = check.algorithm(ALGORITHM, WARPGROUP_ALGORITHM)
    for field, role in (("workgroup_tile", "m"), ("workgroup_tile", "n"), ("reduction_tile", "k2"),
                        ("subgroups", "m")):  # fmt: skip
        check.tile(field, role)
    check.splits()
    if algorithm == ALGORITHM:
        promoted = set(config.promote)
        check.expect(promoted <= {"query"}, "promote", config.promote, "query, or nothing")
