"""The lanes form of attention in bfloat16, where one instruction multiplies pairs of neighbours.

Both products take words of two elements (:mod:`.dot_products`), and sums stay in float32:

    scores = key    [k2, k1 / 2] * query^T [k1 / 2, m]     pairs of neighbours along k1
    output = value^T[n, k2 / 2]  * weights [k2 / 2, m]     pairs of keys

Pairs of query and key lie in memory as they are wanted.  Weights are rounded to bfloat16, as the
dialect says, while they are made, and a tile of value is interleaved once for all rows of a task.
The scale goes to the scores: a scaled query would have to be rounded.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.attention_lanes import Lanes
from tvm_iree_ext.schedules.cpu.dot_products import DotProduct, dot_product
from tvm_iree_ext.schedules.emit import Expr, Index, Space, View, i64, known, serial

from tvm_iree_ext.ops.attention import Attention
from tvm_iree_ext.target.cpu import CpuFeatures

WORD = "uint32"
_HALF = "uint16"


def pairs_product(op: Attention, features: CpuFeatures) -> DotProduct | None:
    """The instruction that multiplies pairs, where the CPU has it and the operands have pairs."""
    types = {op.types[name].dtype for name in ("query", "key", "value")}
    dims = op.dims["k1"]
    whole = len(dims) == 1 and op.count("k1") % 2 == 0
    beside = all(op.maps[name].axes[-1:] == (dims,) for name in ("query", "key"))
    if types != {"bfloat16"} or not whole or not beside:
        return None
    return dot_product(features, "bfloat16", "bfloat16", op.compute_dtype)


def pairs_kernel(op: Attention, config: LoweringConfig, dot: DotProduct) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; ``config`` is that of the lanes form."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        _Pairs(AttentionOperands.declare(op), config, dot).emit()
    return builder.get()


class _Pairs(Lanes):
    """The kernel under construction."""

    def __init__(
        self, operands: AttentionOperands, config: LoweringConfig, dot: DotProduct
    ) -> None:
        super().__init__(operands, config)
        self.dot = dot
        self.add = lambda sums, x, y: dot.add(sums, x, y, self.lanes)
        self.words = {name: _pairs_of(operands, name) for name in ("query", "key")}

    def declared(self) -> AbstractContextManager[Any]:
        return self.dot.declared(self.lanes)

    def depth(self, count: Index) -> Index:
        return emit.ceil_div(count, 2)

    def allocate_factors(self) -> None:
        pairs = self.tile_k2 // 2
        self.query = emit.scratch([self.k1 // 2, self.tile_m], WORD)
        self.weights = emit.scratch([pairs, self.width], WORD)
        self.value = emit.scratch([pairs, self.n], WORD)

    def load_query(self) -> None:
        """Bring the rows of query into ``query[k1 / 2, m]``."""
        self.factor = I.Bind(self.operands.query_factor)
        dims, view = self.op.dims["k1"], self.words["query"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.query,
                view,
                self.lane_rows(group * self.lanes),
                lambda c: view.space.spread(c, dims),
                self.k1 // 2,
                view.along(dims),
                lane_base=group * self.lanes,
                convert=lambda words: words,
            )

    def key_scalar(self, own: Expr, key: Expr, k: Expr) -> Expr:
        view = self.words["key"]
        at = {**self.outer, **self.operands.key_at(key)}
        return view.load(at | view.space.spread(k, self.op.dims["k1"]), WORD)

    def scaled(self, score: Expr) -> Expr:
        return score * emit.splat(self.factor, self.lanes)

    def promote(self, first_key: Expr, keys: Index) -> None:
        """Interleave a tile of value: ``value[k2 / 2, n]``; after the last key come zeros."""
        view, dims = self.views["value"], self.op.dims["n"]
        blocks = (known(view.along(dims)) or 0) // self.lanes
        raw = I.decl_buffer(list(view.buffer.shape), _HALF, data=view.buffer.data, align=2)
        halves = View(raw, view.map, view.space)

        def word(pair: Expr, column: Index, lanes: int, single: bool) -> Expr:
            def half(key: Expr) -> Expr:
                at = {**self.outer, **self.operands.key_at(first_key + key)}
                return halves.load(at | self.space.spread(column, dims), WORD, lanes)

            low = half(pair * 2)
            if single:
                return low
            return low | (half(pair * 2 + 1) << emit.splat(tirx.const(16, WORD), lanes))

        def line(pair: Expr, single: bool = False) -> None:
            with serial(blocks) as block:
                place = block * self.lanes
                at = [pair, emit.run(place, self.lanes)]
                I.buffer_store(self.value, word(pair, place, self.lanes, single), at)
            with serial(self.n, blocks * self.lanes) as column:
                I.buffer_store(self.value, word(pair, column, 1, single), [pair, column])

        self.each_pair(keys, line, lambda pair: line(pair, single=True))

    def value_scalar(self, first_key: Expr, k: Expr, column: Index) -> Expr:
        return self.value[k, column]

    def weigh(self, keys: Index, own: Expr, newest: Any, sums: Any) -> None:
        both = emit.registers(2 * self.lanes, self.dtype)
        place = emit.run(own, self.lanes)

        def weight(key: Expr, half: int) -> None:
            with emit.vector_loop(self.lanes) as lane:
                value = self.operands.weight(self.scores[key, own + lane] - newest[lane])
                I.buffer_store(both, value, [half * self.lanes + lane])
                I.buffer_store(sums, sums[lane] + value, [lane])

        def store(pair: Expr) -> None:
            low, high = (both[emit.run(i * self.lanes, self.lanes)] for i in (0, 1))
            I.buffer_store(self.weights, self.dot.rounded(low, high, self.lanes), [pair, place])

        def whole(pair: Expr) -> None:
            weight(pair * 2, 0)
            weight(pair * 2 + 1, 1)
            store(pair)

        def last(pair: Expr) -> None:
            weight(pair * 2, 0)
            with emit.vector_loop(self.lanes) as lane:
                I.buffer_store(both, self.operands.const(0.0), [self.lanes + lane])
            store(pair)

        self.each_pair(keys, whole, last)

    def each_pair(
        self, keys: Index, whole: Callable[[Expr], None], last: Callable[[Expr], None]
    ) -> None:
        """``whole(pair)`` for each pair of keys, and ``last(pair)`` for one that has no second."""
        exact = known(keys)
        with serial(exact // 2 if exact is not None else tirx.floordiv(keys, i64(2))) as pair:
            whole(pair)
        if exact is None:
            odd = tirx.floormod(keys, i64(2)) == 1
            with I.If(odd), I.Then():
                last(tirx.floordiv(keys, i64(2)))
        elif exact % 2:
            last(i64(exact // 2))


def _pairs_of(operands: AttentionOperands, name: str) -> View:
    """An operand as words of two neighbours along k1."""
    view, (dim,) = operands.views[name], operands.columns(name)
    shape = list(view.buffer.shape)
    shape[-1] = i64((known(shape[-1]) or 0) // 2)
    extents = list(operands.space.extents)
    extents[dim] = (known(extents[dim]) or 0) // 2
    buffer = I.decl_buffer(shape, WORD, data=view.buffer.data, align=2)
    return View(buffer, view.map, Space(tuple(extents)))
