"""Whose memory a program's functions write: results of their own, arguments, states, constants."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.operand_parts import parts_of
from tvm_iree_ext.mlir.importing.imported import EntryPoint, Imported
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.base.relax_passes import relax_functions
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.updates.updates_in_place import UpdatesInPlace
from tvm_iree_ext.runtime.manifest import Function
from tvm_iree_ext.runtime.program_state import PREFIX


@dataclass(frozen=True)
class OwnedMemory:
    """A module, each result of which has memory of its own, or an argument's or a state's."""

    module: ir.IRModule
    functions: tuple[Function, ...]


def owned_memory(
    mod: ir.IRModule,
    ops: Mapping[str, Op],
    parameters: Mapping[str, np.ndarray],
    imported: Imported,
    constants: Constants,
    is_gpu: bool,
) -> OwnedMemory:
    """The functions of a fused module, with their constants as parameters, and their results so.

    Args:
        mod: the module.
        ops: those of the registry that it calls, by key.
        parameters: its constants, by name.
        imported: the program that it came of.
        constants: takes those that functions use, and what states begin as.
        is_gpu: whether it is for a GPU.

    Raises:
        BuildError: for a program with states, for a GPU.
    """
    if is_gpu and imported.states:
        names = ", ".join(imported.states)
        raise BuildError(f"{imported.name}: programs for GPUs keep no state between calls: {names}")
    builder = relax.BlockBuilder(mod)
    own_results = relax_passes.OwnResults(builder)
    in_place = UpdatesInPlace(builder, ops, is_gpu)
    entries = {entry.name: entry for entry in imported.functions}
    lifted: dict[str, list[str]] = {}
    is_updated = False
    for var, function in relax_functions(mod).items():
        given = int(function.attrs["num_input"])
        named = [parameter.name for parameter in function.params[given:]]
        for name in named:
            constants.add(name, parameters[name])
        function, added = relax_passes.lift_constants(function, constants.name)
        lifted[var.name_hint] = [*named, *added]
        homes = _homes(entries.get(var.name_hint), function)
        is_updated = is_updated or bool(homes)
        builder.update_func(var, in_place(own_results(function, homes), homes))
    for name, array in imported.states.items():
        constants.add(_held(name), array)
    made = builder.get()
    if is_updated:  # some functions are called by no one any more
        made = relax.transform.DeadCodeElimination([*entries, *imported.helpers])(made)
    functions = tuple(
        Function(
            entry.name,
            entry.signature,
            tuple(lifted[entry.name]),
            tuple(map(_held, entry.states)),
            len(entry.stores),
        )
        for entry in imported.functions
    )
    return OwnedMemory(made, functions)


def _held(state: str) -> str:
    """The name of the constant that a state begins as."""
    return f"{PREFIX}{state}"


def _homes(entry: EntryPoint | None, function: relax.Function) -> dict[int, ir.Var]:
    """The parameters in whose place results are, by the results' places in the function."""
    if entry is None:
        return {}
    signature = entry.signature
    rest = iter(function.params)
    parameters = {part.name: next(rest) for one in signature.arguments for part in parts_of(one)}
    results = [part for one in signature.results for part in parts_of(one)]
    homes = {
        place: parameters[one.in_place_of] for place, one in enumerate(results) if one.in_place_of
    }
    states = {name: next(rest) for name in entry.states}
    return homes | {len(results) + n: states[name] for n, name in enumerate(entry.stores)}
