"""From an imported program to scheduled functions, and the constants that they share."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.target import Target

from tvm_iree_ext.building.artifact_identity import is_gpu
from tvm_iree_ext.mlir.importing.imported import Fallback, Imported
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.base.relax_passes import (
    IN_PLACE,
    prim_functions,
    relax_functions,
    with_functions,
)
from tvm_iree_ext.programs.compiled_loops import COMPILED_LOOP, compile_loops
from tvm_iree_ext.programs.excess_precision import with_excess_precision
from tvm_iree_ext.programs.folded_constants import SMALL_BYTES, fold_constants
from tvm_iree_ext.programs.fusion.cast_values import keep_cast_values
from tvm_iree_ext.programs.fusion.fused_products import AroundProducts
from tvm_iree_ext.programs.fusion.fused_sorts import SortByKeys
from tvm_iree_ext.programs.fusion.meeting_elementwise import join_meeting_elementwise
from tvm_iree_ext.programs.fusion.position_functions import inline_positions
from tvm_iree_ext.programs.fusion.reduced_producers import fuse_into_reductions
from tvm_iree_ext.programs.fusion.row_chains import fuse_row_chains
from tvm_iree_ext.programs.fusion.sorted_prefixes import SortedPrefixes
from tvm_iree_ext.programs.fusion.unit_reshapes import fold_unit_reshapes
from tvm_iree_ext.programs.fusion.whole_transforms import WholeTransforms
from tvm_iree_ext.programs.kernel_table import KernelPlaces, op_key
from tvm_iree_ext.programs.layouts.channels_last import ChannelsLast
from tvm_iree_ext.programs.layouts.lane_layouts import SettleLayouts
from tvm_iree_ext.programs.layouts.packed_weights import PackWeights
from tvm_iree_ext.programs.owned_memory import owned_memory
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_extents import extents_first
from tvm_iree_ext.programs.repeated_elementwise import repeat_cheap_elementwise
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.runtime.manifest import Function, ProgramKernel
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.tir.byte_parameters import with_words_for_numbers
from tvm_iree_ext.tir.halved_parameters import with_halved_parameters
from tvm_iree_ext.tir.tensor_scalars import tensor_scalars, with_tensor_scalars


def program_ops(imported: Imported, target: Target) -> dict[str, tuple[Op, int]]:
    """The ops that a program's kernels compute, by name, and in how many places each is called."""
    fused = fused_program(imported, target)
    calls: Counter[str] = Counter()

    def count(var: ir.GlobalVar) -> None:
        calls[var.name_hint] += 1

    for function in relax_functions(fused.module).values():
        tvm_ffi.structural_walk(function.body, (ir.GlobalVar, count))
    functions = prim_functions(fused.module)
    found = {var.name_hint: op_key(function) for var, function in functions.items()}
    return {name: (fused.ops[key], calls[name]) for name, key in found.items() if key is not None}


@dataclass(frozen=True)
class FusedProgram:
    """A module with its plain loops fused, the ops that stand in it, and its constants."""

    module: ir.IRModule
    ops: dict[str, Op]
    parameters: dict[str, np.ndarray]  # constants, by name
    places: KernelPlaces
    fallbacks: tuple[Fallback, ...]  # layouts unused, what was not fused into a product, and why

    def with_compiled_loops(self) -> "FusedProgram":
        """The same with its loops and branches as functions of the library, as CPUs have them."""
        return replace(self, module=compile_loops(self.module))

    def kernels(self) -> tuple[ProgramKernel, ...]:
        """What each kernel computes, and what it came of."""
        self.places.note(self.module)
        return self.places.table(self.module, self.ops)


def fused_program(imported: Imported, target: Target) -> FusedProgram:
    """A program in which all is fused that becomes one kernel."""
    entries = [*(function.name for function in imported.functions), *imported.helpers]
    ops = dict(imported.ops)
    lanes = SettleLayouts(imported.module, ops, target)
    mod = SortByKeys(lanes.run(), ops).run()
    mod = SortedPrefixes(mod, ops).run()
    parameters = dict(imported.parameters)
    mod = WholeTransforms(mod, ops, parameters).run()
    mod = relax.transform.DeadCodeElimination(entries)(mod)
    mod = relax.transform.DeadCodeElimination(entries)(inline_positions(mod))
    mod = fold_constants(mod, parameters, most_bytes=SMALL_BYTES)
    mod = join_meeting_elementwise(mod)
    mod = ChannelsLast(mod, ops, parameters, target).run(entries)
    around = AroundProducts(mod, ops, target)
    mod = fold_unit_reshapes(around.run())
    private = {var: _private(function) for var, function in prim_functions(mod).items()}
    mod = relax_passes.simplify(with_functions(mod, private), entries)
    mod = fold_constants(mod, parameters, ops=ops)
    mod = PackWeights(mod, ops, parameters, target).run()
    places = KernelPlaces()
    mod = keep_cast_values(fuse_into_reductions(repeat_cheap_elementwise(mod)))
    mod = relax_passes.fuse(mod, entries, places.note)
    mod = fuse_row_chains(mod, target, places.join)
    mod = relax.transform.DeadCodeElimination(entries)(mod)
    places.note(mod)  # before loops are compiled, which hides what they call
    used = {one.name for function in relax_functions(mod).values() for one in function.params}
    kept = {name: array for name, array in parameters.items() if name in used}
    fallbacks = (*lanes.fallbacks, *around.fallbacks)
    return FusedProgram(extents_first(mod), ops, kept, places, fallbacks)


@dataclass(frozen=True)
class ScheduledProgram:
    """A module whose kernels are scheduled for a target, and what a manifest says of it."""

    module: ir.IRModule
    functions: tuple[Function, ...]
    kernels: tuple[ProgramKernel, ...]
    origins: dict[str, str]  # where the config of each op's kernel comes from


def scheduled_program(
    imported: Imported,
    target: Target,
    constants: Constants,
    database: DatabaseLike,
) -> ScheduledProgram:
    """The fused module, scheduled for the target.

    Raises:
        ScheduleError: when no rule builds an op of the program.
        TuningError: for a file of records that is named and cannot be read.
    """
    fused = fused_program(imported, target)
    if not is_gpu(target):
        fused = fused.with_compiled_loops()
    owned = owned_memory(
        fused.module, fused.ops, fused.parameters, imported, constants, is_gpu(target)
    )
    mod = owned.module
    kernels = replace(fused, module=mod).kernels()
    scheduled, origins = {}, {}
    for var, function in prim_functions(mod).items():
        name, key = var.name_hint, op_key(function)
        if COMPILED_LOOP in (function.attrs or {}):
            scheduled[var] = function.with_attr("global_symbol", name)
        elif key is None:
            loops = schedule_loops(function, target, name)
            scheduled[var] = with_excess_precision(loops) if imported.excess_precision else loops
        else:
            module, origins[name] = lowered(fused.ops[key], target, database=database)
            made = with_words_for_numbers(module[fused.ops[key].entry])
            made = with_halved_parameters(made)
            made = made.with_attr("global_symbol", name)
            scheduled[var] = with_tensor_scalars(made, tensor_scalars(function))
        if IN_PLACE in (function.attrs or {}):
            scheduled[var] = scheduled[var].with_attr(IN_PLACE, function.attrs[IN_PLACE])
    mod = with_functions(mod, scheduled)
    return ScheduledProgram(mod, owned.functions, kernels, origins)


def _private(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function as one that is kept only where it is called; an op's is not fused."""
    function = function.without_attr("global_symbol")
    return function if op_key(function) is None else function.with_attr("op_pattern", OPAQUE)
