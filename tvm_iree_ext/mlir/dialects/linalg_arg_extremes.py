"""The largest or smallest element of each line and its place, as JAX's argmax and argmin say it.

A reduction to two results, each of which decides the other, goes one element after another.  The
same in two reductions runs in vectors: the extreme of the line, then the first place that has it.
What the region does is tried out on a few numbers, infinities and NaN: it chooses among its
operands by comparisons alone, so that these tell.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Number,
    Splat,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects.linalg_generic import Loops, dims_of, emit, is_projection
from tvm_iree_ext.mlir.dialects.made_blocks import MadeBlock
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

_ORDERED: dict[int, Callable[[Any, Any], bool]] = {
    1: operator.eq,
    2: operator.gt,
    3: operator.ge,
    4: operator.lt,
    5: operator.le,
    6: operator.ne,
}
_SIGNED: dict[int, Callable[[Any, Any], bool]] = {
    0: operator.eq,
    1: operator.ne,
    2: operator.lt,
    3: operator.le,
    4: operator.gt,
    5: operator.ge,
}
_LOGIC: dict[str, Callable[[Any, Any], bool]] = {
    "arith.ori": operator.or_,
    "arith.andi": operator.and_,
    "arith.xori": operator.xor,
}
_LENGTH = 3  # of the lines that are tried


class _Untold(Exception):
    """Raised for an operation that is no choice."""


@dataclass(frozen=True)
class _ArgExtremeLine:
    """A reduction of a line to an extreme and a place."""

    values: AnyTensor
    axis: int  # that is reduced
    name: str  # "max" or "min"


def arg_extreme(scope: Scope, loops: Loops) -> list[Value] | None:
    """The extremes and their places; None for loops that are something else."""
    line = _line_of(scope, loops)
    if line is None:
        return None
    values_map, out_map = loops.input_maps[0], loops.output_maps[0]
    out, places = loops.outputs
    is_float = line.values.element.is_float
    kind = form.ParsedScalarType(line.values.element.name)
    block = MadeBlock([kind, kind])
    prefix = "arith.maximumf" if is_float else "arith.maxsi"
    name = prefix if line.name == "max" else prefix.replace("max", "min")
    block.finish(block.op(name, [*block.arguments], kind))
    of_values = Loops(
        (line.values,), (out,), (values_map,), (out_map,), loops.extents, block.made()
    )
    (extreme,) = emit(scope, of_values, f"reduce_{line.name}")
    assert isinstance(extreme, TENSORS)

    integer, boolean = form.ParsedScalarType(places.element.name), form.ParsedScalarType("bool")
    index = form.ParsedScalarType("index")
    block = MadeBlock([kind, kind, integer])
    here, best, first = block.arguments
    if is_float:
        same = block.op("arith.cmpf", [here, best], boolean, predicate=1)
        odd = block.op("arith.cmpf", [here, here], boolean, predicate=14)
        same = block.op("arith.ori", [same, odd], boolean)
    else:
        same = block.op("arith.cmpi", [here, best], boolean, predicate=0)
    place = block.op("linalg.index", [], index, dim=line.axis)
    if integer.dtype != "index":
        place = block.op("arith.index_cast", [place], integer)
    most = np.iinfo(places.element.numpy).max
    none = block.op("arith.constant", [], integer, value=most)
    chosen = block.op("arith.select", [same, place, none], integer)
    block.finish(block.op("arith.minsi", [chosen, first], integer))
    nowhere = Splat(places.shape, places.element, Number(places.element, most))
    of_places = Loops(
        (line.values, extreme),
        (nowhere,),
        (values_map, out_map),
        (out_map,),
        loops.extents,
        block.made(),
    )
    return [extreme, *emit(scope, of_places, "first_place")]


def note_counting(scope: Scope, loops: Loops, results: Sequence[Value]) -> None:
    """Note a tensor whose elements are their places along an axis."""
    *operations, last = loops.block.operations
    names = [op.name for op in operations]
    if names not in (["linalg.index"], ["linalg.index", "arith.index_cast"]) or loops.reduced:
        return
    if len(results) == 1 and last.operands == operations[-1].results:
        axis = _axis_of(loops.output_maps[0], int(operations[0].attributes["dim"]))
        scope.function.counted[id(results[0])] = axis, results[0]


def _line_of(scope: Scope, loops: Loops) -> _ArgExtremeLine | None:
    if len(loops.outputs) != 2 or len(loops.inputs) not in (1, 2) or len(loops.reduced) != 1:
        return None
    (axis,) = loops.reduced
    extent = plain(loops.extents[axis])
    maps = [*loops.input_maps, *loops.output_maps]
    if not isinstance(extent, int) or extent < 1 or not all(map(is_projection, maps)):
        return None
    if loops.output_maps[0] != loops.output_maps[1] or axis not in dims_of(loops.input_maps[0]):
        return None
    values = loops.inputs[0]
    if isinstance(values, SCALARS) or values.element.is_complex or values.element.bits < 8:
        return None
    out, places = loops.outputs
    if not places.element.is_integer or places.element.bits < 32:
        return None
    if len(loops.inputs) == 2 and scope.function.counted.get(id(loops.inputs[1])) != (
        _axis_of(loops.input_maps[1], axis),
        loops.inputs[1],
    ):
        return None
    first, start = _number(out), _number(places)
    if first is None or start != 0:
        return None
    for name in ("max", "min"):
        if first == _neutral(values.element, name) and _is_first_extreme(loops, axis, name):
            return _ArgExtremeLine(values, axis, name)
    return None


def _axis_of(one: form.ParsedAffineMap, dim: int) -> int:
    """The axis of an operand that a dim runs along; -1 where none does."""
    found = [place for place, result in enumerate(one.results) if result.value == dim]
    return found[0] if found else -1


def _number(value: AnyTensor) -> Any:
    is_known = isinstance(value, Splat) and isinstance(value.scalar, Number)
    return value.scalar.value if is_known else None  # type: ignore[union-attr]


def _neutral(element: Any, name: str) -> Any:
    if element.is_float:
        return -math.inf if name == "max" else math.inf
    limits = np.iinfo(element.numpy)
    return limits.min if name == "max" else limits.max


def _is_first_extreme(loops: Loops, axis: int, name: str) -> bool:
    """Whether the region keeps the first of the extremes, of which a NaN is one."""
    is_float = loops.inputs[0].element.is_float
    first = _neutral(loops.inputs[0].element, name)
    numbers = [first, -1, 2, *([0.5, math.nan] if is_float else [])]
    better = operator.gt if name == "max" else operator.lt
    try:
        for line in itertools.product(numbers, repeat=_LENGTH):
            best, place = first, 0
            want, where = line[0], 0
            for position, value in enumerate(line):
                best, place = _step(loops, axis, position, value, best, place)
                if want == want and (value != value or better(value, want)):
                    want, where = value, position
            if place != where or not (best == want or (best != best and want != want)):
                return False
    except (_Untold, TypeError, KeyError):
        return False
    return True


def _step(
    loops: Loops, axis: int, position: int, value: Any, best: Any, place: int
) -> tuple[Any, Any]:
    """What the region yields."""
    given = [value, *([position] if len(loops.inputs) == 2 else []), best, place]
    held: dict[int, Any] = {
        id(argument): one for argument, one in zip(loops.block.arguments, given, strict=True)
    }
    *operations, last = loops.block.operations
    for op in operations:
        operands = [held[id(one)] for one in op.operands]
        held[id(op.results[0])] = _chosen(op, operands, axis, position)
    found, at = (held[id(one)] for one in last.operands)
    return found, at


def _chosen(op: form.ParsedOperation, operands: list[Any], axis: int, position: int) -> Any:
    if op.name == "linalg.index" and int(op.attributes["dim"]) == axis:
        return position
    if op.name in ("arith.index_cast", "arith.index_castui"):
        return operands[0]
    if op.name == "arith.select":
        return operands[1] if operands[0] else operands[2]
    if op.name in _LOGIC and op.results[0].type == form.ParsedScalarType("bool"):
        return _LOGIC[op.name](*operands)
    predicate = int(op.attributes.get("predicate", -1))
    if op.name == "arith.cmpi" and predicate in _SIGNED:
        return _SIGNED[predicate](*operands)
    if op.name == "arith.cmpf":
        a, b = operands
        unordered = a != a or b != b
        if predicate in (7, 14):
            return unordered == (predicate == 14)
        if predicate in _ORDERED:
            return not unordered and _ORDERED[predicate](a, b)
        if predicate - 7 in _ORDERED:
            return unordered or _ORDERED[predicate - 7](a, b)
    raise _Untold
