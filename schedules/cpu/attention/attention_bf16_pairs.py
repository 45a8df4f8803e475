"""The lanes form of attention in bfloat16, where one instruction multiplies pairs of neighbours.

Both products take words of two elements (:mod:`.dot_products`), and sums stay in float32:

    scores = key    [k2, k1 / 2] * query^T [k1 / 2, m]     pairs of neighbours along k1
    output = value^T[n, k2 / 2]  * weights [k2 / 2, m]     pairs of keys

Pairs of query and key lie in memory as they are wanted where k1 is even.  Where it is odd, rows of
query and of a tile of key are copied, each with a zero after its end.  Weights are rounded to
bfloat16, as the dialect says, while they are made, and a tile of value is interleaved once for all
rows of a task.  The scale goes to the scores: a scaled query would have to be rounded.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.attention.attention_config import AttentionConfig
from tvm_iree_ext.schedules.cpu.attention.attention_lanes import LanesForm
from tvm_iree_ext.schedules.cpu.products.dot_products import PAIRS, DotProduct, dot_product_of
from tvm_iree_ext.schedules.emit import (
    At,
    Expr,
    Index,
    IterationSpace,
    OperandView,
    i64,
    known,
    serial,
)
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.targets.cpu import CpuFeatures

WORD = "uint32"
HALF = "uint16"


def has_neighbours(op: Attention) -> bool:
    """Whether all operands are in bfloat16, with k1 last in query and key, and sums in float32."""
    types = {op.types[name].dtype for name in ("query", "key", "value")}
    dims = op.dims["k1"]
    last = all(op.maps[name].axes[-1:] == (dims,) for name in ("query", "key"))
    return types == {"bfloat16"} and op.compute_dtype == PAIRS.sums and len(dims) == 1 and last


def pairs_product(op: Attention, features: CpuFeatures) -> DotProduct | None:
    """The instruction that multiplies pairs, where the CPU has it and the operands have pairs."""
    return dot_product_of(features, "bfloat16") if has_neighbours(op) else None


def copied_operands(op: Attention) -> set[str]:
    """Operands, of key and value, that this form cannot read in place, or not by single words."""
    return {"key", "value"} if op.count("k1") % 2 or op.paged else {"value"}


def pairs_kernel(op: Attention, config: AttentionConfig, dot: DotProduct) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
        Pairs(AttentionOperands.declare(op, coarse=True), config, dot).emit()
    return builder.get()


class Pairs(LanesForm):
    """The kernel under construction; who reads words may multiply them by other means."""

    def __init__(
        self, operands: AttentionOperands, config: AttentionConfig, dot: DotProduct
    ) -> None:
        super().__init__(operands, config)
        self.dot = dot
        self.add = lambda sums, x, y: dot.add(sums, x, y, self.lanes)
        copied = {"query": self.copies_query, "key": "key" in config.promote}
        self.raw = {
            name: self.halves(name) if copied[name] else _pairs_of(operands, name)
            for name in copied
        }
        # What is copied is transposed in squares of words.
        self.query_lines = whole(self.k1, 2 * self.lanes if self.copies_query else 2) // 2

    @property
    def copies_query(self) -> bool:
        """Whether rows of query are copied before they are transposed."""
        return self.k1 % 2 == 1

    def declared(self) -> AbstractContextManager[Any]:
        """With what :attr:`add` and rounding take."""
        return self.dot.declared(self.lanes)

    def depth(self, count: Index) -> Index:
        """The pairs of so many elements."""
        return emit.ceil_div(count, 2)

    def allocate_factors(self) -> None:
        """Scratch for words."""
        pairs = self.tile_k2 // 2
        self.query = emit.scratch([self.tile_m // self.lanes * self.query_lines, self.lanes], WORD)
        self.weights = emit.scratch([pairs, self.width], WORD)
        self.value = emit.scratch([pairs, self.n], WORD)
        if self.copies_query:
            self.query_rows = emit.scratch([self.lanes, self.query_lines], WORD)
        if "key" in self.config.promote:
            self.key = emit.scratch([self.tile_k2, whole(self.k1, 2) // 2], WORD)

    def load_query(self) -> None:
        """Bring the rows of query into ``query[k1 / 2, lanes]`` of each vector of them."""
        self.factor = I.Bind(self.operands.query_factor)
        if not self.copies_query:
            self.transpose_query(self.raw["query"], lambda words: words)
            return
        with serial(self.groups) as group:
            for lane, row in enumerate(self.lane_rows(group * self.lanes)):

                def place(word: Expr, lane: int = lane) -> tuple[Expr, Expr]:
                    return i64(lane), word

                self.copy_row(self.query_rows, "query", row, place)
            with serial(self.query_lines // self.lanes) as block:
                square = emit.run(block * self.lanes, self.lanes)
                rows = [self.query_rows[i64(lane), square] for lane in range(self.lanes)]
                first = group * self.query_lines + block * self.lanes
                for line, value in enumerate(emit.transpose(rows)):
                    at = [first + line, emit.run(0, self.lanes)]
                    I.buffer_store(self.query, value, at)

    def copy_row(
        self, target: Any, name: str, at: At, place: Callable[[Expr], tuple[Expr, Expr]]
    ) -> None:
        """``target[place(word)]`` = a row of query or key, by words; an odd end's word has a 0."""
        view = self.raw[name]

        def piece(column: Index, halves: int) -> None:
            here = {**at, **view.space.spread(column, self.op.dims["k1"])}
            value, lanes = view.load(here, HALF, halves), max(halves // 2, 1)
            dtype = WORD if lanes == 1 else f"{WORD}x{lanes}"
            value = emit.cast(value, WORD) if halves == 1 else tirx.reinterpret(dtype, value)
            line, first = place(emit.divide(column, 2)[0])
            I.buffer_store(target, value, [line, emit.run(first, lanes)])

        emit.in_vectors(self.k1, 2 * self.lanes, piece)

    def copy_key(self, first_key: Expr, keys: Index) -> None:
        """A tile of keys, by words; past the last key stays what is there."""
        with serial(keys) as key:
            at = {**self.outer, **self.operands.key_at(first_key + key)}
            self.copy_row(self.key, "key", at, lambda word: self.key_place(key, word))

    def key_place(self, key: Expr, word: Expr) -> tuple[Expr, Expr]:
        """Index of a word of a tile of keys."""
        return key, word

    def key_scalar(self, own: Expr, key: Expr, k: Expr) -> Expr:
        """A word of key."""
        if "key" in self.config.promote:
            return self.key[own, k]
        view = self.raw["key"]
        at = {**self.outer, **self.operands.key_at(key)}
        return view.load(at | view.space.spread(k, self.op.dims["k1"]), WORD)

    def scaled(self, score: Expr) -> Expr:
        """A vector of the first product, times the scale."""
        return score * emit.splat(self.factor, self.lanes)

    def promote(self, first_key: Expr, keys: Index) -> None:
        """Interleave a tile of value: ``value[k2 / 2, n]``; after the last key come zeros."""
        if "key" in self.config.promote:
            self.copy_key(first_key, keys)
        halves, blocks = self.halves("value"), self.value_blocks

        def line(pair: Expr, single: bool = False) -> None:
            def word(column: Index, lanes: int) -> Expr:
                low = self.half(halves, first_key + pair * 2, column, lanes)
                if single:
                    return low
                return words(low, self.half(halves, first_key + pair * 2 + 1, column, lanes), lanes)

            with serial(blocks) as block:
                place = block * self.lanes
                at = [pair, emit.run(place, self.lanes)]
                I.buffer_store(self.value, word(place, self.lanes), at)
            with serial(self.n, blocks * self.lanes) as column:
                I.buffer_store(self.value, word(column, 1), [pair, column])

        self.each_pair(keys, line, lambda pair: line(pair, single=True))

    def halves(self, name: str) -> OperandView:
        """An operand as halves of words."""
        view = self.views[name]
        raw = I.decl_buffer(list(view.buffer.shape), HALF, data=view.buffer.data, align=2)
        return replace(view, buffer=raw)

    @property
    def value_blocks(self) -> int:
        """Vectors of columns that lie next to each other in a row of value."""
        return (known(self.views["value"].along(self.op.dims["n"])) or 0) // self.lanes

    def half(self, halves: OperandView, key: Expr, column: Index, lanes: int) -> Expr:
        """Elements of value, from a column on, in the low halves of words."""
        at = {**self.outer, **self.operands.key_at(key)}
        return halves.load(at | self.space.spread(column, self.op.dims["n"]), WORD, lanes)

    def value_scalar(self, first_key: Expr, k: Expr, column: Index) -> Expr:
        """A word of value."""
        return self.value[k, column]

    def weigh(self, keys: Index, own: Expr, newest: Any, sums: Any) -> None:
        """The weights of a vector of rows, as words, and their sums."""
        both = emit.registers(2 * self.lanes, self.dtype)
        place = emit.run(own, self.lanes)

        def weight(key: Expr, half: int) -> None:
            with emit.vector_loop(self.lanes) as lane:
                value = self.operands.weight(self.score(key, own + lane) - newest[lane])
                I.buffer_store(both, value, [half * self.lanes + lane])
                I.buffer_store(sums, sums[lane] + value, [lane])

        def store(pair: Expr) -> None:
            low, high = (both[emit.run(i * self.lanes, self.lanes)] for i in (0, 1))
            I.buffer_store(self.weights, self.dot.rounded(low, high, self.lanes), [pair, place])

        def both_keys(pair: Expr) -> None:
            self.beside(pair, own)
            weight(pair * 2, 0)
            weight(pair * 2 + 1, 1)
            store(pair)

        def last(pair: Expr) -> None:
            weight(pair * 2, 0)
            with emit.vector_loop(self.lanes) as lane:
                I.buffer_store(both, self.operands.const(0.0), [self.lanes + lane])
            store(pair)

        self.each_pair(keys, both_keys, last)

    def beside(self, pair: Expr, own: Expr) -> None:
        """Emit work beside the weights of a pair of keys, of a part's rows from one on."""

    def each_pair(
        self, keys: Index, full: Callable[[Expr], None], last: Callable[[Expr], None]
    ) -> None:
        """``full(pair)`` for each pair of keys, and ``last(pair)`` for one that has no second."""
        exact = known(keys)
        with serial(exact // 2 if exact is not None else tirx.floordiv(keys, i64(2))) as pair:
            full(pair)
        if exact is None:
            odd = tirx.floormod(keys, i64(2)) == 1
            with I.If(odd), I.Then():
                last(tirx.floordiv(keys, i64(2)))
        elif exact % 2:
            last(i64(exact // 2))


def whole(count: int, tile: int) -> int:
    """The next multiple of a tile."""
    return -(-count // tile) * tile


def words(low: Expr, high: Expr, lanes: int) -> Expr:
    """Words of two vectors of halves."""
    return low | (high << emit.splat(tirx.const(16, WORD), lanes))


def _pairs_of(operands: AttentionOperands, name: str) -> OperandView:
    """An operand as words of two neighbours along k1."""
    view, (dim,) = operands.views[name], operands.columns(name)
    shape = list(view.buffer.shape)
    shape[-1] = i64((known(shape[-1]) or 0) // 2)
    extents = list(operands.space.extents)
    extents[dim] = (known(extents[dim]) or 0) // 2
    buffer = I.decl_buffer(shape, WORD, data=view.buffer.data, align=2)
    return replace(view, buffer=buffer, space=IterationSpace(tuple(extents)))
