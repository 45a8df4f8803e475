"""Outputs of exp_reduction that are products: rows x keys times keys x columns, register-tiled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_config import ExpReductionConfig
from tvm_iree_ext.schedules.cpu.products.register_product import multiply_tile
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands, along, lane_loop
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation


@dataclass(frozen=True)
class KeyTile:
    """The keys ``first .. first + keys - 1`` along a dim, at a point of others."""

    dims: At
    key: int
    first: Expr
    keys: Index

    def at(self, place: Index) -> At:
        """The dims of a key of the tile."""
        return {**self.dims, self.key: self.first + place}

    def with_dims(self, dims: At) -> "KeyTile":
        """The same keys at a point of more dims."""
        return replace(self, dims={**self.dims, **dims})


class ReductionProduct:
    """``left[m, k] * right[k, n]``: its scratch in a task, and its loops over a tile of keys.

    The left side is the weights, or made of them row by row; the right side is read in place, or
    brought into scratch, as vectors of columns in the type of the weights.
    """

    def __init__(
        self, operands: ReductionOperands, config: ExpReductionConfig, one: Accumulation
    ) -> None:
        assert one.left is not None
        assert one.right is not None
        self.operands, self.space = operands, operands.space
        self.left, self.right, self.columns = one.left, one.right, one.columns
        self.dtype = operands.op.compute_dtype
        self.config, self.lanes = config, config.lanes
        self.tile_m = config.rows
        self.count = self.space.count(one.columns)
        self.vectors = emit.ceil_div(self.count, self.lanes)
        tile_k = config.keys
        self.source = operands.plan.right_in_vectors(one, self.lanes)
        self.lefts: Any = None
        self.rights: Any = None
        if not self.left.body.same_as(self.left.parameters[0]):
            self.lefts = emit.scratch([self.tile_m, tile_k], self.dtype)
        if self.source is None:
            self.rights = emit.scratch([tile_k, self.vectors * self.lanes], self.dtype)

    def load_left(self, row: Expr, tile: KeyTile, weights: Any) -> None:
        """The left side of a row, where it is not the weights."""
        if self.lefts is None:
            return

        def piece(place: Index, lanes: int) -> None:
            with lane_loop(lanes) as lane:
                weight = weights[row, place + lane]
                value = self.operands.call(self.left, tile.at(place + lane), weight)
                I.buffer_store(self.lefts, emit.cast(value, self.dtype), [row, place + lane])

        along(tile.keys, self.lanes, piece)

    def load_right(self, tile: KeyTile) -> None:
        """The right side of a tile, where it is not read in place; past its columns zero."""
        if self.rights is None:
            return
        with serial(tile.keys) as key:

            def piece(place: Index, lanes: int) -> None:
                with lane_loop(lanes) as lane:
                    at = {**tile.at(key), **self.space.spread(place + lane, self.columns)}
                    value = emit.cast(self.operands.call(self.right, at), self.dtype)
                    I.buffer_store(self.rights, value, [key, place + lane])

            along(self.count, self.lanes, piece)
            with serial(self.vectors * self.lanes, self.count) as column:
                I.buffer_store(self.rights, self.operands.const(0.0), [key, column])

    def multiply(
        self,
        live: Index,
        tile: KeyTile,
        weights: Any,
        store: Callable[[Expr, Expr, Expr], None],
    ) -> None:
        """``store(row, columns, value)`` for each vector of the product of ``live`` rows."""
        most = self.config.vectors
        exact = known(self.vectors)
        vectors = most if exact is None else min(most, exact)
        blocks = tirx.floordiv(i64(self.vectors), i64(vectors)) if exact is None else exact // most

        def columns_of(first_vector: Index, count: int) -> None:
            rows = min(self.config.rows_at_once, self.tile_m)
            number = known(live)
            whole = tirx.floordiv(i64(live), i64(rows)) if number is None else number // rows
            with serial(whole) as block:
                self.tile(tile, block * rows, rows, first_vector, count, weights, store)
            if number is None or number % rows:
                with serial(live, whole * rows) as row:
                    self.tile(tile, row, 1, first_vector, count, weights, store)

        with serial(blocks) as block:
            columns_of(block * vectors, vectors)
        if exact is None:
            with serial(self.vectors, blocks * vectors) as vector:
                columns_of(vector, 1)
        elif exact % most:
            columns_of(exact // most * most, exact % most)

    def tile(
        self,
        tile: KeyTile,
        first_row: Index,
        rows: int,
        first_vector: Index,
        vectors: int,
        weights: Any,
        store: Callable[[Expr, Expr, Expr], None],
    ) -> None:
        """One register tile."""
        left = weights if self.lefts is None else self.lefts

        def place(j: int) -> Expr:
            return emit.run((first_vector + j) * self.lanes, self.lanes)

        def column(k: Expr, j: int) -> Expr:
            if self.rights is not None:
                return self.rights[k, place(j)]
            at = {**tile.at(k), **self.space.spread((first_vector + j) * self.lanes, self.columns)}
            return self.operands.views[f"input{self.source}"].load(at, self.dtype, self.lanes)

        multiply_tile(
            rows=rows,
            vectors=vectors,
            lanes=self.lanes,
            depth=tile.keys,
            dtype=self.dtype,
            x=column,
            y=lambda i, k: left[first_row + i, k],
            start=lambda i, j: emit.splat(self.operands.const(0.0), self.lanes),
            finish=lambda i, j, value: store(i64(first_row + i), place(j), value),
        )
