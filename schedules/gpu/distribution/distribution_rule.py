"""The GPU rules for ops that distribute a vector over lanes, gather it, or change who holds it."""

from typing import Any

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.distribution.distribution import Distribution
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.gpu.distribution.held_vector import (
    HeldVector,
    emit_to_layout,
    usual_subgroups,
)
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.targets.mma.operand_layouts import named_mma, why_not_held

_BY_LAYOUT = "by_layout"


class GpuDistribution(ElementMoves):
    """``to_simt`` and ``to_simd`` on GPUs."""

    name = "gpu.distribution"
    lowers = Distribution


class GpuToLayout(ElementMoves):
    """``to_layout`` on GPUs: a copy, or where it says how, a way from layout to layout."""

    name = "gpu.to_layout"
    lowers = ToLayout

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, ToLayout)
        try:
            mma = named_mma(op.mma_kind)
        except TargetError as error:
            return str(error)
        if mma is not None and (why := why_not_held(mma, op.layout)):
            return why
        return refusal(lambda: self._held(op, target)) if op.moves_between_lanes else None

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """A lane for each element, or a workgroup that holds the layout."""
        assert isinstance(op, ToLayout)
        return self._held(op, target) if op.moves_between_lanes else super().heuristic(op, target)

    def space(self, op: Op, target: Target) -> TuningSpace:
        """Fewer or more subgroups, as far as they can hold the layout."""
        assert isinstance(op, ToLayout)
        if not op.moves_between_lanes:
            return super().space(op, target)
        config, size = self.heuristic(op, target), subgroup_size(target)
        counts = powers_of_two(size, min(1024, gpu_chip(target).max_lanes))

        def refused(config: LoweringConfig) -> str | None:
            return refusal(lambda: self._vector(op, target, config))

        return TuningSpace((form(config, LaneConfig.choice("lanes", counts)),), refused)

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        assert isinstance(op, ToLayout)
        if not op.moves_between_lanes:
            return super().lower(op, target, config)
        vector = self._vector(op, target, config)
        with IRBuilder() as builder, I.prim_func():
            emit_to_layout(op, vector, target.kind.name)
        return ir.IRModule({op.entry: builder.get()})

    def _held(self, op: ToLayout, target: Target) -> LoweringConfig:
        """The usual config.

        Raises:
            ScheduleError: where no workgroup of the target can hold the layouts.
        """
        size = subgroup_size(target)
        count = usual_subgroups(op, size, gpu_chip(target).max_lanes)
        config = LaneConfig(_BY_LAYOUT, lanes=count * size).lowering()
        self._vector(op, target, config)
        return config

    def _vector(self, op: ToLayout, target: Target, config: LoweringConfig) -> HeldVector:
        check = self.check(config)
        lanes: Any = LaneConfig.parse(check, _BY_LAYOUT)
        shape = lanes.workgroup(check, target)
        return HeldVector.of(op, (shape.subgroups, shape.size), gpu_chip(target))
