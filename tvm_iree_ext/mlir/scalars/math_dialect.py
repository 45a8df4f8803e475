"""Operations of ``math`` as TIR expressions; those below float32 are computed there and rounded."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Expr, integer
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars import arith
from tvm_iree_ext.mlir.scalars.arith_floats import nan
from tvm_iree_ext.tir.tir_expressions import library_function, number


def _round(a: Expr) -> Expr:
    """To the nearest, halves away from 0; TVM's own takes halves to even."""
    whole = tirx.trunc(a)
    away = whole + tirx.copysign(number(1.0, a), a)
    half = tirx.abs(a - whole) >= number(0.5, a)  # never of what is large: that is whole
    return tirx.copysign(tirx.Select(half, away, whole), a)


def _ipowi(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    kind = arith.kind_of(op.results[0])
    base, power = operands
    exponent = arith.known(power)
    if exponent is None or not 0 <= exponent <= 64:
        # Squares of squares, each used twice, would be an expression of 2^31 nodes.
        raise Unsupported("with an exponent that is no constant from 0 to 64; math.fpowi takes any")
    found = integer(1, kind.held)
    for _ in range(exponent):
        found = arith.wrapping(context, "mul", found, base, kind)
    return found


def _fpowi(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    base, power = operands
    exponent = arith.known(power)
    kind = arith.kind_of(op.results[0])
    if exponent is not None and abs(exponent) <= 16:
        found = number(1.0, base)
        for _ in range(abs(exponent)):
            found = found * base
        return context.rounded(number(1.0, base) / found if exponent < 0 else found, kind)
    return context.rounded(tirx.pow(base, tirx.Cast(str(base.ty.dtype), power)), kind)


def _counting(
    count: Callable[[Expr, int], Expr],
    context: arith.Context,
    op: form.ParsedOperation,
    operands: list[Any],
) -> Expr:
    """A count of bits, of an integer as unsigned in 64 bits."""
    kind = arith.kind_of(op.results[0])
    wide = tirx.Cast("uint64", arith.as_unsigned(operands[0], kind))
    return arith.narrowed(count(wide, kind.bits), kind)


def _ones(value: Expr, width: int) -> Expr:
    return tirx.Cast("int64", tirx.popcount(value))


def _leading(value: Expr, width: int) -> Expr:
    """With every bit below the highest set, those that are left."""
    for shift in (1, 2, 4, 8, 16, 32):
        value = value | (value >> integer(shift, "uint64"))
    return integer(width, "int64") - _ones(value, width)


def _trailing(value: Expr, width: int) -> Expr:
    """The bits below the lowest one that is set: ones of x & -x less 1."""
    if width < 64:
        value = value | integer(1 << width, "uint64")
    below = tirx.bitwise_and(
        tirx.bitwise_xor(value, integer(-1, "uint64")),
        tirx.Select(
            tirx.EQ(value, integer(0, "uint64")),
            integer(-1, "uint64"),
            tirx.Cast("uint64", value - integer(1, "uint64")),
        ),
    )
    return _ones(below, width)


def _absi(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    kind = arith.kind_of(op.results[0])
    value = arith.as_signed(operands[0], kind)
    zero = integer(0, str(value.ty.dtype))
    minus = arith.wrapping(context, "sub", zero, value, kind) if kind.kind != "bool" else value
    return arith.narrowed(tirx.Select(value < zero, minus, value), kind)


def _clampf(value: Expr, low: Expr, high: Expr) -> Expr:
    bounded = tirx.Select(value < low, low, tirx.Select(value > high, high, value))
    return tirx.Select(tirx.isnan(value), nan(value), bounded)


def _powf(a: Expr, b: Expr) -> Expr:
    if isinstance(b, tirx.FloatImm):
        match float(b.value):
            case 2.0:
                return a * a
            case 1.0:
                return a
            case 0.5:  # of -inf C has +inf, and of -0 +0
                return tirx.pow(a, b)
            case -1.0:
                return number(1.0, a) / a
    return tirx.pow(a, b)


def _isnormal(a: Expr) -> Expr:
    smallest = number(2.0**-126 if str(a.ty.dtype) == "float32" else 2.0**-1022, a)
    size = tirx.abs(a)
    return tirx.And(size >= smallest, size < number(float("inf"), a))


def _sincos(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    kind = arith.kind_of(op.results[0])
    return [context.rounded(compute(operands[0]), kind) for compute in (tirx.sin, tirx.cos)]


MATH: dict[str, arith.Handler] = {
    "math.absf": arith.exact(tirx.abs),
    "math.absi": _absi,
    "math.acos": arith.rounding(tirx.acos),
    "math.acosh": arith.rounding(tirx.acosh),
    "math.asin": arith.rounding(tirx.asin),
    "math.asinh": arith.rounding(tirx.asinh),
    "math.atan": arith.rounding(tirx.atan),
    "math.atan2": arith.rounding(tirx.atan2),
    "math.atanh": arith.rounding(library_function("atanh")),
    "math.cbrt": arith.rounding(library_function("cbrt")),
    "math.ceil": arith.exact(tirx.ceil),
    "math.clampf": arith.exact(_clampf),
    "math.copysign": arith.exact(tirx.copysign),
    "math.cos": arith.rounding(tirx.cos),
    "math.cosh": arith.rounding(tirx.cosh),
    "math.ctlz": partial(_counting, _leading),
    "math.ctpop": partial(_counting, _ones),
    "math.cttz": partial(_counting, _trailing),
    "math.erf": arith.rounding(tirx.erf),
    "math.erfc": arith.rounding(library_function("erfc")),
    "math.exp": arith.rounding(tirx.exp),
    "math.exp2": arith.rounding(tirx.exp2),
    "math.expm1": arith.rounding(library_function("expm1")),
    "math.floor": arith.exact(tirx.floor),
    "math.fma": arith.rounding(library_function("fma")),
    "math.fpowi": _fpowi,
    "math.ipowi": _ipowi,
    "math.isfinite": arith.exact(lambda a: tirx.abs(a) < number(float("inf"), a)),
    "math.isinf": arith.exact(lambda a: tirx.EQ(tirx.abs(a), number(float("inf"), a))),
    "math.isnan": arith.exact(tirx.isnan),
    "math.isnormal": arith.exact(_isnormal),
    "math.log": arith.rounding(tirx.log),
    "math.log10": arith.rounding(tirx.log10),
    "math.log1p": arith.rounding(tirx.log1p),
    "math.log2": arith.rounding(tirx.log2),
    "math.powf": arith.rounding(_powf),
    "math.round": arith.exact(_round),
    "math.roundeven": arith.exact(tirx.nearbyint),
    "math.rsqrt": arith.rounding(lambda a: number(1.0, a) / tirx.sqrt(a)),
    "math.sin": arith.rounding(tirx.sin),
    "math.sincos": _sincos,
    "math.sinh": arith.rounding(tirx.sinh),
    "math.sqrt": arith.rounding(tirx.sqrt),
    "math.tan": arith.rounding(tirx.tan),
    "math.tanh": arith.rounding(tirx.tanh),
    "math.trunc": arith.exact(tirx.trunc),
}
