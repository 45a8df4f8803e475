"""Functions of complex numbers, on expressions of their parts.

Their error is counted in norm: that of a part may be large beside the part where the other part is
far larger.  Nothing between operand and result overflows, underflows or cancels where the result
does not: operands at the ends of their type's range are scaled by powers of two (Hull, Fairgrieve
and Tang, 1994), logarithms near the unit circle are those of 1 plus a difference, and exponentials
of much are made in two factors.  Special values are those of C's annex G.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tvm_iree_ext.tir.complex_arithmetic import (
    magnitude,
    nan,
    range_scale,
    scaled_quotient,
    unbounded,
)
from tvm_iree_ext.tir.power_rests import power_rests
from tvm_iree_ext.tir.tir_expressions import library_function, number
from tvm_iree_ext.tir.tvm_modules import ir, tirx

if TYPE_CHECKING:
    Expr: TypeAlias = ir.Expr
    Parts: TypeAlias = tuple[ir.Expr, ir.Expr]
    Keep: TypeAlias = Callable[[ir.Expr], ir.Expr]  # has a value computed once


@dataclass(frozen=True)
class _Limits:
    """Of a float type."""

    exponential: float  # beyond it, exp is made of two factors
    shift: float  # what is taken from the exponent then: exp(2 * shift) is not finite
    tanh: float  # beyond it, tanh is 1 to within an eps


_LIMITS = {"float32": _Limits(80.0, 64.0, 11.0), "float64": _Limits(700.0, 512.0, 22.0)}


def _limits(value: Expr) -> _Limits:
    return _LIMITS[str(value.ty.dtype)]


def _infinite(value: Expr) -> Expr:
    return tirx.EQ(tirx.abs(value), number(math.inf, value))


def _in_order(a: Parts, keep: Keep) -> Parts:
    """The larger absolute value of the parts, and the smaller one."""
    x, y = tirx.abs(a[0]), tirx.abs(a[1])
    return keep(tirx.max(x, y)), keep(tirx.min(x, y))


def _ratio(large: Expr, small: Expr, keep: Keep) -> Expr:
    return keep(tirx.Div(small, tirx.Select(large > number(0.0, large), large, number(1.0, large))))


def exponential(a: Parts, keep: Keep) -> Parts:
    """e to the power of ``a``; the size is a product where it alone would overflow."""
    re, im = a
    limits = _limits(re)
    much = re > number(limits.exponential, re)
    size = keep(tirx.exp(tirx.Select(much, re - number(limits.shift, re), re)))
    rest = keep(tirx.Select(much, number(math.exp(limits.shift), re), number(1.0, re)))
    cos, sin = keep(tirx.cos(im)), keep(tirx.sin(im))
    zero, infinity = number(0.0, re), number(math.inf, re)
    none = tirx.EQ(re, number(-math.inf, re))
    real = tirx.Select(_turning(cos, re), infinity, size * cos * rest)
    real = tirx.Select(none, zero, real)
    imag = tirx.Select(none, zero, size * sin * rest)
    return real, tirx.Select(tirx.EQ(im, zero), im, imag)


def exponential_minus_one(a: Parts, keep: Keep) -> Parts:
    """exp(a) - 1 as expm1(x) cos y - 2 sin(y / 2)^2: no two numbers near 1 are subtracted."""
    re, im = a
    whole_re, whole_im = exponential(a, keep)
    whole_re = keep(whole_re)
    less = keep(library_function("expm1")(re))
    half = keep(tirx.sin(im * number(0.5, im)))
    near = less * tirx.cos(im) - number(2.0, re) * half * half
    one = number(1.0, re)
    far = tirx.Or(re > number(20.0, re), tirx.EQ(re, number(-math.inf, re)))
    return tirx.Select(far, whole_re - one, near), whole_im


def _log_of_size(a: Parts, near_one: Expr | None, less: Expr | None, keep: Keep) -> Expr:
    """The logarithm of the absolute value, by the squares' sum less 1 where that is small.

    Args:
        a: the number.
        near_one: whether ``less`` is taken, in place of what follows from ``a``.
        less: the sum of the squares of the parts, less 1.
        keep: has a value computed once.
    """
    large, small = _in_order(a, keep)
    half, one = number(0.5, large), number(1.0, large)
    near = tirx.And(large > half, large < number(2.0, large))
    wide_large, wide_small = _wide(large), _wide(small)
    unit = number(1.0, wide_large)
    squares = (wide_large - unit) * (wide_large + unit) + wide_small * wide_small
    ratio = _ratio(large, small, keep)
    rest = tirx.Select(near, _narrow(squares, large), ratio * ratio)
    if near_one is not None and less is not None:
        rest = tirx.Select(near_one, less, rest)
        near = tirx.Or(near_one, near)
    main = tirx.log(tirx.Select(near, one, large))
    size = main + half * tirx.log1p(keep(rest))
    either = tirx.Or(tirx.isnan(a[0]), tirx.isnan(a[1]))
    size = tirx.Select(either, nan(str(large.ty.dtype)), size)
    return tirx.Select(unbounded(*a), number(math.inf, large), size)


def _wide(value: Expr) -> Expr:
    """In float64: the squares of float32 are exact there."""
    return tirx.Cast("float64", value) if str(value.ty.dtype) == "float32" else value


def _narrow(value: Expr, like: Expr) -> Expr:
    dtype = str(like.ty.dtype)
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def logarithm(a: Parts, keep: Keep) -> Parts:
    """The principal logarithm."""
    return _log_of_size(a, None, None, keep), angle(a)


def logarithm_of_one_plus(a: Parts, keep: Keep) -> Parts:
    """The principal logarithm of 1 + a; near 0 by 2 x + x^2 + y^2."""
    re, im = a
    one, half = number(1.0, re), number(0.5, re)
    near = keep(tirx.And(tirx.abs(re) < half, tirx.abs(im) < half))
    wide, other = _wide(re), _wide(im)
    squares = wide * (wide + number(2.0, wide)) + other * other
    turned = keep(re + one), im
    return _log_of_size(turned, near, _narrow(squares, re), keep), angle(turned)


def angle(a: Parts) -> Expr:
    """The argument, from -pi to pi."""
    return tirx.atan2(a[1], a[0])


def square_root(a: Parts, keep: Keep) -> Parts:
    """The principal root."""
    re, im = a
    x, y = tirx.abs(re), tirx.abs(im)
    large = keep(tirx.max(x, y))
    scale, root = keep(range_scale(large, 1)), keep(range_scale(large, -0.5))
    x, y = keep(x * scale), keep(y * scale)
    half, zero = number(0.5, re), number(0.0, re)
    larger = keep(tirx.sqrt((keep(magnitude(x, y, keep)) + x) * half))
    safe = tirx.Select(tirx.EQ(larger, zero), number(1.0, re), larger)
    smaller = keep(tirx.Div(y * half, safe))
    right = re >= zero
    real = tirx.Select(right, larger, smaller) * root
    imag = tirx.copysign(tirx.Select(right, smaller, larger) * root, im)
    upright = _infinite(im)
    return tirx.Select(upright, number(math.inf, re), real), tirx.Select(upright, im, imag)


def reciprocal_root(a: Parts, keep: Keep) -> Parts:
    """1 over the principal root."""
    re, im = map(keep, square_root(a, keep))
    return scaled_quotient(number(1.0, re), number(0.0, re), re, im, keep)


def sign(a: Parts, keep: Keep) -> Parts:
    """A number over its absolute value; 0 stays."""
    re, im = a
    large, small = _in_order(a, keep)
    ratio = _ratio(large, small, keep)
    one = number(1.0, re)
    unit = keep(tirx.Div(one, tirx.sqrt(one + ratio * ratio)))
    other = keep(ratio * unit)
    is_real = tirx.abs(re) >= tirx.abs(im)
    none = tirx.EQ(large, number(0.0, large))
    return (
        tirx.Select(none, re, tirx.copysign(tirx.Select(is_real, unit, other), re)),
        tirx.Select(none, im, tirx.copysign(tirx.Select(is_real, other, unit), im)),
    )


def _hyperbolic(y: Expr, keep: Keep) -> tuple[Expr, Expr, Expr]:
    """cosh and sinh of a real number, each over a common factor, and that factor."""
    limits = _limits(y)
    size = tirx.abs(y)
    much = size > number(limits.exponential, y)
    power = keep(tirx.exp(tirx.Select(much, size - number(limits.shift, y), number(0.0, y))))
    factor = tirx.Select(much, number(math.exp(limits.shift) / 2, y), number(1.0, y))
    cosh = tirx.Select(much, power, tirx.cosh(y))
    sinh = tirx.Select(much, tirx.copysign(power, y), tirx.sinh(y))
    return keep(cosh), keep(sinh), keep(factor)


def _zero_or(factor: Expr, product: Expr) -> Expr:
    """A product, or the factor that is 0, though another one be infinite."""
    return tirx.Select(tirx.EQ(factor, number(0.0, factor)), factor, product)


def _turning(cos: Expr, size: Expr) -> Expr:
    """Whether a number is infinite, and where it points is not known."""
    return tirx.And(_infinite(size), tirx.isnan(cos))


def sine(a: Parts, keep: Keep) -> Parts:
    """sin x cosh y + i cos x sinh y."""
    re, im = a
    cosh, sinh, factor = _hyperbolic(im, keep)
    sin, cos = keep(tirx.sin(re)), keep(tirx.cos(re))
    imag = tirx.Select(_turning(cos, im), im, _zero_or(im, cos * sinh * factor))
    return _zero_or(sin, sin * cosh * factor), imag


def cosine(a: Parts, keep: Keep) -> Parts:
    """cos x cosh y - i sin x sinh y."""
    re, im = a
    cosh, sinh, factor = _hyperbolic(im, keep)
    sin, cos = keep(tirx.sin(re) * number(-1.0, re)), keep(tirx.cos(re))
    imag = _zero_or(sin, _zero_or(im, sinh * sin * factor))
    return tirx.Select(_turning(cos, im), tirx.abs(im), cos * cosh * factor), imag


def hyperbolic_tangent(a: Parts, keep: Keep) -> Parts:
    """By Kahan's form, of tan y and sinh x: nothing cancels near a pole."""
    re, im = a
    limit = number(_limits(re).tanh, re)
    one, four = number(1.0, re), number(4.0, re)
    much = keep(tirx.abs(re) > limit)
    tan = keep(tirx.tan(im))
    sinh = keep(tirx.sinh(tirx.Select(much, number(0.0, re), re)))
    beta = keep(one + tan * tan)
    below = keep(one + beta * sinh * sinh)
    rho = tirx.sqrt(one + sinh * sinh)
    least = tirx.exp(tirx.abs(re) * number(-1.0, re))
    far = four * tirx.sin(im) * tirx.cos(im) * least * least
    far = tirx.Select(_infinite(re), tirx.copysign(number(0.0, im), im), far)
    real = tirx.Select(much, tirx.copysign(one, re), tirx.Div(beta * rho * sinh, below))
    imag = tirx.Select(much, far, tirx.Div(tan, below))
    return real, tirx.Select(tirx.EQ(im, number(0.0, im)), im, imag)


def tangent(a: Parts, keep: Keep) -> Parts:
    """tan z = -i tanh(i z)."""
    re, im = a
    minus = number(-1.0, re)
    real, imag = hyperbolic_tangent((im * minus, re), keep)
    return imag, real * minus


def power(a: Parts, b: Parts, keep: Keep) -> Parts:
    """exp(b log a); 1 where b is 0.

    Its error would grow with the size of b log a.  Of float32 it is computed in float64, where that
    does not show; of float64 the exponential is times 1 plus what the exponent is rounded by.
    """
    re, im = (keep(_wide(part)) for part in a)
    x, y = (keep(_wide(part)) for part in b)
    zero, one = number(0.0, re), number(1.0, re)
    size, turn = map(keep, logarithm((re, im), keep))
    exponent = keep(x * size - y * turn), keep(x * turn + y * size)
    real, imag = exponential(exponent, keep)
    if str(a[0].ty.dtype) == "float64":
        rests = tuple(map(keep, power_rests((re, im), (x, y), exponent)))
        real, imag = _with_rests((keep(real), keep(imag)), rests)
    none = tirx.And(tirx.EQ(x, zero), tirx.EQ(y, zero))
    of_zero = tirx.And(tirx.EQ(re, zero), tirx.EQ(im, zero))
    real = tirx.Select(none, one, tirx.Select(of_zero, zero, real))
    imag = tirx.Select(tirx.Or(of_zero, none), zero, imag)
    return _narrow(real, a[0]), _narrow(imag, a[0])


def _with_rests(value: Parts, rests: Parts) -> Parts:
    """A number times 1 plus a small one; infinite parts and those that are 0 stay."""
    (real, imag), (size, turn) = value, rests
    zero = number(0.0, real)
    stays = tirx.Or(_infinite(real), _infinite(imag))
    is_real = tirx.Or(stays, tirx.EQ(imag, zero))
    return (
        tirx.Select(stays, real, real + (real * size - imag * turn)),
        tirx.Select(is_real, imag, imag + (imag * size + real * turn)),
    )
