"""Kernels over extents that turned out to be numbers: those that were emitted before.

    before:  e = call_tir(exp_of_n, x[4])      after:  e = call_tir(exp_of_4, x[4])

TVM fuses kernels only where the types of their buffers are the same.
"""

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE


def with_known_extents(mod: ir.IRModule) -> ir.IRModule:
    """The module, whose calls have kernels over the numbers that they are called with."""
    builder = relax.BlockBuilder(mod)
    kernels = {var.name_hint: one for var, one in mod.functions.items()}
    made: dict[tuple[str, tuple[int, ...]], ir.GlobalVar] = {}

    def settled(call: ir.Call) -> ir.Call:
        if str(getattr(call.op, "name", "")) != "relax.call_tir":
            return call
        callee, given = call.args[:2]
        kernel, outputs = kernels[callee.name_hint], call.ty_args[0]
        several = isinstance(outputs, relax.TupleType)
        types = [one.ty for one in given.fields] + (list(outputs.fields) if several else [outputs])
        known = _known(kernel, types)
        if not known or OP_ATTRIBUTE in (kernel.attrs or {}):
            return call
        key = callee.name_hint, tuple(map(int, known.values()))
        if key not in made:
            own = tvm_ffi.structural_map(kernel, (ir.Var, lambda var: known.get(var, var)))
            made[key] = builder.add_func(own, callee.name_hint)
        arguments = [made[key], *call.args[1:]]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args, call.span)

    for var, function in mod.functions.items():
        if isinstance(function, relax.Function):
            builder.update_func(var, tvm_ffi.structural_map(function, (ir.Call, settled)))
    return builder.get()


def _known(kernel: tirx.PrimFunc, types: Sequence[Any]) -> dict[Any, Any]:
    """The extents of a kernel's buffers that are numbers where it is called."""
    known: dict[Any, Any] = {}
    for parameter, given in zip(kernel.params, types, strict=False):
        if isinstance(parameter.ty, tirx.BufferType) and isinstance(given, relax.TensorType):
            for own, came in zip(parameter.ty.shape, given.shape.values, strict=True):
                if isinstance(own, ir.Var) and isinstance(came, tirx.IntImm):
                    known[own] = came
    return known
