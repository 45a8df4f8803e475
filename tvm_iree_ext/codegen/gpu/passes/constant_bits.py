"""Write floats given as bits by CUDA's functions for that.

For TVM's CUDA printer alone, as no value changes: it takes the address of what is reinterpreted,
which a number in the code does not have.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_FUNCTIONS = {
    "float16": ("__ushort_as_half", "uint16"),
    "float32": ("__int_as_float", "int32"),
    "float64": ("__longlong_as_double", "int64"),
}


@tirx.transform.prim_func_pass(opt_level=0)
def name_constant_bits(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``reinterpret(float32, 2143289344)`` becomes ``__int_as_float(2143289344)``."""

    def rewritten(call: Any) -> Any:
        dtype = str(getattr(call.ty, "dtype", ""))
        if str(getattr(call.op, "name", "")) != "tirx.reinterpret" or dtype not in _FUNCTIONS:
            return call
        (bits,) = call.args
        if not isinstance(bits, tirx.IntImm):
            return call
        name, kind = _FUNCTIONS[dtype]
        value, width = int(bits), DataType(dtype).bits
        if kind.startswith("int") and value >> (width - 1) == 1:  # the number of a word has no sign
            value -= 1 << width
        return tirx.call_pure_extern(dtype, name, tirx.const(value, kind))

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, rewritten)))
