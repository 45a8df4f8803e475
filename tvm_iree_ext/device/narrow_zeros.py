"""Write vectors of zeros of 8- and 16-bit integers as reinterpreted words.

For TVM's CUDA printer alone, as no value changes: it gives ``make_uint4`` an argument for each of
eight or sixteen elements.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

_WORD_BITS = 32


@tirx.transform.prim_func_pass(opt_level=0)
def reinterpret_narrow_zeros(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``Broadcast(uint16(0), 8)`` becomes four 32-bit zeros, reinterpreted."""

    def rewritten(node: Any) -> Any:
        dtype = DataType(str(node.ty.dtype))
        words, rest = divmod(dtype.bits * dtype.lanes, _WORD_BITS)
        zero = isinstance(node.value, tirx.IntImm) and int(node.value) == 0
        if not zero or dtype.bits not in (8, 16) or rest:
            return node
        word = tirx.const(0, "uint32")
        wide = tirx.Broadcast(word, words) if words > 1 else word
        return tirx.reinterpret(str(dtype), wide)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Broadcast, rewritten)))
