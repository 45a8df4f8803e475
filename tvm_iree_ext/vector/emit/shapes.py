"""Ops that move elements: views where the order stays, shuffles where it changes."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.vector.emit.context import Emitter, emits
from tvm_iree_ext.vector.emit.registers import LocalVector, Vector, hold, register_dtype, release
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ops.shape import block_place


def numbered(shape: Sequence[int]) -> np.ndarray:
    """The row-major number of each element."""
    return np.arange(prod(shape)).reshape(tuple(shape))


def rearranged(emitter: Emitter, op: Operation, source: Vector, places: np.ndarray) -> None:
    """Let the result's elements be those of ``source`` with these numbers."""
    flat = places.reshape(-1)
    if source.size and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        emitter[op.result] = source.view(op.result.shape, int(flat[0]))
        return
    lanes = op.result.shape[-1] if op.result.shape else 1
    rows = flat.reshape(-1, lanes)
    emitter.define(op.result).fill(lambda number: source.pick(rows[number].tolist()))


@emits("vector.transpose")
def transpose(emitter: Emitter, op: Operation) -> None:
    """Elements in another order of dims."""
    source = emitter.vector(op.operand("vector"))
    rearranged(emitter, op, source, numbered(source.shape).transpose(op.attributes["permutation"]))


@emits("vector.broadcast", "vector.splat")
def broadcast(emitter: Emitter, op: Operation) -> None:
    """Elements repeated."""
    source = emitter.vector(op.operand("source"))
    rearranged(emitter, op, source, np.broadcast_to(numbered(source.shape), op.result.shape))


@emits("vector.shape_cast")
def shape_cast(emitter: Emitter, op: Operation) -> None:
    """The same registers, seen in another shape."""
    source = emitter.vector(op.operand("vector"))
    emitter[op.result] = source.view(op.result.shape)


@emits("vector.shuffle")
def shuffle(emitter: Emitter, op: Operation) -> None:
    """Lanes, or rows, of two vectors."""
    v1, v2 = (emitter.vector(operand) for operand in op.operands)
    both = LocalVector((v1.size + v2.size,), v1.dtype)
    for vector, start in ((v1, 0), (v2, v1.size)):
        for number in range(vector.count):
            both.write(start + number * vector.lanes, vector.register(number))
    rows = numbered((v1.shape[0] + v2.shape[0], *v1.shape[1:]))
    if len(v1.shape) == 1 and v1.size == v2.size:  # one instruction of two operands
        both.lanes = v1.size
    rearranged(emitter, op, both, rows[list(op.attributes["mask"])])


@emits("vector.extract_strided_slice")
def extract_slice(emitter: Emitter, op: Operation) -> None:
    """A box of a vector."""
    source = emitter.vector(op.operand("vector"))
    box = zip(op.attributes["offsets"], op.attributes["sizes"], strict=True)
    places = numbered(source.shape)[tuple(slice(start, start + size) for start, size in box)]
    rearranged(emitter, op, source, places)


@emits("vector.insert_strided_slice")
def insert_slice(emitter: Emitter, op: Operation) -> None:
    """A copy in which a box is replaced."""
    value, dest = (emitter.vector(operand) for operand in op.operands)
    offsets = op.attributes["offsets"]
    lead = len(dest.shape) - len(value.shape)
    sizes = zip(offsets[lead:], value.shape, strict=True)
    box = (*offsets[:lead], *(slice(start, start + size) for start, size in sizes))
    _replaced(emitter, op, value, dest, numbered(dest.shape)[box])


@emits("vector.extract")
def extract(emitter: Emitter, op: Operation) -> None:
    """A sub-vector, or a scalar."""
    source = emitter.vector(op.operand("vector"))
    places = np.asarray(numbered(source.shape)[tuple(op.attributes["position"])])
    if op.result.is_vector:
        rearranged(emitter, op, source, places)
    else:
        emitter.bind(op.result, source.run(int(places), 1))


@emits("vector.insert")
def insert(emitter: Emitter, op: Operation) -> None:
    """A copy in which a sub-vector or scalar is replaced."""
    value, dest = (emitter.vector(operand) for operand in op.operands)
    places = np.asarray(numbered(dest.shape)[tuple(op.attributes["position"])])
    _replaced(emitter, op, value, dest, places)


def _replaced(
    emitter: Emitter, op: Operation, value: Vector, dest: Vector, places: np.ndarray
) -> None:
    """Let the result be ``dest`` with the elements at some places replaced, row by row."""
    result = emitter.define(op.result).copy(dest)
    starts = places.reshape(-1)[:: value.lanes]
    for number, start in enumerate(starts.tolist()):
        result.write(start, value.register(number))


@emits("vector.reshape")
def reshape(emitter: Emitter, op: Operation) -> None:
    """Elements in other blocks; lanes that are no elements take any value."""
    source = emitter.vector(op.operand("vector"))
    came, made, fixed = (
        op.attributes[name] for name in ("input_shape", "output_shape", "fixed_vector_sizes")
    )
    places = np.zeros(op.result.shape, np.int64)
    for old, new in zip(np.ndindex(*came), np.ndindex(*made), strict=True):
        places[block_place(new, fixed)] = source.flat(block_place(old, fixed))
    rearranged(emitter, op, source, places)


@emits("vector.extractelement")
def extractelement(emitter: Emitter, op: Operation) -> None:
    """A lane that is known at run time is read from memory, where LLVM would put it as well."""
    source = emitter.vector(op.operand("vector"))
    position = op.optional("position")
    at = 0 if position is None else emitter.position(position)
    if isinstance(at, int):
        emitter.bind(op.result, source.run(at, 1))
        return
    memory = _in_memory(source)
    emitter.bind(op.result, release(memory[i64(at)], source.dtype))


@emits("vector.insertelement")
def insertelement(emitter: Emitter, op: Operation) -> None:
    """A lane that is known at run time is written in memory."""
    dest, value = emitter.vector(op.operand("dest")), emitter.scalar(op.operand("value"))
    position = op.optional("position")
    at = 0 if position is None else emitter.position(position)
    result = emitter.define(op.result).copy(dest)
    if isinstance(at, int):
        result.write(at, value)
        return
    memory = _in_memory(dest)
    I.buffer_store(memory, hold(value, dest.dtype), [i64(at)])
    for lane in range(dest.size):
        result.write(lane, release(memory[i64(lane)], dest.dtype))


def _in_memory(vector: Vector) -> Any:
    memory = I.alloc_buffer([i64(vector.size)], register_dtype(vector.dtype), scope="global")
    for lane in range(vector.size):
        I.buffer_store(memory, hold(vector.run(lane, 1), vector.dtype), [i64(lane)])
    return memory
