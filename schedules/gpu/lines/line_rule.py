"""The base of GPU rules for ops along lines: the heuristic's config and the tuning space."""

from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.lines.line_config import line_config, line_space
from tvm_iree_ext.schedules.gpu.lines.line_plan import LineShape


class LineRule(GpuRule):
    """A rule for an op whose lines are each walked along by lanes, or by one where order counts."""

    def lines(self, op: Any) -> LineShape:
        """The op's lines; each rule has its own."""
        raise NotImplementedError

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """Lines shared by lanes where the op allows, on all cores."""
        return line_config(self.lines(op), target)

    def space(self, op: Any, target: Target) -> TuningSpace:
        """What a line's sharing leaves open."""
        return line_space(self.lines(op), target, self.check)
