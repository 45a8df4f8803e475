"""Loops and conditions.  A vector that a loop carries is registers that the loop assigns to."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known
from tvm_iree_ext.vector.analysis.runtime_extents import told_by
from tvm_iree_ext.vector.emit.context import BufferBox, Emitter, Kept, copy, emits, temporary
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import RankedTensorType


def _start(emitter: Emitter, op: Operation, inits: Sequence[Value]) -> list[Kept | BufferBox]:
    """Give what is carried its places, with the content that it starts with."""
    places: list[Kept | BufferBox] = []
    for init, argument, result in zip(inits, op.body.carried, op.results, strict=True):
        if isinstance(init.type, RankedTensorType):
            source = emitter.place(init)
            place = source
            if result not in emitter.aliases.in_place:
                place = emitter.allocate(argument, source.shape)
                copy(source, place)
            emitter[argument] = place
            places.append(place)
        else:
            kept = emitter.keep(argument)
            kept.assign(emitter, init)
            places.append(kept)
    return places


def _begin(emitter: Emitter, op: Operation, places: Sequence[Kept | BufferBox]) -> None:
    """At the beginning of an iteration: what is carried is what its places hold."""
    for argument, place in zip(op.body.carried, places, strict=True):
        if isinstance(place, Kept):
            place.define(emitter, argument)


def _end(emitter: Emitter, places: Sequence[Kept | BufferBox], values: Sequence[Value]) -> None:
    """At the end of an iteration: assign what it yields, all at once."""
    kept = [place for place in places if isinstance(place, Kept)]
    for place, value in zip(places, values, strict=True):
        if isinstance(place, Kept) and any(
            emitter.is_view_of(value, other.registers) for other in kept if other is not place
        ):
            moved = emitter.keep(value)
            moved.assign(emitter, value)
            moved.define(emitter, value)
    tensors = [place for place in places if isinstance(place, BufferBox)]
    sources: dict[Value, BufferBox] = {}
    for place, value in zip(places, values, strict=True):
        if isinstance(place, BufferBox):
            source = sources[value] = emitter.place(value)
            others = [one for one in tensors if one is not place]
            if any(source.buffer.same_as(other.buffer) for other in others):
                sources[value] = temporary(source.shape, source.dtype)
                copy(source, sources[value])
    for place, value in zip(places, values, strict=True):
        if isinstance(place, BufferBox):
            copy(sources[value], place)
        elif not emitter.is_view_of(value, place.registers) or value.rank:
            place.assign(emitter, value)


def _finish(emitter: Emitter, op: Operation, places: Sequence[Kept | BufferBox]) -> None:
    for result, place in zip(op.results, places, strict=True):
        if isinstance(place, Kept):
            place.define(emitter, result)
        else:
            emitter[result] = place


@emits("scf.for")
def for_loop(emitter: Emitter, op: Operation) -> None:
    """A serial loop; the index is computed from the number of the iteration."""
    lower, upper, step = (emitter.position(op.operand(n)) for n in ("lower", "upper", "step"))
    places = _start(emitter, op, op.group("inits"))
    with I.serial(i64(0), i64(_trips(lower, upper, step))) as trip:
        emitter[op.body.indices[0]] = _index(trip, lower, step)
        _begin(emitter, op, places)
        _end(emitter, places, emitter.block(op.body))
    _finish(emitter, op, places)


def _trips(lower: Index, upper: Index, step: Index) -> Index:
    numbers = [known(one) for one in (lower, upper, step)]
    if None not in numbers:
        first, end, by = (int(one) for one in numbers if one is not None)
        return max(0, -(-(end - first) // by))
    distance = i64(upper) - i64(lower)
    count = tirx.floordiv(distance + i64(step) - i64(1), i64(step))
    return tirx.max(count, i64(0))


def _index(trip: Expr, lower: Index, step: Index) -> Expr:
    scaled = trip if known(step) == 1 else trip * i64(step)
    return scaled if known(lower) == 0 else i64(lower) + scaled


@emits("scf.forall")
def forall(emitter: Emitter, op: Operation) -> None:
    """Tiles; the outermost loop over tiles goes to the thread pool where that pays."""
    bounds = emitter.positions(op.group("bounds"))
    places = _start(emitter, op, op.group("outs"))
    is_parallel, was = emitter.is_parallel and op not in emitter.aliases.racing, emitter.is_parallel
    emitter.is_parallel = was and not is_parallel

    def body(index: Sequence[Expr]) -> None:
        for argument, at in zip(op.body.indices, index, strict=True):
            emitter[argument] = at
        _begin(emitter, op, places)
        _end(emitter, places, emitter.block(op.body))

    if is_parallel:
        count: Expr = i64(1)
        for bound in bounds:
            count = count * i64(bound)
        with I.parallel(i64(0), count) as task:
            body(_spread(task, bounds))
    else:
        _nest(bounds, body)
    emitter.is_parallel = was
    _finish(emitter, op, places)


def _spread(flat: Expr, bounds: Sequence[Index]) -> list[Expr]:
    """The index of a row-major number."""
    index: list[Expr] = []
    for bound in reversed(bounds[1:]):
        index.insert(0, I.Bind(tirx.floormod(flat, i64(bound))))
        flat = I.Bind(tirx.floordiv(flat, i64(bound)))
    return [flat, *index]


def _nest(bounds: Sequence[Index], body: Any, index: Sequence[Expr] = ()) -> None:
    if not bounds:
        body(index)
        return
    with I.serial(i64(0), i64(bounds[0])) as i:
        _nest(bounds[1:], body, [*index, i])


def _extent(emitter: Emitter, value: Value, axis: int) -> Index:
    """An extent of a tensor, by what tells it before the tensor is there."""
    told = told_by(value, axis)
    if isinstance(told, tuple):
        return emitter.place(told[0]).shape[told[1]]
    return told if isinstance(told, int) else emitter.position(told)


@emits("scf.if")
def if_else(emitter: Emitter, op: Operation) -> None:
    """Both bodies assign to the same registers."""
    yielded = op.body.terminator.operands
    places: list[Kept | BufferBox] = []
    for result, value in zip(op.results, yielded, strict=True):
        if isinstance(result.type, RankedTensorType):
            shape = [_extent(emitter, value, axis) for axis in range(value.rank)]
            places.append(emitter.allocate(result, shape))
        else:
            places.append(emitter.keep(result))
    with I.If(emitter.scalar(op.operand("condition"))):
        for block, branch in zip(op.regions, (I.Then, I.Else), strict=True):
            if len(block.operations) == 1 and not places and branch is I.Else:
                continue
            with branch():
                _end(emitter, places, emitter.block(block))
                if not block.operations[:-1] and not places:
                    I.evaluate(i64(0))
    _finish(emitter, op, places)
