"""Elementwise ops on TIR expressions, scalars or vectors alike.

f16 and bf16 are computed in f32 and rounded: for one operation that is the nearest result.  An
element of bf16 is the float32 of its value.
Sums, differences and products of integers are computed in twice the width, of which LLVM makes
instructions that wrap: TVM takes those of 32 bits and more, unsigned ones too, never to overflow.
"""

from collections.abc import Callable, Sequence

from tvm import tirx

from tvm_iree_ext.tir.tir_expressions import Expr, bits, cast, splat
from tvm_iree_ext.vector.emit.registers import lanes_of, typed
from tvm_iree_ext.vector.ir.vector_types import FLOATS, INDEX

Compute = Callable[..., Expr]

NARROW = ("float16", "bfloat16")
BY_LANES = ("math.erf", "math.log", "math.tanh")
"""Ops of which LLVM has no vector form."""


def llvm(name: str) -> Compute:
    """An intrinsic of LLVM whose operands have the result's type."""
    return lambda *values: tirx.call_llvm_pure_intrin(
        str(values[0].ty.dtype), f"llvm.{name}", *values
    )


def one_like(value: Expr, of: float) -> Expr:
    """A constant of a value's type, in every lane."""
    dtype = str(value.ty.dtype).partition("x")[0]
    return splat(tirx.const(of, dtype), lanes_of(value))


_FLOAT: dict[str, Compute] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
    "arith.minnumf": llvm("minnum"),
    "arith.maxnumf": llvm("maxnum"),
    "arith.minimumf": llvm("minimum"),
    "arith.maximumf": llvm("maximum"),
    "arith.negf": lambda x: x * one_like(x, -1.0),
    "math.absf": tirx.abs,
    "math.ceil": tirx.ceil,
    "math.floor": tirx.floor,
    "math.sqrt": tirx.sqrt,
    "math.rsqrt": lambda x: one_like(x, 1.0) / tirx.sqrt(x),
    "math.exp": tirx.exp,
    "math.exp2": tirx.exp2,
    "math.log": tirx.log,
    "math.tanh": tirx.tanh,
    "math.erf": tirx.erf,
}
# Of operands as they are, which are signed.
_SIGNED: dict[str, Compute] = {
    "arith.minsi": tirx.min,
    "arith.maxsi": tirx.max,
    "arith.divsi": tirx.truncdiv,
    "arith.remsi": tirx.truncmod,
    "arith.floordivsi": tirx.floordiv,
    "arith.ceildivsi": lambda a, b: one_like(a, 0) - tirx.floordiv(one_like(a, 0) - a, b),
    "arith.shrsi": lambda a, b: a >> b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}
_WRAPPING: dict[str, Compute] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
}
_UNSIGNED: dict[str, Compute] = {
    "arith.minui": tirx.min,
    "arith.maxui": tirx.max,
    "arith.divui": tirx.truncdiv,
    "arith.remui": tirx.truncmod,
    "arith.shli": lambda a, b: a << b,
    "arith.shrui": lambda a, b: a >> b,
}
# Of one bit, true being -1 where it is signed.
_BOOL: dict[str, Compute] = {
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.xori"), tirx.NE),
    **dict.fromkeys(("arith.muli", "arith.andi", "arith.maxsi", "arith.minui"), tirx.And),
    **dict.fromkeys(("arith.ori", "arith.minsi", "arith.maxui"), tirx.Or),
}


def compute(name: str, dtype: str, *values: Expr) -> Expr:
    """Value of an elementwise op without attributes."""
    if name in _FLOAT:
        return narrowed(_FLOAT[name](*map(widened, values)), dtype)
    if dtype == "bool":
        if name in ("arith.addi", "arith.subi", "arith.xori"):
            values = tuple(as_type(value, "int8") for value in values)
        return _BOOL[name](*values)
    if name in _WRAPPING:
        if dtype == INDEX:
            return _WRAPPING[name](*values)  # positions never overflow
        wide = f"int{2 * int(dtype.removeprefix('int'))}"
        return as_type(_WRAPPING[name](*(as_type(value, wide) for value in values)), dtype)
    if name in _SIGNED:
        return _SIGNED[name](*values)
    unsigned = [as_unsigned(value) for value in values]
    return as_type(_UNSIGNED[name](*unsigned), str(values[0].ty.dtype).partition("x")[0])


def widened(value: Expr) -> Expr:
    """A float in the type in which it is computed."""
    return cast(value, "float32") if str(value.ty.dtype).startswith("float16") else value


def narrowed(value: Expr, dtype: str) -> Expr:
    """Round a computed value to an element type."""
    if dtype == "bfloat16":
        return _from_bfloat16(bits(value, dtype))
    return cast(value, dtype)


def _from_bfloat16(word: Expr) -> Expr:
    """The float32 of a bf16's bits."""
    lanes = lanes_of(word)
    wide = tirx.Cast(typed("uint32", lanes), word)
    return tirx.reinterpret(typed("float32", lanes), wide << one_like(wide, 16))


def as_type(value: Expr, dtype: str) -> Expr:
    """An integer in another integer type, truncated or extended."""
    to = typed(dtype, lanes_of(value))
    return value if str(value.ty.dtype) == to else tirx.Cast(to, value)


def as_unsigned(value: Expr) -> Expr:
    """An integer's bits as an unsigned one."""
    dtype = str(value.ty.dtype).partition("x")[0]
    return as_type(value, dtype if dtype.startswith("u") else f"u{dtype}")


_COMPARE: dict[str, Compute] = {
    "eq": tirx.EQ,
    "ne": tirx.NE,
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
}


def compare_integers(predicate: str, dtype: str, a: Expr, b: Expr) -> Expr:
    """``arith.cmpi``."""
    if dtype == "bool":  # as 0 and 1, or 0 and -1
        zero = [one_like(as_type(one, "int8"), 0) for one in (a, b)]
        a, b = (as_type(one, "int8") for one in (a, b))
        if predicate[0] == "s":
            a, b = zero[0] - a, zero[1] - b
    elif predicate[0] == "u":
        a, b = as_unsigned(a), as_unsigned(b)
    return _COMPARE[predicate if predicate in _COMPARE else predicate[1:]](a, b)


def compare_floats(predicate: str, a: Expr, b: Expr, is_same: bool) -> Expr:
    """``arith.cmpf``; ``is_same`` says that both operands are one value.

    TVM takes ``x == x`` and ``not x < y`` for what they are of integers, so NaN is asked for.
    """
    a, b = widened(a), widened(b)
    unordered = tirx.isnan(a) if is_same else tirx.Or(tirx.isnan(a), tirx.isnan(b))
    if predicate == "uno":
        return unordered
    ordered = tirx.EQ(as_type(unordered, "int8"), one_like(as_type(unordered, "int8"), 0))
    kind = predicate[1:]
    if predicate == "ord":
        return ordered
    if is_same:
        holds = kind in ("eq", "le", "ge")
        known = splat(tirx.const(holds, "bool"), lanes_of(a))
        return tirx.And(known, ordered) if predicate[0] == "o" else tirx.Or(known, unordered)
    found = tirx.Or(a < b, a > b) if kind == "ne" else _COMPARE[kind](a, b)
    return found if predicate[0] == "o" else tirx.Or(found, unordered)


def convert(name: str, value: Expr, given: str, to: str) -> Expr:
    """A cast by its op's name."""
    kind = name.partition(".")[2]
    if kind == "bitcast":
        return _bitcast(value, given, to)
    if given == "bool":
        value = as_type(value, "int8")
        if kind in ("extsi", "sitofp", "index_cast"):
            value = one_like(value, 0) - value
        given = "int8"
    elif kind in ("extui", "uitofp"):
        value = as_unsigned(value)
    target = "int64" if to == INDEX else to
    if to in FLOATS:
        if to not in NARROW:
            return cast(value, to)
        return narrowed(_round_to_odd(value) if given == "float64" else cast(value, "float32"), to)
    if given in FLOATS:
        value = widened(value)
        wide = "int64" if to == "bool" else target
        value = cast(value, f"u{wide}" if kind == "fptoui" else wide)
    if to == "bool":
        word = as_type(value, "int64")
        return tirx.NE(word & one_like(word, 1), one_like(word, 0))
    return as_type(value, target)


def _bitcast(value: Expr, given: str, to: str) -> Expr:
    if given == to or {given, to} == {INDEX, "int64"} or given == "bool":
        return value
    if given == "bfloat16":
        value = bits(value, given)
    if to == "bfloat16":
        return _from_bfloat16(tirx.reinterpret(typed("uint16", lanes_of(value)), value))
    return tirx.reinterpret(typed("int64" if to == INDEX else to, lanes_of(value)), value)


def _round_to_odd(value: Expr) -> Expr:
    """A float64 as float32 such that rounding it again to a narrower type is rounding once."""
    lanes = lanes_of(value)
    near = cast(value, "float32")
    word = tirx.reinterpret(typed("uint32", lanes), near)
    back = cast(near, "float64")
    is_even = tirx.EQ(word & one_like(word, 1), one_like(word, 0))
    is_inexact = tirx.And(tirx.Or(back < value, back > value), is_even)
    is_above = tirx.abs(back) > tirx.abs(value)
    moved = tirx.Select(is_above, word - one_like(word, 1), word + one_like(word, 1))
    return tirx.reinterpret(typed("float32", lanes), tirx.Select(is_inexact, moved, word))


def fma(dtype: str, values: Sequence[Expr]) -> Expr:
    """``a * b + c``, computed in f32 for narrower types.

    With one rounding where the processor has such an instruction; elsewhere the C library would
    compute each lane, in a hundred times the time of a product and a sum.
    """
    return narrowed(llvm("fmuladd")(*map(widened, values)), dtype)
