"""Loops write the shape that is read, where a reshape adds or takes away axes of extent 1 alone.

    before:  u = slice(x): (n, 1, k),  v = reshape(u): (n, k)        after:  v = slice'(x): (n, k)

TVM fuses nothing through a reshape.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_reshape, is_tir_call, loops_by_name
from tvm_iree_ext.programs.fusion.nest_reads import unit_places
from tvm_iree_ext.schedules.shared.loops.loops_nests import substitute
from tvm_iree_ext.tir.buffers import with_parameters


def fold_unit_reshapes(mod: ir.IRModule) -> ir.IRModule:
    """The module without such reshapes of what loops write for them alone."""
    builder = relax.BlockBuilder(mod)
    functions = loops_by_name(mod)
    changed = {
        var: _folded(function, functions, builder) for var, function in relax_functions(mod).items()
    }
    return with_functions(builder.get(), changed)


def _folded(
    function: relax.Function, functions: dict[str, tirx.PrimFunc], builder: relax.BlockBuilder
) -> relax.Function:
    if not isinstance(function.body, relax.SeqExpr):
        return function
    uses: Counter[ir.Var] = Counter()  # where it is bound, too
    tvm_ffi.structural_walk(function.body, (ir.Var, lambda var: uses.update([var])))
    written: dict[ir.Var, ir.Call] = {}  # by loops, for one reader, which is in the same block

    def rewritten(binding: Any) -> list[Any]:
        value = binding.value
        if not isinstance(binding, relax.VarBinding) or not isinstance(value, ir.Call):
            return [binding]
        if is_reshape(value) and value.args[0] in written:
            source = value.args[0]
            places = unit_places(*(list(one.ty.shape.values) for one in (source, binding.var)))
            if places is not None:
                call = written[source]
                made = _reshaped(functions[call.args[0].name_hint], places)
                var = builder.add_func(made, call.args[0].name_hint)
                functions.setdefault(var.name_hint, made)
                value = joined(relax.call_tir(var, call.args[1], binding.var.ty), call)
                binding = relax.VarBinding(binding.var, value)
        is_for_one = isinstance(binding.var, relax.DataflowVar) and uses[binding.var] == 2
        if is_for_one and is_tir_call(value):
            is_single = isinstance(value.ty_args[0], relax.TensorType)
            if is_single and value.args[0].name_hint in functions:
                written[binding.var] = value
        return [binding]

    return with_bindings(function, rewritten)


def _reshaped(function: tirx.PrimFunc, places: Sequence[int | None]) -> tirx.PrimFunc:
    """The function whose result is of another shape."""

    def arranged(items: list[Any], unit: Any) -> list[Any]:
        return [unit if place is None else items[place] for place in places]

    result, units = function.params[-1], dict[ir.Var, Any]()

    def note(store: tirx.BufferStore) -> None:
        if store.buffer.same_as(result):
            for axis, index in enumerate(store.indices):
                if axis not in places and isinstance(index, ir.Var):
                    units[index] = tirx.const(0, "int64")  # TVM sees no function of a lost axis

    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, note))
    made = with_parameters(function, {len(function.params) - 1: arranged})
    body = tvm_ffi.structural_map(
        made.body,
        [
            (ir.TensorLoad, lambda load: substitute(load, units)),
            (tirx.BufferStore, lambda store: substitute(store, units)),
            (ir.TensorRegion, lambda region: substitute(region, units)),
        ],
    )
    return made.with_body(body)
