"""Ops of operands without elements, on any target: what is left of them as plain loops.

No rule for an op itself has to think of loops that are never entered: where only a call can say
whether there are elements, both forms are compiled, and a call takes one.
"""

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.empty_operands import OfNothing
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.loops.loops_schedule import schedule_loops as cpu_loops
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.loops.loops_schedule import schedule_loops as gpu_loops
from tvm_iree_ext.tir.tensor_scalars import with_wide_scalars_in_memory


class CpuOfNothing(CpuRule):
    """Plain loops on an LLVM CPU target."""

    name = "cpu.of_nothing"
    lowers = Op

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """Nothing to choose."""
        return LoweringConfig()

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the loops.

        Raises:
            ScheduleError: for a config with anything in it.
        """
        return _lowered(self, cpu_loops, op, target, config)


class GpuOfNothing(GpuRule):
    """Plain loops on GPUs, each nest a kernel."""

    name = "gpu.of_nothing"
    lowers = Op

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """Nothing to choose."""
        return LoweringConfig()

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels.

        Raises:
            ScheduleError: for a config with anything in it, and for what is no nest of loops.
        """
        return _lowered(self, gpu_loops, op, target, config)


_FORMS = {"llvm": (CpuOfNothing(), cpu_loops), "cuda": (GpuOfNothing(), gpu_loops)}
_FORMS["rocm"] = _FORMS["cuda"]


@dataclass(frozen=True)
class OrOfNothing:
    """A rule for an op that may have to be computed of nothing, which a call decides."""

    rule: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module of the rule, whose function asks for extents of 0 first.

        Raises:
            ScheduleError: as the rule.
        """
        module = self.rule.lower(op, target, config)
        variable = module.get_global_var(op.entry)
        # As in the canonical function, which computes what is of nothing.
        function = with_wide_scalars_in_memory(module[variable])
        _, schedule_loops = _FORMS[target.kind.name]
        for name in op.signature.may_be_0:
            of_nothing = schedule_loops(
                _without(OfNothing(op, name).prim_func(), name), target, op.entry
            )
            function = _either(function, of_nothing, name)
        return ir.IRModule({**module.functions, variable: function}, attrs=module.attrs)


def _without(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """The function with 0 in place of an extent."""
    extent, zero = _extents(function)[name], tirx.const(0, "int64")
    replaced = (ir.Var, lambda var: zero if var.same_as(extent) else var)
    return tvm_ffi.structural_map(function, replaced)


def _extents(function: tirx.PrimFunc) -> dict[str, ir.Var]:
    """The variables of extents by name."""
    typed = (one.ty for one in function.params if isinstance(one.ty, tirx.BufferType))
    variables = (extent for ty in typed for extent in ty.shape if isinstance(extent, ir.Var))
    return {str(extent.name): extent for extent in variables}


def _either(function: tirx.PrimFunc, of_nothing: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """The one where the extent is 0, else the other, as one function."""
    given, extents = _extents(of_nothing), _extents(function)
    pairs = list(zip(of_nothing.params, function.params, strict=True))
    pairs += [(given[one], extents[one]) for one in given]
    body = tvm_ffi.structural_map(
        of_nothing.body,
        (ir.Var, lambda var: next((new for old, new in pairs if var.same_as(old)), var)),
    )
    is_empty = tirx.EQ(extents[name], tirx.const(0, str(extents[name].ty.dtype)))
    branches = tirx.IfThenElse(is_empty, body, function.body)
    root = s_tir.SBlock([], [], [], "root", branches)
    return function.with_body(s_tir.SBlockRealize([], tirx.const(True, "bool"), root))


def _lowered(
    rule: CpuRule | GpuRule, schedule_loops: Any, op: Op, target: Target, config: LoweringConfig
) -> ir.IRModule:
    rule.check(config).expect(config == LoweringConfig(), "config", config, "none")
    return ir.IRModule({op.entry: schedule_loops(OfNothing(op).prim_func(), target, op.entry)})
