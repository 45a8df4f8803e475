"""Sums of integers modulo 2^bits, as IR's arithmetic is written: TVM takes overflow for impossible.

    int32:  narrow((int64(a) + int64(b)) & 0xFFFFFFFF)
    int64:  halves of 32 bits, added as uint64, with the carry of the lower one

Such an expression is known by what it gives: of casts, masks, shifts and sums alone, it is
evaluated for numbers of all sizes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.schedules.emit import Expr

_BITWISE: dict[Any, Callable[[int, int], int]] = {
    tirx.BitwiseAnd: lambda a, b: a & b,
    tirx.BitwiseOr: lambda a, b: a | b,
    tirx.BitwiseXor: lambda a, b: a ^ b,
    tirx.LShift: lambda a, b: a << b,
    tirx.RShift: lambda a, b: a >> b,
}
_REINTERPRET = ir.Op.get("tirx.reinterpret")
_TRIALS = 64
_SEED = 0


@dataclass(frozen=True)
class WrappingSum:
    """What is added to, and what is added."""

    accumulator: ir.TensorLoad
    element: Expr


class _Unknown(Exception):
    """An expression that is no such sum."""


def wrapping_sum(value: Expr, buffer: ir.Var) -> WrappingSum | None:
    """The sum that an expression is of an element of a buffer and another value; else None."""
    dtype = str(value.ty.dtype)
    if not dtype.startswith(("int", "uint")) or DataType(dtype).lanes > 1:
        return None
    loads: list[ir.TensorLoad] = []
    elements: list[Expr] = []
    try:
        _collect(value, buffer, dtype, loads, elements)
    except _Unknown:
        return None
    for several in (loads, elements):
        if not several or any(not tvm_ffi.structural_equal(one, several[0]) for one in several):
            return None
    found = WrappingSum(loads[0], elements[0])
    return found if _adds(value, found, dtype) else None


def _operands(node: Any) -> list[Any]:
    """The operands of a step of such a sum."""
    if type(node) in (tirx.Add, *_BITWISE):
        return [node.a, node.b]
    if isinstance(node, tirx.Cast):
        return [node.value]
    if isinstance(node, ir.Call) and node.op.same_as(_REINTERPRET):
        return list(node.args)
    raise _Unknown


def _collect(
    node: Any, buffer: ir.Var, dtype: str, loads: list[ir.TensorLoad], elements: list[Expr]
) -> None:
    """Find the buffer's elements, and the largest parts of the sum's type without them."""
    if isinstance(node, tirx.IntImm):
        return
    if isinstance(node, ir.TensorLoad) and node.source.same_as(buffer):
        loads.append(node)
        return
    if str(node.ty.dtype) == dtype and not _reads(node, buffer):
        elements.append(node)
        return
    for operand in _operands(node):
        _collect(operand, buffer, dtype, loads, elements)


def _reads(node: Any, buffer: ir.Var) -> bool:
    variables: list[ir.Var] = []
    tvm_ffi.structural_walk(node, (ir.Var, variables.append))
    return any(one.same_as(buffer) for one in variables)


def _adds(value: Expr, found: WrappingSum, dtype: str) -> bool:
    """Whether the value is the sum, for numbers of all sizes."""
    bits, drawn = DataType(dtype).bits, random.Random(_SEED)
    edges = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    pairs = [(a, b) for a in edges for b in edges]
    pairs += [
        (drawn.getrandbits(bits) >> drawn.randrange(bits), drawn.getrandbits(bits))
        for _ in range(_TRIALS)
    ]
    try:
        return all(
            _evaluated(value, found, _wrapped(a, dtype), _wrapped(b, dtype))
            == _wrapped(a + b, dtype)
            for a, b in pairs
        )
    except _Unknown:
        return False


def _evaluated(node: Any, found: WrappingSum, a: int, b: int) -> int:
    if tvm_ffi.structural_equal(node, found.accumulator):
        return a
    if tvm_ffi.structural_equal(node, found.element):
        return b
    if isinstance(node, tirx.IntImm):
        return int(node)
    dtype = str(node.ty.dtype)
    values = [_evaluated(operand, found, a, b) for operand in _operands(node)]
    if isinstance(node, tirx.Cast | ir.Call):
        return _wrapped(values[0], dtype)
    if isinstance(node, tirx.Add):
        total = values[0] + values[1]
        if total != _wrapped(total, dtype):
            raise _Unknown  # which TVM takes for impossible
        return total
    return _wrapped(_BITWISE[type(node)](*values), dtype)


def _wrapped(value: int, dtype: str) -> int:
    """A number by the bits that its type has."""
    bits = DataType(dtype).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.startswith("int") and value >> (bits - 1) else value
