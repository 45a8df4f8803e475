"""Combiners of reductions: whether one may be split into lanes, and how the lanes' parts join.

A sum, a product and the like are known by their operator, and a sum of integers modulo 2^bits by
what it gives (:mod:`.wrapping_sums`).  A choice of one of two values, such as the larger, with
whatever is said of NaN, is tried out: it depends on how its operands compare and on nothing else,
so that a few numbers and a NaN tell whether their order matters.
"""

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.schedules.emit import Expr
from tvm_iree_ext.schedules.shared.loops.wrapping_sums import wrapping_sum
from tvm_iree_ext.tir.rounded_bits import before_widening, is_rounding

_NEUTRAL: dict[Any, Callable[[str], Expr]] = {
    tirx.Add: lambda dtype: tirx.const(0, dtype),
    tirx.Mul: lambda dtype: tirx.const(1, dtype),
}
_HALVES = {"float16", "float32"}
_CHOICES = (tirx.Max, tirx.Min, tirx.And, tirx.Or)
_COMPARE: dict[Any, Callable[[Any, Any], Any]] = {
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.And: lambda a, b: a and b,
    tirx.Or: lambda a, b: a or b,
    tirx.Add: operator.add,
    tirx.Max: lambda a, b: a if a > b else b,
    tirx.Min: lambda a, b: a if a < b else b,
}


@dataclass(frozen=True)
class Combiner:
    """A commutative and associative function of what is accumulated and an element.

    ``neutral`` gives the number that changes nothing; without it an element may be taken twice.
    """

    value: Expr
    accumulator: ir.TensorLoad
    element: Expr
    neutral: Callable[[str], Expr] | None

    def of(self, a: Expr, b: Expr) -> Expr:
        """The function of two accumulated values."""

        def replace(node: Any, mutator: Any) -> Any:
            if tvm_ffi.structural_equal(node, self.accumulator):
                return a
            if tvm_ffi.structural_equal(node, self.element):
                return b
            return mutator.default_mutate(node)

        return tvm_ffi.structural_mutate(self.value, (ir.Expr, replace))


def combiner_of(value: Expr, buffer: ir.Var) -> Combiner | None:
    """The combiner by which ``value`` adds an element to that of ``buffer``; None if it is none."""
    if type(value) in (*_NEUTRAL, *_CHOICES):
        for accumulated, element in ((value.a, value.b), (value.b, value.a)):
            if _is_load(accumulated, buffer) and not _reads(element, buffer):
                return Combiner(value, accumulated, element, _NEUTRAL.get(type(value)))
    added = wrapping_sum(value, buffer)
    if added is not None:
        return Combiner(value, added.accumulator, added.element, _NEUTRAL[tirx.Add])
    leaves: list[Expr] = []
    loads: list[Expr] = []
    if not _leaves(value, buffer, leaves, loads) or not leaves or not loads:
        return None
    if any(not tvm_ffi.structural_equal(leaf, leaves[0]) for leaf in leaves):
        return None
    combiner = Combiner(value, loads[0], leaves[0], None)
    return combiner if _is_a_choice(combiner) else None


def _is_load(node: Any, buffer: ir.Var) -> bool:
    return isinstance(node, ir.TensorLoad) and node.source.same_as(buffer)


def _reads(node: Any, buffer: ir.Var) -> bool:
    found: list[Any] = []

    def look(load: ir.TensorLoad) -> None:
        if load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(node, (ir.TensorLoad, look))
    return bool(found)


def _children(node: Any) -> list[Any] | None:
    """The operands of what a choice may be made of; None for all else."""
    if type(node) in _COMPARE:
        return [node.a, node.b]
    if isinstance(node, tirx.Select):
        return [node.condition, node.true_value, node.false_value]
    if isinstance(node, tirx.Not):
        return [node.a]
    if isinstance(node, ir.Call) and getattr(node.op, "name", "") == "tirx.isnan":
        return list(node.args)
    converted = _converted(node)
    return None if converted is None else [converted]


def _converted(node: Any) -> Any | None:
    """What a node converts from 16 bits to float32 or back; a choice of numbers of 16 is one."""
    match node:
        case tirx.Cast() if {str(node.ty.dtype), str(node.value.ty.dtype)} == _HALVES:
            return node.value
        case ir.Call(args=[ir.Call(args=[wide]) as words]) if is_rounding(words):
            return wide
    return before_widening(node)


def _leaves(node: Any, buffer: ir.Var, leaves: list[Expr], loads: list[Expr]) -> bool:
    """Collect the element, and the accumulated value, wherever they stand in a choice."""
    if _is_load(node, buffer):
        loads.append(node)
        return True
    children = _children(node)
    if children is None or (leaves and tvm_ffi.structural_equal(node, leaves[0])):
        leaves.append(node)
        return not _reads(node, buffer)
    return all(_leaves(child, buffer, leaves, loads) for child in children)


def _is_a_choice(combiner: Combiner) -> bool:
    """Whether the order of values does not matter, nor that one comes twice."""
    is_float = "float" in str(combiner.element.ty.dtype)
    numbers = [-1.0, 0.5, 2.0, *([math.nan] if is_float else [])]

    named = {combiner.accumulator: "accumulator", combiner.element: "element"}

    try:
        outline = _outline(combiner.value, named)

        def of(a: float, b: float) -> float:
            return _evaluated(outline, {"accumulator": a, "element": b})

        for a, b, c in itertools.product(numbers, repeat=3):
            if not (_same(of(a, b), of(b, a)) and _same(of(a, a), a)):
                return False
            if not _same(of(of(a, b), c), of(a, of(b, c))):
                return False
    except KeyError:
        return False
    return True


def _outline(node: Any, named: Mapping[Any, str]) -> Any:
    """An expression with names for parts that may be large: a name, or a node and its operands."""
    for known, name in named.items():
        if tvm_ffi.structural_equal(node, known):
            return name
    children = _children(node)
    if children is None:
        raise KeyError(str(node))
    return node, [_outline(child, named) for child in children]


def _evaluated(outline: Any, values: Mapping[str, float]) -> Any:
    if isinstance(outline, str):
        return values[outline]
    node, parts = outline
    operands = [_evaluated(part, values) for part in parts]
    if isinstance(node, tirx.Select):
        return operands[1] if operands[0] else operands[2]
    if isinstance(node, tirx.Not):
        return not operands[0]
    if _converted(node) is not None:
        return operands[0]
    if isinstance(node, ir.Call):
        return math.isnan(operands[0])
    with np.errstate(all="ignore"):
        return _COMPARE[type(node)](*operands)


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)
