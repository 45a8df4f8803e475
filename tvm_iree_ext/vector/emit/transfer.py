"""Transfers: a run per register where memory allows, masks where bounds or a mask ask for them."""

from collections.abc import Callable, Sequence

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known, splat
from tvm_iree_ext.vector.emit import access
from tvm_iree_ext.vector.emit.access import LaneCondition, LanesInMemory
from tvm_iree_ext.vector.emit.context import BufferBox, Emitter, emits
from tvm_iree_ext.vector.emit.registers import LocalVector, Vector
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ops.transfer import mask_dims


def _plus(index: Index, step: int) -> Index:
    number = known(index)
    return number + step if number is not None else index + i64(step) if step else index


def _is_inside(index: Index, size: int, extent: Index) -> bool:
    """Whether ``size`` positions from one on are known to be in an extent."""
    start, end = known(index), known(extent)
    return start is not None and end is not None and 0 <= start <= end - size


def _lanes(
    emitter: Emitter, op: Operation, place: BufferBox, shape: Sequence[int]
) -> Callable[[tuple[int, ...]], LanesInMemory]:
    """For the index of a register's first element in the vector: where its lanes are in memory."""
    map, in_bounds = op.attributes["permutation_map"], op.attributes["in_bounds"]
    indices = emitter.positions(op.group("indices"))
    position = {d: p for p, d in enumerate(map.dims) if d is not None}
    for dim, p in position.items():
        if not in_bounds[p]:
            indices[dim] = access.nearest(indices[dim], place.shape[dim], shape[p])
    minor = len(shape) - 1
    axis = map.dims[minor] if shape else None
    count = shape[minor] if shape else 1
    mask = op.optional("mask")
    mask_vector: Vector | None = None if mask is None else emitter.vector(mask)
    order = mask_dims(map)

    def lanes(first: tuple[int, ...]) -> LanesInMemory:
        rows: list[Expr | None] = []
        conditions: list[LaneCondition] = []
        index = list(indices)
        for dim, p in position.items():
            index[dim] = _plus(indices[dim], first[p])
            size = count if p == minor else 1
            if in_bounds[p] or _is_inside(index[dim], size, place.shape[dim]):
                continue
            condition = access.inside(index[dim], place.shape[dim], size)
            if size > 1:
                conditions.append(condition)
            else:
                rows.append(condition.of(0))
        if mask_vector is not None:

            def taken(numbers: Sequence[int], vector: Vector = mask_vector) -> Expr:
                places = []
                for lane in numbers:
                    at = [first[p] + (lane if p == minor else 0) for p in order]
                    places.append(vector.flat(at))
                return vector.pick(places)

            conditions.append(access.masked(taken, count))
        return LanesInMemory(tuple(index), axis, access.both(rows), tuple(conditions))

    return lanes


@emits("vector.transfer_read")
def transfer_read(emitter: Emitter, op: Operation) -> None:
    """Register by register."""
    place, padding = emitter.place(op.operand("source")), emitter.scalar(op.operand("padding"))
    lanes = _lanes(emitter, op, place, op.result.shape)
    result: LocalVector = emitter.define(op.result)
    for number in range(result.count):
        where = lanes(result.index(number))
        access.read(place, where, result, number * result.lanes, lambda _, n: splat(padding, n))


@emits("vector.transfer_write")
def transfer_write(emitter: Emitter, op: Operation) -> None:
    """Register by register, into dest or a copy of it."""
    vector, dest = emitter.vector(op.operand("vector")), op.operand("dest")
    place = emitter.place(dest)
    if op.results:
        place = emitter.destination(op, dest, op.result, is_read=True)
        emitter[op.result] = place
    lanes = _lanes(emitter, op, place, vector.shape)
    for number in range(vector.count):
        start = number * vector.lanes

        def source(lane: int, count: int, start: int = start) -> Expr:
            return vector.run(start + lane, count)

        access.write(place, lanes(vector.index(number)), source, vector.lanes)
