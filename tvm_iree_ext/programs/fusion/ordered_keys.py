"""Integers that are ordered as floats are: functions that make them, and that take elements.

    bits >= 0:  bits
    bits < 0:   bits ^ 0x7fff...       the more negative a float, the larger its bits

Zeros of both signs are 0, and every NaN is the largest, as in PyTorch.
"""

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes

ORDERED = {"float16": "int32", "bfloat16": "int32", "float32": "int32", "float64": "int64"}
"""The type of the integers, for each of floats.  Those of 16 bits are taken as float32."""

_OF_BITS = {"int32": ("float32", 23), "int64": ("float64", 52)}  # the float, bits of its mantissa


def ordered_key(value: Any) -> Any:
    """The integer of a float."""
    kind = ORDERED[str(value.ty.dtype)]
    floats, mantissa = _OF_BITS[kind]
    bits = tirx.reinterpret(kind, tirx.Cast(floats, value) if _is_short(value) else value)
    width = 8 * item_bytes(kind)
    largest = tirx.const(2 ** (width - 1) - 1, kind)
    infinity = tirx.const((2 ** (width - 1 - mantissa) - 1) << mantissa, kind)
    magnitude = bits & largest
    key = tirx.Select(bits < tirx.const(0, kind), bits ^ largest, bits)
    key = tirx.Select(magnitude == tirx.const(0, kind), tirx.const(0, kind), key)
    return tirx.Select(magnitude > infinity, largest, key)


def _is_short(value: Any) -> bool:
    return item_bytes(str(value.ty.dtype)) == 2


def ordered_function(shape: Sequence[ir.Expr], dtype: str) -> tirx.PrimFunc:
    """``target[at] = ordered_key(source[at])``."""
    kind = ORDERED[dtype]
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("ordered")
        I.func_attr({"tirx.noalias": True})
        source = I.arg("source", I.buffer(shape, dtype, align=item_bytes(dtype)))
        target = I.arg("target", I.buffer(shape, kind, align=item_bytes(kind)))
        with I.sblock("root"), I.grid(*shape) as loops, I.sblock("ordered"):
            at = [I.axis.spatial(e, v) for e, v in zip(shape, _listed(loops), strict=True)]
            I.buffer_store(target, ordered_key(source[tuple(at)]), at)
    return builder.get()


def taken_function(
    shape: Sequence[ir.Expr], taken: Sequence[ir.Expr], dimension: int, dtype: str, index: str
) -> tirx.PrimFunc:
    """``target[at] = source[at, with places[at] along the dimension]``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("taken")
        I.func_attr({"tirx.noalias": True})
        source = I.arg("source", I.buffer(shape, dtype, align=item_bytes(dtype)))
        places = I.arg("places", I.buffer(taken, index, align=item_bytes(index)))
        target = I.arg("target", I.buffer(taken, dtype, align=item_bytes(dtype)))
        with I.sblock("root"), I.grid(*taken) as loops, I.sblock("taken"):
            at = [I.axis.spatial(e, v) for e, v in zip(taken, _listed(loops), strict=True)]
            read = list(at)
            read[dimension] = tirx.Cast("int64", places[tuple(at)])
            I.buffer_store(target, source[tuple(read)], at)
    return builder.get()


def _listed(loops: Any) -> list[Any]:
    return [loops] if isinstance(loops, ir.Var) else list(loops)
