"""The lanes form of attention in bfloat16, where an instruction multiplies tiles (:mod:`.amx`).

Both products are of tiles of 16 x 16 sums, in float32, with rows of a task in the columns:

    scores = key    [k2, k1] * query^T [k1 / 2, rows]      words of neighbours along k1
    output = value^T[n, k2]  * weights [k2 / 2, rows]      words of two keys

Softmax, and words of query and weights, are those of the pairs.  Of a tile of keys, key is copied
and value transposed once for all rows of a task.  Elements past the end of k1, of n and of the keys
are zeros where they would be added, and so whole tiles are multiplied whatever the extents.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import amx
from tvm_iree_ext.schedules.cpu.amx import TILE, Place, TileProduct
from tvm_iree_ext.schedules.cpu.attention_pairs import HALF, WORD, Pairs, has_neighbours, words
from tvm_iree_ext.schedules.cpu.dot_products import PAIRS
from tvm_iree_ext.schedules.emit import At, Expr, Index, View, i64, known, serial

from tvm_iree_ext.ops.attention import Attention
from tvm_iree_ext.target.cpu import CpuFeatures

KEYS = 2 * TILE
"""Keys in a tile of value or weights."""


def tile_product(op: Attention, features: CpuFeatures) -> TileProduct | None:
    """The instruction that multiplies tiles, where the CPU has it and operands have neighbours."""
    return amx.tile_product(features, "bfloat16") if has_neighbours(op) else None


def tiles_kernel(op: Attention, config: LoweringConfig, product: TileProduct) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; ``register_tile`` of ``config`` counts tiles."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        _Tiles(AttentionOperands.declare(op, coarse=True), config, product).emit()
    return builder.get()


def _whole(count: int, tile: int) -> int:
    return -(-count // tile) * tile


class _Tiles(Pairs):
    """The kernel under construction."""

    def __init__(
        self, operands: AttentionOperands, config: LoweringConfig, product: TileProduct
    ) -> None:
        super().__init__(operands, config, PAIRS)
        self.product = product
        self.query_lines = _whole(self.k1, KEYS) // 2
        self.output_lines = _whole(self.n, TILE)
        self.tiles_k2 = self.tile_k2 // KEYS

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
        self.key = emit.scratch([self.tile_k2 // TILE * lines, 2 * TILE], HALF)
        self.row_halves = emit.scratch([TILE, 2 * lines], HALF)
        self.weights = emit.scratch([self.tile_k2 // 2, self.width], WORD)
        self.value = emit.scratch([self.output_lines * self.tiles_k2, TILE], WORD)
        # What is past the ends of k1 and n is never written again.
        if 2 * lines != self.k1:
            _clear(self.row_halves)
            _clear(self.key)
        if self.output_lines != self.n:
            _clear(self.value)

    def raw_view(self, name: str) -> View:
        """Query or key as it is read: as halves of words, since k1 may be odd."""
        return self.halves(name)

    def load_query(self) -> None:
        """Bring the rows of query into ``query[k1 / 2, lanes]`` of each vector of them."""
        self.factor = I.Bind(self.operands.query_factor)
        with serial(self.groups) as group:
            for lane, row in enumerate(self.lane_rows(group * TILE)):

                def place(column: Expr, lane: int = lane) -> tuple[Expr, Expr]:
                    return i64(lane), column

                self.copy_row(self.row_halves, "query", row, place)
            with serial(self.query_lines // TILE) as block:
                rows = [
                    tirx.reinterpret(
                        f"{WORD}x{TILE}",
                        self.row_halves[i64(lane), emit.run(block * 2 * TILE, 2 * TILE)],
                    )
                    for lane in range(TILE)
                ]
                first = group * self.query_lines + block * TILE
                for line, value in enumerate(emit.transpose(rows)):
                    I.buffer_store(self.query, value, [first + line, emit.run(0, TILE)])

    def copy_row(
        self, target: Any, name: str, at: At, place: Callable[[Expr], tuple[Expr, Expr]]
    ) -> None:
        """``target[place(k1)]`` = a row of query or key."""
        view = self.raw[name]

        def piece(column: Index, lanes: int) -> None:
            here = {**at, **view.space.spread(column, self.op.dims["k1"])}
            value = view.load(here, HALF, lanes)
            line, first = place(i64(column))
            I.buffer_store(target, value, [line, emit.run(first, lanes)])

        emit.in_vectors(self.k1, 2 * TILE, piece)

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
        whole = emit.held_index(emit.divide(keys, KEYS)[0])
        with serial(whole) as place:
            tile(place, None)
        if (known(keys) or 1) % KEYS:
            with I.If(i64(whole) * KEYS < i64(keys)), I.Then():
                tile(i64(whole), keys)

    def value_half(
        self,
        halves: View,
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

    def copy_key(self, first_key: Expr, keys: Index) -> None:
        """A tile of keys, as tiles of [k2, k1]; past the last key stays what is there."""
        with serial(keys) as key:
            at = {**self.outer, **self.operands.key_at(first_key + key)}
            block, own = emit.divide(key, TILE)

            def place(column: Expr) -> tuple[Expr, Expr]:
                step, first = emit.divide(column, 2 * TILE)
                return self.key_line(block, step) + own, first

            self.copy_row(self.key, "key", at, place)

    def key_line(self, block: Index, step: Index) -> Expr:
        """The first line of a tile of key, of a block of keys and a step along k1."""
        return (i64(block) * (self.query_lines // TILE) + step) * TILE

    def multiply_query_key(self, first_key: Expr, keys: Index, group: Expr) -> None:
        rows, lines = self.config.register_tile["k2"], self.query_lines
        with serial(emit.ceil_div(keys, TILE * rows)) as block:
            self.product.multiply(
                rows=rows,
                columns=self.vectors,
                depth=lines // TILE,
                a=lambda i, k: Place(self.key, (self.key_line(block * rows + i, k), 0), TILE),
                b=lambda k, j: Place(self.query, ((group + j) * lines + k * TILE, 0), TILE),
                sums=lambda i, j: Place(
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
                a=lambda i, k: Place(self.value, (self.value_line(first + i, k), 0), TILE),
                b=lambda k, j: Place(self.weights, (k * TILE, j * TILE), self.width),
                sums=lambda i, j: Place(
                    self.output, ((group + j) * self.output_lines + (first + i) * TILE, 0), TILE
                ),
                carried=True,
            )

        blocks, rows = self.output_lines // TILE, self.config.register_tile["n"]
        with serial(blocks // rows) as block:
            tiles(block * rows, rows)
        if blocks % rows:
            tiles(blocks // rows * rows, blocks % rows)


def _clear(buffer: Any) -> None:
    lines, width = (known(extent) or 0 for extent in buffer.shape)
    zeros = emit.splat(tirx.const(0, str(buffer.dtype)), TILE)
    with serial(lines) as line, serial(width // TILE) as block:
        I.buffer_store(buffer, zeros, [line, emit.run(block * TILE, TILE)])
