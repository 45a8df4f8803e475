"""Contractions, reductions, outer products, fma: register by register, unrolled."""

from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.tir.tir_expressions import Expr
from tvm_iree_ext.vector.emit.compute import compute, convert, fma
from tvm_iree_ext.vector.emit.context import Emitter, emits
from tvm_iree_ext.vector.emit.registers import LocalVector, Vector
from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.combining_kinds import elementwise_name
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ir.vector_types import FLOATS
from tvm_iree_ext.vector.ops.contract import REDUCTION, extents_of


def combine(kind: str, dtype: str, a: Expr, b: Expr) -> Expr:
    """Two expressions combined."""
    return compute(elementwise_name(kind, dtype), dtype, a, b)


def extend(value: Expr, given: str, to: str) -> Expr:
    """Elements of an operand in the type of the sum."""
    if given == to:
        return value
    return convert("arith.extf" if to in FLOATS else "arith.extsi", value, given, to)


@emits("vector.contract")
def contract(emitter: Emitter, op: Operation) -> None:
    """Each register of the result over all reduction points."""
    maps, kind = op.attributes["indexing_maps"], op.attributes["kind"]
    sizes = extents_of(op)
    lhs, rhs, acc = (emitter.vector(operand) for operand in op.operands)
    dtype = op.result.dtype
    out = LocalVector(acc.shape, dtype).copy(acc)
    reduced = [d for d, it in enumerate(op.attributes["iterator_types"]) if it == REDUCTION]
    for number in range(out.count):
        start = number * out.lanes
        for reduction in np.ndindex(*(sizes[d] for d in reduced)):
            points = []
            for lane in range(out.lanes):
                place = np.unravel_index(start + lane, out.shape) if out.shape else ()
                at = dict(zip(maps[2].used, map(int, place), strict=True))
                at.update(zip(reduced, reduction, strict=True))
                points.append([at[d] for d in range(len(sizes))])
            a, b = (
                extend(_picked(vector, map, points), vector.dtype, dtype)
                for vector, map in ((lhs, maps[0]), (rhs, maps[1]))
            )
            product = combine("mul", dtype, a, b)
            out.write(start, combine(kind, dtype, out.run(start, out.lanes), product))
    _finish(emitter, op, out)


def _picked(vector: Vector, map: AffineMap, points: Sequence[Sequence[int]]) -> Expr:
    return vector.pick([vector.flat(map.at(point)) for point in points])


def _finish(emitter: Emitter, op: Operation, out: LocalVector) -> None:
    """Let the result be registers that were computed, or the scalar in them."""
    if op.result.is_vector:
        emitter[op.result] = out
    else:
        emitter.bind(op.result, out.run(0, 1))


@emits("vector.multi_reduction")
def multi_reduction(emitter: Emitter, op: Operation) -> None:
    """Each register of the result over all positions that fold into it."""
    source, acc = (emitter.vector(operand) for operand in op.operands)
    dims, kind = op.attributes["reduction_dims"], op.attributes["kind"]
    kept = [dim for dim in range(len(source.shape)) if dim not in dims]
    out = LocalVector(acc.shape, source.dtype).copy(acc)
    for start in range(0, out.size, out.lanes):
        for reduction in np.ndindex(*(source.shape[dim] for dim in dims)):
            places = []
            for lane in range(out.lanes):
                at = [0] * len(source.shape)
                place = np.unravel_index(start + lane, out.shape) if out.shape else ()
                kept_at = [int(i) for i in place]
                for dim, i in [
                    *zip(kept, kept_at, strict=True),
                    *zip(dims, reduction, strict=True),
                ]:
                    at[dim] = i
                places.append(source.flat(at))
            taken = source.pick(places)
            out.write(start, combine(kind, source.dtype, out.run(start, out.lanes), taken))
    _finish(emitter, op, out)


@emits("vector.reduction")
def reduction(emitter: Emitter, op: Operation) -> None:
    """Halves folded into one another, then what is left lane by lane."""
    vector, kind = emitter.vector(op.operand("vector")), op.attributes["kind"]
    dtype = vector.dtype
    part = LocalVector((vector.size,), dtype).copy(vector)
    lanes = vector.size
    while lanes % 2 == 0:
        lanes //= 2
        part.write(0, combine(kind, dtype, part.run(0, lanes), part.run(lanes, lanes)))
    for lane in range(1, lanes):
        part.write(0, combine(kind, dtype, part.run(0, 1), part.run(lane, 1)))
    acc = op.optional("acc")
    if acc is not None:
        part.write(0, combine(kind, dtype, emitter.scalar(acc), part.run(0, 1)))
    emitter.bind(op.result, part.run(0, 1))


@emits("vector.outerproduct")
def outerproduct(emitter: Emitter, op: Operation) -> None:
    """A row for each element of lhs; with a scalar rhs, one row."""
    lhs, rhs = emitter.vector(op.operand("lhs")), emitter.vector(op.operand("rhs"))
    acc, kind, dtype = op.optional("acc"), op.attributes["kind"], op.result.dtype
    start = None if acc is None else emitter.vector(acc)

    def register(number: int) -> Expr:
        if rhs.shape:
            a, b = lhs.pick([number] * rhs.lanes), rhs.register(0)
        else:
            a, b = lhs.register(0), rhs.pick([0] * lhs.lanes)
        product = combine("mul", dtype, a, b)
        return product if start is None else combine(kind, dtype, start.register(number), product)

    emitter.give(op.result, register)


@emits("vector.fma")
def fused(emitter: Emitter, op: Operation) -> None:
    """Fused multiply-adds."""
    operands = [emitter.vector(operand) for operand in op.operands]
    emitter.give(op.result, lambda n: fma(op.result.dtype, [one.register(n) for one in operands]))
