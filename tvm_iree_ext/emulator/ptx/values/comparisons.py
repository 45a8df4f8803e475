"""Comparison and selection.

Source: PTX ISA 9.0, *Comparison and Selection Instructions*, *Half Precision Comparison
Instructions*, *Comparisons*.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction, PtxOperand, ResultPair
from tvm_iree_ext.emulator.ptx.values.floats import flushed
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, results_of
from tvm_iree_ext.emulator.ptx.values.small_floats import from_bfloat16

_ORDERED: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip
_FLOATS = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")


def _either_nan(a: Value, b: Value) -> Value:
    return np.isnan(a) | np.isnan(b)


def comparison(name: str, kind: str) -> Callable[[Value, Value], Value]:
    """A comparison by its PTX name: of floats, ``equ`` and the like are true with a NaN."""
    if kind not in _FLOATS:
        return _ORDERED[name]
    if name == "num":
        return lambda a, b: ~_either_nan(a, b)
    if name == "nan":
        return _either_nan
    if name.endswith("u") and len(name) == 3:
        ordered = _ORDERED[name[:2]]
        return lambda a, b: ordered(a, b) | _either_nan(a, b)
    if name == "ne":
        return lambda a, b: (a != b) & ~_either_nan(a, b)
    return _ORDERED[name]


def _joined(how: str) -> Callable[[Value, Value], Value]:
    return {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[how]


def _compared(one: PtxInstruction, kind: str) -> Callable[[Value, Value], Value]:
    compare = comparison(one.modifiers[0], kind)
    if one.has("ftz") and kind == "f32":
        return lambda a, b: compare(flushed(a), flushed(b))
    if kind == "bf16":
        return lambda a, b: compare(from_bfloat16(a), from_bfloat16(b))
    return compare


@instruction("setp")
def _setp(one: PtxInstruction) -> PtxOperation:
    """*setp*: a predicate, and with ``p|q`` its opposite, joined with a third operand."""
    kind = one.type
    target, a, b, *more = one.operands
    if kind in ("f16x2", "bf16x2"):
        return _setp_of_pairs(one)
    compare = _compared(one, kind)
    join = _joined(one.modifiers[1]) if more else None
    both = isinstance(target, ResultPair)

    def function(a: Value, b: Value, *c: Value) -> Value:
        found = compare(a, b)
        opposite = ~np.asarray(found)
        if join is not None:
            found, opposite = join(found, c[0]), join(opposite, c[0])
        return (found, opposite) if both else found

    takes: list[tuple[PtxOperand, str]] = [(a, kind), (b, kind), *((one, "pred") for one in more)]
    return PtxOperation(function, takes, _predicates(target))


def _predicates(target: PtxOperand) -> list[tuple[PtxOperand, str]]:
    return [(one, "pred") for one in results_of(target)]


def _halves(value: Value, kind: str) -> list[Value]:
    bits = [(value >> np.uint32(shift)).astype(np.uint16) for shift in (0, 16)]
    return [from_bfloat16(one) if kind == "bf16x2" else one.view(np.float16) for one in bits]


def _setp_of_pairs(one: PtxInstruction) -> PtxOperation:
    kind = one.type
    target, a, b = one.operands
    compare = comparison(one.modifiers[0], kind)

    def function(a: Value, b: Value) -> Value:
        pairs = zip(_halves(a, kind), _halves(b, kind), strict=True)
        return tuple(compare(x, y) for x, y in pairs)

    return PtxOperation(function, [(a, kind), (b, kind)], _predicates(target))


@instruction("set")
def _set(one: PtxInstruction) -> PtxOperation:
    """*set*: all ones, or 1.0, where a comparison holds."""
    target, a, b, *more = one.operands
    gives, kind = one.modifiers[-2:]
    if kind in ("f16x2", "bf16x2"):
        return _set_of_pairs(one, gives, kind)
    compare = _compared(one, kind)
    join = _joined(one.modifiers[1]) if more else None

    def function(a: Value, b: Value, *c: Value) -> Value:
        found = compare(a, b)
        if join is not None:
            found = join(found, c[0])
        if gives == "f32":
            return np.where(found, np.float32(1), np.float32(0))
        if gives == "f16":
            return np.where(found, np.float16(1), np.float16(0))
        if gives == "bf16":
            return np.where(found, np.uint16(0x3F80), np.uint16(0))
        ones = {"u16": np.uint16(0xFFFF), "s16": np.int16(-1), "s32": np.int32(-1)}
        truth = ones.get(gives, np.uint32(0xFFFFFFFF))
        return np.where(found, truth, truth.dtype.type(0))

    takes: list[tuple[PtxOperand, str]] = [(a, kind), (b, kind), *((one, "pred") for one in more)]
    return PtxOperation(function, takes, [(target, gives)])


def _set_of_pairs(one: PtxInstruction, gives: str, kind: str) -> PtxOperation:
    target, a, b = one.operands
    compare = comparison(one.modifiers[0], kind)
    truth = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(gives, 0xFFFF)

    def function(a: Value, b: Value) -> Value:
        low, high = (
            np.where(compare(x, y), np.uint32(truth), np.uint32(0))
            for x, y in zip(_halves(a, kind), _halves(b, kind), strict=True)
        )
        return low | high << np.uint32(16)

    return PtxOperation(function, [(a, kind), (b, kind)], [(target, "b32")])


@instruction("selp")
def _selp(one: PtxInstruction) -> PtxOperation:
    """*selp*: the first where a predicate is true, else the second."""
    target, a, b, chosen = one.operands
    return PtxOperation(
        lambda a, b, c: np.where(c, a, b),
        [(a, one.type), (b, one.type), (chosen, "pred")],
        [(target, one.type)],
    )


@instruction("slct")
def _slct(one: PtxInstruction) -> PtxOperation:
    """*slct*: the first where a number is not negative, else the second."""
    kind, sign = one.modifiers[-2:]
    target, a, b, chosen = one.operands
    return PtxOperation(
        lambda a, b, c: np.where(c >= 0, a, b),
        [(a, kind), (b, kind), (chosen, sign)],
        [(target, kind)],
    )
