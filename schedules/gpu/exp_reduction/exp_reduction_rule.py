"""The GPU rule for exp_reduction: a kernel for the maximum, and one for each output."""

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction
from tvm_iree_ext.schedules.base.config import LoweringConfig
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
_FEW = 2  # elements of an output for each lane of the chip's cores, at most


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
        cores = gpu_chip(target).parts[0].cores
        few = rows is not None and rows < _FEW * _SUBGROUPS * cores
        long = keys is None or keys >= 2 * _SUBGROUPS * size
        parts = _SUBGROUPS if few and long else 1
        return LoweringConfig(
            algorithm="outputs",
            register_tile={"columns": _COLUMNS},
            subgroups={"elements": _SUBGROUPS // parts, "keys": parts},
            vector_lanes=lanes,
        )

    def lower(self, op: ExpReduction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check, size = self.check(config), subgroup_size(target)
        check.algorithm("outputs")
        subgroups = tuple(check.tile("subgroups", role) for role in ("elements", "keys"))
        most = gpu_chip(target).max_lanes // size
        count = subgroups[0] * subgroups[1]
        check.expect(count <= most, "subgroups", count, f"at most {most}")
        columns = check.tile("register_tile", "columns", 8)
        lanes = check.lanes(most=size)
        shape = Shape(target.kind.name, size, (subgroups[0], subgroups[1]), lanes, columns)
        plan = ReductionPlan(op)
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            parameters = ReductionOperands.declare(op, plan)
            ExpReductionKernels(ReductionOperands.of(op, plan, parameters), shape).emit()
        return ir.IRModule({op.entry: builder.get()})
