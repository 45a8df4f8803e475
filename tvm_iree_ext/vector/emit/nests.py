"""Tensors and structured ops: plain loops over elements."""

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known
from tvm_iree_ext.vector.emit.compute import compute
from tvm_iree_ext.vector.emit.context import BufferBox, Emitter, copy, emits
from tvm_iree_ext.vector.emit.products import extend
from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ir.vector_types import FLOATS
from tvm_iree_ext.vector.ops import structured
from tvm_iree_ext.vector.ops.contract import REDUCTION
from tvm_iree_ext.vector.ops.tensors import sizes_of


def _sizes(emitter: Emitter, op: Operation, name: str = "sizes") -> list[Index]:
    return [one if isinstance(one, int) else emitter.position(one) for one in sizes_of(op, name)]


@emits("tensor.empty")
def empty(emitter: Emitter, op: Operation) -> None:
    """Memory, whatever is in it."""
    emitter[op.result] = emitter.allocate(op.result, _sizes(emitter, op))


@emits("tensor.extract_slice")
def extract_slice(emitter: Emitter, op: Operation) -> None:
    """A part of the same memory."""
    offsets = emitter.positions(op.group("offsets"))
    source = emitter.place(op.operand("source"))
    emitter[op.result] = source.box(offsets, _sizes(emitter, op))


@emits("tensor.insert_slice")
def insert_slice(emitter: Emitter, op: Operation) -> None:
    """Copied into its box of dest."""
    place = emitter.destination(op, op.operand("dest"), op.result, is_read=True)
    source = emitter.place(op.operand("source"))
    copy(source, place.box(emitter.positions(op.group("offsets")), source.shape))
    emitter[op.result] = place


@emits("tensor.pad")
def pad(emitter: Emitter, op: Operation) -> None:
    """Element by element: from the source inside, the value around it."""
    source, value = emitter.place(op.operand("source")), emitter.scalar(op.operand("value"))
    low, high = (_sizes(emitter, op, name) for name in ("low", "high"))
    shape: list[Index] = []
    for dim, extent in enumerate(op.result.shape):
        parts = low[dim], source.shape[dim], high[dim]
        shape.append(extent if isinstance(extent, int) else sum(map(i64, parts), i64(0)))
    place = emitter.allocate(op.result, shape)

    def element(index: Sequence[Expr]) -> None:
        inner = [i - i64(start) for i, start in zip(index, low, strict=True)]
        inside: Expr = tirx.const(True, "bool")
        for at, extent in zip(inner, source.shape, strict=True):
            inside = tirx.And(inside, tirx.And(at >= i64(0), at < i64(extent)))
        with I.If(inside):
            with I.Then():
                place.store(index, source.load(inner))
            with I.Else():
                place.store(index, value)

    loops(shape, element)
    emitter[op.result] = place


def loops(extents: Sequence[Index], body: Callable[[list[Expr]], None]) -> None:
    """A nest of serial loops."""
    index: list[Expr] = []

    def inside(rest: Sequence[Index]) -> None:
        if not rest:
            body(list(index))
            return
        with I.serial(i64(0), i64(rest[0])) as i:
            index.append(i)
            inside(rest[1:])
            index.pop()

    inside(extents)


@emits("linalg.fill")
def fill(emitter: Emitter, op: Operation) -> None:
    """Every element."""
    place = emitter.destination(op, op.operand("out"), op.result, is_read=False)
    value = emitter.scalar(op.operand("value"))
    loops(place.shape, lambda index: place.store(index, value))
    emitter[op.result] = place


@emits(*structured.NAMED, *structured.CONVOLUTIONS)
def multiply_accumulate(emitter: Emitter, op: Operation) -> None:
    """``out += ext(lhs) * ext(rhs)``, the last parallel dim innermost."""
    lhs, rhs = (emitter.place(op.operand(name)) for name in ("lhs", "rhs"))
    place = emitter.destination(op, op.operand("out"), op.result, is_read=True)
    dtype = op.result.dtype
    suffix = "f" if dtype in FLOATS else "i"

    def body(a: Expr, b: Expr, out: Expr) -> list[Expr]:
        a, b = extend(a, lhs.dtype, dtype), extend(b, rhs.dtype, dtype)
        product = compute(f"arith.mul{suffix}", dtype, a, b)
        return [compute(f"arith.add{suffix}", dtype, out, product)]

    _run(structured.nest_of(op), [lhs, rhs], [place], body)
    emitter[op.result] = place


@emits("linalg.generic")
def generic(emitter: Emitter, op: Operation) -> None:
    """The body for every point of the nest."""
    ins = [emitter.place(value) for value in op.group("ins")]
    taken = op.body.arguments[len(ins) :]
    outs = [
        emitter.destination(op, dest, result, is_read=bool(argument.users))
        for dest, result, argument in zip(op.group("outs"), op.results, taken, strict=True)
    ]

    def body(*elements: Expr) -> list[Expr]:
        for argument, element in zip(op.body.arguments, elements, strict=True):
            if argument.users:
                emitter.bind(argument, element)
        return [emitter.scalar(value) for value in emitter.block(op.body)]

    _run(structured.nest_of(op), ins, outs, body)
    for result, place in zip(op.results, outs, strict=True):
        emitter[result] = place


def _run(
    nest: structured.StructuredNest,
    ins: Sequence[BufferBox],
    outs: Sequence[BufferBox],
    body: Callable[..., list[Expr]],
) -> None:
    """The loops of a nest: parallel dims, then reductions, and the last parallel dim innermost."""
    sizes: list[Index] = structured.extent_of(nest, [place.shape for place in (*ins, *outs)])
    order = [d for d, it in enumerate(nest.iterators) if it != REDUCTION]
    reduced = [d for d, it in enumerate(nest.iterators) if it == REDUCTION]
    if order:
        order, last = order[:-1], order[-1:]
        order = [*order, *reduced, *last]
    else:
        order = reduced

    def point(index: Sequence[Expr]) -> None:
        at: list[Expr] = [i64(0)] * len(sizes)
        for dim, i in zip(order, index, strict=True):
            at[dim] = i
        places = list(zip(nest.maps, (*ins, *outs), strict=True))
        elements = [place.load(_index(map, at)) for map, place in places]
        values = body(*elements)
        for (map, place), value in zip(places[len(ins) :], values, strict=True):
            place.store(_index(map, at), value)

    loops([sizes[dim] for dim in order], point)


def _index(map: AffineMap, at: Sequence[Expr]) -> list[Expr]:
    index = []
    for result in map.results:
        total: Expr = i64(result.constant)
        for by, i in zip(result.coefficients, at, strict=True):
            if by:
                term = i if by == 1 else i * i64(by)
                total = term if known(total) == 0 else total + term
        index.append(total)
    return index
