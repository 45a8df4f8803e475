"""Operations of ``complex`` on pairs of TIR expressions."""

from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Expr, Pair
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context, Handler, exact, kind_of
from tvm_iree_ext.mlir.scalars.arith_floats import negated, number
from tvm_iree_ext.tir import complex_arithmetic


def _constant(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    real, imaginary = op.attributes["value"]
    return kind_of(op.results[0]).constant(complex(float(real), float(imaginary)))


def _mul(a: Pair, b: Pair) -> Pair:
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _div(a: Pair, b: Pair) -> Pair:
    return Pair(*complex_arithmetic.quotient(a.re, a.im, b.re, b.im))


def magnitude(a: Pair) -> Expr:
    """The absolute value, without overflow."""
    return complex_arithmetic.magnitude(a.re, a.im)


def _exp(a: Pair) -> Pair:
    size = tirx.exp(a.re)
    return Pair(size * tirx.cos(a.im), size * tirx.sin(a.im))


def _angle(a: Pair) -> Expr:
    return tirx.atan2(a.im, a.re)


def _log(a: Pair) -> Pair:
    return Pair(tirx.log(magnitude(a)), _angle(a))


def _sqrt(a: Pair) -> Pair:
    size = magnitude(a)
    half = number(0.5, size)
    zero = number(0.0, size)
    larger = tirx.sqrt((size + tirx.abs(a.re)) * half)
    safe = tirx.Select(larger > zero, larger, number(1.0, size))
    smaller = tirx.Div(tirx.abs(a.im) * half, safe)
    right = a.re >= zero
    real = tirx.Select(right, larger, smaller)
    imaginary = tirx.Select(right, smaller, larger)
    return Pair(real, tirx.copysign(imaginary, a.im))


def _sign(a: Pair) -> Pair:
    size = magnitude(a)
    zero = tirx.EQ(size, number(0.0, size))
    safe = tirx.Select(zero, number(1.0, size), size)
    return Pair(tirx.Div(a.re, safe), tirx.Div(a.im, safe))


def _cos(a: Pair) -> Pair:
    return Pair(tirx.cos(a.re) * tirx.cosh(a.im), negated(tirx.sin(a.re) * tirx.sinh(a.im)))


def _sin(a: Pair) -> Pair:
    return Pair(tirx.sin(a.re) * tirx.cosh(a.im), tirx.cos(a.re) * tirx.sinh(a.im))


def _tanh(a: Pair) -> Pair:
    two = number(2.0, a.re)
    scale = tirx.cosh(two * a.re) + tirx.cos(two * a.im)
    large = tirx.abs(a.re) > number(20.0, a.re)
    return Pair(
        tirx.Select(large, tirx.copysign(number(1.0, a.re), a.re), tirx.sinh(two * a.re) / scale),
        tirx.Select(large, number(0.0, a.re), tirx.sin(two * a.im) / scale),
    )


def _tan(a: Pair) -> Pair:
    turned = _tanh(Pair(negated(a.im), a.re))
    return Pair(turned.im, negated(turned.re))


def _pow(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Pair:
    a, b = operands
    zero = tirx.And(tirx.EQ(a.re, number(0.0, a.re)), tirx.EQ(a.im, number(0.0, a.im)))
    power = context.kept(_exp(context.kept(_mul(b, context.kept(_log(a))))))
    none = tirx.And(tirx.EQ(b.re, number(0.0, b.re)), tirx.EQ(b.im, number(0.0, b.im)))
    one, nought = number(1.0, a.re), number(0.0, a.re)
    real = tirx.Select(none, one, tirx.Select(zero, nought, power.re))
    return Pair(real, tirx.Select(tirx.Or(none, zero), nought, power.im))


def _expm1(a: Pair) -> Pair:
    found = _exp(a)
    return Pair(found.re - number(1.0, a.re), found.im)


def _rsqrt(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Pair:
    (a,) = operands
    one = Pair(number(1.0, a.re), number(0.0, a.re))
    return _div(one, context.kept(_sqrt(a)))


def _log1p(a: Pair) -> Pair:
    return _log(Pair(a.re + number(1.0, a.re), a.im))


COMPLEX: dict[str, Handler] = {
    "complex.constant": _constant,
    "complex.create": exact(Pair),
    "complex.re": exact(lambda a: a.re),
    "complex.im": exact(lambda a: a.im),
    "complex.add": exact(lambda a, b: Pair(a.re + b.re, a.im + b.im)),
    "complex.sub": exact(lambda a, b: Pair(a.re - b.re, a.im - b.im)),
    "complex.mul": exact(_mul),
    "complex.div": exact(_div),
    "complex.neg": exact(lambda a: Pair(negated(a.re), negated(a.im))),
    "complex.conj": exact(lambda a: Pair(a.re, negated(a.im))),
    "complex.abs": exact(magnitude),
    "complex.angle": exact(_angle),
    "complex.exp": exact(_exp),
    "complex.expm1": exact(_expm1),
    "complex.log": exact(_log),
    "complex.log1p": exact(_log1p),
    "complex.sqrt": exact(_sqrt),
    "complex.rsqrt": _rsqrt,
    "complex.sign": exact(_sign),
    "complex.sin": exact(_sin),
    "complex.cos": exact(_cos),
    "complex.tan": exact(_tan),
    "complex.tanh": exact(_tanh),
    "complex.pow": _pow,
    "complex.eq": exact(lambda a, b: tirx.And(tirx.EQ(a.re, b.re), tirx.EQ(a.im, b.im))),
    "complex.neq": exact(lambda a, b: tirx.Or(tirx.NE(a.re, b.re), tirx.NE(a.im, b.im))),
}
