"""Arithmetic on extents, and on constants: what it gives is again an extent or a constant."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir import form
from tvm_iree_ext.mlir.elements import Element, Pair
from tvm_iree_ext.mlir.errors import Unsupported
from tvm_iree_ext.mlir.regions import SCALAR_OPS, Evaluator, affine
from tvm_iree_ext.mlir.scalars import Context, kind_of
from tvm_iree_ext.mlir.scope import Scope
from tvm_iree_ext.mlir.values import Number, Symbol, Value, extent, plain


def _divisible(plain_division: Callable[..., Any]) -> Callable[..., Any]:
    """A division of extents, by a number from 1."""

    def divide(a: Any, b: Any) -> Any:
        return plain_division(a, b) if isinstance(b, tirx.IntImm) and int(b) > 0 else None

    return divide


_OF_EXTENTS: dict[str, Callable[..., Any]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divisible(tirx.floordiv),
    "arith.divui": _divisible(tirx.floordiv),
    "arith.floordivsi": _divisible(tirx.floordiv),
    "arith.ceildivsi": _divisible(lambda a, b: tirx.floordiv(a + (b - 1), b)),
    "arith.ceildivui": _divisible(lambda a, b: tirx.floordiv(a + (b - 1), b)),
    "arith.remsi": _divisible(tirx.floormod),
    "arith.remui": _divisible(tirx.floormod),
    "arith.minsi": tirx.min,
    "arith.minui": tirx.min,
    "arith.maxsi": tirx.max,
    "arith.maxui": tirx.max,
    "arith.index_cast": lambda a: a,
    "arith.index_castui": lambda a: a,
    "arith.extsi": lambda a: a,
    "arith.extui": lambda a: a,
    "arith.trunci": lambda a: a,
}


def on_extents(scope: Scope, op: form.Operation, operands: Sequence[Value]) -> Value | None:
    """The result of arithmetic on extents; None for what is none."""
    if len(op.results) != 1 or not all(isinstance(one, Number | Symbol) for one in operands):
        return None
    if not any(isinstance(one, Symbol) for one in operands):
        return None
    kind = kind_of(op.results[0])
    if not kind.is_integer or kind.bits < 32:
        return None
    values: list[Any] = list(operands)
    given = [
        extent(plain(int(one.value) if isinstance(one, Number) else one.value)) for one in values
    ]
    if op.name in ("affine.apply", "affine.min", "affine.max"):
        one = op.attributes["map"]
        parts = [affine(result, given[: one.dims], given[one.dims :]) for result in one.results]
        found = parts[0]
        for part in parts[1:]:
            found = tirx.min(found, part) if op.name == "affine.min" else tirx.max(found, part)
    else:
        compute = _OF_EXTENTS.get(op.name)
        found = compute(*given) if compute is not None else None
    if found is None:
        return None
    simple = scope.simple(found)
    return Number(kind, simple) if isinstance(simple, int) else Symbol(kind, simple)


def on_numbers(scope: Scope, op: form.Operation, operands: Sequence[Value]) -> list[Value] | None:
    """The results of an operation on constants, where TVM folds them; None where it does not."""
    if not all(isinstance(one, Number) for one in operands) or op.name == "linalg.index":
        return None
    context = Context()
    numbers: list[Any] = list(operands)
    held = [one.element.constant(one.value) for one in numbers]
    try:
        found = Evaluator(context, scope.value).apply(op, held)
    except Unsupported:
        return None
    results: list[Value] = []
    for value, one in zip(op.results, found, strict=True):
        number = _number(one, kind_of(value), scope)
        if number is None:
            return None
        results.append(number)
    return results


def _number(held: Any, kind: Element, scope: Scope) -> Number | None:
    if isinstance(held, Pair):
        parts = [_number(part, kind.part, scope) for part in held]
        if parts[0] is None or parts[1] is None:
            return None
        return Number(kind, complex(float(parts[0].value), float(parts[1].value)))
    simple = scope.function.analyzer.simplify(held)
    if isinstance(simple, tirx.IntImm):
        return Number(kind, int(simple))
    if isinstance(simple, tirx.FloatImm):
        return Number(kind, float(simple.value))
    return None


def scalar(scope: Scope, op: form.Operation) -> list[Value]:
    """The results of a scalar operation between others."""
    operands = [scope.value(value) for value in op.operands]
    found = on_numbers(scope, op, operands)
    if found is not None:
        return found
    symbol = on_extents(scope, op, operands)
    if symbol is not None:
        return [symbol]
    if op.name not in SCALAR_OPS:
        raise Unsupported("is not supported")
    return list(scope.applied(op, operands))
