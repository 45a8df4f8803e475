"""Scalar operations as TIR expressions: those of ``arith``, one function each.

A handler takes the context, the operation, and what its operands hold; it gives what the result
holds, or a list for several results.  Integers are signless: an operation says whether it reads
them as unsigned.  What MLIR leaves undefined has a value here, so that no file can make a program
trap: x / 0 is -1 (all bits set), x % 0 is x, a shift by the width or more leaves only signs or
zeros, and a float that an integer type cannot hold becomes its nearest number, NaN 0.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from tvm import ir, sym, tirx

from tvm_iree_ext.mlir.base.elements import Element, Expr, Held, Pair, element, integer
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.reading import form

Handler: TypeAlias = Callable[["Context", form.ParsedOperation, list[Any]], Any]


class Context:
    """What handlers ask: what is known of integers, and whether halves keep float32's digits.

    ``wide`` is for regions of the registry's ops, which compute floats below f32 in float32;
    ``named`` for those of one operation, whose sums these ops know by their form.
    """

    def __init__(self, *, wide: bool = False, named: bool = False) -> None:
        self.analyzer = sym.Analyzer()
        self.wide, self.named = wide, named
        self.kernel: Any = None  # the mlir.kernel.Kernel that the expressions are for
        self.position: Mapping[int, Expr] = {}  # along iteration dims, for linalg.index

    def rounded(self, value: Any, kind: Element) -> Any:
        """A result of float arithmetic, as a number of its type."""
        if self.wide and kind.is_float and kind.bits <= 16:
            return value
        if self.kernel is None or not kind.rounds_by_words or _is_plain(value):
            return kind.rounded(value)
        # Rounding takes the number several times, and a chain of it would grow so.
        stored = kind.stored(self.kept(value))
        return kind.loaded(self.kept(stored))

    def kept(self, value: Any) -> Any:
        """A value, computed once however often it is used, where that is possible."""
        return value if self.kernel is None or _is_plain(value) else self.kernel.kept(value)

    def largest(self, value: Expr) -> int:
        """What the absolute value of an int64 is certain not to exceed."""
        bound = self.analyzer.const_int_bound(value)
        return max(abs(int(bound.min_value)), abs(int(bound.max_value)))

    def fits(self, value: Expr, low: int, high: int) -> bool:
        """Whether an int64 is certain to lie in a range."""
        bound = self.analyzer.const_int_bound(value)
        return low <= bound.min_value and bound.max_value <= high


def kind_of(value: form.ParsedValue) -> Element:
    """The element type of a scalar, or of the elements of a tensor."""
    if isinstance(value.type, form.ParsedScalarType | form.ParsedTensorType):
        return element(value.type.dtype)
    raise Unsupported(f"{value.name} is of the type {value.type}, which is not computed with")


def tensor_kind(value: form.ParsedValue) -> form.ParsedTensorType:
    """The type of a value that is a tensor."""
    if isinstance(value.type, form.ParsedTensorType):
        return value.type
    raise Unsupported(f"{value.name} is of the type {value.type}; a tensor is supported")


def known(value: Any) -> int | None:
    """The number of an integer constant."""
    return int(value) if isinstance(value, tirx.IntImm) else None


# TVM takes a cast between integers for one that changes no value: of a uint32 as int32 it knows
# that it is not below 0.  So what may change the value is a reinterpretation, of which it knows
# nothing.  Not of loop variables in 64 bits: TVM makes 32 of them, in a reinterpretation, too.


def _has_variables(value: Any) -> bool:
    """Whether variables are in an expression, other than in the places of what it loads."""
    if isinstance(value, tirx.Var):
        return True
    if isinstance(value, ir.TensorLoad) or not isinstance(value, ir.Expr):
        return False
    parts = [getattr(value, n, None) for n in ("a", "b", "value", "condition")]
    parts += [getattr(value, n, None) for n in ("true_value", "false_value")]
    return any(_has_variables(one) for one in [*parts, *(getattr(value, "args", None) or ())])


def as_unsigned(value: Expr, kind: Element) -> Expr:
    """The same bits as an unsigned number."""
    if kind.kind in ("uint", "bool"):
        return tirx.Cast("uint8", value) if kind.kind == "bool" else value
    word = f"u{kind.held}"
    number = known(value)
    if number is not None:
        return integer(number & ((1 << kind.bits) - 1), word)
    if kind.bits == 64 and _has_variables(value):
        return tirx.Cast(word, value)
    wide = tirx.reinterpret(word, value)
    return wide & integer((1 << kind.bits) - 1, word) if kind.bits < 8 else wide


def as_signed(value: Expr, kind: Element) -> Expr:
    """The same bits as a signed number."""
    if kind.kind == "bool":
        return tirx.Select(value, tirx.const(-1, "int8"), tirx.const(0, "int8"))
    if kind.kind == "uint":
        return tirx.reinterpret(kind.held[1:], value)
    return value


def narrowed(value: Expr, kind: Element, context: "Context | None" = None) -> Expr:
    """An integer of any width, with what its type has no bits for left out."""
    number = known(value)
    came = str(value.ty.dtype)
    if number is not None and kind.bits >= 8:
        return integer(number, kind.held)
    if kind.kind == "bool":
        return tirx.NE(tirx.bitwise_and(value, integer(1, came)), integer(0, came))
    if came == kind.held:
        return kind.rounded(value)
    width, signed = int(kind.held.lstrip("uint")), kind.held.startswith("int")
    if came.startswith("int") and signed:
        fits = context is not None and context.fits(
            value, -(1 << (width - 1)), (1 << (width - 1)) - 1
        )
        if fits or int(came[3:]) < width:
            return kind.rounded(tirx.Cast(kind.held, value))
    if came.startswith("uint") and int(came[4:]) < width:
        return kind.rounded(tirx.Cast(kind.held, value))
    low = (
        tirx.bitwise_and(value, integer((1 << width) - 1, came))
        if int(came.lstrip("uint")) > width
        else value
    )
    word = f"uint{width}"
    same = low if str(low.ty.dtype) == word else tirx.Cast(word, low)
    return kind.rounded(tirx.reinterpret(kind.held, same) if signed else same)


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
        return narrowed(exact(tirx.Cast(word, a), tirx.Cast(word, b)), kind, context)
    p, q = context.largest(a), context.largest(b)
    if (p * q if name == "mul" else p + q) < 1 << 63:
        return exact(a, b)
    a, b = context.kept(a), context.kept(b)  # each is used several times: a chain would grow so
    return narrowed(_wrapping_64(name, as_unsigned(a, kind), as_unsigned(b, kind)), kind)


def _is_plain(value: Any) -> bool:
    """Whether an expression is a load, a variable or a number, or one of these converted."""
    if isinstance(value, tirx.Cast):
        return _is_plain(value.value)
    return isinstance(value, ir.TensorLoad | tirx.Var | tirx.IntImm | tirx.FloatImm)


def on_index(context: Context, name: str, a: Any, b: Any) -> Expr:
    """As :func:`wrapping`, of places: a hostile one must not overflow into what a check trusts."""
    return wrapping(context, name, a, b, element("index"))


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


def _constant(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Held:
    return kind_of(op.results[0]).constant(op.attributes["value"])


def exact(compute: Callable[..., Any]) -> Handler:
    """A handler of an operation that is a function of its operands alone."""
    return lambda context, op, operands: compute(*operands)


def rounding(compute: Callable[..., Expr]) -> Handler:
    """The same for float arithmetic, whose result is rounded to its type."""
    return lambda context, op, operands: context.rounded(compute(*operands), kind_of(op.results[0]))


def _arithmetic(name: str, context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    a, b = operands
    return wrapping(context, name, a, b, kind_of(op.results[0]))


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


def _signed_division(
    name: str, plain: Any, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
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


def _ceil_signed(a: Expr, b: Expr) -> Expr:
    """Rounded up, without a sum that may overflow."""
    zero = integer(0, str(a.ty.dtype))
    quotient, rest = tirx.truncdiv(a, b), tirx.truncmod(a, b)
    up = tirx.And(tirx.NE(rest, zero), tirx.bitwise_xor(rest, b) >= zero)  # of one sign
    return quotient + tirx.Cast(str(a.ty.dtype), up)


def _unsigned_division(
    name: str, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    kind = kind_of(op.results[0])
    a, b = (as_unsigned(one, kind) for one in operands)
    dtype = str(a.ty.dtype)
    zero = integer(0, dtype)
    safe = b if known(b) not in (None, 0) else tirx.Select(tirx.EQ(b, zero), integer(1, dtype), b)
    found = tirx.truncmod(a, safe) if name == "rem" else tirx.truncdiv(a, safe)
    if name == "ceildiv":
        found = found + tirx.Cast(dtype, tirx.NE(tirx.truncmod(a, safe), zero))
    if safe is not b:
        by_zero = a if name == "rem" else integer(-1, dtype)
        found = tirx.Select(tirx.EQ(b, zero), by_zero, found)
    return narrowed(found, kind)


def _bitwise(
    combine: Any, of_bools: Any, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    a, b = operands
    return of_bools(a, b) if kind_of(op.results[0]).kind == "bool" else combine(a, b)


def _shift(name: str, context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
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


def _unsigned_less(a: Expr, b: Expr, kind: Element, strict: bool) -> Expr:
    """Whether a < b (or a <= b) as unsigned numbers."""
    if kind.bits < 64 or not (_has_variables(a) or _has_variables(b)):
        x, y = as_unsigned(a, kind), as_unsigned(b, kind)
        return x < y if strict else x <= y
    zero = integer(0, kind.held)
    less = a < b if strict else a <= b
    return tirx.Or(
        tirx.And(a >= zero, tirx.Or(b < zero, less)), tirx.And(a < zero, tirx.And(b < zero, less))
    )


def _unsigned_extreme(
    largest: bool, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    a, b = operands
    first = _unsigned_less(b, a, kind_of(op.results[0]), False)
    return tirx.Select(first, a, b) if largest else tirx.Select(first, b, a)


def _integer_extreme(
    choose: Any, read: Any, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> Expr:
    kind = kind_of(op.results[0])
    return narrowed(choose(*(read(one, kind) for one in operands)), kind, context)


INTEGER_PREDICATES = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def _cmpi(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    predicate, kind = int(op.attributes["predicate"]), kind_of(op.operands[0])
    if predicate < len(INTEGER_PREDICATES):
        a, b = (as_signed(one, kind) for one in operands)
        return INTEGER_PREDICATES[predicate](a, b)
    a, b = operands if predicate < 8 else reversed(operands)  # ult, ule, ugt, uge
    return _unsigned_less(a, b, kind, predicate in (6, 8))


def _select(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Held:
    condition, a, b = operands
    if isinstance(a, Pair):
        return Pair(*(tirx.Select(condition, x, y) for x, y in zip(a, b, strict=True)))
    return tirx.Select(condition, a, b)


def _extend(read: Any, context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    value = read(operands[0], kind_of(op.operands[0]))
    return narrowed(value, kind_of(op.results[0]), context)


def _truncate(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    return narrowed(operands[0], kind_of(op.results[0]), context)


def _extended_sum(context: Context, op: form.ParsedOperation, operands: list[Any]) -> list[Expr]:
    kind = kind_of(op.results[0])
    a, b = operands
    total = wrapping(context, "add", a, b, kind)
    return [total, as_unsigned(total, kind) < as_unsigned(a, kind)]


def _extended_product(
    read: Any, context: Context, op: form.ParsedOperation, operands: list[Any]
) -> list[Expr]:
    kind = kind_of(op.results[0])
    if kind.bits > 32:
        raise Unsupported("products of 64 by 64 bits; those of up to 32 bits are supported")
    a, b = (read(one, kind) for one in operands)
    word = "uint64" if read is as_unsigned else "int64"
    product = tirx.Cast(word, a) * tirx.Cast(word, b)
    high = tirx.shift_right(product, integer(kind.bits, word))
    return [narrowed(product, kind), narrowed(high, kind)]


INTEGERS: dict[str, Handler] = {
    "arith.constant": _constant,
    "arith.addi": partial(_arithmetic, "add"),
    "arith.subi": partial(_arithmetic, "sub"),
    "arith.muli": partial(_arithmetic, "mul"),
    "arith.divsi": partial(_signed_division, "div", tirx.truncdiv),
    "arith.remsi": partial(_signed_division, "rem", tirx.truncmod),
    "arith.floordivsi": partial(_signed_division, "div", tirx.floordiv),
    "arith.ceildivsi": partial(_signed_division, "div", _ceil_signed),
    "arith.divui": partial(_unsigned_division, "div"),
    "arith.remui": partial(_unsigned_division, "rem"),
    "arith.ceildivui": partial(_unsigned_division, "ceildiv"),
    "arith.andi": partial(_bitwise, tirx.bitwise_and, tirx.And),
    "arith.ori": partial(_bitwise, tirx.bitwise_or, tirx.Or),
    "arith.xori": partial(_bitwise, tirx.bitwise_xor, lambda a, b: tirx.NE(_byte(a), _byte(b))),
    "arith.shli": partial(_shift, "shli"),
    "arith.shrsi": partial(_shift, "shrsi"),
    "arith.shrui": partial(_shift, "shrui"),
    "arith.maxsi": partial(_integer_extreme, tirx.max, as_signed),
    "arith.minsi": partial(_integer_extreme, tirx.min, as_signed),
    "arith.maxui": partial(_unsigned_extreme, True),
    "arith.minui": partial(_unsigned_extreme, False),
    "arith.cmpi": _cmpi,
    "arith.select": _select,
    "arith.extsi": partial(_extend, as_signed),
    "arith.extui": partial(_extend, as_unsigned),
    "arith.trunci": _truncate,
    "arith.index_cast": partial(_extend, as_signed),
    "arith.index_castui": partial(_extend, as_unsigned),
    "arith.addui_extended": _extended_sum,
    "arith.mulsi_extended": partial(_extended_product, as_signed),
    "arith.mului_extended": partial(_extended_product, as_unsigned),
}


def results_of(found: Any) -> Sequence[Held]:
    """What a handler gives, as a sequence."""
    return found if isinstance(found, list) else [found]
