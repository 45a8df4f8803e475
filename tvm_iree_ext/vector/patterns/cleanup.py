"""Dead code elimination and common subexpressions, between the steps."""

from collections.abc import Hashable

from tvm_iree_ext.vector.ir.core import Block, Operation, Value, is_index
from tvm_iree_ext.vector.patterns.rewriter import rebuilt
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def drop_dead(program: VectorProgram) -> bool:
    """Erase what has no use: ops whose results nobody takes, and that write no buffer."""
    changed = False
    while _drop_dead(program.body):
        changed = True
    return changed


def _drop_dead(block: Block) -> bool:
    changed = False
    for op in reversed(list(block.operations)):
        if _is_dead(op):
            op.erase()
            changed = True
            continue
        for inner in op.regions:
            changed |= _drop_dead(inner)
    return changed


def _is_dead(op: Operation) -> bool:
    if op.definition.is_terminator or any(result.users for result in op.results):
        return False
    return op.name == "memref.alloc" or not any(one.writes for one in op.walk())


def share_equal(program: VectorProgram) -> bool:
    """Compute once what is computed twice from the same values (CSE)."""
    return _share(program.body, {})


def _share(block: Block, known: dict[Hashable, Operation]) -> bool:
    known = dict(known)
    changed = False
    for op in list(block.operations):
        for inner in op.regions:
            changed |= _share(inner, known)
        if op.regions or not op.results or op.reads or op.writes:
            continue
        key = op.key()
        if key in known:
            op.replace_by(*known[key].results)
            changed = True
        else:
            known[key] = op
    return changed


def lift_invariant_scalars(op: Operation, b: Builder) -> bool:
    """Move arithmetic on positions out of a loop whose values it does not take."""
    if op.name not in ("scf.for", "scf.forall"):
        return False
    moved = False
    for one in list(op.body.operations):
        is_scalar = one.name.startswith("arith.") and is_index(one.results[0])
        if is_scalar and not any(is_defined_in(value, op.body) for value in one.operands):
            one.move_before(op)
            moved = True
    return moved


def is_defined_in(value: Value, block: Block) -> bool:
    """Whether a value is made in a block, or inside an operation in it."""
    if isinstance(value.owner, Block):
        inside: Block | None = value.owner
        while inside is not None:
            if inside is block:
                return True
            inside = inside.parent.parent if inside.parent is not None else None
        return False
    return value.owner.is_inside(block)


def drop_unchanged_carries(op: Operation, b: Builder) -> bool:
    """Take out of a loop what it carries and does not change, or that nobody takes in the end."""
    if op.name not in ("scf.for", "scf.forall"):
        return False
    block = op.body
    inits = op.group("inits" if op.name == "scf.for" else "outs")
    arguments = block.carried
    for number, (argument, value) in enumerate(
        zip(arguments, block.terminator.operands, strict=True)
    ):
        if value is argument:
            argument.replace_by(inits[number])
            op.results[number].replace_by(inits[number])
    needed = _needed(op)
    kept = [number for number, argument in enumerate(arguments) if argument in needed]
    if len(kept) == len(inits):
        return False
    yields = block.terminator.operands
    gone = [one for number, one in enumerate(arguments) if number not in kept]
    for argument in gone:  # it still serves to make the value that is no longer yielded
        argument.replace_by(inits[arguments.index(argument)], but=[block.terminator])
    carried, passed = ([values[n] for n in kept] for values in (inits, yields))
    made = rebuilt(b, op, carried, passed, gone)
    for number, result in zip(kept, made.results, strict=True):
        op.results[number].replace_by(result)
    op.erase()
    return True


def _needed(op: Operation) -> set[Value]:
    """Carried values of a loop on which its results, or what is written in it, depend."""
    block = op.body
    yielded = dict(zip(block.carried, block.terminator.operands, strict=True))
    passed = dict(zip(block.carried, op.results, strict=True))
    found = {argument for argument, result in passed.items() if result.users}
    waiting = [yielded[argument] for argument in found]
    for one in block.operations:
        if any(inner.writes for inner in one.walk()):
            waiting += _taken(one)
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in yielded:
            found.add(value)
            waiting.append(yielded[value])
        elif value.op is not None and value.op.parent is block:
            waiting += _taken(value.op)
    return found


def _taken(op: Operation) -> list[Value]:
    """All values that an op takes, itself or inside it."""
    return [value for inner in op.walk() for value in inner.operands]
