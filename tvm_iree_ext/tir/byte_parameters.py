"""Functions whose parameters of 8-bit floats are taken as bytes, of which they compute numbers."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS8, WORDS
from tvm_iree_ext.tir import small_floats
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi


def with_byte_parameters(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function over bytes in place of 8-bit floats, which it loads and rounds to.

    Code generation for GPUs makes loads of these types loads of float32.
    """
    bytes_of: dict[int, Any] = {}
    for param in func.params:
        if str(getattr(param, "dtype", "")) in FLOATS8 and hasattr(param, "shape"):
            bytes_of[hash(param)] = tirx.decl_buffer(
                param.shape, WORDS[str(param.dtype)], param.name,
                data_alignment=int(param.data_alignment),
            )  # fmt: skip
    if not bytes_of:
        return func
    words = {hash(one) for one in bytes_of.values()}

    def load(node: Any) -> Any:
        if hash(node.source) not in words:
            return node
        return tirx.BufferLoad(node.source, node.indices)

    def call(node: Any) -> Any:
        if not node.op.same_as(ir.Op.get("tirx.reinterpret")):
            return node
        (inner,) = node.args
        if isinstance(inner, tirx.Cast) and str(inner.ty.dtype) in FLOATS8:
            return small_floats.encoded(inner.value, str(inner.ty.dtype))
        return inner if str(inner.ty.dtype) == str(node.ty.dtype) else node

    body = tvm_ffi.structural_map(
        func.body,
        [
            (ir.Var, lambda var: bytes_of.get(hash(var), var)),
            (ir.TensorLoad, load),
            (ir.Call, call),
        ],
    )
    params = [bytes_of.get(hash(param), param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)
