"""Canonical form between the steps: folded, each thing computed once, nothing dead.

:func:`canonicalize` is all of it.  The driver takes parts, because a step is shown as it leaves
the program: constants are folded by the step that follows.
"""

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.patterns import cleanup, folding
from tvm_iree_ext.vector.patterns.forwarding import drop_overwritten, forward_stores
from tvm_iree_ext.vector.patterns.places import difference
from tvm_iree_ext.vector.patterns.rewriter import Pattern, again, apply
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

FOLDS: tuple[Pattern, ...] = (
    folding.fold_slices,
    folding.fold_inserts,
    folding.fold_extracts,
    folding.fold_shapes,
)
"""Folds of slices, extracts and shapes: pieces that were cut meet those that were put together."""


_POSITIONS = (
    folding.fold_positions,
    folding.fold_extents,
    folding.fold_single_trips,
    folding.fold_branches,
    cleanup.lift_invariant_scalars,
)


def clean(program: VectorProgram) -> None:
    """Positions folded and out of loops, equal ops shared, dead ones dropped: in place."""
    while apply(program, *_POSITIONS) or cleanup.share_equal(program) or cleanup.drop_dead(program):
        pass


def settle(program: VectorProgram, *patterns: Pattern) -> None:
    """Apply patterns and clean, in turn, until neither changes anything: in place."""
    clean(program)
    while apply(program, *patterns):
        clean(program)


def settled(program: VectorProgram, *patterns: Pattern) -> VectorProgram:
    """A copy to which the folds and patterns are applied until none applies."""
    changed = program.clone()
    settle(changed, *FOLDS, *patterns)
    changed.verify()
    return changed


def canonicalize(program: VectorProgram) -> VectorProgram:
    """The program folded as far as it goes."""
    return settled(
        program,
        folding.fold_constants,
        *fold_slices_into_transfers(),
        forward_stores,
        drop_overwritten,
        cleanup.drop_unchanged_carries,
    )


def fold_slices_into_transfers() -> tuple[Pattern, ...]:
    """Patterns: a transfer of a slice of a tensor becomes one of the tensor."""
    return _fold_read_of_slice, _fold_written_slice


def _fold_read_of_slice(op: Operation, b: Builder) -> bool:
    """before: s = slice x[o];  v = read s[i]            after: v = read x[o + i]"""
    if op.name != "vector.transfer_read" or not all(op.attributes["in_bounds"]):
        return False
    cut = op.operand("source").op
    if cut is None or cut.name != "tensor.extract_slice":
        return False
    source = cut.operand("source")
    at = _sums(b, cut.group("offsets"), op.group("indices"))
    rest = [op.operand("padding"), *op.group("mask")]
    op.replace_by(again(b, op, [source, *at, *rest]).result)
    return True


def _fold_written_slice(op: Operation, b: Builder) -> bool:
    """before: s = slice x[o]; t = write v, s[i]; insert t, x[o]         after: write v, x[o + i]"""
    if op.name != "tensor.insert_slice":
        return False
    dest, offsets = op.operand("dest"), op.group("offsets")
    writes = []
    value = op.operand("source")
    while value.op is not None and value.op.name == "vector.transfer_write":
        if value.use_count != 1 or not all(value.op.attributes["in_bounds"]):
            return False
        writes.append(value.op)
        value = value.op.operand("dest")
    start = value.op
    if not writes or not _is_cut_from(start, dest, offsets):
        return False
    made: Value = dest
    for write in reversed(writes):
        at = _sums(b, offsets, write.group("indices"))
        made = again(b, write, [write.operand("vector"), made, *at, *write.group("mask")]).result
    op.replace_by(made)
    return True


def _is_cut_from(cut: Operation | None, dest: Value, offsets: list[Value]) -> bool:
    if cut is None or cut.name != "tensor.extract_slice" or cut.operand("source") is not dest:
        return False
    pairs = zip(cut.group("offsets"), offsets, strict=True)
    return all(difference(a, b) == 0 for a, b in pairs)


def _sums(b: Builder, offsets: list[Value], indices: list[Value]) -> list[Value]:
    return [b.arithmetic("add", o, i) for o, i in zip(offsets, indices, strict=True)]
