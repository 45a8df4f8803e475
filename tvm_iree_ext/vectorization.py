"""What TVM's vectorization leaves out: expressions that it would compute one lane after another."""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

_ISNAN = ir.Op.get("tirx.isnan")
# By type: its words, the magnitude's bits, and those of infinity, beyond which are NaNs.
_WORDS = {
    "float16": ("int16", 0x7FFF, 0x7C00),
    "float32": ("int32", 0x7FFFFFFF, 0x7F800000),
    "float64": ("int64", (1 << 63) - 1, 0x7FF << 52),
}


@tirx.transform.prim_func_pass(opt_level=0)
def compare_words_for_nan(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Test for NaN by integers in vectors, as ``VectorizeLoop`` takes no ``isnan``."""

    def call(node: ir.Call) -> Any:
        if not node.op.same_as(_ISNAN):
            return node
        (value,) = node.args
        dtype = str(value.ty.dtype)
        if dtype not in _WORDS or isinstance(value, tirx.FloatImm):  # vectors are fine as they are
            return node
        word, magnitude, infinity = _WORDS[dtype]
        bits = tirx.bitwise_and(tirx.reinterpret(word, value), tirx.const(magnitude, word))
        return tirx.GT(bits, tirx.const(infinity, word))

    def loop(node: tirx.For) -> Any:
        if node.kind != tirx.ForKind.VECTORIZED:
            return node
        body = tvm_ffi.structural_map(node.body, (ir.Call, call))
        return tirx.For(node.loop_var, node.min, node.extent, node.kind, body)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, loop)))


@tirx.transform.prim_func_pass(opt_level=0)
def broadcast_words(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Broadcast the words of a bfloat16, as ``BF16StorageLegalize`` sees no broadcast number."""

    def broadcast(node: tirx.Broadcast) -> Any:
        value = node.value
        if str(value.ty.dtype) != "bfloat16":
            return node
        lanes = DataType(str(node.ty.dtype)).lanes
        is_word = isinstance(value, ir.Call) and str(value.args[0].ty.dtype) == "uint16"
        word = value.args[0] if is_word else tirx.reinterpret("uint16", value)
        return tirx.reinterpret(f"bfloat16x{lanes}", tirx.Broadcast(word, lanes))

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Broadcast, broadcast)))
