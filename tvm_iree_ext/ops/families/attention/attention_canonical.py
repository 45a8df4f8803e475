"""The canonical TensorIR of attention and online attention.

The dialect's formula, a block per line, with all scores in memory: what every schedule must
equal, and what a schedule that keeps the algorithm starts from.  It is not meant for use at size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from tvm_iree_ext.ops.base.block_nests import At, block_over
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

Value: TypeAlias = "Callable[[At], ir.Expr]"
"""Value computed at a point."""


@emits_canonical
def canonical_attention(op: Attention, parameters: Parameters) -> None:
    """The PrimFunc: blocks ``products, scores, maximum, weights, total, result`` and a few more."""
    _AttentionFunction(op, parameters).emit()


class _AttentionFunction:
    """The PrimFunc of an attention under construction."""

    def __init__(self, op: Attention, parameters: Parameters) -> None:
        self.op = op
        self.dtype = op.compute_dtype
        self.buffers = parameters.buffers
        self.extents = [i64(parameters.extent(extent)) for extent in op.extents]
        self.block = partial(block_over, self.extents)
        if op.scale is None:
            self.scale = convert(parameters["scale"], self.dtype)
        else:
            self.scale = self.const(op.scale)

    def const(self, value: float) -> ir.Expr:
        """A number of the compute type."""
        return tirx.const(value, self.dtype)

    def index(self, one: IndexingMap, at: At) -> list[ir.Expr]:
        """The indices of an operand; an axis of several dims is their row-major collapse."""
        indices = []
        for axis in one.axes:
            flat: ir.Expr = tirx.const(0, "int64")
            for dim in axis:
                flat = flat * self.extents[dim] + at[dim]
            indices.append(flat)
        return indices

    def load(self, name: str) -> Value:
        """An operand's element, in its own type; of a pool, in the page that the table says."""
        one, buffer = self.op.maps[name.removesuffix("_init")], self.buffers[name]
        if not self.op.paged or name not in ("key", "value"):
            return lambda at: buffer[tuple(self.index(one, at))]
        table, pages = self.load("block_table"), i64(buffer.shape[0])

        def load(at: At) -> ir.Expr:
            page = tirx.max(tirx.min(convert(table(at), "int64"), pages - 1), i64(0))
            indices = (page, *self.index(one, at)[1:])
            return buffer[indices]

        return load

    def operand(self, name: str) -> Value:
        """An operand's element, in the compute type."""
        load = self.load(name)
        return lambda at: convert(load(at), self.dtype)

    def temporary(self, dims: Sequence[int]) -> tuple[Any, Callable[[At], list[Any]]]:
        """A buffer over some dims, and its indices at a point."""
        shape = [self.extents[dim] for dim in dims] or [tirx.const(1, "int64")]
        buffer = I.sblock_alloc_buffer(shape, self.dtype)
        return buffer, lambda at: [at[dim] for dim in dims] or [tirx.const(0, "int64")]

    def compute(self, name: str, dims: Sequence[int], value: Value) -> Value:
        """A block that stores ``value`` at each point, to be read as the result is."""
        buffer, place = self.temporary(dims)
        self.block(name, dims, (), lambda at: I.buffer_store(buffer, value(at), place(at)))
        return lambda at: buffer[tuple(place(at))]

    def reduce(
        self,
        name: str,
        dims: Sequence[int],
        reduced: Sequence[int],
        identity: float,
        combine: Callable[[ir.Expr, ir.Expr], ir.Expr],
        value: Value,
    ) -> Value:
        """A block that combines ``value`` over the reduced dims."""
        if not reduced:
            return self.compute(name, dims, value)
        buffer, place = self.temporary(dims)

        def step(at: At) -> None:
            combined = combine(buffer[tuple(place(at))], value(at))
            I.buffer_store(buffer, combined, place(at))

        start = self.const(identity)
        self.block(name, dims, reduced, step, lambda at: I.buffer_store(buffer, start, place(at)))
        return lambda at: buffer[tuple(place(at))]

    def result(self, name: str, dims: Sequence[int], value: Value) -> None:
        """A block that stores a result, in its type."""
        one, buffer = self.op.maps[name], self.buffers[name]

        def step(at: At) -> None:
            converted = convert(value(at), str(buffer.dtype))
            I.buffer_store(buffer, converted, self.index(one, at))

        self.block(name, dims, (), step)

    def emit(self) -> None:
        """The whole function."""
        op, dims = self.op, self.op.dims
        rows = (*dims["b"], *dims["m"])
        keys, columns = dims["k2"], dims["n"]
        power = tirx.exp2 if op.score_domain == "log2" else tirx.exp

        def plus(a: ir.Expr, b: ir.Expr) -> ir.Expr:
            return a + b

        with I.sblock("root"):
            query, key = self.operand("query"), self.operand("key")
            products = self.reduce(
                "products", (*rows, *keys), dims["k1"], 0.0, plus, lambda at: query(at) * key(at)
            )
            scores = self.compute("scores", (*rows, *keys), lambda at: self.score(products, at))
            lowest = -math.inf if op.online else float(tirx.min_value(self.dtype).value)
            maximum = self.reduce("maximum", rows, keys, lowest, _larger, scores)
            if op.online:
                old, seen = self.operand("max_init"), maximum
                maximum = self.compute("newest", rows, lambda at: _larger(old(at), seen(at)))
            weights = self.compute(
                "weights", (*rows, *keys), lambda at: power(scores(at) - maximum(at))
            )
            total = self.reduce("total", rows, keys, 0.0, plus, weights)
            value, kind = self.counted_value(), op.types["value"].dtype

            def weight(at: At) -> ir.Expr:
                """A weight as the second contraction takes it: in value's type."""
                exact = weights(at) if op.online else weights(at) / total(at)
                return convert(convert(exact, kind), self.dtype)

            output = self.reduce(
                "products_of_weights",
                (*rows, *columns),
                keys,
                0.0,
                plus,
                lambda at: weight(at) * value(at),
            )
            if not op.online:
                self.result("output", (*rows, *columns), output)
                if "log_sum_exp" in op.maps:
                    base = self.const(math.log2(math.e) if op.score_domain == "log2" else 1.0)
                    self.result(
                        "log_sum_exp", rows, lambda at: maximum(at) + tirx.log(total(at)) * base
                    )
                return
            shrink = self.compute("shrink", rows, lambda at: power(old(at) - maximum(at)))
            carried, summed = self.operand("output_init"), self.operand("sum_init")
            self.result(
                "output", (*rows, *columns), lambda at: shrink(at) * carried(at) + output(at)
            )
            self.result("max", rows, maximum)
            self.result("sum", rows, lambda at: shrink(at) * summed(at) + total(at))

    def counts(self, at: At) -> ir.Expr | None:
        """Whether a key is before the end of its batch point's keys; None where all are."""
        if "key_lengths" not in self.op.maps:
            return None
        return self.position(at) < self.keys(at)

    def position(self, at: At) -> ir.Expr:
        """A key's position; several key dims are counted through in their order."""
        position: ir.Expr = tirx.const(0, "int64")
        for dim in self.op.dims["k2"]:
            position = position * self.extents[dim] + at[dim]
        return position

    def keys(self, at: At) -> ir.Expr:
        """How many keys a batch point has: their extent, or its length."""
        extent = math.prod((self.extents[dim] for dim in self.op.dims["k2"]), start=i64(1))
        if "key_lengths" not in self.op.maps:
            return extent
        given = convert(self.load("key_lengths")(at), "int64")
        return tirx.max(tirx.min(given, extent), i64(0))

    def counted_value(self) -> Value:
        """An element of value; 0 at keys that do not count, which may hold anything."""
        value = self.operand("value")

        def load(at: At) -> ir.Expr:
            counts = self.counts(at)
            return value(at) if counts is None else tirx.Select(counts, value(at), self.const(0.0))

        return load

    def score(self, products: Value, at: At) -> ir.Expr:
        """Scale, region, mask, band and length at one point."""
        op = self.op
        to_base_2 = math.log2(math.e) if op.score_domain == "log2" else 1.0
        score = products(at) * (self.scale * self.const(to_base_2))
        score = op.changed(score, at)
        nothing = self.const(-math.inf)
        if "mask" in op.maps:
            mask = self.load("mask")(at)
            kind = str(mask.ty.dtype)
            if kind.startswith(("float", "bfloat")):
                score = score + convert(mask, self.dtype) * self.const(to_base_2)
            else:
                keep = mask if kind == "bool" else (mask & tirx.const(1, kind)) != 0
                score = score + tirx.Select(keep, self.const(0.0), nothing)
        if op.band is not None:
            row_dim, key = op.dims["m"][-1], self.position(at)
            position = at[row_dim]
            if op.band.align_end:
                position = position + self.keys(at) - self.extents[row_dim]
            if op.band.left is not None:
                score = tirx.Select(key >= position - op.band.left, score, nothing)
            if op.band.right is not None:
                score = tirx.Select(key <= position + op.band.right, score, nothing)
        if (counts := self.counts(at)) is not None:
            score = tirx.Select(counts, score, nothing)
        return score


def _larger(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The maximum; a NaN wins, on either side, as NumPy's and arith.maximumf's."""
    return tirx.Select(tirx.Or(tirx.isnan(a), a > b), a, b)
