"""Store-to-load forwarding, and elimination of dead stores.

before:  t = write v, m[0];  w = read t[0]         after:  w = v
before:  t = write v, m[0];  w = read t[4] : [4]   after:  w = read m[4]       (disjoint)
before:  t = write v, m[0];  u = write x, t[0]     after:  u = write x, m[0]
"""

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import RankedTensorType
from tvm_iree_ext.vector.patterns.glue import with_shape
from tvm_iree_ext.vector.patterns.places import READS, WRITES, AccessedBox, access_of
from tvm_iree_ext.vector.patterns.rewriter import again
from tvm_iree_ext.vector.programs.builder import Builder


def forward_stores(op: Operation, b: Builder) -> bool:
    """A read of what was written before takes the vector, or looks past writes elsewhere."""
    read = access_of(op)
    if read is None or op.name not in READS or op.group("mask"):
        return False
    if isinstance(read.memory.type, RankedTensorType):
        return _forward_tensor(read, b)
    write = _last_write(read)
    value = None if write is None else _value_of(read, write, b)
    if value is None:
        return False
    op.replace_by(value)
    return True


def _forward_tensor(read: AccessedBox, b: Builder) -> bool:
    op, memory = read.op, read.memory
    while memory.op is not None:
        write = access_of(memory.op)
        if write is None or not write.is_write:
            break
        value = _value_of(read, write, b)
        if value is not None:
            op.replace_by(value)
            return True
        if not read.is_disjoint(write):
            break
        memory = write.memory
    if memory is read.memory:
        return False
    op.operands = [memory, *op.operands[1:]]
    return True


def _last_write(read: AccessedBox) -> AccessedBox | None:
    """The write in the same block that a read of a buffer meets first, looking back."""
    block = read.op.parent
    assert block is not None
    for op in reversed(block.operations[: block.operations.index(read.op)]):
        write = access_of(op)
        if write is not None and write.memory is read.memory and write.is_write:
            if not read.is_disjoint(write):
                return write
        elif any(read.memory in inner.writes for inner in op.walk()):
            return None
    return None


def _value_of(read: AccessedBox, write: AccessedBox, b: Builder) -> Value | None:
    """The value read, as a part of the value written; None where it is not sure to be that."""
    if not write.is_whole or not read.is_inside(write):
        return None
    came, wanted = write.map.dims, read.map.dims
    if None in wanted:
        return None
    if came != wanted and not (
        write.map.used == tuple(sorted(write.map.used))
        and read.map.used == tuple(sorted(read.map.used))
    ):
        return None
    offsets = read.offsets_in(write)
    within = [offsets[dim] for dim in write.map.used]
    sizes = [read.sizes[dim] for dim in write.map.used]
    part = write.vector
    if tuple(sizes) != tuple(part.shape):
        part = b.extract_strided_slice(part, [by or 0 for by in within], sizes)
    return with_shape(b, part, read.vector.shape)


def drop_overwritten(op: Operation, b: Builder) -> bool:
    """Take out a write that a later one covers before anyone reads it."""
    write = access_of(op)
    if write is None or op.name not in WRITES:
        return False
    if not isinstance(write.memory.type, RankedTensorType):
        return _drop_overwritten_store(write)
    if not write.is_whole:
        return False
    later, memory = op, write.memory
    while memory.op is not None and memory.use_count == 1:
        earlier = access_of(memory.op)
        if earlier is None or not earlier.is_write:
            return False
        if earlier.is_inside(write):
            later.operands = [
                earlier.memory if value is memory else value for value in later.operands
            ]
            memory.op.erase()
            return True
        later, memory = memory.op, earlier.memory
    return False


def _drop_overwritten_store(write: AccessedBox) -> bool:
    block = write.op.parent
    assert block is not None
    memory = write.memory
    if memory.op is not None and not any(
        memory in inner.reads for user in memory.users for inner in user.walk()
    ):
        write.op.erase()  # a temporary that nobody reads
        return True
    for op in block.operations[block.operations.index(write.op) + 1 :]:
        if any(memory in inner.reads for inner in op.walk()):
            return False
        later = access_of(op)
        if later is None or later.memory is not memory:
            continue
        if later.is_write and later.is_whole and write.is_inside(later):
            write.op.erase()
            return True
    return False


def retargeted(b: Builder, op: Operation, memory: Value, *vector: Value) -> Operation:
    """A transfer on other memory: a read, or a write of a vector that is given."""
    access = access_of(op)
    assert access is not None
    old = access.vector if access.is_write else None
    operands = [
        memory if value is access.memory else vector[0] if value is old else value
        for value in op.operands
    ]
    return again(b, op, operands)
