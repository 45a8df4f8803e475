"""Work of a program in operations, as far as its loops are known."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tvm_iree_ext.vector.ir.core import Block, Operation
from tvm_iree_ext.vector.ir.vector_types import FLOATS
from tvm_iree_ext.vector.ops.contract import extents_of
from tvm_iree_ext.vector.ops.structured import extent_of, is_structured, nest_of


def work(body: Block) -> int:
    """About how many elements the operations of a block compute; loops not known count once."""
    return _sum(body, lambda op: _elements(op))


def flops(body: Block, extents: Mapping[str, int] | None = None) -> int:
    """Floating-point operations of the products that are summed: two for each."""
    return _sum(body, lambda op: _flops(op, extents or {}))


def trips(op: Operation) -> int:
    """How often a loop's body runs; 1 where that is not known, and for what is no loop."""
    if op.name == "scf.for":
        lower, upper, step = (op.operand(n).constant for n in ("lower", "upper", "step"))
        if None in (lower, upper, step):
            return 1
        return max(0, -(-(upper - lower) // step))
    if op.name == "scf.forall":
        return _count([bound.constant for bound in op.group("bounds")], {})
    return 1


def _sum(block: Block, of: Callable[[Operation], int]) -> int:
    total = 0
    for op in block.operations:
        total += of(op)
        if not is_structured(op):
            total += sum(_sum(inner, of) for inner in op.regions) * trips(op)
    return total


def _elements(op: Operation) -> int:
    if is_structured(op):
        return _points(op, {})
    return sum(_count(result.shape, {}) for result in op.results) if not op.regions else 0


def _flops(op: Operation, extents: Mapping[str, int]) -> int:
    if op.results and op.results[0].dtype not in FLOATS:
        return 0
    if is_structured(op):
        return 2 * _points(op, extents) if len(op.operands) == 3 and not op.regions else 0
    if op.name == "vector.contract":
        return 2 * prod(extents_of(op))
    if op.name in ("vector.fma", "vector.outerproduct"):
        return 2 * prod(op.result.shape)
    return 0


def _points(op: Operation, extents: Mapping[str, int]) -> int:
    """The points of a structured op's nest."""
    return _count(extent_of(nest_of(op), [value.shape for value in op.operands]), extents)


def _count(shape: Sequence[Any], extents: Mapping[str, int]) -> int:
    """A product of extents; those that are not known count once."""
    known = (extents.get(extent, 1) if isinstance(extent, str) else extent for extent in shape)
    return prod(1 if extent is None else extent for extent in known)
