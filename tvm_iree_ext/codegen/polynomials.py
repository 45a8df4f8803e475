"""Numbers and polynomials, of one number or of each in a vector."""

from typing import TypeAlias

from tvm import ir, tirx

Expr: TypeAlias = ir.Expr


def constant(value: float, dtype: str) -> Expr:
    """A number, or a vector of it."""
    scalar, _, lanes = dtype.partition("x")
    number = tirx.const(value, scalar)
    return tirx.Broadcast(number, int(lanes)) if lanes else number


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """``coefficients[0] + coefficients[1] x + ...``, by Horner's rule."""
    dtype = str(x.ty.dtype)
    result = constant(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + constant(coefficient, dtype)
    return result
