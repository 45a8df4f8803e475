"""Arithmetic of complex numbers that takes more than a line, on expressions of their parts."""

from __future__ import annotations

from tvm_iree_ext.tir.tvm_modules import ir, tirx


def quotient(
    real: ir.Expr, imag: ir.Expr, by_real: ir.Expr, by_imag: ir.Expr
) -> tuple[ir.Expr, ir.Expr]:
    """The parts of a quotient, by Smith's method: no product of two large numbers overflows."""
    zero = tirx.const(0.0, str(real.ty.dtype))
    wide = tirx.abs(by_real) >= tirx.abs(by_imag)
    large, small = tirx.Select(wide, by_real, by_imag), tirx.Select(wide, by_imag, by_real)
    ratio = tirx.Select(tirx.EQ(large, zero), large, tirx.Div(small, large))
    scale = large + small * ratio
    x, y = tirx.Select(wide, real, imag), tirx.Select(wide, imag, real)
    imaginary = tirx.Select(wide, y - x * ratio, x * ratio - y)
    return tirx.Div(x + y * ratio, scale), tirx.Div(imaginary, scale)


def magnitude(real: ir.Expr, imag: ir.Expr) -> ir.Expr:
    """The absolute value, without overflow."""
    dtype = str(real.ty.dtype)
    zero, one, infinite = (tirx.const(value, dtype) for value in (0.0, 1.0, float("inf")))
    x, y = tirx.abs(real), tirx.abs(imag)
    large, small = tirx.max(x, y), tirx.min(x, y)
    ratio = tirx.Div(small, tirx.Select(large > zero, large, one))
    found = large * tirx.sqrt(one + ratio * ratio)
    found = tirx.Select(tirx.EQ(large, infinite), infinite, found)
    either = tirx.Or(tirx.isnan(real), tirx.isnan(imag))
    unbounded = tirx.Or(tirx.EQ(x, infinite), tirx.EQ(y, infinite))
    return tirx.Select(unbounded, infinite, tirx.Select(either, nan(dtype), found))


def nan(dtype: str) -> ir.Expr:
    """NaN of a float type of 32 or 64 bits."""
    word, pattern = ("int64", 0x7FF8 << 48) if dtype == "float64" else ("int32", 0x7FC00000)
    return tirx.reinterpret(dtype, tirx.const(pattern, word))
