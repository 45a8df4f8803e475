"""Write floats by their bits, by CUDA's functions for that.

For TVM's CUDA printer alone, as no value changes.  It takes the address of what is reinterpreted,
which a number in the code does not have; it gives float64 fifteen digits behind the point, so that
1/301 loses four digits and 1e-20 is 0; and NVRTC refuses what it makes of a subnormal float32.
"""

import math
from typing import Any

import numpy as np
import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_FUNCTIONS = {
    "float16": ("__ushort_as_half", "uint16"),
    "float32": ("__int_as_float", "int32"),
    "float64": ("__longlong_as_double", "int64"),
}


_SMALLEST_NORMAL = 2.0**-126  # of float32


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
        return _of_bits(int(bits), dtype) if isinstance(bits, tirx.IntImm) else call

    def exact(number: Any) -> Any:
        dtype = str(number.ty.dtype)
        if _is_printed_right(float(number.value), dtype):
            return number
        words = np.array(number.value, dtype).view(f"uint{DataType(dtype).bits}")
        return _of_bits(int(words), dtype)

    handlers = [(ir.Call, rewritten), (tirx.FloatImm, exact)]
    return with_body(func, tvm_ffi.structural_map(func.body, handlers))


def _is_printed_right(value: float, dtype: str) -> bool:
    """Whether the text of a number means the number to NVRTC."""
    if dtype == "float64":
        return not math.isfinite(value) or float(f"{value:.15f}") == value
    return dtype != "float32" or not 0 < abs(np.float32(value)) < _SMALLEST_NORMAL


def _of_bits(value: int, dtype: str) -> Any:
    name, kind = _FUNCTIONS[dtype]
    width = DataType(dtype).bits
    if kind.startswith("int") and value >> (width - 1) == 1:  # the number of a word has no sign
        value -= 1 << width
    return tirx.call_pure_extern(dtype, name, tirx.const(value, kind))
