"""Exponentials, maxima and conversions as the chips have them."""

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.vector_math import EXP2_OF_NEGATIVE
from tvm_iree_ext.intrin.fast_exp2 import fast_exp2
from tvm_iree_ext.tir.tir_expressions import cast, splat


def held(value: Any) -> Any:
    """The value, computed once here, in a register."""
    cell = I.alloc_buffer((1,), str(value.ty.dtype), scope="local")
    I.buffer_store(cell, value, [0])
    return cell[0]


def exp2(kind: str, x: Any) -> Any:
    """2 to an ``x`` that is not positive: one instruction for 32 bits; 0 below the normal numbers.

    An overflow's condition would take AMD's scalar registers, for each element that is under way.
    """
    dtype = str(x.ty.dtype)
    if dtype == "float32":
        return fast_exp2(kind, x)
    return tirx.call_pure_extern(dtype, EXP2_OF_NEGATIVE, x) if kind == "rocm" else tirx.exp2(x)


def largest(kind: str, a: Any, b: Any) -> Any:
    """The larger of two; where one is no number, the other."""
    if kind == "rocm":
        return tirx.call_llvm_pure_intrin(str(a.ty.dtype), "llvm.maxnum", a, b)
    return tirx.max(a, b)


_WORD = "uint16"  # holds a bfloat16: TVM would make a buffer of these one of float32


def as_held_dtype(dtype: str) -> str:
    """The type of buffers for elements of a type."""
    return _WORD if dtype == "bfloat16" else dtype


def as_held(value: Any, dtype: str) -> Any:
    """Elements in a buffer's type; what becomes bfloat16 is float32, and rounded to nearest."""
    came, _, lanes = str(value.ty.dtype).partition("x")
    if dtype != _WORD:
        return cast(value, dtype)

    def of(scalar: str) -> str:
        return f"{scalar}x{lanes}" if lanes else scalar

    if came == "bfloat16":
        return tirx.reinterpret(of(_WORD), value)
    half, shift = (splat(tirx.const(n, "uint32"), int(lanes or 1)) for n in (0x8000, 16))
    bits = tirx.reinterpret(of("uint32"), cast(value, "float32"))
    return tirx.Cast(of(_WORD), (bits + half) >> shift)
