"""Write vectors of one number of 8 or 16 bits as reinterpreted words.

For TVM's CUDA printer alone, as no value changes: it gives ``make_uint4`` an argument for each of
eight or sixteen elements.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_WORD_BITS = 32


@tirx.transform.prim_func_pass(opt_level=0)
def reinterpret_narrow_broadcasts(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``Broadcast(uint16(3), 8)`` becomes four words ``0x30003``, reinterpreted."""

    def rewritten(node: Any) -> Any:
        dtype = DataType(str(node.ty.dtype))
        words, rest = divmod(dtype.bits * dtype.lanes, _WORD_BITS)
        if str(dtype).startswith(("float", "bfloat", "bool")) or dtype.bits not in (8, 16) or rest:
            return node
        word = _word(node.value, dtype.bits)
        wide = tirx.Broadcast(word, words) if words > 1 else word
        return tirx.reinterpret(str(dtype), wide)

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.Broadcast, rewritten)))


def _word(value: Any, bits: int) -> Any:
    """A number as often as a word holds it."""
    copies = sum(1 << place for place in range(0, _WORD_BITS, bits))
    if isinstance(value, tirx.IntImm):
        return tirx.const(int(value) % (1 << bits) * copies, "uint32")
    pattern = tirx.Cast("uint32", tirx.Cast(f"uint{bits}", value))
    return pattern * tirx.const(copies, "uint32")
