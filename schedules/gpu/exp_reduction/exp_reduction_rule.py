"""The GPU rule for exp_reduction: a kernel for the maximum, and one for each output.

Of few elements of many keys, each takes two: parts of the keys, and what these come to.
"""

from dataclasses import dataclass

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, number
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.exp_reduction.exp_reduction_kernels import (
    ExpReductionKernels,
    Shape,
)
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands
from tvm_iree_ext.schedules.shared.exp_reduction_plan import ReductionPlan
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_COLUMNS = 4  # of a lane: a weight is computed once for them
_LEAST_STEPS = 16  # of a lane, that are worth a workgroup and another kernel
_FEW = 2  # elements of an output for each lane of the chip's cores, at most


@dataclass(frozen=True)
class GpuExpReductionConfig(RuleConfig):
    """Subgroups with elements of their own, and those that share keys; a lane's columns.

    Attributes:
        lanes: of a subgroup, that share an element's keys.
        steps: the fewest of a workgroup along the keys, where others share them.
        workgroups: how many share an output's keys, where it has fewer elements; 0 for one each.
    """

    elements: int = number("subgroups.elements")
    keys: int = number("subgroups.keys")
    columns: int = number("register_tile.columns", 8)
    lanes: int = number("vector_lanes", power_of_two=True)
    steps: int = number("reduction_tile.keys", optional=True)
    workgroups: int = number("workgroups", least=0)


class GpuExpReduction(GpuRule):
    """exp_reduction on NVIDIA's and AMD's GPUs."""

    name = "gpu.exp_reduction"
    lowers = ExpReduction

    def heuristic(self, op: ExpReduction, target: Target) -> LoweringConfig:
        """Lanes along keys where scores lie so; subgroups share keys where outputs are few."""
        size, plan = subgroup_size(target), ReductionPlan(op)
        keys, rows = plan.count(plan.keys), plan.count(plan.rows)
        lanes = size
        while keys is not None and lanes > 1 and lanes >= 2 * keys:
            lanes //= 2
        chip = gpu_chip(target)
        cores, resident = chip.parts[0].cores, chip.simds_per_core * chip.subgroups_per_simd
        few = rows is not None and rows < _FEW * _SUBGROUPS * cores
        long = keys is None or keys >= 2 * _SUBGROUPS * size
        parts = _SUBGROUPS if long and (few or (rows is None and keys is not None)) else 1
        sharing = few or rows is None
        sharing = sharing and (keys is None or keys >= 2 * _SUBGROUPS * _LEAST_STEPS)
        return GpuExpReductionConfig(
            "outputs",
            elements=_SUBGROUPS // parts,
            keys=parts,
            columns=_COLUMNS,
            lanes=lanes,
            steps=_LEAST_STEPS if sharing else 0,
            workgroups=cores * resident // _SUBGROUPS if sharing else 0,
        ).lowering()

    def lower(self, op: ExpReduction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check, size = self.check(config), subgroup_size(target)
        typed = GpuExpReductionConfig.parse(check, "outputs")
        most, count = gpu_chip(target).max_lanes // size, typed.elements * typed.keys
        check.expect(count <= most, "subgroups", count, f"at most {most}")
        check.power_of_two("vector_lanes", typed.lanes, most=size)
        subgroups = (typed.elements, typed.keys)
        shared = typed.steps > 0 or not typed.workgroups
        typed.expect(check, "workgroups", shared, "0 without reduction_tile['keys']")
        shape = Shape(
            target.kind.name, size, subgroups, typed.lanes, typed.columns, typed.steps,
            typed.workgroups,
        )  # fmt: skip
        plan = ReductionPlan(op)
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_attr({EXACT_BUFFERS: True})
            parameters = ReductionOperands.declare(op, plan)
            ExpReductionKernels(ReductionOperands.of(op, plan, parameters), shape).emit()
        return ir.IRModule({op.entry: builder.get()})
