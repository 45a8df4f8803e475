"""Extents that are known at run time only: which argument, or which value, tells them."""

from collections.abc import Callable
from typing import TypeAlias

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import Extent
from tvm_iree_ext.vector.ops.tensors import sizes_of

Told: TypeAlias = int | Value | tuple[Value, int]
"""A number, a position, or an axis of an argument of the program."""


def told_by(value: Value, axis: int) -> Told:
    """Source of an extent of a tensor or buffer.

    Raises:
        VectorError: for a padded tensor whose type does not say it.
    """
    extent = value.shape[axis]
    if isinstance(extent, int):
        return extent
    op = value.op
    if op is None:
        block = value.block
        assert block is not None
        if block.parent is None:
            return value, axis
        return told_by(_inits(block.parent)[value.number - block.inductions], axis)
    if op.name in ("tensor.empty", "tensor.extract_slice"):
        return sizes_of(op)[axis]
    if op.name in ("scf.for", "scf.forall"):
        return told_by(_inits(op)[value.number], axis)
    if op.name == "scf.if":
        return told_by(op.body.terminator.operands[value.number], axis)
    if op.name == "tensor.pad":
        raise op.error("E_DYNAMIC_SHAPE", f"dim {axis} of {value.type} is not known")
    return told_by(op.definition.writes(op)[value.number], axis)


def _inits(op: Operation) -> list[Value]:
    return op.group("inits" if op.name == "scf.for" else "outs")


def symbol(argument: Value, axis: int) -> Extent:
    """The name of an argument's extent; a number where it is known."""
    extent = argument.shape[axis]
    return f"{argument.hint}_{axis}" if extent == "?" else extent


def formula(value: Value, axis: int) -> Extent:
    """An extent of a result by the names of the arguments' extents, as a kernel's signature has it.

    Raises:
        VectorError: when it depends on something else than extents.
    """
    told = told_by(value, axis)
    if isinstance(told, int):
        return told
    return symbol(*told) if isinstance(told, tuple) else _expression(told)


def _toward_zero(a: Extent, b: Extent) -> str:
    is_natural = a.isidentifier() if isinstance(a, str) else a >= 0
    return f"({a} // {b})" if is_natural else f"((max({a}, 0) // {b}) - (max(0 - {a}, 0) // {b}))"


_FORMULAS: dict[str, Callable[[Extent, Extent], str]] = {
    "arith.addi": lambda a, b: f"({a} + {b})",
    "arith.subi": lambda a, b: f"({a} - {b})",
    "arith.muli": lambda a, b: f"({a} * {b})",
    "arith.floordivsi": lambda a, b: f"({a} // {b})",
    "arith.divsi": _toward_zero,
    "arith.ceildivsi": lambda a, b: f"ceildiv({a}, {b})",
}


def _expression(value: Value) -> Extent:
    if value.constant is not None:
        return value.constant
    op = value.op
    if op is not None and op.name in ("tensor.dim", "memref.dim"):
        return formula(op.operand("base"), op.attributes["axis"])
    if op is not None and op.name in _FORMULAS:
        a, b = (_expression(operand) for operand in op.operands)
        return _FORMULAS[op.name](a, b)
    raise VectorError(
        "E_DYNAMIC_SHAPE", f"{value!r} is an extent of a result, and no extent of an argument"
    )
