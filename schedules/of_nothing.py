"""Ops of operands without elements, on any target: inits are copied, where a result has elements.

No rule for an op itself has to think of loops that are never entered.
"""

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.rule import CpuRule
from tvm_iree_ext.schedules.gpu.data_movement import GpuDataMovement

from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.nothing import OfNothing


class CpuOfNothing(CpuRule):
    """Copies on an LLVM CPU target."""

    name = "cpu.of_nothing"
    lowers = Op

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """Nothing to choose."""
        return LoweringConfig()

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the copies.

        Raises:
            ScheduleError: for a config with anything in it.
        """
        self.check(config).expect(config == LoweringConfig(), "config", config, "none")
        return ir.IRModule({op.entry: OfNothing(op).prim_func()})


class GpuOfNothing(GpuDataMovement):
    """Copies on GPUs, element by element."""

    name = "gpu.of_nothing"
    lowers = Op

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """The widest accesses."""
        return super().heuristic(OfNothing(op), target) if _copies(op) else LoweringConfig()

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the copies.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        if _copies(op):
            return super().lower(OfNothing(op), target, config)
        self.check(config).expect(config == LoweringConfig(), "config", config, "none")
        return ir.IRModule({op.entry: OfNothing(op).prim_func()})


def _copies(op: Op) -> bool:
    """Whether any result has elements."""
    return bool(OfNothing(op).inits)
