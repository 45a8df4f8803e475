"""Regions of scalar operations, evaluated into TIR expressions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.mlir.base.elements import Pair, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import SCALARS, TENSORS, Number, Value
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import INTEGERS, Context, Handler, on_index, results_of
from tvm_iree_ext.mlir.scalars.arith_floats import FLOATS
from tvm_iree_ext.mlir.scalars.builtin_dialect import BUILTIN
from tvm_iree_ext.mlir.scalars.complex_dialect import COMPLEX
from tvm_iree_ext.mlir.scalars.math_dialect import MATH
from tvm_iree_ext.tir.number_words import ComplexNumber

# TVM's passes walk expressions as trees, whose size may double with each use of a value, and grow
# by more with each operation that takes an operand several times.
_LARGE, _TOO_LARGE = 200, 20_000
_DYNAMIC = -(2**63)  # in a list of static numbers: an operand is meant


def _index(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    dim = int(op.attributes["dim"])
    if dim not in context.position:
        raise Unsupported(f"the position along d{dim} in a region that has none")
    return context.position[dim]


def _extract(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    tensor, *at = operands
    if context.kernel is None:
        raise Unsupported("reads a tensor in a region that may use its arguments only")
    return context.kernel.checked(tensor, at)


def _dim(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    tensor, axis = operands
    if context.kernel is None or not isinstance(axis, tirx.IntImm):
        raise Unsupported("an extent in a region, of an axis that is no constant")
    return context.kernel.extent(tensor.shape[int(axis)])


def affine(
    expression: form.ParsedAffineExpr,
    dims: Sequence[Any],
    symbols: Sequence[Any],
    context: Context | None = None,
) -> Any:
    """An affine expression of int64 values, which wraps where there is a context."""
    match expression.kind:
        case "constant":
            return tirx.const(expression.value, "int64")
        case "dim":
            return dims[expression.value]
        case "symbol":
            return symbols[expression.value]
    a, b = (affine(part, dims, symbols, context) for part in expression.parts)
    if expression.kind in ("add", "mul"):
        if context is not None:
            return on_index(context, expression.kind, a, b)
        return a + b if expression.kind == "add" else a * b
    if not isinstance(b, tirx.IntImm):
        b = tirx.max(b, tirx.const(1, "int64"))  # by less MLIR leaves it undefined
    elif int(b) <= 0:
        raise Unsupported(f"affine {expression.kind} by a constant below 1")
    match expression.kind:
        case "mod":
            return tirx.floormod(a, b)
        case "floordiv":
            return tirx.floordiv(a, b)
    return tirx.floordiv(a + (b - 1), b)


def _affine(combine: Any, context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    one = op.attributes["map"]
    dims, symbols = operands[: one.dims], operands[one.dims :]
    found = [affine(result, dims, symbols, context) for result in one.results]
    value = found[0]
    for other in found[1:]:
        value = combine(value, other)
    return value


def _delinearized(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    """Row-major: the first basis, where there is one for each result, does not bound."""
    index, *given = operands
    basis = _basis(op.attributes["static_basis"], given)
    if len(basis) == len(op.results):
        basis = basis[1:]
    found: list[Any] = []
    for size in reversed(basis):
        found.append(tirx.floormod(index, size))
        index = tirx.floordiv(index, size)
    return [index, *reversed(found)]


def _linearized(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    static = op.attributes["static_basis"]
    count = op.segments[0] if op.segments else len(operands)
    indices, basis = operands[:count], _basis(static, operands[count:])
    if len(basis) == len(indices):
        basis = basis[1:]
    found = indices[0]
    for index, size in zip(indices[1:], basis, strict=True):
        found = on_index(context, "add", on_index(context, "mul", found, size), index)
    return found


def _basis(static: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
    given = iter(dynamic)
    found = [
        tirx.max(next(given), tirx.const(1, "int64"))
        if int(one) == _DYNAMIC
        else tirx.const(int(one), "int64")
        for one in static
    ]
    if any(isinstance(one, tirx.IntImm) and int(one) <= 0 for one in found):
        raise Unsupported("a basis below 1")
    return found


def _same(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Any:
    return operands if len(operands) > 1 else operands[0]


SCALAR_OPS: dict[str, Handler] = {
    **INTEGERS,
    **FLOATS,
    **MATH,
    **COMPLEX,
    **BUILTIN,
    "linalg.index": _index,
    "iree_linalg_ext.index": _index,
    "tensor.extract": _extract,
    "tensor.dim": _dim,
    "affine.apply": partial(_affine, None),
    "affine.delinearize_index": _delinearized,
    "affine.linearize_index": _linearized,
    "affine.min": partial(_affine, tirx.min),
    "affine.max": partial(_affine, tirx.max),
    "util.optimization_barrier": _same,
}
"""The operations of which scalars are made, in regions and between them."""


class Evaluator:
    """Runs the operations of a region on TIR expressions.

    ``outside`` gives what a value from outside the region is; ``known`` are expressions of such
    values, by id.
    """

    def __init__(
        self,
        context: Context,
        outside: Callable[[form.ParsedValue], Value],
        known: Mapping[int, Any] | None = None,
    ) -> None:
        self.context, self.outside = context, outside
        self._held: dict[int, Any] = dict(known or {})

    def run(self, block: form.ParsedBlock, arguments: Sequence[Any]) -> list[Any]:
        """What the block's terminator takes."""
        for argument, held in zip(block.arguments, arguments, strict=True):
            self._held[id(argument)] = held
        *operations, last = block.operations
        for op in operations:
            if op.name == "cf.assert":  # of an index, mostly; an extract stays inside without it
                continue
            operands = [self.held(value) for value in op.operands]
            try:
                found = self._chosen(op) if op.name == "scf.if" else self.apply(op, operands)
            except Unsupported as reason:
                raise Unsupported(f"{op.name} at {op.location}: {reason}") from None
            for result, held in zip(op.results, found, strict=True):
                size = _nodes(held)
                if size > _TOO_LARGE:
                    raise Unsupported(
                        f"{op.name} at {op.location}: the region's expression is too large"
                    )
                self._held[id(result)] = self.context.kept(held) if size > _LARGE else held
        return [self.held(value) for value in last.operands]

    def _chosen(self, op: form.ParsedOperation) -> list[Any]:
        """The results of a branch, both ways of which are computed."""
        ways = []
        for region in op.regions if op.results else ():
            way = Evaluator(self.context, self.outside)
            way._held = dict(self._held)
            ways.append(way.run(region[0], []))
        if not ways:
            return []
        condition = self.held(op.operands[0])
        return [
            Pair(*(tirx.Select(condition, a, b) for a, b in zip(yes, no, strict=True)))
            if isinstance(yes, Pair)
            else tirx.Select(condition, yes, no)
            for yes, no in zip(*ways, strict=True)
        ]

    def apply(self, op: form.ParsedOperation, operands: list[Any]) -> list[Any]:
        """What the results of an operation hold."""
        handler = SCALAR_OPS.get(op.name)
        if handler is None:
            raise Unsupported("is not supported in a region")
        if op.regions:
            raise Unsupported("has a region inside a region")
        return list(results_of(handler(self.context, op, operands)))

    def held(self, value: form.ParsedValue) -> Any:
        """What a value holds: an expression, a pair, or a tensor from outside."""
        if id(value) in self._held:
            return self._held[id(value)]
        found = self.outside(value)
        if isinstance(found, TENSORS):
            return found
        if isinstance(found, Number):
            return found.element.constant(found.value)
        if isinstance(found, SCALARS) and self.context.kernel is not None:
            return self.context.kernel.scalar(found)
        raise Unsupported(f"uses {value.name}, which is no constant, in a region")


def _nodes(held: Any) -> int:
    """How many nodes an expression, or a pair of them, has as a tree."""
    nodes: list[Any] = []
    for part in held if isinstance(held, Pair) else (held,):
        tvm_ffi.structural_walk(part, (ir.Expr, nodes.append))
    return len(nodes)


def as_argument(value: Any, kind: form.Type) -> Any:
    """What an argument of a region holds, from the type in which a registry's op shows it."""
    if not isinstance(kind, form.ParsedScalarType):
        raise Unsupported(f"a region over {kind}")
    own = element(kind.dtype)
    if isinstance(value, ComplexNumber):
        return Pair(value.real, value.imag)
    came = str(value.ty.dtype)
    if own.kind == "bool" and came != "bool":
        return tirx.NE(value, tirx.const(0, came))
    if own.is_complex:
        raise Unsupported("a region over complex numbers")
    return value if came == own.held else tirx.Cast(own.held, value)
