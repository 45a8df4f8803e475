"""Lowering contractions, and outer products.

before           d = contract a, b, c
outerproduct     aT = transpose a;  for k:  d = outerproduct aT[k], b[k], d
                 for SIMD without horizontal ops, and GPUs: splats of one operand, rows of another
dot              bT = transpose b;  for m, n:  d[m, n] = reduction add (a[m] * bT[n]), c[m, n]
parallel_arith   for k:  d = fma (broadcast a[k]), (broadcast b[k]), d     on vectors like d

Further parallel dims, batches among them, are unrolled around these.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.combining_kinds import elementwise_name
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import FLOATS
from tvm_iree_ext.vector.ops.contract import REDUCTION, extents_of
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.rewriter import Pattern
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

OUTERPRODUCT, DOT, PARALLEL_ARITH = "outerproduct", "dot", "parallel_arith"
STRATEGIES = (OUTERPRODUCT, DOT, PARALLEL_ARITH)


def lower_contracts(program: VectorProgram, strategy: str = OUTERPRODUCT) -> VectorProgram:
    """Replace contractions by one of the strategies.

    A contraction to a scalar is always a dot product; one without a dim of lhs or rhs alone has no
    outer product, and is done in parallel.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    return settled(program, lower_contract(strategy))


def lower_contract(strategy: str) -> Pattern:
    """The pattern: one contraction."""

    def pattern(op: Operation, b: Builder) -> bool:
        if op.name != "vector.contract":
            return False
        own = _Contraction(op, b)
        if strategy == DOT or not own.acc.is_vector:
            made = own.by_dots()
        elif strategy == OUTERPRODUCT and (own.of_lhs or own.of_rhs):
            made = own.by_outer_products()
        else:
            made = own.in_parallel()
        op.replace_by(made)
        return True

    return pattern


class _Contraction:
    """A contraction that is being lowered: its operands, and its dims by where they occur."""

    def __init__(self, op: Operation, b: Builder) -> None:
        self._b = b
        self._kind = op.attributes["kind"]
        self.acc = op.operand("acc")
        # Products are computed in the type of the sum.
        self._lhs, self._rhs = (b.convert(v, self.acc.dtype) for v in op.operands[:2])
        self._maps: tuple[AffineMap, ...] = op.attributes["indexing_maps"]
        self._sizes = extents_of(op)
        lhs, rhs, acc = (map.used for map in self._maps)
        self._dims = list(acc)
        self._reduced = [
            dim for dim, it in enumerate(op.attributes["iterator_types"]) if it == REDUCTION
        ]
        self.of_lhs = [dim for dim in acc if dim in lhs and dim not in rhs]
        self.of_rhs = [dim for dim in acc if dim in rhs and dim not in lhs]

    def _points(self, dims: Sequence[int]) -> Iterator[dict[int, int]]:
        for at in product(*(range(self._sizes[dim]) for dim in dims)):
            yield dict(zip(dims, at, strict=True))

    def _ordered(self, value: Value, map: AffineMap, order: Sequence[int]) -> Value:
        """An operand with those of its dims in an order."""
        used = map.used
        permutation = [used.index(dim) for dim in order if dim in used]
        if permutation == sorted(permutation):
            return value
        return self._b.transpose(value, permutation)

    def _spread(self, value: Value, map: AffineMap, order: Sequence[int]) -> Value:
        """An operand with all dims of an order; along those that it lacks it is repeated."""
        missing = [dim for dim in order if dim not in map.used]
        dims = [*missing, *map.used]
        if missing:
            value = self._b.broadcast(value, [self._sizes[dim] for dim in dims])
        return self._ordered(value, AffineMap.of(len(self._sizes), dims), order)

    def _at(self, value: Value, order: Sequence[int], map: AffineMap, at: dict[int, int]) -> Value:
        """The part of an ordered operand at a point; order's first dims are those of the point."""
        place = [at[dim] for dim in order if dim in map.used and dim in at]
        return self._b.extract(value, place) if place else value

    def by_outer_products(self) -> Value:
        b = self._b
        last_m, last_n = self.of_lhs[-1:], self.of_rhs[-1:]
        outer = [dim for dim in self._dims if dim not in last_m + last_n]
        orders = [[*outer, *self._reduced, *last_m], [*outer, *self._reduced, *last_n]]
        order = [*outer, *last_m, *last_n]
        lhs, rhs, result = (
            self._ordered(value, map, by)
            for value, map, by in zip(
                (self._lhs, self._rhs, self.acc), self._maps, (*orders, order), strict=True
            )
        )
        for point in self._points(outer):
            d = self._at(result, order, self._maps[2], point)
            for step in self._points(self._reduced):
                at = {**point, **step}
                x = self._at(lhs, orders[0], self._maps[0], at)
                y = self._at(rhs, orders[1], self._maps[1], at)
                if not last_m:
                    x, y = y, x
                d = b.outerproduct(x, y, d, kind=self._kind)
            result = b.insert_at(d, result, list(point.values())) if outer else d
        back = [order.index(dim) for dim in self._dims]
        return result if back == sorted(back) else b.transpose(result, back)

    def by_dots(self) -> Value:
        b = self._b
        length = 1
        for dim in self._reduced:
            length *= self._sizes[dim]
        sides = []
        for value, map in zip((self._lhs, self._rhs), self._maps, strict=False):
            kept = [dim for dim in self._dims if dim in map.used]
            spread = self._spread(value, map, [*kept, *self._reduced])
            if len(self._reduced) > 1:
                spread = b.shape_cast(spread, [*(self._sizes[dim] for dim in kept), length])
            sides.append((spread, kept))
        result = self.acc
        for point in self._points(self._dims):
            x, y = (b.extract(v, [point[dim] for dim in kept]) if kept else v for v, kept in sides)
            start = b.extract(self.acc, list(point.values())) if point else self.acc
            total = b.reduction(multiply(b, x, y), start, kind=self._kind)
            result = b.insert_at(total, result, list(point.values())) if point else total
        return result

    def in_parallel(self) -> Value:
        order = [*self._reduced, *self._dims]
        lhs = self._spread(self._lhs, self._maps[0], order)
        rhs = self._spread(self._rhs, self._maps[1], order)
        d = self.acc
        for step in self._points(self._reduced):
            place = list(step.values())
            x, y = (self._b.extract(one, place) for one in (lhs, rhs))
            d = multiply_add(self._b, x, y, d, self._kind)
        return d


def multiply(b: Builder, x: Value, y: Value) -> Value:
    """The product of two vectors of one type."""
    return b.elementwise(elementwise_name("mul", x.dtype), x, y)


def multiply_add(b: Builder, x: Value, y: Value, acc: Value, kind: str) -> Value:
    """``kind(acc, x * y)``: one fma where there is one."""
    if kind == "add" and x.dtype in FLOATS:
        return b.fma(x, y, acc)
    return b.elementwise(elementwise_name(kind, x.dtype), acc, multiply(b, x, y))


def lower_outer_products(program: VectorProgram) -> VectorProgram:
    """Replace outer products by a multiply-add for each row.

    before:  d = outerproduct a[m], b[n], acc[m, n]
    after:   for i (unrolled):  d[i] = fma (splat a[i]), b, acc[i]
    """
    return settled(program, lower_outer_product)


def lower_outer_product(op: Operation, b: Builder) -> bool:
    """The pattern: one outer product."""
    if op.name != "vector.outerproduct":
        return False
    lhs, rhs, acc = op.operand("lhs"), op.operand("rhs"), op.optional("acc")
    kind = op.attributes["kind"]

    def row(x: Value, y: Value, d: Value | None) -> Value:
        return multiply(b, x, y) if d is None else multiply_add(b, x, y, d, kind)

    if not rhs.is_vector:
        op.replace_by(row(b.splat(rhs, lhs.shape), lhs, acc))
        return True
    result = acc if acc is not None else b.constant(0, op.result.type)
    for i in range(lhs.shape[0]):
        d = None if acc is None else b.extract(acc, [i])
        result = b.insert_at(row(b.splat(b.extract(lhs, [i]), rhs.shape), rhs, d), result, [i])
    op.replace_by(result)
    return True
