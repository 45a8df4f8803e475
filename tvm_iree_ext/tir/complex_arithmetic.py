"""Arithmetic of complex numbers that takes more than a line, on expressions of their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tvm_iree_ext.tir.tir_expressions import number
from tvm_iree_ext.tir.tvm_modules import ir, tirx

if TYPE_CHECKING:
    Expr: TypeAlias = ir.Expr
    Keep: TypeAlias = Callable[[ir.Expr], ir.Expr]  # has a value computed once

# By type: absolute values beyond the first are scaled by 2^-4, those below the second by 2 to the
# third.  Sums of two products of what is scaled are finite, and nothing of weight is subnormal.
_RANGES = {"float32": (2.0**124, 2.0**-100, 48), "float64": (2.0**1020, 2.0**-900, 108)}


def range_scale(large: Expr, power: float) -> Expr:
    """What brings numbers at the ends of their type's range inside, to a power; else 1.

    Args:
        large: the largest absolute value of the numbers.
        power: 1 for the scale, -1 for its inverse, -0.5 for that of its root.
    """
    most, least, up = _RANGES[str(large.ty.dtype)]
    raised = tirx.Select(
        large < number(least, large), number(2.0 ** (up * power), large), number(1.0, large)
    )
    return tirx.Select(large > number(most, large), number(2.0 ** (-4 * power), large), raised)


def quotient(real: Expr, imag: Expr, by_real: Expr, by_imag: Expr) -> tuple[Expr, Expr]:
    """The parts of a quotient, by Smith's method: no product of two large numbers overflows.

    Short, since regions are trees in which every use of a value is a copy of it: parts beyond half
    the largest number may overflow.  Kernels that keep values take :func:`scaled_quotient`.
    """
    return _smith(real, imag, by_real, by_imag, lambda value: value, _ratio)


def scaled_quotient(
    real: Expr, imag: Expr, by_real: Expr, by_imag: Expr, keep: Keep
) -> tuple[Expr, Expr]:
    """The same over the whole range; a finite number over an infinite one is 0, as in C's annex G.

    Args:
        real, imag: the parts of the dividend.
        by_real, by_imag: those of the divisor.
        keep: has a value computed once.
    """
    size = keep(tirx.max(tirx.abs(real), tirx.abs(imag)))
    by_size = keep(tirx.max(tirx.abs(by_real), tirx.abs(by_imag)))
    scale, by_scale = keep(range_scale(size, 1)), keep(range_scale(by_size, 1))
    real, imag = keep(real * scale), keep(imag * scale)
    by_real, by_imag = keep(by_real * by_scale), keep(by_imag * by_scale)
    x, y = _smith(real, imag, by_real, by_imag, keep, _ratio_of_any)
    back = keep(range_scale(size, -1) * by_scale)
    return x * back, y * back


def _smith(
    real: Expr,
    imag: Expr,
    by_real: Expr,
    by_imag: Expr,
    keep: Keep,
    ratio_of: Callable[[Expr, Expr], Expr],
) -> tuple[Expr, Expr]:
    is_wide = keep(tirx.abs(by_real) >= tirx.abs(by_imag))
    large = keep(tirx.Select(is_wide, by_real, by_imag))
    small = keep(tirx.Select(is_wide, by_imag, by_real))
    ratio = keep(ratio_of(large, small))
    divisor = keep(large + small * ratio)
    x, y = tirx.Select(is_wide, real, imag), tirx.Select(is_wide, imag, real)
    imaginary = tirx.Select(is_wide, y - x * ratio, x * ratio - y)
    return tirx.Div(x + y * ratio, divisor), tirx.Div(imaginary, divisor)


def _ratio(large: Expr, small: Expr) -> Expr:
    return tirx.Select(tirx.EQ(large, number(0.0, large)), large, tirx.Div(small, large))


def _ratio_of_any(large: Expr, small: Expr) -> Expr:
    """The ratio, of infinite parts 0, 1 or -1: then the divisor is infinite, and not NaN."""
    one, zero, infinity = (number(value, large) for value in (1.0, 0.0, math.inf))
    of_infinite = tirx.Select(
        tirx.EQ(tirx.abs(small), infinity),
        tirx.copysign(one, small) * tirx.copysign(one, large),
        zero,
    )
    is_bounded = tirx.Or(tirx.abs(large) < infinity, tirx.isnan(small))
    return tirx.Select(is_bounded, _ratio(large, small), of_infinite)


def magnitude(real: Expr, imag: Expr, keep: Keep = lambda value: value) -> Expr:
    """The absolute value, without overflow."""
    x, y = tirx.abs(real), tirx.abs(imag)
    large, small = keep(tirx.max(x, y)), keep(tirx.min(x, y))
    zero, one, infinity = (number(value, real) for value in (0.0, 1.0, math.inf))
    ratio = keep(tirx.Div(small, tirx.Select(large > zero, large, one)))
    size = large * tirx.sqrt(one + ratio * ratio)
    either = tirx.Or(tirx.isnan(real), tirx.isnan(imag))
    size = tirx.Select(either, nan(str(real.ty.dtype)), size)
    return tirx.Select(unbounded(real, imag), infinity, size)


def unbounded(real: Expr, imag: Expr) -> Expr:
    """Whether a part is infinite."""
    infinity = number(math.inf, real)
    return tirx.Or(tirx.EQ(tirx.abs(real), infinity), tirx.EQ(tirx.abs(imag), infinity))


def nan(dtype: str) -> Expr:
    """NaN of a float type of 32 or 64 bits."""
    word, pattern = ("int64", 0x7FF8 << 48) if dtype == "float64" else ("int32", 0x7FC00000)
    return tirx.reinterpret(dtype, tirx.const(pattern, word))
