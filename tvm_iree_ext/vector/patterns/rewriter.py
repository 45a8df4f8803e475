"""Greedy rewriting of a copy of a program, op by op, until nothing changes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

Pattern: TypeAlias = Callable[[Operation, Builder], bool]
"""Looks at one operation and may replace it, with a builder that inserts before it; whether it
changed anything."""


def apply(program: VectorProgram, *patterns: Pattern) -> bool:
    """Apply patterns to a program itself until none applies; whether any did."""
    changed = False
    while sweep(program, *patterns):
        changed = True
    return changed


def sweep(program: VectorProgram, *patterns: Pattern) -> bool:
    """Offer each operation once to the patterns, of which the first that applies changes it.

    What a pattern makes is offered at once: what goes link by link along a chain, such as an
    extract of a value that was inserted long before, takes one sweep, and not one for each link.
    """
    changed = False
    for op in program.walk():
        waiting = [op]
        while waiting:
            here = waiting.pop()
            if here.parent is None:  # erased meanwhile
                continue
            b = Builder(program.body, here)
            if any(pattern(here, b) for pattern in patterns):
                changed = True
                waiting += reversed(b.made)
    return changed


def again(b: Builder, op: Operation, operands: Sequence[Value], **attributes: Any) -> Operation:
    """The same op without body on as many other operands, with some attributes changed."""
    assert len(operands) == len(op.operands), f"{op.name}: {len(operands)} operands"
    named = {
        name.rstrip("*?"): op.segment_of(operands, name.rstrip("*?"))
        for name in op.definition.operands
    }
    return b.create(op.name, named, {**op.attributes, **attributes})


def is_elementwise(op: Operation) -> bool:
    """Whether this makes a vector, position by position, of vectors of its shape."""
    if len(op.results) != 1 or not op.result.is_vector or op.name == "arith.constant":
        return False
    return op.name == "vector.fma" or op.name.partition(".")[0] in ("arith", "math")


def rebuilt(
    b: Builder,
    op: Operation,
    carried: Sequence[Value],
    yields: Sequence[Value],
    gone: Sequence[Value] = (),
) -> Operation:
    """The loop with the block of ``op``, to which arguments were added, that carries other values.

    It stands before ``op``, which is left without block: its results are to be replaced, then it is
    to be erased.

    Args:
        b: inserts before ``op``.
        op: a for or forall.
        carried: what the loop starts with.
        yields: what an iteration carries on.
        gone: arguments of the block to be removed, which nothing but the old yield takes.
    """
    block = op.body
    block.terminator.erase()
    block.insert(Operation("scf.yield", {"values": yields}))
    for argument in gone:
        block.remove_argument(argument)
    names = [name.rstrip("*?") for name in op.definition.operands]
    operands: dict[str, Any] = {name: op.group(name) for name in names[:-1]}
    op.regions = []
    return b.create(op.name, {**operands, names[-1]: carried}, op.attributes, [block])
