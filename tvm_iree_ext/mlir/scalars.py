"""Scalar operations as TIR expressions: those of ``arith``, one function each.

A handler takes the context, the operation, and what its operands hold; it gives what the result
holds, or a list for several results.  Integers are signless: an operation says whether it reads
them as unsigned.  What MLIR leaves undefined has a value here, so that no file can make a program
trap: x / 0 is -1 (all bits set), x % 0 is x, a shift by the width or more leaves only signs or
zeros, and a float that an integer type cannot hold becomes its nearest number, NaN 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from tvm import sym, tirx

from tvm_iree_ext.mlir import form
from tvm_iree_ext.mlir.elements import Element, Expr, Held, Pair, element, integer
from tvm_iree_ext.mlir.errors import Unsupported

Handler: TypeAlias = Callable[["Context", form.Operation, list[Any]], Any]


class Context:
    """What handlers ask: what is known of integers, and whether halves keep float32's digits.

    ``wide`` is for regions of the registry's ops, which compute f16 and bf16 in float32;
    ``named`` for those of one operation, whose sums these ops know by their form.
    """

    def __init__(self, *, wide: bool = False, named: bool = False) -> None:
        self.analyzer = sym.Analyzer()
        self.wide, self.named = wide, named
        self.kernel: Any = None  # the mlir.kernel.Kernel that the expressions are for
        self.position: list[Expr] = []  # in the iteration space, for linalg.index

    def rounded(self, value: Any, kind: Element) -> Any:
        """A result of float arithmetic, as a number of its type."""
        if self.wide and kind.is_float and kind.bits == 16:
            return value
        return kind.rounded(value)

    def fits(self, value: Expr, low: int, high: int) -> bool:
        """Whether an int64 is certain to lie in a range."""
        bound = self.analyzer.const_int_bound(value)
        return low <= bound.min_value and bound.max_value <= high


def kind_of(value: form.Value) -> Element:
    """The element type of a scalar, or of the elements of a tensor."""
    if isinstance(value.type, form.ScalarType | form.TensorType):
        return element(value.type.dtype)
    raise Unsupported(f"{value.name} is of the type {value.type}, which is not computed with")


def tensor_kind(value: form.Value) -> form.TensorType:
    """The type of a value that is a tensor."""
    if isinstance(value.type, form.TensorType):
        return value.type
    raise Unsupported(f"{value.name} is of the type {value.type}; a tensor is supported")


def known(value: Any) -> int | None:
    """The number of an integer constant."""
    return int(value) if isinstance(value, tirx.IntImm) else None


def as_unsigned(value: Expr, kind: Element) -> Expr:
    """The same bits as an unsigned number."""
    if kind.kind in ("uint", "bool"):
        return tirx.Cast("uint8", value) if kind.kind == "bool" else value
    word = f"u{kind.held}"
    number = known(value)
    if number is not None:
        return integer(number & ((1 << kind.bits) - 1), word)
    wide = tirx.Cast(word, value)
    return wide & integer((1 << kind.bits) - 1, word) if kind.bits < 8 else wide


def as_signed(value: Expr, kind: Element) -> Expr:
    """The same bits as a signed number."""
    if kind.kind == "bool":
        return tirx.Select(value, tirx.const(-1, "int8"), tirx.const(0, "int8"))
    if kind.kind == "uint":
        return tirx.Cast(kind.held[1:], value)
    return value


def narrowed(value: Expr, kind: Element) -> Expr:
    """An integer of any width, with what its type has no bits for left out."""
    number = known(value)
    if number is not None and kind.bits >= 8:
        return integer(number, kind.held)
    if kind.kind == "bool":
        return tirx.NE(value & integer(1, str(value.ty.dtype)), integer(0, str(value.ty.dtype)))
    same = str(value.ty.dtype) == kind.held
    return kind.rounded(value if same else tirx.Cast(kind.held, value))


_PLAIN = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


def wrapping(context: "Context", name: str, a: Expr, b: Expr, kind: Element) -> Expr:
    """The sum, difference or product, modulo 2^bits: TVM takes overflow for impossible."""
    if kind.kind == "bool":
        return tirx.And(a, b) if name == "mul" else tirx.NE(_byte(a), _byte(b))
    exact = _PLAIN[name]
    if context.named:  # the registry's ops see to their sums themselves
        return exact(a, b)
    x, y = known(a), known(b)
    if x is not None and y is not None:
        return narrowed(integer(exact(x, y), "int64"), kind)
    if kind.bits <= 32:
        word = "int32" if kind.bits <= 8 else "int64"
        return narrowed(exact(tirx.Cast(word, a), tirx.Cast(word, b)), kind)
    largest = 1 << (31 if name == "mul" else 62)
    if all(context.fits(one, -largest, largest - 1) for one in (a, b)):
        return exact(a, b)
    return narrowed(_wrapping_64(name, as_unsigned(a, kind), as_unsigned(b, kind)), kind)


def _wrapping_64(name: str, a: Expr, b: Expr) -> Expr:
    """Of uint64, in halves whose sums and products uint64 holds."""
    low, word = integer((1 << 32) - 1, "uint64"), integer(32, "uint64")
    if name == "sub":  # a + ~b + 1
        b = tirx.bitwise_xor(b, integer(-1, "uint64"))
    if name == "mul":
        lows = (a & low) * (b & low)
        cross = (((a >> word) * (b & low)) & low) + (((a & low) * (b >> word)) & low)
        return (lows & low) | ((((lows >> word) + cross) & low) << word)
    lows = (a & low) + (b & low)
    if name == "sub":
        lows = lows + integer(1, "uint64")
    highs = (a >> word) + (b >> word) + (lows >> word)
    return (lows & low) | ((highs & low) << word)


def _byte(value: Expr) -> Expr:
    return tirx.Cast("int8", value)


def _constant(context: Context, op: form.Operation, operands: list[Any]) -> Held:
    return kind_of(op.results[0]).constant(op.attributes["value"])


def _arithmetic(name: str) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        a, b = operands
        return wrapping(context, name, a, b, kind_of(op.results[0]))

    return handler


def _guarded(kind: Element, a: Expr, b: Expr, plain: Any, by_zero: Expr, by_minus_one: Any) -> Expr:
    """A division of signed numbers that cannot trap."""
    number = known(b)
    if number is not None and number not in (0, -1):
        return plain(a, b)
    zero, one, minus = (integer(n, str(b.ty.dtype)) for n in (0, 1, -1))
    odd = tirx.Or(tirx.EQ(b, zero), tirx.EQ(b, minus))
    quotient = plain(a, tirx.Select(odd, one, b))
    return tirx.Select(
        tirx.EQ(b, zero), by_zero, tirx.Select(tirx.EQ(b, minus), by_minus_one, quotient)
    )


def _signed_division(name: str, plain: Any) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        kind = kind_of(op.results[0])
        a, b = (as_signed(one, kind) for one in operands)
        dtype = str(a.ty.dtype)
        if name == "rem":
            found = _guarded(kind, a, b, plain, a, integer(0, dtype))
        else:
            signed = element("int8") if kind.kind == "bool" else kind
            negated = wrapping(context, "sub", integer(0, dtype), a, signed)
            found = _guarded(kind, a, b, plain, integer(-1, dtype), negated)
        return narrowed(found, kind)

    return handler


def _ceil_signed(a: Expr, b: Expr) -> Expr:
    """Rounded up, without a sum that may overflow."""
    zero = integer(0, str(a.ty.dtype))
    quotient, rest = tirx.truncdiv(a, b), tirx.truncmod(a, b)
    up = tirx.And(tirx.NE(rest, zero), tirx.bitwise_xor(rest, b) >= zero)  # of one sign
    return quotient + tirx.Cast(str(a.ty.dtype), up)


def _unsigned_division(name: str) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        kind = kind_of(op.results[0])
        a, b = (as_unsigned(one, kind) for one in operands)
        dtype = str(a.ty.dtype)
        zero = integer(0, dtype)
        safe = (
            b if known(b) not in (None, 0) else tirx.Select(tirx.EQ(b, zero), integer(1, dtype), b)
        )
        found = tirx.truncmod(a, safe) if name == "rem" else tirx.truncdiv(a, safe)
        if name == "ceildiv":
            found = found + tirx.Cast(dtype, tirx.NE(tirx.truncmod(a, safe), zero))
        if safe is not b:
            by_zero = a if name == "rem" else integer(-1, dtype)
            found = tirx.Select(tirx.EQ(b, zero), by_zero, found)
        return narrowed(found, kind)

    return handler


def _bitwise(combine: Any, of_bools: Any) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        a, b = operands
        return of_bools(a, b) if kind_of(op.results[0]).kind == "bool" else combine(a, b)

    return handler


def _shift(name: str) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        kind = kind_of(op.results[0])
        value, amount = operands
        if kind.kind == "bool":
            return value if name == "shrsi" else tirx.And(value, tirx.Not(amount))
        read = as_signed if name == "shrsi" else as_unsigned
        value, amount = read(value, kind), as_unsigned(amount, kind)
        word = str(amount.ty.dtype)
        last = integer(kind.bits - 1, word)
        inside = tirx.min(amount, last)
        if name == "shrsi":
            return narrowed(tirx.shift_right(value, tirx.Cast(str(value.ty.dtype), inside)), kind)
        move = tirx.shift_left if name == "shli" else tirx.shift_right
        shifted = move(value, inside)
        if known(amount) is None:
            shifted = tirx.Select(amount > last, integer(0, word), shifted)
        elif known(amount) != known(inside):
            shifted = integer(0, word)
        return narrowed(shifted, kind)

    return handler


def _integer_extreme(choose: Any, read: Any) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        kind = kind_of(op.results[0])
        return narrowed(choose(*(read(one, kind) for one in operands)), kind)

    return handler


_INTEGER_PREDICATES: tuple[tuple[Any, Any], ...] = (
    (tirx.EQ, as_signed),
    (tirx.NE, as_signed),
    (tirx.LT, as_signed),
    (tirx.LE, as_signed),
    (tirx.GT, as_signed),
    (tirx.GE, as_signed),
    (tirx.LT, as_unsigned),
    (tirx.LE, as_unsigned),
    (tirx.GT, as_unsigned),
    (tirx.GE, as_unsigned),
)


def _cmpi(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
    compare, read = _INTEGER_PREDICATES[int(op.attributes["predicate"])]
    kind = kind_of(op.operands[0])
    return compare(*(read(one, kind) for one in operands))


def _select(context: Context, op: form.Operation, operands: list[Any]) -> Held:
    condition, a, b = operands
    if isinstance(a, Pair):
        return Pair(*(tirx.Select(condition, x, y) for x, y in zip(a, b, strict=True)))
    return tirx.Select(condition, a, b)


def _extend(read: Any) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
        return narrowed(read(operands[0], kind_of(op.operands[0])), kind_of(op.results[0]))

    return handler


def _truncate(context: Context, op: form.Operation, operands: list[Any]) -> Expr:
    return narrowed(operands[0], kind_of(op.results[0]))


def _extended_sum(context: Context, op: form.Operation, operands: list[Any]) -> list[Expr]:
    kind = kind_of(op.results[0])
    a, b = operands
    total = wrapping(context, "add", a, b, kind)
    return [total, as_unsigned(total, kind) < as_unsigned(a, kind)]


def _extended_product(read: Any) -> Handler:
    def handler(context: Context, op: form.Operation, operands: list[Any]) -> list[Expr]:
        kind = kind_of(op.results[0])
        if kind.bits > 32:
            raise Unsupported("products of 64 by 64 bits; those of up to 32 bits are supported")
        a, b = (read(one, kind) for one in operands)
        word = "uint64" if read is as_unsigned else "int64"
        product = tirx.Cast(word, a) * tirx.Cast(word, b)
        high = tirx.shift_right(product, integer(kind.bits, word))
        return [narrowed(product, kind), narrowed(high, kind)]

    return handler


INTEGERS: dict[str, Handler] = {
    "arith.constant": _constant,
    "arith.addi": _arithmetic("add"),
    "arith.subi": _arithmetic("sub"),
    "arith.muli": _arithmetic("mul"),
    "arith.divsi": _signed_division("div", tirx.truncdiv),
    "arith.remsi": _signed_division("rem", tirx.truncmod),
    "arith.floordivsi": _signed_division("div", tirx.floordiv),
    "arith.ceildivsi": _signed_division("div", _ceil_signed),
    "arith.divui": _unsigned_division("div"),
    "arith.remui": _unsigned_division("rem"),
    "arith.ceildivui": _unsigned_division("ceildiv"),
    "arith.andi": _bitwise(tirx.bitwise_and, tirx.And),
    "arith.ori": _bitwise(tirx.bitwise_or, tirx.Or),
    "arith.xori": _bitwise(tirx.bitwise_xor, lambda a, b: tirx.NE(_byte(a), _byte(b))),
    "arith.shli": _shift("shli"),
    "arith.shrsi": _shift("shrsi"),
    "arith.shrui": _shift("shrui"),
    "arith.maxsi": _integer_extreme(tirx.max, as_signed),
    "arith.minsi": _integer_extreme(tirx.min, as_signed),
    "arith.maxui": _integer_extreme(tirx.max, as_unsigned),
    "arith.minui": _integer_extreme(tirx.min, as_unsigned),
    "arith.cmpi": _cmpi,
    "arith.select": _select,
    "arith.extsi": _extend(as_signed),
    "arith.extui": _extend(as_unsigned),
    "arith.trunci": _truncate,
    "arith.index_cast": _extend(as_signed),
    "arith.index_castui": _extend(as_unsigned),
    "arith.addui_extended": _extended_sum,
    "arith.mulsi_extended": _extended_product(as_signed),
    "arith.mului_extended": _extended_product(as_unsigned),
}


def exact_number(value: object) -> bool:
    """Whether a value is a number of Python's or NumPy's."""
    return isinstance(value, int | float | complex | np.generic) and not isinstance(value, str)


def results_of(found: Any) -> Sequence[Held]:
    """What a handler gives, as a sequence."""
    return found if isinstance(found, list) else [found]
