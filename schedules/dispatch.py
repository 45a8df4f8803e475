"""The schedule rules, and the choice of one for an op and a target."""

from typing import Any, Protocol

from tvm import ir, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_rule import CpuArgCompare
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.schedules.cpu.contraction import contraction_constants, contraction_layouts
from tvm_iree_ext.schedules.cpu.contraction.contraction_rule import CpuContraction
from tvm_iree_ext.schedules.cpu.conv_2d import conv_2d_layouts
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_rule import CpuConv2d
from tvm_iree_ext.schedules.cpu.custom_op_rule import CpuCustomOp
from tvm_iree_ext.schedules.cpu.distribution_rule import CpuDistribution, CpuToLayout
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_rule import CpuExpReduction
from tvm_iree_ext.schedules.cpu.fft.fft_rule import CpuFft, CpuFftTransform
from tvm_iree_ext.schedules.cpu.grouped_matmul_rule import CpuGroupedMatmul
from tvm_iree_ext.schedules.cpu.im2col.im2col_rule import CpuIm2col
from tvm_iree_ext.schedules.cpu.loops.loops_rows import has_row_kernel as cpu_has_row_kernel
from tvm_iree_ext.schedules.cpu.loops.loops_schedule import schedule_loops as cpu_loops
from tvm_iree_ext.schedules.cpu.mapped_rule import CpuMapped
from tvm_iree_ext.schedules.cpu.pack.pack_rule import CpuPack
from tvm_iree_ext.schedules.cpu.scan.scan_rule import CpuScan
from tvm_iree_ext.schedules.cpu.slices.gather_rule import CpuGather
from tvm_iree_ext.schedules.cpu.slices.scatter_rule import CpuScatter
from tvm_iree_ext.schedules.cpu.sort.sort_rule import CpuSort
from tvm_iree_ext.schedules.cpu.topk.topk_rule import CpuTopk
from tvm_iree_ext.schedules.cpu.transfer_rule import CpuTransfer
from tvm_iree_ext.schedules.cpu.vector_program_rule import CpuVectorProgram
from tvm_iree_ext.schedules.cpu.winograd.winograd_rule import CpuWinograd
from tvm_iree_ext.schedules.empty_operands_rule import CpuOfNothing, GpuOfNothing, OrOfNothing
from tvm_iree_ext.schedules.gpu.arg_compare_rule import GpuArgCompare
from tvm_iree_ext.schedules.gpu.attention.attention_loops_rule import GpuAttentionLoops
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_rule import GpuConv2d
from tvm_iree_ext.schedules.gpu.custom_op_rule import GpuCustomOp
from tvm_iree_ext.schedules.gpu.distribution.distribution_rule import (
    GpuDistribution,
    GpuToLayout,
)
from tvm_iree_ext.schedules.gpu.exp_reduction.exp_reduction_rule import GpuExpReduction
from tvm_iree_ext.schedules.gpu.fft.fft_rule import GpuFft, GpuFftTransform
from tvm_iree_ext.schedules.gpu.grouped_matmul_rule import GpuGroupedMatmul
from tvm_iree_ext.schedules.gpu.im2col_rule import GpuIm2col
from tvm_iree_ext.schedules.gpu.loops.loops_rows import has_row_kernel as gpu_has_row_kernel
from tvm_iree_ext.schedules.gpu.loops.loops_schedule import schedule_loops as gpu_loops
from tvm_iree_ext.schedules.gpu.mapped_rule import GpuMapped
from tvm_iree_ext.schedules.gpu.pack_rule import GpuPack
from tvm_iree_ext.schedules.gpu.scan.scan_rule import GpuScan
from tvm_iree_ext.schedules.gpu.slices.gather_rule import GpuGather
from tvm_iree_ext.schedules.gpu.slices.scatter_rule import GpuScatter
from tvm_iree_ext.schedules.gpu.sort.sort_rule import GpuSort
from tvm_iree_ext.schedules.gpu.topk.topk_rule import GpuTopk
from tvm_iree_ext.schedules.gpu.transfer_rule import GpuTransfer
from tvm_iree_ext.schedules.gpu.winograd_rule import GpuWinograd
from tvm_iree_ext.schedules.region_scalars_rule import BindsScalars
from tvm_iree_ext.schedules.words_rule import InWords


class Rule(Protocol):
    """A schedule rule: lowers a family of ops for a kind of target."""

    name: str

    @property
    def lowers(self) -> type[Op] | tuple[type[Op], ...]:
        """The ops that it is for."""

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or the reason why the rule does not apply."""

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """The config for an op that was never tuned; ``op`` is one that the rule applies to."""

    def space(self, op: Any, target: Target) -> TuningSpace:
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
    GpuAttentionLoops(),
    GpuContraction(),
    GpuGroupedMatmul(),
    GpuConv2d(),
    GpuPack(),
    GpuDistribution(),
    GpuToLayout(),
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
    if op.in_words is not op:
        return InWords(choose(op.in_words, target))
    reasons = {}
    for rule in OF_NOTHING if op.is_of_nothing else RULES:
        reason = rule.applies(op, target)
        if reason is None:
            rule = OrOfNothing(rule) if op.signature.may_be_0 else rule
            return BindsScalars(rule) if op.region_scalars else rule
        reasons[rule] = f"{rule.name}: {reason}"
    # Rules for other ops have nothing to say, where there are rules for this one.
    near = [reason for rule, reason in reasons.items() if isinstance(op, rule.lowers)]
    because = "; ".join(near or reasons.values())
    raise ScheduleError(f"{op.name}: no schedule for {target.kind.name}; {because}")


def gpu_refusal(op: Op, target: Target) -> str | None:
    """None, or why a GPU cannot have an op."""
    rules = [one for one in RULES if one.name.startswith("gpu.") and isinstance(op, one.lowers)]
    reasons = [one.applies(op, target) for one in rules]
    return None if None in reasons else "; ".join(map(str, reasons))


def schedule_loops(function: tirx.PrimFunc, target: Target, name: str) -> tirx.PrimFunc:
    """A function of plain loops, of a program, scheduled for a target by the symbol ``name``.

    Raises:
        ScheduleError: for loops that have no form on the target.
    """
    rule = cpu_loops if target.kind.name == "llvm" else gpu_loops
    return rule(function, target, name)


def has_row_kernel(rows: "int | ir.Expr", elements: "int | ir.Expr", target: Target) -> bool:
    """Whether reductions over rows of so many elements, one after another, are best one kernel."""
    rule = cpu_has_row_kernel if target.kind.name == "llvm" else gpu_has_row_kernel
    return rule(rows, elements, target)


def constant_panels(op: Contraction | Conv2d, factor: str, target: Target) -> int | None:
    """The columns of a panel of a factor that never changes; None where it stays as it is."""
    if target.kind.name != "llvm":
        return None
    if isinstance(op, Conv2d):
        return conv_2d_layouts.constant_panels(op, target)
    return contraction_constants.constant_panels(op, factor, target)


def is_better_moved(op: Op, permuted: Op, target: Target) -> bool:
    """Whether a result is better moved than written in another order, as ``permuted`` does."""
    if target.kind.name != "llvm":
        return False  # other threads write what one has in its registers
    if not isinstance(op, Contraction) or not isinstance(permuted, Contraction):
        return False
    return contraction_layouts.is_better_moved(op, permuted)


def prefers_channels_last(op: Conv2d, target: Target) -> bool:
    """Whether a convolution is faster with its channels last, where images lie so."""
    return target.kind.name == "llvm" and conv_2d_layouts.prefers_channels_last(op, target)
