"""Exponentials, maxima and conversions as the chips have them."""

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.expressions import cast, splat

_TERMS = 14  # of the series of 2^f for abs(f) <= 0.5: 4e-18


def held(value: Any) -> Any:
    """The value, computed once here.

    Through a register: outside loops TVM's ``StorageRewrite`` takes no variable that is bound to
    what was loaded.
    """
    cell = I.alloc_buffer((1,), str(value.ty.dtype), scope="local")
    I.buffer_store(cell, value, [0])
    return cell[0]


def exp2(kind: str, x: Any) -> Any:
    """2 to the ``x``: one instruction for 32 bits; 0 below the smallest normal number."""
    dtype = str(x.ty.dtype)
    if dtype == "float64":
        return exp2_of_double(x)
    if kind == "rocm":
        return tirx.call_llvm_pure_intrin(dtype, "llvm.amdgcn.exp2", x)
    return tirx.exp2(x)


def exp2_of_double(x: Any) -> Any:
    """2^n * 2^f with n the nearest integer; 0 below the smallest normal number."""
    exponent = held(x)
    # NaN and what no normal number is goes by selects, so that the integer is one.
    large = exponent >= tirx.const(1023.5, "float64")
    inside = tirx.And(exponent > tirx.const(-1022.0, "float64"), tirx.Not(large))
    bounded = held(tirx.Select(inside, exponent, tirx.const(0.0, "float64")))
    whole = held(tirx.nearbyint(bounded))
    rest = held(bounded - whole)
    power = tirx.const(math.log(2.0) ** (_TERMS - 1) / math.factorial(_TERMS - 1), "float64")
    for term in range(_TERMS - 2, -1, -1):
        coefficient = math.log(2.0) ** term / math.factorial(term)
        power = power * rest + tirx.const(coefficient, "float64")
    bits = (tirx.Cast("int64", whole) + tirx.const(1023, "int64")) << tirx.const(52, "int64")
    value = held(power * tirx.reinterpret("float64", bits))
    outside = tirx.Select(large, tirx.const(math.inf, "float64"), tirx.const(0.0, "float64"))
    return tirx.Select(inside, value, tirx.Select(tirx.isnan(exponent), exponent, outside))


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
