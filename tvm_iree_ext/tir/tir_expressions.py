"""TIR expressions of kernels: index constants, ramps and splats, conversions between types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tvm_iree_ext.base.dtypes import item_bytes, numpy_dtype
from tvm_iree_ext.tir.rounded_bits import expanded
from tvm_iree_ext.tir.small_floats import widened
from tvm_iree_ext.tir.tvm_modules import ir, tirx

if TYPE_CHECKING:
    Expr: TypeAlias = ir.Expr
    Index: TypeAlias = Expr | int


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """``Expr`` and ``Index``: of TVM, which is imported when they are asked for."""
        if name not in ("Expr", "Index"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return ir.Expr if name == "Expr" else ir.Expr | int


def i64(value: Index) -> Expr:
    """``value`` as an index expression."""
    return tirx.const(value, "int64") if isinstance(value, int) else value


def known(value: Index) -> int | None:
    """The number, where it is one at build time."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, tirx.IntImm) else None


def number(value: float, like: Expr) -> Expr:
    """A constant of the type of an expression."""
    return tirx.const(value, str(like.ty.dtype))


def library_function(name: str) -> Callable[..., Expr]:
    """A function of the library of C, for float32 and float64."""

    def call(*operands: Expr) -> Expr:
        dtype = str(operands[0].ty.dtype)
        return tirx.call_pure_extern(dtype, name + ("f" if dtype == "float32" else ""), *operands)

    return call


def run(base: Index, lanes: int) -> Expr:
    """The indices ``base .. base + lanes - 1``."""
    return tirx.Ramp(i64(base), i64(1), lanes) if lanes > 1 else i64(base)


def splat(value: Expr, lanes: int) -> Expr:
    """``value`` in every lane."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def convert(value: Expr, dtype: str) -> Expr:
    """A scalar ``value`` in the type ``dtype``, where TVM's own conversion of bfloat16 will do."""
    if str(value.ty.dtype) == dtype:
        return value
    value = widened(value)
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def cast(value: Expr, dtype: str) -> Expr:
    """``value`` with its elements converted to the scalar type ``dtype``."""
    came, _, lanes = str(value.ty.dtype).partition("x")
    if came == dtype:
        return value
    if came.startswith("float8"):
        return cast(widened(value), dtype)

    def of(scalar: str) -> str:
        return f"{scalar}x{lanes}" if lanes else scalar

    if came == "bfloat16":
        # By hand: TVM's own conversion goes wrong where the result is bound to a variable.
        wide = tirx.Cast(of("uint32"), tirx.reinterpret(of("uint16"), value))
        shift = splat(tirx.const(16, "uint32"), int(lanes or 1))
        return cast(tirx.reinterpret(of("float32"), wide << shift), dtype)
    if dtype == "bfloat16" and came != "float32":
        return cast(cast(value, "float32"), dtype)
    return tirx.Cast(of(dtype), value)


def bits(value: Expr, dtype: str) -> Expr:
    """The bit patterns of numbers as ``dtype`` holds them, as unsigned integers."""
    lanes = int(value.ty.dtype.lanes)

    def of(scalar: str) -> str:
        return f"{scalar}x{lanes}" if lanes > 1 else scalar

    if dtype == "bool":
        return tirx.Cast(of("uint8"), value)
    word = f"uint{item_bytes(dtype) * 8}"
    if str(value.ty.dtype) == of(word):
        return value
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        # Here, not by the compiler: TVM reinterprets neither an integer 0 nor a bfloat16 number.
        pattern = int(np.array(value.value, numpy_dtype(dtype)).view(word))
        if pattern < 1 << 63:
            return tirx.const(pattern, word)
        return tirx.reinterpret(word, tirx.const(pattern - (1 << 64), "int64"))
    if dtype != "bfloat16":
        return tirx.reinterpret(of(word), cast(value, dtype))
    return expanded(cast(value, "float32"))  # by hand, as in cast
