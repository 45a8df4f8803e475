"""Copy bfloat16 and 8-bit floats from parameters as words of their width.

What is copied to shared memory unchanged may be an asynchronous copy, which TVM recognises where a
load is stored as it is: not where it is reinterpreted, as it is once shared memory holds words
(:mod:`tvm_iree_ext.codegen.narrow_storage`).  So the parameter gets a second name, of words.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.tir.purity import is_guard

_REINTERPRET = ir.Op.get("tirx.reinterpret")


@tirx.transform.prim_func_pass(opt_level=0)
def move_words(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Rewrite stores of reinterpreted loads from parameters; runs before buffers are flattened."""
    views: dict[int, tuple[Any, Any]] = {}  # of words, and their owners

    def view(buffer: Any, dtype: str) -> Any:
        if hash(buffer) not in views:
            words = tirx.decl_buffer(
                buffer.shape, dtype, str(buffer.name), strides=buffer.strides,
                data_alignment=int(buffer.data_alignment),
            )  # fmt: skip
            views[hash(buffer)] = (words, buffer)
        return views[hash(buffer)][0]

    def moved(value: Any) -> Any:
        if not isinstance(value, ir.Call):
            return value
        if is_guard(value):
            condition, *choices = value.args
            return tirx.if_then_else(condition, *map(moved, choices))
        if not value.op.same_as(_REINTERPRET) or not isinstance(value.args[0], TensorLoad):
            return value
        load, word = value.args[0], DataType(str(value.ty.dtype))
        held = DataType(str(load.source.dtype))
        if load.source.scope() != "global" or held.bits != word.bits or held.lanes > 1:
            return value
        return tirx.BufferLoad(view(load.source, f"uint{word.bits}"), load.indices)

    def store(node: Any) -> Any:
        if not node.buffer.scope().startswith("shared"):
            return node
        return tirx.BufferStore(node.buffer, moved(node.value), node.indices)

    body = tvm_ffi.structural_map(func.body, (tirx.BufferStore, store))
    declared = [tirx.DeclBuffer(words, data=owner.data) for words, owner in views.values()]
    return func.with_body(tirx.SeqStmt([*declared, body])) if declared else func
