"""Operations of ``complex`` on pairs of TIR expressions."""

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Expr, Pair
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context, Handler, exact, kind_of
from tvm_iree_ext.mlir.scalars.arith_floats import negated
from tvm_iree_ext.tir import complex_arithmetic
from tvm_iree_ext.tir import complex_functions as functions


def _constant(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    real, imaginary = op.attributes["value"]
    return kind_of(op.results[0]).constant(complex(float(real), float(imaginary)))


def _mul(a: Pair, b: Pair) -> Pair:
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _computed(function: Callable[..., Any]) -> Handler:
    """A handler of a function of one number or two, whose steps are computed once."""

    def handler(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
        result = function(*operands, keep=context.kept)
        return Pair(*result) if isinstance(result, tuple) else result

    return handler


def _div(a: Pair, b: Pair, keep: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    return complex_arithmetic.scaled_quotient(*a, *b, keep)


def _abs(a: Pair, keep: Callable[[Expr], Expr]) -> Expr:
    return complex_arithmetic.magnitude(*a, keep)


COMPLEX: dict[str, Handler] = {
    "complex.constant": _constant,
    "complex.create": exact(Pair),
    "complex.re": exact(lambda a: a.re),
    "complex.im": exact(lambda a: a.im),
    "complex.add": exact(lambda a, b: Pair(a.re + b.re, a.im + b.im)),
    "complex.sub": exact(lambda a, b: Pair(a.re - b.re, a.im - b.im)),
    "complex.mul": exact(_mul),
    "complex.div": _computed(_div),
    "complex.neg": exact(lambda a: Pair(negated(a.re), negated(a.im))),
    "complex.conj": exact(lambda a: Pair(a.re, negated(a.im))),
    "complex.abs": _computed(_abs),
    "complex.angle": exact(functions.angle),
    "complex.exp": _computed(functions.exponential),
    "complex.expm1": _computed(functions.exponential_minus_one),
    "complex.log": _computed(functions.logarithm),
    "complex.log1p": _computed(functions.logarithm_of_one_plus),
    "complex.sqrt": _computed(functions.square_root),
    "complex.rsqrt": _computed(functions.reciprocal_root),
    "complex.sign": _computed(functions.sign),
    "complex.sin": _computed(functions.sine),
    "complex.cos": _computed(functions.cosine),
    "complex.tan": _computed(functions.tangent),
    "complex.tanh": _computed(functions.hyperbolic_tangent),
    "complex.pow": _computed(functions.power),
    "complex.eq": exact(lambda a, b: tirx.And(tirx.EQ(a.re, b.re), tirx.EQ(a.im, b.im))),
    "complex.neq": exact(lambda a, b: tirx.Or(tirx.NE(a.re, b.re), tirx.NE(a.im, b.im))),
}
