"""Loads and stores of buffers, gather and scatter."""

from collections.abc import Sequence
from math import prod

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64
from tvm_iree_ext.vector.emit import access
from tvm_iree_ext.vector.emit.access import LanesInMemory
from tvm_iree_ext.vector.emit.context import BufferBox, Emitter, emits, temporary
from tvm_iree_ext.vector.emit.registers import Vector
from tvm_iree_ext.vector.ir.core import Operation


def _lanes(
    indices: Sequence[Index], mask: Vector | None, vector: Vector, number: int
) -> LanesInMemory:
    """Place in memory of a register of a block of the minor dims."""
    index = list(indices)
    lead = len(index) - len(vector.shape)
    for dim, step in enumerate(vector.index(number)):
        index[lead + dim] = index[lead + dim] + step
    conditions = []
    if mask is not None:
        start = number * vector.lanes
        conditions.append(
            access.masked(lambda lanes: mask.pick([start + n for n in lanes]), vector.lanes)
        )
    axis = len(index) - 1 if vector.shape else None
    return LanesInMemory(tuple(index), axis, None, tuple(conditions))


def _mask(emitter: Emitter, op: Operation) -> Vector | None:
    mask = op.optional("mask")
    return None if mask is None else emitter.vector(mask)


@emits("vector.load", "vector.maskedload")
def load(emitter: Emitter, op: Operation) -> None:
    """Register by register."""
    place, indices = emitter.place(op.operand("base")), emitter.positions(op.group("indices"))
    mask, pass_thru = _mask(emitter, op), op.optional("pass_thru")
    result = emitter.define(op.result)
    for number in range(result.count):
        start = number * result.lanes

        def other(lane: int, count: int, start: int = start) -> Expr:
            assert pass_thru is not None
            return emitter.vector(pass_thru).run(start + lane, count)

        access.read(place, _lanes(indices, mask, result, number), result, start, other)


@emits("vector.store", "vector.maskedstore")
def store(emitter: Emitter, op: Operation) -> None:
    """Register by register."""
    place, indices = emitter.place(op.operand("base")), emitter.positions(op.group("indices"))
    value, mask = emitter.vector(op.operand("value")), _mask(emitter, op)
    for number in range(value.count):
        start = number * value.lanes

        def source(lane: int, count: int, start: int = start) -> Expr:
            return value.run(start + lane, count)

        access.write(place, _lanes(indices, mask, value, number), source, value.lanes)


def _gathered(emitter: Emitter, op: Operation, place: BufferBox, lane: int) -> list[Expr]:
    """The index of a lane: its displacement counts elements in row-major order."""
    offsets = emitter.positions(op.group("offsets"))
    displacement = tirx.Cast("int64", emitter.vector(op.operand("indices")).run(lane, 1))
    if len(offsets) == 1:
        return [i64(offsets[0]) + displacement]
    flat: Expr = i64(0)
    for offset, extent in zip(offsets, place.shape, strict=True):
        flat = flat * i64(extent) + i64(offset)
    flat = I.Bind(flat + displacement)
    index = []
    for dim in range(len(offsets)):
        inner = _product(place.shape[dim + 1 :])
        at = tirx.floordiv(flat, inner)
        index.append(at if dim == 0 else tirx.floormod(at, i64(place.shape[dim])))
    return index


def _product(extents: Sequence[Index]) -> Expr:
    numbers = [extent for extent in extents if isinstance(extent, int)]
    result = i64(prod(numbers))
    for extent in extents:
        if not isinstance(extent, int):
            result = result * extent
    return result


@emits("vector.gather")
def gather(emitter: Emitter, op: Operation) -> None:
    """Lane by lane: a load where the mask says so."""
    place = emitter.place(op.operand("base"))
    mask, pass_thru = (emitter.vector(op.operand(name)) for name in ("mask", "pass_thru"))
    result = emitter.define(op.result)
    for lane in range(result.size):
        with I.If(mask.run(lane, 1)):
            with I.Then():
                result.write(lane, place.load(_gathered(emitter, op, place, lane)))
            with I.Else():
                result.write(lane, pass_thru.run(lane, 1))


@emits("vector.scatter")
def scatter(emitter: Emitter, op: Operation) -> None:
    """Lane by lane, in order."""
    place = emitter.place(op.operand("base"))
    mask, value = (emitter.vector(op.operand(name)) for name in ("mask", "value"))
    for lane in range(value.size):
        with I.If(mask.run(lane, 1)), I.Then():
            place.store(_gathered(emitter, op, place, lane), value.run(lane, 1))


@emits("memref.alloc")
def alloc(emitter: Emitter, op: Operation) -> None:
    """Memory of this place in the program."""
    emitter[op.result] = temporary(op.result.shape, op.result.dtype)


@emits("memref.load", "tensor.extract")
def load_element(emitter: Emitter, op: Operation) -> None:
    """One element."""
    at = emitter.positions(op.group("indices"))
    emitter.bind(op.result, emitter.place(op.operand("base")).load(at))


@emits("memref.store")
def store_element(emitter: Emitter, op: Operation) -> None:
    """One element."""
    at = emitter.positions(op.group("indices"))
    emitter.place(op.operand("base")).store(at, emitter.scalar(op.operand("value")))


@emits("memref.dim", "tensor.dim")
def dim(emitter: Emitter, op: Operation) -> None:
    """An extent."""
    extent: Index = emitter.place(op.operand("base")).shape[op.attributes["axis"]]
    emitter.bind(op.result, i64(extent))
