"""What a reduction reads once is computed as it is reduced: gathers, slices, transposes.

TVM fuses elementwise functions into reductions, and no others.  A function of another kind is
called elementwise here where a reduction alone reads its result, each element once.
"""

from collections import Counter
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.importing.relax_types import BROADCAST, INJECTIVE, OPAQUE, REDUCTION
from tvm_iree_ext.programs.base.relax_passes import (
    prim_functions,
    relax_functions,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_tir_call
from tvm_iree_ext.programs.fusion.nest_reads import nest_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import nests_of, uses


def fuse_into_reductions(mod: ir.IRModule) -> ir.IRModule:
    """The module whose functions TVM then fuses so; their kinds are known before."""
    functions = prim_functions(mod)
    kinds = {
        var: int((function.attrs or {}).get("op_pattern", OPAQUE))
        for var, function in functions.items()
    }
    candidates = {
        var for var, kind in kinds.items() if kind == INJECTIVE and _keeps_lines(functions[var])
    }
    for function in relax_functions(mod).values():
        if candidates and isinstance(function.body, relax.SeqExpr):
            candidates -= _read_otherwise(function, functions, kinds)
    changed = {var: functions[var].with_attr("op_pattern", BROADCAST) for var in candidates}
    return with_functions(mod, changed) if changed else mod


def _read_otherwise(
    function: relax.Function,
    functions: dict[ir.GlobalVar, tirx.PrimFunc],
    kinds: dict[ir.GlobalVar, int],
) -> set[ir.GlobalVar]:
    """The functions called whose results are not read by one reduction alone, as it counts."""
    uses: Counter[ir.Var] = Counter()  # where it is bound, too
    tvm_ffi.structural_walk(function.body, (ir.Var, lambda var: uses.update([var])))
    reduced: set[ir.Var] = set()
    calls: dict[ir.Var, ir.GlobalVar] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not is_tir_call(value):
                continue
            callee = value.args[0]
            calls[binding.var] = callee
            if kinds.get(callee) == REDUCTION:
                reader = functions[callee]
                pairs = zip(reader.params, value.args[1].fields, strict=False)
                once = _read_once(reader)
                reduced.update(operand for parameter, operand in pairs if parameter in once)
    return {callee for var, callee in calls.items() if not (var in reduced and uses[var] == 2)}


def _keeps_lines(function: tirx.PrimFunc) -> bool:
    """Whether neighbours of the result's last axis are neighbours, or one, in what is read.

    What is transposed is faster by itself, in blocks.
    """
    nest = nest_of(function)
    if nest is None or not nest.stores[0].indices:
        return False
    last = nest.stores[0].indices[-1]
    loads: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(nest.stores[0].value, (ir.TensorLoad, loads.append))
    return all(
        not uses(index, [last])
        for load in loads
        if isinstance(last, ir.Var)
        for index in list(load.indices)[:-1]
    )


def _read_once(function: tirx.PrimFunc) -> set[ir.Var]:
    """The parameters each element of which a reduction reads once."""
    form = nests_of(function)
    if form is None or len(form.nests) != 1 or not form.nests[0].reduced:
        return set()
    (nest,) = form.nests
    found: dict[Any, list[ir.TensorLoad]] = {}
    for value in nest.values():
        tvm_ffi.structural_walk(
            value, (ir.TensorLoad, lambda load: found.setdefault(load.source, []).append(load))
        )
    axes = {axis.var for axis in nest.axes}

    def is_once(loads: list[ir.TensorLoad]) -> bool:
        if any(not tvm_ffi.structural_equal(load, loads[0]) for load in loads):
            return False
        places = [index for index in loads[0].indices if isinstance(index, ir.Var)]
        return {*places} == axes and len(places) == len(axes)

    return {tensor for tensor, loads in found.items() if is_once(loads)}
