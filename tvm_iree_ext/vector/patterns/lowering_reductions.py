"""Lowering multi_reduction: the reduced dims to one end, flattened to 2-D, then

inner_reduction   one reduction of a register for each place of the result
inner_parallel    rows folded one after the other, lane by lane: no horizontal op

Inner parallel is right where the lanes are kept, as nothing has to be transposed then.
"""

from math import prod

from tvm_iree_ext.vector.ir.combining_kinds import elementwise_name
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.glue import with_shape
from tvm_iree_ext.vector.patterns.rewriter import Pattern
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

INNER_REDUCTION, INNER_PARALLEL, AUTO = "inner_reduction", "inner_parallel", "auto"
STRATEGIES = (INNER_REDUCTION, INNER_PARALLEL, AUTO)


def lower_reductions(program: VectorProgram, strategy: str = AUTO) -> VectorProgram:
    """Replace multi_reductions; ``auto`` is inner_parallel where the last dim is kept."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    return settled(program, lower_multi_reduction(strategy))


def lower_multi_reduction(strategy: str) -> Pattern:
    """The pattern: one multi_reduction."""

    def pattern(op: Operation, b: Builder) -> bool:
        if op.name != "vector.multi_reduction":
            return False
        source, reduced = op.operand("source"), op.attributes["reduction_dims"]
        keeps_lanes = source.rank - 1 not in reduced
        is_parallel = strategy == INNER_PARALLEL or (strategy == AUTO and keeps_lanes)
        lower = _parallel if is_parallel and op.result.is_vector else _horizontal
        op.replace_by(lower(op, b))
        return True

    return pattern


def _flat(op: Operation, b: Builder, is_reduced_first: bool) -> Value:
    """The source as 2-D, of the reduced dims and those that are kept."""
    source, reduced = op.operand("source"), sorted(op.attributes["reduction_dims"])
    kept = [dim for dim in range(source.rank) if dim not in reduced]
    order = [*reduced, *kept] if is_reduced_first else [*kept, *reduced]
    if order != sorted(order):
        source = b.transpose(source, order)
    count = prod(source.shape)
    width = prod(op.result.shape)
    shape = (count // width, width) if is_reduced_first else (width, count // width)
    return with_shape(b, source, shape)


def _parallel(op: Operation, b: Builder) -> Value:
    rows = _flat(op, b, is_reduced_first=True)
    name = elementwise_name(op.attributes["kind"], op.result.dtype)
    result = with_shape(b, op.operand("acc"), rows.shape[1:])
    for n in range(rows.shape[0]):
        result = b.elementwise(name, result, b.extract(rows, [n]))
    return with_shape(b, result, op.result.shape)


def _horizontal(op: Operation, b: Builder) -> Value:
    rows, acc, kind = _flat(op, b, is_reduced_first=False), op.operand("acc"), op.attributes["kind"]
    if not acc.is_vector:
        return b.reduction(b.extract(rows, [0]), acc, kind=kind)
    start = with_shape(b, acc, rows.shape[:1])
    result = start
    for n in range(rows.shape[0]):
        total = b.reduction(b.extract(rows, [n]), b.extract(start, [n]), kind=kind)
        result = b.insert_at(total, result, [n])
    return with_shape(b, result, op.result.shape)
