"""Which schedule rule builds an op for a target."""

from typing import Any, Protocol

from tvm import ir, tirx
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.arg_compare import CpuArgCompare
from tvm_iree_ext.schedules.cpu.attention import CpuAttention
from tvm_iree_ext.schedules.cpu.contraction import CpuContraction
from tvm_iree_ext.schedules.cpu.conv_2d import CpuConv2d
from tvm_iree_ext.schedules.cpu.custom_op import CpuCustomOp
from tvm_iree_ext.schedules.cpu.distribution import CpuDistribution, CpuToLayout
from tvm_iree_ext.schedules.cpu.exp_reduction import CpuExpReduction
from tvm_iree_ext.schedules.cpu.fft import CpuFft, CpuFftTransform
from tvm_iree_ext.schedules.cpu.gather import CpuGather
from tvm_iree_ext.schedules.cpu.grouped_matmul import CpuGroupedMatmul
from tvm_iree_ext.schedules.cpu.im2col import CpuIm2col
from tvm_iree_ext.schedules.cpu.loops import schedule_loops as cpu_loops
from tvm_iree_ext.schedules.cpu.mapped import CpuMapped
from tvm_iree_ext.schedules.cpu.pack import CpuPack
from tvm_iree_ext.schedules.cpu.scan import CpuScan
from tvm_iree_ext.schedules.cpu.scatter import CpuScatter
from tvm_iree_ext.schedules.cpu.sort import CpuSort
from tvm_iree_ext.schedules.cpu.topk import CpuTopk
from tvm_iree_ext.schedules.cpu.transfer import CpuTransfer
from tvm_iree_ext.schedules.cpu.vector_program import CpuVectorProgram
from tvm_iree_ext.schedules.cpu.winograd import CpuWinograd
from tvm_iree_ext.schedules.gpu.arg_compare import GpuArgCompare
from tvm_iree_ext.schedules.gpu.attention import GpuAttention
from tvm_iree_ext.schedules.gpu.contraction import GpuContraction
from tvm_iree_ext.schedules.gpu.conv_2d import GpuConv2d
from tvm_iree_ext.schedules.gpu.custom_op import GpuCustomOp
from tvm_iree_ext.schedules.gpu.data_movement import (
    GpuDataMovement,
    GpuGather,
    GpuIm2col,
    GpuMapped,
    GpuTransfer,
)
from tvm_iree_ext.schedules.gpu.exp_reduction import GpuExpReduction
from tvm_iree_ext.schedules.gpu.fft import GpuFft, GpuFftTransform
from tvm_iree_ext.schedules.gpu.grouped_matmul import GpuGroupedMatmul
from tvm_iree_ext.schedules.gpu.loops import schedule_loops as gpu_loops
from tvm_iree_ext.schedules.gpu.scan import GpuScan
from tvm_iree_ext.schedules.gpu.scatter import GpuScatter
from tvm_iree_ext.schedules.gpu.sort import GpuSort
from tvm_iree_ext.schedules.gpu.topk import GpuTopk
from tvm_iree_ext.schedules.gpu.winograd import GpuWinograd
from tvm_iree_ext.schedules.of_nothing import CpuOfNothing, GpuOfNothing, OrOfNothing
from tvm_iree_ext.schedules.space import Space

from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.base import Op


class Rule(Protocol):
    """How a family of ops runs on a kind of target."""

    name: str

    @property
    def lowers(self) -> type[Op] | tuple[type[Op], ...]:
        """The ops that it is for."""

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or the reason why the rule does not apply."""

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """The config for an op that was never tuned; ``op`` is one that the rule applies to."""

    def space(self, op: Any, target: Target) -> Space:
        """The configs that tuning may try, that of the heuristic among them."""

    def lower(self, op: Any, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The scheduled module, whose entry is ``op.entry``.

        Raises:
            ScheduleError: for a config that does not fit.
        """


RULES: tuple[Rule, ...] = (
    CpuAttention(),
    CpuContraction(),
    CpuGroupedMatmul(),
    CpuConv2d(),
    CpuCustomOp(),
    CpuExpReduction(),
    CpuFft(),
    CpuFftTransform(),
    CpuPack(),
    CpuGather(),
    CpuScatter(),
    CpuScan(),
    CpuMapped(),
    CpuSort(),
    CpuTopk(),
    CpuIm2col(),
    CpuArgCompare(),
    CpuWinograd(),
    CpuTransfer(),
    CpuDistribution(),
    CpuToLayout(),
    CpuVectorProgram(),
    GpuArgCompare(),
    GpuAttention(),
    GpuContraction(),
    GpuGroupedMatmul(),
    GpuConv2d(),
    GpuDataMovement(),
    GpuGather(),
    GpuScatter(),
    GpuTransfer(),
    GpuMapped(),
    GpuIm2col(),
    GpuExpReduction(),
    GpuScan(),
    GpuFft(),
    GpuFftTransform(),
    GpuSort(),
    GpuCustomOp(),
    GpuTopk(),
    GpuWinograd(),
)
"""Every rule, the most special first."""


OF_NOTHING: tuple[Rule, ...] = (CpuOfNothing(), GpuOfNothing())
"""The rules for ops of which no result must be computed."""


def choose(op: Op, target: Target) -> Rule:
    """The first rule that applies.

    Raises:
        ScheduleError: when none does, with the reason of each.
    """
    reasons = {}
    for rule in OF_NOTHING if op.is_of_nothing else RULES:
        reason = rule.applies(op, target)
        if reason is None:
            return OrOfNothing(rule) if op.signature.may_be_0 else rule
        reasons[rule] = f"{rule.name}: {reason}"
    # Rules for other ops have nothing to say, where there are rules for this one.
    near = [reason for rule, reason in reasons.items() if isinstance(op, rule.lowers)]
    because = "; ".join(near or reasons.values())
    raise ScheduleError(f"{op.name}: no schedule for {target.kind.name}; {because}")


def schedule_loops(function: tirx.PrimFunc, target: Target, name: str) -> tirx.PrimFunc:
    """A function of plain loops, of a program, scheduled for a target by the symbol ``name``.

    Raises:
        ScheduleError: for loops that have no form on the target.
    """
    rule = cpu_loops if target.kind.name == "llvm" else gpu_loops
    return rule(function, target, name)
