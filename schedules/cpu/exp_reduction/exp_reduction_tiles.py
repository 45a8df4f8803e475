"""exp_reduction with the keys of a row in the lanes: the form for scores that lie along keys.

A task owns ``m`` rows of one point of the shared dims and walks over their keys in tiles of ``k``.
The scores of a tile become weights in place, scratch[m, k]; the outputs of the rows accumulate in
scratch, too, and so memory grows with the tiles only.  An output is

    a product    where left(row, key) * right(key, column) is added: see exp_reduction_products
    a sum        over the keys without columns: in lanes of keys, each lane with a sum of its own
    any other    column by column in the lanes, key after key

Where scaling the weights scales what a region yields, this is the online algorithm: each tile's
maximum rescales what there is so far.  Otherwise the maximum is found first, in a pass of its own.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_config import ExpReductionConfig
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_products import (
    KeyTile,
    ReductionProduct,
)
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_splits import KeyParts
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, known, serial
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands, along, lane_loop
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation

CHAINS = 4  # vectors that are summed, or compared, side by side

RowBody: TypeAlias = Callable[[Expr, KeyTile], None]


class Tiles:
    """The loops over rows under construction; ``maxima`` is what other loops read afterwards."""

    def __init__(
        self,
        operands: ReductionOperands,
        config: ExpReductionConfig,
        maxima: OperandView,
        parts: KeyParts | None,
    ) -> None:
        self.operands, self.config, self.maxima, self.parts = operands, config, maxima, parts
        self.plan, self.space = operands.plan, operands.space
        self.online = self.plan.online
        self.dtype = operands.op.compute_dtype
        self.lanes = config.lanes
        self.wide = self.lanes * CHAINS
        self.tile_m = config.rows
        self.tile_k = config.keys
        self.row_dims = tuple(dim for dim in self.plan.rows if dim not in self.plan.shared)
        self.rows = self.space.count(self.row_dims)
        self.key = self.plan.keys[-1]
        self.keys = self.space.extents[self.key]

    def emit(self) -> None:
        """Tasks over the shared dims and tiles of rows."""
        tiles = emit.ceil_div(self.rows, self.tile_m)
        splits = self.config.splits
        tasks = i64(emit.product([self.space.count(self.plan.shared), tiles, splits]))
        with (I.parallel if self.config.parallel else I.serial)(i64(0), tasks) as task:
            rest, self.part = emit.divide(task, splits)
            shared, tile = emit.divide(rest, tiles)
            self.shared = emit.bound(self.space.spread(shared, self.plan.shared))
            self.first_row = I.Bind(tile * self.tile_m)
            self.live: Index = self.tile_m
            if (known(self.rows) or 1) % self.tile_m:
                self.live = I.Bind(emit.smaller(self.tile_m, i64(self.rows) - self.first_row))
            self.emit_task()

    def emit_task(self) -> None:
        """The rows of one task."""
        self.scores = emit.scratch([self.tile_m, self.tile_k], self.dtype)
        self.maximum, self.rescale, self.added = (
            emit.scratch([self.tile_m], self.dtype) for _ in range(3)
        )
        self.state = {
            one.output: emit.scratch(
                [self.tile_m, self.width(one)], self.operands.state_dtype(one.output)
            )
            for one in self.plan.tiled
        }
        self.products = {
            one.output: ReductionProduct(self.operands, self.config, one)
            for one in self.plan.tiled
            if one.right is not None
        }
        with serial(self.live) as row:
            given = self.operands.const(-math.inf)
            if self.parts is None:
                given = self.operands.element("init0", self.dtype, self.row_at(row))
            I.buffer_store(self.maximum, given, [row])
        if not self.online:
            self.each_tile(lambda tile: self.each_row(self.find_maximum, tile))
        with serial(self.live) as row:
            self.start(row)
        self.each_tile(self.tile)
        with serial(self.live) as row:
            self.finish(row)

    def width(self, one: Accumulation) -> Index:
        """The columns in scratch: whole vectors, of which the surplus is never stored."""
        return emit.ceil_div(self.space.count(one.columns), self.lanes) * self.lanes

    def row_at(self, row: Index) -> At:
        """The dims of a row of the task."""
        return {**self.shared, **self.space.spread(self.first_row + row, self.row_dims)}

    def each_tile(self, body: Callable[[KeyTile], None]) -> None:
        """``body(tile)`` for each tile of keys, in order."""
        outer_dims = self.plan.keys[:-1]
        begin, end = self.key_range()
        with serial(self.space.count(outer_dims)) as point:
            outer = emit.bound(self.space.spread(point, outer_dims))
            with serial(emit.ceil_div(i64(end) - begin, self.tile_k)) as number:
                first = I.Bind(begin + number * self.tile_k)
                keys: Index = self.tile_k
                if known(begin) != 0 or (known(end) or 1) % self.tile_k:
                    keys = I.Bind(emit.smaller(self.tile_k, i64(end) - first))
                body(KeyTile({**self.shared, **outer}, self.key, first, keys))

    def key_range(self) -> tuple[Index, Index]:
        """The keys of the task along the last dim: all, or a part of them."""
        if self.parts is None:
            return 0, self.keys
        share = emit.ceil_div(emit.ceil_div(self.keys, self.config.splits), self.wide) * self.wide
        first = emit.smaller(self.part * share, self.keys)
        begin = I.Bind(i64(first))
        return begin, I.Bind(i64(emit.smaller(begin + share, self.keys)))

    def each_row(self, body: RowBody, tile: KeyTile) -> None:
        """``body(row, tile)`` for the rows of the task; the tile then has the dims of the row."""
        with serial(self.live) as row:
            body(row, tile.with_dims(emit.bound(self.row_at(row))))

    def load_scores(
        self, row: Expr, tile: KeyTile, each: Callable[[Expr, Expr], None] | None = None
    ) -> None:
        """Bring the scores of a tile into scratch, -inf past the last; ``each(score, lane)``."""

        def piece(place: Index, lanes: int) -> None:
            with lane_loop(lanes) as lane:
                score = self.operands.element("input0", self.dtype, tile.at(place + lane))
                I.buffer_store(self.scores, score, [row, place + lane])
                if each is not None:
                    each(score, lane)

        along(tile.keys, self.wide, piece)
        if (known(tile.keys) or 1) % self.wide:
            end = emit.ceil_div(tile.keys, self.wide) * self.wide
            with serial(end, tile.keys) as key:
                I.buffer_store(self.scores, self.operands.const(-math.inf), [row, key])

    def raise_maximum(
        self,
        row: Expr,
        tile: KeyTile,
        larger: Callable[[Expr, Expr], Expr],
    ) -> None:
        """Load the scores of a tile, and raise the row's maximum to theirs."""
        largest = emit.registers(self.wide, self.dtype)
        with emit.vector_loop(self.wide) as lane:
            I.buffer_store(largest, self.maximum[row], [lane])

        def each(score: Expr, lane: Expr) -> None:
            I.buffer_store(largest, larger(largest[lane], score), [lane])

        self.load_scores(row, tile, each)
        _into_first(largest, self.wide, larger)
        I.buffer_store(self.maximum, largest[0], [row])

    def find_maximum(self, row: Expr, tile: KeyTile) -> None:
        """The maximum of a tile's scores and those before, where all are to be known first."""
        self.raise_maximum(row, tile, emit.larger_or_nan)

    def shift(self, row: Expr) -> Expr:
        """Subtrahend of scores: while there are none above -inf, any number will do."""
        maximum, lowest = self.maximum[row], self.operands.lowest
        return tirx.Select(maximum < lowest, lowest, maximum) if self.online else maximum

    def start(self, row: Expr) -> None:
        """The outputs as they come, times the norm of what they are rescaled from; a part's are 0.

        For the online algorithm that is the norm of an infinite maximum, or 1; the rest follows
        tile by tile.
        """
        operands = self.operands
        if self.parts is not None:
            self.each_column(
                lambda one, place: I.buffer_store(
                    self.state[one.output],
                    tirx.const(0, operands.state_dtype(one.output)),
                    [row, place],
                )
            )
            return
        at = emit.bound(self.row_at(row))
        given = I.Bind(operands.element("init0", self.dtype, at))
        norm = operands.power(given - self.maximum[row])
        if self.online:
            zero, one, nan = map(operands.const, (0.0, 1.0, math.nan))
            finite = tirx.Select(given == operands.const(math.inf), nan, one)
            norm = tirx.Select(given == operands.const(-math.inf), zero, finite)
        norm = I.Bind(norm)

        def store(one: Accumulation, place: Expr) -> None:
            value = operands.init(one, {**at, **self.space.spread(place, one.columns)})
            if operands.is_rescaled(one):
                value = value * norm
            I.buffer_store(self.state[one.output], value, [row, place])

        self.each_column(store)

    def each_column(self, body: Callable[[Accumulation, Expr], None]) -> None:
        """``body(output, column)`` for all columns of all outputs, as vector code."""
        for one in self.plan.tiled:

            def piece(place: Index, lanes: int, one: Accumulation = one) -> None:
                with lane_loop(lanes) as lane:
                    body(one, place + lane)

            along(self.space.count(one.columns), self.lanes, piece)

    def tile(self, tile: KeyTile) -> None:
        """One tile of keys, for all rows of the task and all outputs."""
        self.each_row(self.weigh, tile)
        for one in self.plan.tiled:
            if one.output in self.products:
                self.multiply(one, tile)
            elif not one.columns and one.addend is not None:
                self.each_row(self.sum_of(one, one.addend), tile)
            else:
                self.each_row(self.fold_of(one), tile)

    def weigh(self, row: Expr, tile: KeyTile) -> None:
        """The weights of a tile in place of its scores, and how they rescale the outputs."""
        operands = self.operands
        before = I.Bind(self.shift(row))
        if self.online:
            self.raise_maximum(row, tile, emit.larger_float)
        else:
            self.load_scores(row, tile)
        after = I.Bind(self.shift(row))
        if self.online:
            # Not the power of a difference where there is none: that of two infinities is NaN.
            change = tirx.Select(
                before == after, operands.const(1.0), operands.power(before - after)
            )
            I.buffer_store(self.rescale, change, [row])
        sums = emit.registers(self.wide, self.dtype)
        with emit.vector_loop(self.wide) as lane:
            I.buffer_store(sums, operands.const(0.0), [lane])
        blocks = emit.ceil_div(tile.keys, self.wide)
        with serial(blocks) as block, emit.vector_loop(self.wide) as lane:
            place = [row, block * self.wide + lane]
            weight = operands.power(self.scores[tuple(place)] - after)
            I.buffer_store(self.scores, weight, place)
            I.buffer_store(sums, sums[lane] + self.scores[tuple(place)], [lane])
        _into_first(sums, self.wide, lambda a, b: a + b)
        I.buffer_store(self.added, sums[0], [row])
        if self.online:
            # Comparisons pass over a score of NaN, and the weights do not.
            with I.If(tirx.isnan(self.added[row])), I.Then(), serial(tile.keys) as key:
                score = operands.element("input0", self.dtype, tile.at(key))
                I.buffer_store(self.maximum, emit.larger_or_nan(self.maximum[row], score), [row])

    def rescaled(self, one: Accumulation, row: Expr, value: Expr) -> Expr:
        """An output's element, relative to the maximum of this tile."""
        if self.online and self.operands.is_rescaled(one):
            return value * self.rescale[row]
        return value

    def sum_of(self, one: Accumulation, addend: Region) -> RowBody:
        """Adds a sum over the keys of a tile, each lane by itself."""
        operands, state = self.operands, self.state[one.output]
        dtype = operands.state_dtype(one.output)

        def weights(row: Expr, _: KeyTile) -> None:
            carried = self.rescaled(one, row, state[row, i64(0)])
            I.buffer_store(state, carried + self.added[row], [row, i64(0)])

        def body(row: Expr, tile: KeyTile) -> None:
            sums = emit.registers(self.wide, dtype)
            with emit.vector_loop(self.wide) as lane:
                I.buffer_store(sums, tirx.const(0, dtype), [lane])

            def piece(place: Index, lanes: int) -> None:
                with lane_loop(lanes) as lane:
                    weight = self.scores[row, place + lane]
                    added = operands.call(addend, tile.at(place + lane), weight)
                    I.buffer_store(sums, sums[lane] + added, [lane])

            along(tile.keys, self.wide, piece)
            _into_first(sums, self.wide, lambda a, b: a + b)
            carried = self.rescaled(one, row, state[row, i64(0)])
            I.buffer_store(state, carried + sums[0], [row, i64(0)])

        return weights if addend.body.same_as(addend.parameters[0]) else body

    def fold_of(self, one: Accumulation) -> RowBody:
        """Takes any region through the keys of a tile, with columns in the lanes."""
        operands, state = self.operands, self.state[one.output]

        def body(row: Expr, tile: KeyTile) -> None:
            def piece(place: Index, lanes: int) -> None:
                held = emit.registers(lanes, operands.state_dtype(one.output))
                with lane_loop(lanes) as lane:
                    carried = self.rescaled(one, row, state[row, place + lane])
                    I.buffer_store(held, carried, [lane])
                with serial(tile.keys) as key, lane_loop(lanes) as lane:
                    at = {**tile.at(key), **self.space.spread(place + lane, one.columns)}
                    own = (one.output, held[lane])
                    value = operands.call(one.region, at, self.scores[row, key], own)
                    I.buffer_store(held, value, [lane])
                with lane_loop(lanes) as lane:
                    I.buffer_store(state, held[lane], [row, place + lane])

            along(self.space.count(one.columns), self.lanes, piece)

        return body

    def multiply(self, one: Accumulation, tile: KeyTile) -> None:
        """Adds a product: its left side row by row, its right side, and their multiplication."""
        product, state = self.products[one.output], self.state[one.output]
        self.each_row(lambda row, here: product.load_left(row, here, self.scores), tile)
        product.load_right(tile)

        def store(row: Expr, place: Expr, value: Expr) -> None:
            carried = state[row, place]
            if self.online and self.operands.is_rescaled(one):
                carried = carried * emit.splat(self.rescale[row], self.lanes)
            I.buffer_store(state, carried + value, [row, place])

        product.multiply(self.live, tile, self.scores, store)

    def finish(self, row: Expr) -> None:
        """Write the results of a row."""
        operands = self.operands
        at = emit.bound(self.row_at(row))
        maximum = I.Bind(self.maximum[row])
        parts = self.parts
        if parts is not None:
            I.buffer_store(parts.maximum, maximum, parts.row(self.part, at))
            self.each_column(
                lambda one, place: I.buffer_store(
                    parts.sums[one.output],
                    self.state[one.output][row, place],
                    parts.element(one, self.part, {**at, **self.space.spread(place, one.columns)}),
                )
            )
            return
        operands.views["result0"].store(at, maximum)
        self.maxima.store(at, maximum)
        nan = operands.const(math.nan)
        lost = tirx.Or(maximum == operands.const(-math.inf), tirx.isnan(maximum))

        def store(one: Accumulation, place: Expr) -> None:
            value = self.state[one.output][row, place]
            if self.online and operands.is_rescaled(one):
                value = tirx.Select(lost, nan, value)
            here = {**at, **self.space.spread(place, one.columns)}
            operands.views[f"result{one.output}"].store(here, value)

        self.each_column(store)


def _into_first(lanes: Any, count: int, combine: Callable[[Expr, Expr], Expr]) -> None:
    """Combine the lanes of registers into the first: halves with halves."""
    while count > 1:
        count //= 2
        with lane_loop(count) as lane:
            I.buffer_store(lanes, combine(lanes[lane], lanes[lane + count]), [lane])
