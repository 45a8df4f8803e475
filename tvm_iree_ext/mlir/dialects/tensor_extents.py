"""Arithmetic on extents, and on constants: what it gives is again an extent or a constant."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Element, Pair
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Applied, Number, Symbol, Value, extent, plain
from tvm_iree_ext.mlir.importing.emitted_values import applied
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import INTEGER_PREDICATES, Context, kind_of
from tvm_iree_ext.mlir.scalars.scalar_regions import SCALAR_OPS, Evaluator, affine
from tvm_iree_ext.tir.tir_expressions import i64

Division: TypeAlias = Callable[[Any, Any], Any]


def _divisible(division: Division, by_zero: Callable[[Any], Any]) -> Division:
    """A division of extents: by a number from 1, or by an extent, of which ``by_zero`` is by 0."""

    def divide(a: Any, b: Any) -> Any:
        if isinstance(b, tirx.IntImm):
            return division(a, b) if int(b) > 0 else None
        some = tirx.min(b, i64(1))
        return division(a, tirx.max(b, i64(1))) * some + by_zero(a) * (1 - some)

    return divide


def _quotient(division: Division) -> Division:
    return _divisible(division, lambda a: i64(-1))


def _remainder(division: Division) -> Division:
    return _divisible(division, lambda a: a)


def _toward_zero(a: Any, b: Any) -> Any:
    """The quotient; a signature has no division but by floor."""
    zero = tirx.const(0, "int64")
    return tirx.floordiv(tirx.max(a, zero), b) - tirx.floordiv(tirx.max(zero - a, zero), b)


_OF_EXTENTS: dict[str, Callable[..., Any]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _quotient(_toward_zero),
    "arith.divui": _quotient(tirx.floordiv),
    "arith.floordivsi": _quotient(tirx.floordiv),
    "arith.ceildivsi": _quotient(lambda a, b: tirx.floordiv(a + (b - 1), b)),
    "arith.ceildivui": _quotient(lambda a, b: tirx.floordiv(a + (b - 1), b)),
    "arith.remsi": _remainder(lambda a, b: a - _toward_zero(a, b) * b),
    "arith.remui": _remainder(tirx.floormod),
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


def on_extents(scope: Scope, op: form.ParsedOperation, operands: Sequence[Value]) -> Value | None:
    """The result of arithmetic on extents; None for what is none."""
    if op.name == "arith.select" and isinstance(operands[0], Applied):
        return _choice(scope, kind_of(op.results[0]), operands[0], operands[1:])
    if len(op.results) != 1 or not all(isinstance(one, Number | Symbol) for one in operands):
        return None
    if not any(isinstance(one, Symbol) for one in operands):
        return None
    kind = kind_of(op.results[0])
    values: list[Any] = list(operands)
    if op.name == "arith.select":
        return values[1] if values[0].value else values[2]
    is_comparison = op.name == "arith.cmpi"
    if not is_comparison and (not kind.is_integer or kind.bits < 32):
        return None
    given = [_extent(one) for one in values]
    by_extent = ("div" in op.name or "rem" in op.name) and not isinstance(given[-1], tirx.IntImm)
    unsigned = op.name.endswith("ui")
    if (unsigned or by_extent) and not all(_is_natural(scope, one) for one in given):
        return None
    if is_comparison:
        found = _comparison(op, given)
        known = scope.simple(found) if found is not None else None
        return Number(kind, bool(known)) if isinstance(known, int) else None
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
    return _simple(scope, kind, found)


def _simple(scope: Scope, kind: Element, found: Any) -> Value:
    simple = scope.simple(found)
    return Number(kind, simple) if isinstance(simple, int) else Symbol(kind, simple)


def _is_natural(scope: Scope, one: Any) -> bool:
    """Whether a number is certainly not below 0, so that it is the same where it is unsigned."""
    return bool(scope.function.analyzer.can_prove(one >= tirx.const(0, "int64")))


def _extent(value: Any) -> Any:
    return extent(plain(int(value.value) if isinstance(value, Number) else value.value))


def _comparison(op: form.ParsedOperation, given: Sequence[Any]) -> Any | None:
    """Whether extents compare so; None for a comparison of unsigned numbers."""
    predicate = int(op.attributes["predicate"])
    return INTEGER_PREDICATES[predicate](*given) if predicate < len(INTEGER_PREDICATES) else None


def _choice(scope: Scope, kind: Element, condition: Applied, ways: Sequence[Value]) -> Value | None:
    """The extent that is chosen by a comparison of extents, where one formula gives both.

    ``n < 0 ? 0 : n`` is ``max(n, 0)``.
    """
    compared, analyzer = condition.operation, scope.function.analyzer
    of_extents = all(isinstance(one, Number | Symbol) for one in (*condition.operands, *ways))
    if compared.name != "arith.cmpi" or not of_extents:
        return None
    holds = _comparison(compared, [_extent(one) for one in condition.operands])
    a, b = map(_extent, ways)
    for found in (a, b, tirx.max(a, b), tirx.min(a, b)) if holds is not None else ():
        with analyzer.constraint_scope(holds):
            is_first = analyzer.can_prove_equal(found, a)
        with analyzer.constraint_scope(analyzer.simplify(tirx.Not(holds))):
            if is_first and analyzer.can_prove_equal(found, b):
                return _simple(scope, kind, found)
    return None


def on_numbers(
    scope: Scope, op: form.ParsedOperation, operands: Sequence[Value]
) -> list[Value] | None:
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


def scalar(scope: Scope, op: form.ParsedOperation) -> list[Value]:
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
    return list(applied(scope, op, operands))
