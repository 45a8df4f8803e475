"""Cheap elementwise functions that several kernels read are computed by each of these.

TVM fuses a function into what reads it where that is one.  ``x - max(x)`` of a softmax is read by
two: as an array it is written once and read twice, and each reader could have read ``x``.
"""

from collections import Counter
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.importing.relax_types import OPAQUE, REDUCTION
from tvm_iree_ext.programs.base.relax_passes import (
    prim_functions,
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_tir_call
from tvm_iree_ext.programs.fusion.nest_reads import elementwise_loads, nest_of
from tvm_iree_ext.tir.tir_expressions import known

_MOST_OPERATIONS = 4  # of an element: so few are done while memory is waited for
_LEAST_ELEMENTS = 1 << 14  # of a result: smaller ones stay in the caches
_SMALL = 8  # times as many elements as a small operand has: a bias, or a row's maximum


def repeat_cheap_elementwise(mod: ir.IRModule) -> ir.IRModule:
    """The module with such functions called once for each of their readers."""
    kinds = {var: _kind(function) for var, function in prim_functions(mod).items()}
    cheap = {
        var
        for var, function in prim_functions(mod).items()
        if kinds[var] < REDUCTION and _is_cheap(function)
    }
    fusing = {var for var, kind in kinds.items() if kind <= REDUCTION}
    changed = {
        var: _repeated(function, cheap, fusing) for var, function in relax_functions(mod).items()
    }
    return with_functions(mod, changed) if cheap else mod


def _kind(function: tirx.PrimFunc) -> int:
    return int((function.attrs or {}).get("op_pattern", OPAQUE))


def _is_cheap(function: tirx.PrimFunc) -> bool:
    """Whether an element takes a few operations alone, and none of the C library."""
    nest = nest_of(function)
    if nest is None or elementwise_loads(nest.stores[0].value) is None:
        return False
    operations: list[Any] = []
    calls: list[Any] = []
    kinds = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max, tirx.Select)
    tvm_ffi.structural_walk(
        nest.stores[0].value,
        [(ir.Call, calls.append), (tirx.Div, calls.append)]
        + [(kind, operations.append) for kind in kinds],
    )
    return not calls and len(operations) <= _MOST_OPERATIONS


def _repeated(
    function: relax.Function, cheap: set[ir.GlobalVar], fusing: set[ir.GlobalVar]
) -> relax.Function:
    if not isinstance(function.body, relax.SeqExpr):
        return function
    uses: Counter[ir.Var] = Counter()
    tvm_ffi.structural_walk(function.body, (ir.Var, lambda var: uses.update([var])))
    read: Counter[ir.Var] = Counter()  # by calls into which what they read is fused
    for block in function.body.blocks:
        for binding in block.bindings:
            if _callee(binding.value) in fusing:
                read.update({*binding.value.args[1].fields})
    again = {
        binding.var: binding.value
        for block in function.body.blocks
        for binding in block.bindings
        if _callee(binding.value) in cheap
        and uses[binding.var] == 1 + read[binding.var] > 2  # where it is bound, and readers
        and _reads_one_array(binding.value)
    }
    if not again:
        return function
    first = {*again}

    def rewritten(binding: Any) -> list[Any]:
        made = []
        operands = binding.value.args[1].fields if _callee(binding.value) in fusing else ()
        for var in {*operands} & {*again}:
            if var in first:
                first.remove(var)
                continue
            copy = relax.DataflowVar(var.name, var.ty)
            made.append(relax.VarBinding(copy, again[var]))
            value = tvm_ffi.structural_map(
                binding.value, (ir.Var, lambda v, a=var, b=copy: b if v.same_as(a) else v)
            )
            binding = relax.VarBinding(binding.var, value)
        return [*made, binding]

    return with_bindings(function, rewritten)


def _callee(value: Any) -> ir.GlobalVar | None:
    return value.args[0] if is_tir_call(value) else None


def _reads_one_array(call: ir.Call) -> bool:
    """Whether one operand at most is as large as the result, which is large."""
    result = _elements(call.ty_args[0])
    sizes = [_elements(operand.ty) for operand in call.args[1].fields]
    if result is None or result < _LEAST_ELEMENTS or None in sizes:
        return False
    return sum(size * _SMALL > result for size in sizes if size is not None) <= 1


def _elements(kind: Any) -> int | None:
    """How many elements a tensor has; None where a call says."""
    extents = [known(extent) for extent in getattr(getattr(kind, "shape", None), "values", [None])]
    return None if None in extents else prod(e for e in extents if e is not None)
