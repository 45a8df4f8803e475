"""Hoisting pairs of transfers out of loops.

before:  for k:  t = read m[c];  t' = f(t);  write t', m[c]
after:   t = read m[c];  for k carry t:  t = f(t)  end;  write t, m[c]

A pair is hoisted only where it is sure to be right:

- the read is of the tensor that the loop carries, as it comes, or of a buffer from outside; and the
  write is in the same block, behind it, in the chain of writes that the loop yields;
- both touch the same elements, at indices that do not change in the loop, at the same lanes;
- everything else in the loop that touches the tensor or buffer is provably elsewhere, that is at
  a known distance;
- all lanes are touched; where a mask or an edge leaves some out, the pair is hoisted only if each
  lane is computed from itself alone, as a lane that is left out is no longer read anew;
- reading before the loop is no harm: the loop runs at least once, or the place is known to be in
  the memory.

Two buffers that are different values are different memory.
"""

from collections.abc import Iterator

from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.vector_types import BufferType, RankedTensorType
from tvm_iree_ext.vector.patterns.canonicalization import clean
from tvm_iree_ext.vector.patterns.cleanup import drop_unchanged_carries, is_defined_in
from tvm_iree_ext.vector.patterns.forwarding import forward_stores, retargeted
from tvm_iree_ext.vector.patterns.places import AccessedBox, access_of
from tvm_iree_ext.vector.patterns.rewriter import apply, is_elementwise, rebuilt
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def hoist_transfers(program: VectorProgram) -> VectorProgram:
    """Hoist pairs until nothing changes, and forward what was written to the reads before loops.

    What is no longer needed, such as the first zeros of an accumulator, stays for the next step.
    """
    changed = program.clone()
    clean(changed)
    while apply(changed, hoist_pair, drop_unchanged_carries):
        pass
    apply(changed, forward_stores)
    changed.verify()
    return changed


def hoist_pair(op: Operation, b: Builder) -> bool:
    """The pattern: one pair of one loop."""
    if op.name != "scf.for":
        return False
    for number, argument in enumerate(op.body.carried):
        if isinstance(argument.type, RankedTensorType):
            pair = _tensor_pair(op, argument, op.body.terminator.operands[number])
            if pair is not None:
                _hoist_from_tensor(op, number, *pair, b)
                return True
    for buffer in _buffers(op):
        pair = _buffer_pair(op, buffer)
        if pair is not None:
            _hoist_from_buffer(op, *pair, b)
            return True
    return False


def _tensor_pair(
    op: Operation, argument: Value, yielded: Value
) -> tuple[AccessedBox, AccessedBox] | None:
    """A read and a write of a tensor that is carried."""
    block = op.body
    writes: list[AccessedBox] = []
    versions, value = [argument], yielded
    while value is not argument:
        write = access_of(value.op) if value.op is not None else None
        if write is None or not write.is_write or write.op.parent is not block:
            return None
        writes.append(write)
        versions.append(value)
        value = write.memory
    reads: list[AccessedBox] = []
    chain = {write.op for write in writes}
    for version in versions:
        for user in version.users:
            access = access_of(user)
            if user in chain or (user is block.terminator and version is yielded):
                continue
            if access is None or access.is_write:
                return None
            reads.append(access)
    if block.terminator.operands.count(yielded) != 1:
        return None
    first = [one for one in reads if one.memory is argument]
    return _choose(op, first, writes, [*reads, *writes])


def _buffer_pair(op: Operation, buffer: Value) -> tuple[AccessedBox, AccessedBox] | None:
    """A read and a write of a buffer."""
    every: list[AccessedBox] = []
    for user in buffer.users:
        if user is op or user.is_inside(op.body):
            access = access_of(user)
            if access is None:
                return None
            every.append(access)
    reads = [one for one in every if not one.is_write]
    writes = [one for one in every if one.is_write]
    return _choose(op, reads, writes, every)


def _choose(
    op: Operation, reads: list[AccessedBox], writes: list[AccessedBox], every: list[AccessedBox]
) -> tuple[AccessedBox, AccessedBox] | None:
    """The first pair that may be hoisted."""
    block = op.body
    for read in reads:
        for write in writes:
            if read.op.parent is not block or write.op.parent is not block:
                continue
            if (
                read.is_same(write)
                and not any(is_defined_in(index, block) for index in read.indices)
                and not any(is_defined_in(index, block) for index in write.indices)
                and read.op.is_before(write.op)
                and all(one in (read, write) or one.is_disjoint(write) for one in every)
                and _is_lane_by_lane(read, write, block)
                and _may_be_read_before(op, read)
            ):
                return read, write
    return None


def _is_lane_by_lane(read: AccessedBox, write: AccessedBox, block: Block) -> bool:
    """Whether the lanes that are left out, if any, have no effect on the others."""
    if read.is_whole and write.is_whole:
        return True
    for name in ("mask", "padding"):
        if name == "mask" and read.op.group(name) != write.op.group(name):
            return False
        if any(is_defined_in(one, block) for one in _group(read.op, name)):
            return False
    if read.op.attributes["in_bounds"] != write.op.attributes["in_bounds"]:
        return False
    waiting = [read.vector]
    while waiting:
        for user in waiting.pop().users:
            if user is write.op:
                continue
            if not is_elementwise(user) or user.parent is not block:
                return False
            waiting.append(user.result)
    return True


def _group(op: Operation, name: str) -> list[Value]:
    known = [one.rstrip("*?") for one in op.definition.operands]
    return op.group(name) if name in known else []


def _may_be_read_before(op: Operation, read: AccessedBox) -> bool:
    bounds = [op.operand(name).constant for name in ("lower", "upper")]
    if None not in bounds and bounds[0] < bounds[1]:
        return True
    return all(
        isinstance(extent, int) and index.constant is not None and index.constant + size <= extent
        for index, size, extent in zip(read.indices, read.sizes, read.memory.shape, strict=True)
    )


def _buffers(op: Operation) -> Iterator[Value]:
    """The buffers from outside that a loop writes."""
    seen: dict[Value, None] = {}
    for inner in op.body.walk():
        for buffer in inner.writes:
            if isinstance(buffer.type, BufferType) and not is_defined_in(buffer, op.body):
                seen[buffer] = None
    yield from seen


def _hoist_from_tensor(
    op: Operation, number: int, read: AccessedBox, write: AccessedBox, b: Builder
) -> None:
    inits, block = op.group("inits"), op.body
    first = retargeted(b, read.op, inits[number]).result
    argument = block.add_argument(first.type, read.vector.hint)
    last = write.vector if write.vector is not read.vector else argument
    read.op.replace_by(argument)
    write.op.results[0].replace_by(write.memory)
    yields = [*block.terminator.operands, last]
    made = rebuilt(b, op, [*inits, first], yields)
    stored = retargeted(b, write.op, made.results[number], made.results[-1])
    write.op.erase()
    for position, result in enumerate(op.results):
        result.replace_by(stored.result if position == number else made.results[position])
    op.erase()


def _hoist_from_buffer(op: Operation, read: AccessedBox, write: AccessedBox, b: Builder) -> None:
    inits, block = op.group("inits"), op.body
    first = retargeted(b, read.op, read.memory).result
    argument = block.add_argument(first.type, read.vector.hint)
    last = write.vector if write.vector is not read.vector else argument
    read.op.replace_by(argument)
    made = rebuilt(b, op, [*inits, first], [*block.terminator.operands, last])
    retargeted(b, write.op, write.memory, made.results[-1])
    write.op.erase()
    for position, result in enumerate(op.results):
        result.replace_by(made.results[position])
    op.erase()
