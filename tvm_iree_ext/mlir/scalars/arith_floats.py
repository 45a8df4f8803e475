"""Float operations of ``arith`` as TIR expressions.

Comparisons are written so that TVM's simplifier, for which x != x is false, keeps their NaN.
"""

from functools import partial
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx

from tvm_iree_ext.base.dtypes import EXPONENTS
from tvm_iree_ext.mlir.base.elements import Element, Expr, element, integer
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars import arith
from tvm_iree_ext.ops.base.regions import maximum, minimum
from tvm_iree_ext.tir import complex_arithmetic
from tvm_iree_ext.tir.tir_expressions import bits, number


def constant(value: Any) -> float | None:
    """The number of a float constant."""
    return float(value.value) if isinstance(value, tirx.FloatImm) else None


def nan(like: Expr) -> Expr:
    """NaN of the type of an expression."""
    return complex_arithmetic.nan(str(like.ty.dtype))


def product(a: Expr, b: Expr) -> Expr:
    """a * b; TVM takes 0 for the product with a constant 0 of anything, NaN and infinities, too."""
    for one, other in ((a, b), (b, a)):
        if constant(one) == 0.0 and constant(other) is None:
            finite = tirx.abs(other) < number(float("inf"), other)
            return tirx.Select(finite, tirx.copysign(one, other), nan(other))
    return a * b


def quotient(a: Expr, b: Expr) -> Expr:
    """a / b, likewise."""
    if constant(a) == 0.0 and constant(b) is None:
        odd = tirx.Or(tirx.isnan(b), tirx.EQ(b, number(0.0, b)))
        return tirx.Select(odd, nan(b), tirx.copysign(a, b))
    if constant(b) == 0.0:
        infinite = tirx.copysign(number(float("inf"), a), a)
        if str(b.value).startswith("-"):
            infinite = negated(infinite)
        odd = tirx.Or(tirx.isnan(a), tirx.EQ(a, number(0.0, a)))
        return tirx.Select(odd, nan(a), infinite)
    return tirx.Div(a, b)


def negated(a: Expr) -> Expr:
    """-a; 0 - a would make +0 of 0."""
    return a * number(-1.0, a)


def remainder(a: Expr, b: Expr) -> Expr:
    """C's fmod, by the library of C."""
    dtype = str(a.ty.dtype)
    name = "fmodf" if dtype == "float32" else "fmod"
    return tirx.call_pure_extern(dtype, name, a, b)


def either_nan(a: Expr, b: Expr) -> Expr:
    """Whether one of two is NaN."""
    if tvm_ffi.structural_equal(a, b) or constant(b) is not None:
        return tirx.isnan(a)
    return tirx.isnan(b) if constant(a) is not None else tirx.Or(tirx.isnan(a), tirx.isnan(b))


def extreme(a: Expr, b: Expr, name: str, *, keeps_nan: bool) -> Expr:
    """The larger ("max") or the smaller of two; with a NaN, NaN or the other.

    Of a number and a constant 0, -0 counts as less than +0; of two numbers, as equal.
    """
    if constant(a) is not None:
        a, b = b, a
    wins, wins_or_equals = (tirx.GT, tirx.GE) if name == "max" else (tirx.LT, tirx.LE)
    fixed = constant(b)
    if fixed is not None:
        negative = str(fixed).startswith("-")
        best = tirx.Select((wins if negative == (name == "min") else wins_or_equals)(a, b), a, b)
        return tirx.Select(tirx.isnan(a), a, best) if keeps_nan else best
    if keeps_nan:
        return maximum(a, b) if name == "max" else minimum(a, b)
    return tirx.Select(wins(a, b), a, tirx.Select(tirx.isnan(b), a, b))


def _compared(predicate: int, a: Expr, b: Expr) -> Expr:
    same = tvm_ffi.structural_equal(a, b)
    unordered = either_nan(a, b)
    if predicate in (0, 15):
        return tirx.const(predicate == 15, "bool")
    if predicate in (7, 14):
        return tirx.Not(unordered) if predicate == 7 else unordered
    if same:  # oeq, oge, ole hold unless NaN; ueq, uge, ule always
        holds = predicate in (1, 3, 5, 8, 10, 12)
        ordered = predicate < 7
        if ordered:
            return tirx.Not(unordered) if holds else tirx.const(False, "bool")
        return tirx.const(True, "bool") if holds else unordered
    ordered_forms = {
        1: lambda: tirx.EQ(a, b),
        2: lambda: a > b,
        3: lambda: a >= b,
        4: lambda: a < b,
        5: lambda: a <= b,
        6: lambda: tirx.Or(a < b, b < a),
    }
    if predicate < 7:
        return ordered_forms[predicate]()
    return tirx.Or(ordered_forms[predicate - 7](), unordered)


def _cmpf(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    return _compared(int(op.attributes["predicate"]), *operands)


def _resized(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    (value,) = operands
    kind = arith.kind_of(op.results[0])
    return context.rounded(_cast(value, kind.held), kind)


def _cast(value: Expr, dtype: str) -> Expr:
    if isinstance(value, tirx.FloatImm):  # TVM refuses constants beyond the largest
        with np.errstate(over="ignore"):
            return tirx.const(float(np.dtype(dtype).type(value.value)), dtype)
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _from_integer(
    read: Any, context: arith.Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    kind = arith.kind_of(op.results[0])
    source = arith.kind_of(op.operands[0])
    whole = read(operands[0], source)
    if kind.bits < 32 and source.bits > 16:
        # Rounded once: float64 holds 53 bits, and what is beyond is beyond f16's, or even.
        return context.rounded(_cast(tirx.Cast("float64", whole), kind.held), kind)
    return context.rounded(tirx.Cast(kind.held, whole), kind)


def to_integer(value: Expr, kind: Element, *, signed: bool) -> Expr:
    """The integer part as an integer: the nearest of the type; of NaN, 0."""
    width = kind.bits
    low = -(2 ** (width - 1)) if signed else 0
    high = 2 ** (width - 1) - 1 if signed else 2**width - 1
    word = kind.held if kind.bits >= 32 else "int32"
    if kind.kind == "bool":
        word = "int32"
    if not signed and kind.bits >= 32:
        word = f"uint{kind.bits}"
    dtype = str(value.ty.dtype)
    # Bounds that the float type holds; one beyond the largest integer is a power of two.
    above, below = float(high) + (1.0 if high < 2**53 else 0.0), float(low)
    inside = tirx.And(value < tirx.const(above, dtype), value > tirx.const(below - 1.0, dtype))
    if below - 1.0 == below or (dtype == "float32" and width >= 25):
        inside = tirx.And(value < tirx.const(above, dtype), value >= tirx.const(below, dtype))
    plain = tirx.Cast(word, tirx.Select(inside, value, tirx.const(0.0, dtype)))
    beyond = tirx.Select(
        value >= tirx.const(above, dtype),
        integer(high, word),
        tirx.Select(tirx.isnan(value), integer(0, word), integer(low, word)),
    )
    return arith.narrowed(tirx.Select(inside, plain, beyond), kind)


def _to_integer(
    signed: bool, context: arith.Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    return to_integer(operands[0], arith.kind_of(op.results[0]), signed=signed)


def pattern_of(value: Expr, kind: Element) -> Expr:
    """The bits of a number as an unsigned integer of its width."""
    if kind.kind == "bool":
        return tirx.Cast("uint8", value)
    if kind.is_integer:
        return arith.as_unsigned(value, kind)
    if kind.bits <= 8:
        return kind.stored(value)
    if isinstance(value, tirx.FloatImm) or kind.bits == 16:
        return bits(value, kind.storage[0])
    return tirx.reinterpret(f"uint{kind.bits}", value)


def from_pattern(pattern: Expr, kind: Element) -> Expr:
    """A number from its bits."""
    if kind.is_integer:
        return arith.narrowed(pattern, kind)
    if kind.bits <= 8:
        return kind.loaded(pattern)
    return kind.loaded(tirx.reinterpret(kind.storage[0], pattern))


def _bitcast(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    source, target = arith.kind_of(op.operands[0]), arith.kind_of(op.results[0])
    if source.is_integer and target.is_integer:
        return arith.narrowed(arith.as_signed(operands[0], source), target)
    if source.bits >= 32 and source.is_float and not isinstance(operands[0], tirx.FloatImm):
        return tirx.reinterpret(target.held, operands[0])
    return from_pattern(pattern_of(operands[0], source), target)


def _scale(context: arith.Context, op: form.ParsedOperation, scale: Expr) -> Expr:
    """A scale as a power of two, to which one of another type is rounded."""
    powers = element(EXPONENTS)
    return scale if arith.kind_of(op.operands[1]) == powers else context.rounded(scale, powers)


def _scaling_extf(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    number, scale = operands
    kind = arith.kind_of(op.results[0])
    factors = (_cast(one, kind.held) for one in (number, _scale(context, op, scale)))
    return context.rounded(product(*factors), kind)


def _scaling_truncf(context: arith.Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    number, scale = operands
    kind = arith.kind_of(op.results[0])
    whole = quotient(number, _cast(_scale(context, op, scale), str(number.ty.dtype)))
    return context.rounded(_cast(whole, kind.held), kind)


FLOATS: dict[str, arith.Handler] = {
    "arith.addf": arith.rounding(lambda a, b: a + b),
    "arith.subf": arith.rounding(lambda a, b: a - b),
    "arith.mulf": arith.rounding(product),
    "arith.divf": arith.rounding(quotient),
    "arith.remf": arith.rounding(remainder),
    "arith.negf": arith.exact(negated),
    "arith.maximumf": arith.exact(lambda a, b: extreme(a, b, "max", keeps_nan=True)),
    "arith.minimumf": arith.exact(lambda a, b: extreme(a, b, "min", keeps_nan=True)),
    "arith.maxnumf": arith.exact(lambda a, b: extreme(a, b, "max", keeps_nan=False)),
    "arith.minnumf": arith.exact(lambda a, b: extreme(a, b, "min", keeps_nan=False)),
    "arith.cmpf": _cmpf,
    "arith.extf": _resized,
    "arith.truncf": _resized,
    "arith.convertf": _resized,
    "arith.scaling_extf": _scaling_extf,
    "arith.scaling_truncf": _scaling_truncf,
    "arith.sitofp": partial(_from_integer, arith.as_signed),
    "arith.uitofp": partial(_from_integer, arith.as_unsigned),
    "arith.fptosi": partial(_to_integer, True),
    "arith.fptoui": partial(_to_integer, False),
    "arith.bitcast": _bitcast,
}
