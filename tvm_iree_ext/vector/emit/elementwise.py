"""Elementwise ops, register by register; constants are immediates where they are used."""

from tvm import tirx

from tvm_iree_ext.tir.tir_expressions import Expr, splat
from tvm_iree_ext.vector.emit.compute import (
    BY_LANES,
    compare_floats,
    compare_integers,
    compute,
    convert,
)
from tvm_iree_ext.vector.emit.context import Emitter, emits
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ops.elementwise import (
    CASTS,
    FLOAT_BINARY,
    INTEGER_BINARY,
    UNARY,
    WIDE_BINARY,
)


@emits("arith.constant")
def constant(emitter: Emitter, op: Operation) -> None:
    """Nothing: see :meth:`Emitter.scalar` and :meth:`Emitter.vector`."""


@emits(*FLOAT_BINARY, *INTEGER_BINARY, *WIDE_BINARY, *UNARY)
def arithmetic(emitter: Emitter, op: Operation) -> None:
    """An op without attributes."""
    if not op.result.is_vector:
        values = [emitter.scalar(operand) for operand in op.operands]
        emitter.bind(op.result, compute(op.name, op.result.dtype, *values))
        return
    operands = [emitter.vector(operand) for operand in op.operands]
    result = emitter.define(op.result)
    lanes = 1 if op.name in BY_LANES else result.lanes
    for start in range(0, result.size, lanes):
        values = [operand.run(start, lanes) for operand in operands]
        result.write(start, compute(op.name, op.result.dtype, *values))


@emits("arith.cmpf", "arith.cmpi")
def compare(emitter: Emitter, op: Operation) -> None:
    """Comparisons; the result is i1."""
    lhs, rhs = op.operands
    a, b = emitter.vector(lhs), emitter.vector(rhs)
    predicate = op.attributes["predicate"]

    def register(number: int) -> Expr:
        x, y = a.register(number), b.register(number)
        if op.name == "arith.cmpf":
            return compare_floats(predicate, x, y, lhs is rhs)
        return compare_integers(predicate, lhs.dtype, x, y)

    emitter.give(op.result, register)


@emits("arith.select")
def select(emitter: Emitter, op: Operation) -> None:
    """A choice, lane by lane or of all."""
    condition, a, b = (emitter.vector(operand) for operand in op.operands)
    is_one = not op.operand("condition").shape

    def register(number: int) -> Expr:
        chosen = splat(condition.run(0, 1), a.lanes) if is_one else condition.register(number)
        return tirx.Select(chosen, a.register(number), b.register(number))

    emitter.give(op.result, register)


@emits(*CASTS)
def cast(emitter: Emitter, op: Operation) -> None:
    """Conversions."""
    came, to = op.operand("operand").dtype, op.result.dtype
    operand = emitter.vector(op.operand("operand"))
    emitter.give(op.result, lambda n: convert(op.name, operand.register(n), came, to))
