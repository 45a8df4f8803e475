"""The lanes form of attention in bfloat16, where an instruction multiplies tiles (:mod:`.amx`).

Both products are of tiles of 16 x 16 sums, in float32, with rows of a task in the columns:

    scores = key    [k2, k1] * query^T [k1 / 2, rows]      words of neighbours along k1
    output = value^T[n, k2]  * weights [k2 / 2, rows]      words of two keys

Softmax, and words of query and weights, are those of the pairs.  Of a tile of keys, key is copied
and value transposed once for all rows of a task.  Elements past the end of k1, of n and of the keys
are zeros where they would be added, and so whole tiles are multiplied whatever the extents.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.attention.attention_bf16_pairs import (
    WORD,
    Pairs,
    has_neighbours,
    whole,
    words,
)
from tvm_iree_ext.schedules.cpu.attention.attention_config import AttentionConfig
from tvm_iree_ext.schedules.cpu.products import amx
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TilePlace, TileProduct
from tvm_iree_ext.schedules.cpu.products.dot_products import PAIRS
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, known, serial
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.targets.cpu import CpuFeatures

KEYS = 2 * TILE
"""Keys in a tile of value or weights."""


def tile_product(op: Attention, features: CpuFeatures) -> TileProduct | None:
    """The instruction that multiplies tiles, where the CPU has it and operands have neighbours."""
    return amx.tile_product(features, "bfloat16") if has_neighbours(op) else None


def tiles_kernel(op: Attention, config: AttentionConfig, product: TileProduct) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form."""
    with IRBuilder() as builder, I.prim_func():
        _Tiles(AttentionOperands.declare(op, coarse=True), config, product).emit()
    return builder.get()


class _Tiles(Pairs):
    """The kernel under construction."""

    def __init__(
        self, operands: AttentionOperands, config: AttentionConfig, product: TileProduct
    ) -> None:
        super().__init__(operands, config, PAIRS)
        self.product = product
        self.output_lines = whole(self.n, TILE)
        self.tiles_k2 = self.tile_k2 // KEYS

    @property
    def copies_query(self) -> bool:
        return True

    @contextmanager
    def declared(self) -> Iterator[None]:
        with super().declared(), amx.declared():
            yield

    def emit_task(self, outer: At, first_row: Expr) -> None:
        with amx.configured():
            super().emit_task(outer, first_row)

    def allocate_factors(self) -> None:
        lines = self.query_lines
        self.query = emit.scratch([self.tile_m // TILE * lines, TILE], WORD)
        self.key = emit.scratch([self.tile_k2 // TILE * lines, TILE], WORD)
        self.query_rows = emit.scratch([TILE, lines], WORD)
        self.weights = emit.scratch([self.tile_k2 // 2, self.width], WORD)
        self.value = emit.scratch([self.output_lines * self.tiles_k2, TILE], WORD)
        # What is past the ends of k1 and n is never written again.
        if 2 * lines != self.k1:
            _clear(self.query_rows)
            _clear(self.key)
        if self.output_lines != self.n:
            _clear(self.value)

    def promote(self, first_key: Expr, keys: Index) -> None:
        """Copy a tile of key, and transpose one of value: tiles of [n, k2 / 2]."""
        self.copy_key(first_key, keys)
        halves, blocks = self.halves("value"), self.value_blocks

        def tile(place: Expr, within: Index | None) -> None:
            def word(pair: int, column: Index, lanes: int) -> Expr:
                low, high = (
                    self.value_half(halves, first_key, place * KEYS + key, column, lanes, within)
                    for key in (2 * pair, 2 * pair + 1)
                )
                return words(low, high, lanes)

            with serial(blocks) as block:
                pairs = [word(pair, block * TILE, TILE) for pair in range(TILE)]
                for line, value in enumerate(emit.transpose(pairs)):
                    at = [self.value_line(block, place) + line, emit.run(0, TILE)]
                    I.buffer_store(self.value, value, at)
            with serial(self.n, blocks * TILE) as column:
                block, line = emit.divide(column, TILE)
                at = self.value_line(block, place) + line
                for pair in range(TILE):
                    I.buffer_store(self.value, word(pair, column, 1), [at, pair])

        keys = emit.held_index(keys)
        full = emit.held_index(emit.divide(keys, KEYS)[0])
        with serial(full) as place:
            tile(place, None)
        if (known(keys) or 1) % KEYS:
            with I.If(i64(full) * KEYS < i64(keys)), I.Then():
                tile(i64(full), keys)

    def value_half(
        self,
        halves: OperandView,
        first_key: Expr,
        key: Expr,
        column: Index,
        lanes: int,
        within: Index | None,
    ) -> Expr:
        """Elements of value at a key of the tile; zeros from key ``within`` on."""
        if within is None:
            return self.half(halves, first_key + key, column, lanes)
        there = self.half(halves, first_key + tirx.min(key, i64(within) - 1), column, lanes)
        return tirx.Select(key < i64(within), there, emit.splat(tirx.const(0, WORD), lanes))

    def value_line(self, block: Index, place: Index) -> Expr:
        """The first line of a tile of value, of a block of columns and a place along the keys."""
        return (i64(block) * self.tiles_k2 + place) * TILE

    def key_place(self, key: Expr, word: Expr) -> tuple[Expr, Expr]:
        """Index of a word of a tile of keys, in tiles of [k2, k1]."""
        (block, own), (step, column) = emit.divide(key, TILE), emit.divide(word, TILE)
        return self.key_line(block, step) + own, column

    def key_line(self, block: Index, step: Index) -> Expr:
        """The first line of a tile of key, of a block of keys and a step along k1."""
        return (i64(block) * (self.query_lines // TILE) + step) * TILE

    def multiply_query_key(self, first_key: Expr, keys: Index, group: Expr) -> None:
        rows, lines = self.config.keys_at_once, self.query_lines
        with serial(emit.ceil_div(keys, TILE * rows)) as block:
            self.product.multiply(
                rows=rows,
                columns=self.vectors,
                depth=lines // TILE,
                a=lambda i, k: TilePlace(self.key, (self.key_line(block * rows + i, k), 0), TILE),
                b=lambda k, j: TilePlace(self.query, ((group + j) * lines + k * TILE, 0), TILE),
                sums=lambda i, j: TilePlace(
                    self.scores, ((block * rows + i) * TILE, j * TILE), self.width
                ),
                carried=False,
            )

    def raw_score(self, key: Expr, lane: Expr) -> Expr:
        return self.scores[key, lane] * self.factor

    def rescaled(self, first: Expr) -> None:
        """Rescale the output long before tiles of it are loaded, which wait for stores."""
        self.rescale_output(tirx.floordiv(first, i64(TILE)), 1)

    def weigh(self, keys: Index, own: Expr, newest: Any, sums: Any) -> None:
        super().weigh(keys, own, newest, sums)
        with serial(i64(emit.ceil_div(keys, KEYS)) * TILE, emit.ceil_div(keys, 2)) as pair:
            zeros = emit.splat(tirx.const(0, WORD), TILE)
            I.buffer_store(self.weights, zeros, [pair, emit.run(own, TILE)])

    def beside(self, pair: Expr, own: Expr) -> None:
        """Fetch the next mask beside the weights: tiles would wait for memory with its lines."""
        place, lane = emit.divide(pair, TILE)
        self.ahead.mask_of(KEYS, place * KEYS, own + lane)

    def multiply_weights_value(self, first_key: Expr, keys: Index, group: Expr) -> None:
        depth = emit.ceil_div(keys, KEYS)

        def tiles(first: Index, count: int) -> None:
            self.product.multiply(
                rows=count,
                columns=self.vectors,
                depth=depth,
                a=lambda i, k: TilePlace(self.value, (self.value_line(first + i, k), 0), TILE),
                b=lambda k, j: TilePlace(self.weights, (k * TILE, j * TILE), self.width),
                sums=lambda i, j: TilePlace(
                    self.output, ((group + j) * self.output_lines + (first + i) * TILE, 0), TILE
                ),
                carried=True,
            )

        blocks, rows = self.output_lines // TILE, self.config.columns_at_once
        with serial(blocks // rows) as block:
            tiles(block * rows, rows)
        if blocks % rows:
            tiles(blocks // rows * rows, blocks % rows)


def _clear(buffer: Any) -> None:
    lines, width = (known(extent) or 0 for extent in buffer.shape)
    zeros = emit.splat(tirx.const(0, str(buffer.dtype)), TILE)
    with serial(lines) as line, serial(width // TILE) as block:
        I.buffer_store(buffer, zeros, [line, emit.run(block * TILE, TILE)])
