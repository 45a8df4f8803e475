"""Zeros reinterpreted as another type are its zeros, which LLVM's code generation is told here.

TVM takes ``reinterpret`` of a literal 0 for a null pointer, and refuses all types but pointers.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_REINTERPRET = ir.Op.get("tirx.reinterpret")


@tirx.transform.prim_func_pass(opt_level=0)
def write_zeros(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``reinterpret(float32, 0)`` becomes ``float32(0)``; after all that simplifies."""

    def call(node: ir.Call) -> Any:
        if not node.op.same_as(_REINTERPRET):
            return node
        (value,) = node.args
        dtype = str(getattr(node.ty, "dtype", "handle"))
        if dtype == "handle" or not _is_zero(value):
            return node
        lanes = DataType(dtype).lanes
        zero = tirx.const(0, dtype.removesuffix(f"x{lanes}"))
        return zero if lanes == 1 else tirx.Broadcast(zero, lanes)

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, call)))


def _is_zero(value: Any) -> bool:
    """Whether all bits are 0: not those of the float -0."""
    if isinstance(value, tirx.Broadcast):
        return _is_zero(value.value)
    if isinstance(value, tirx.FloatImm):
        return str(value.value) == "0.0"
    return isinstance(value, tirx.IntImm) and int(value) == 0
