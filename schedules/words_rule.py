"""A rule for ops whose elements TVM does not know as numbers: lowers the op over their words."""

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.tir.tensor_scalars import with_wide_scalars_in_memory


@dataclass(frozen=True)
class InWords:
    """A rule that takes an op for the one over its elements' words."""

    rule: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def applies(self, op: Op, target: Target) -> str | None:
        """As the rule says of words."""
        reason: str | None = self.rule.applies(op.in_words, target)
        return reason

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """The rule's, of words."""
        config: LoweringConfig = self.rule.heuristic(op.in_words, target)
        return config

    def space(self, op: Op, target: Target) -> TuningSpace:
        """The rule's, of words."""
        space: TuningSpace = self.rule.space(op.in_words, target)
        return space

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The rule's module, of words; those that no call passes by value are read from memory.

        Raises:
            ScheduleError: as the rule.
        """
        module: ir.IRModule = self.rule.lower(op.in_words, target, config)
        variable = module.get_global_var(op.entry)
        function = with_wide_scalars_in_memory(module[variable])
        return ir.IRModule({**module.functions, variable: function}, attrs=module.attrs)
