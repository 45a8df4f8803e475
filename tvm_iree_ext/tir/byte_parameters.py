"""Functions whose parameters of 8-bit floats are taken as bytes.

What they compute with is numbers of the type (:func:`with_words_for_numbers`), or what arithmetic
on the bytes makes of them (:func:`with_byte_parameters`).
"""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS8, WORDS
from tvm_iree_ext.tir import small_floats
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

_REINTERPRET = "tirx.reinterpret"


def with_byte_parameters(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function over bytes in place of 8-bit floats, which it loads and rounds to.

    Code generation for GPUs makes loads of these types loads of float32.
    """
    bytes_of = _bytes_of(func)
    if not bytes_of:
        return func
    words = {hash(one) for one in bytes_of.values()}

    def load(node: Any) -> Any:
        if hash(node.source) not in words:
            return node
        return tirx.BufferLoad(node.source, node.indices)

    def call(node: Any) -> Any:
        if not node.op.same_as(ir.Op.get(_REINTERPRET)):
            return node
        (inner,) = node.args
        if isinstance(inner, tirx.Cast) and str(inner.ty.dtype) in FLOATS8:
            return small_floats.encoded(inner.value, str(inner.ty.dtype))
        return inner if str(inner.ty.dtype) == str(node.ty.dtype) else node

    return _replaced(func, bytes_of, load, call)


def with_words_for_numbers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function over bytes in place of 8-bit floats, as programs have them.

    What it loads is a number of the type, and may be what no arithmetic on bytes computes: a
    fragment of a matrix instruction.  No parameter of the type is a result.
    """
    bytes_of = _bytes_of(func)
    if not bytes_of:
        return func
    kinds = {
        hash(bytes_of[key]): str(one.dtype) for one in func.params if (key := hash(one)) in bytes_of
    }

    def load(node: Any) -> Any:
        if (dtype := kinds.get(hash(node.source))) is None:
            return node
        word = tirx.BufferLoad(node.source, node.indices)
        lanes = word.ty.dtype.lanes
        return tirx.reinterpret(f"{dtype}x{lanes}" if lanes > 1 else dtype, word)

    def call(node: Any) -> Any:
        """What is reinterpreted twice is reinterpreted once, or not at all."""
        if not node.op.same_as(ir.Op.get(_REINTERPRET)):
            return node
        (inner,) = node.args
        if not isinstance(inner, ir.Call) or not inner.op.same_as(ir.Op.get(_REINTERPRET)):
            return node
        (word,) = inner.args
        same = str(word.ty.dtype) == str(node.ty.dtype)
        return word if same else tirx.reinterpret(str(node.ty.dtype), word)

    return _replaced(func, bytes_of, load, call)


def _bytes_of(func: tirx.PrimFunc) -> dict[int, Any]:
    """Parameters of bytes for those of 8-bit floats, by the identities of these."""
    return {
        hash(param): tirx.decl_buffer(
            param.shape, WORDS[str(param.dtype)], param.name,
            data_alignment=int(param.data_alignment),
        )
        for param in func.params
        if str(getattr(param, "dtype", "")) in FLOATS8 and hasattr(param, "shape")
    }  # fmt: skip


def _replaced(func: tirx.PrimFunc, bytes_of: dict[int, Any], load: Any, call: Any) -> tirx.PrimFunc:
    """The function with other parameters, loads and calls."""
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
