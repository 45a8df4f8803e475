"""Attention with query rows in the lanes of a vector: the form for many rows.

A task owns ``m`` rows of one batch point and walks over the keys in tiles of ``k2``, carrying the
running maximum, sum and output of the online softmax, so scratch grows with the tile only.  All
tiles are held transposed, rows last: scores[k2, m], output[n, m].  Then

    scores = key    [k2, k1] * query^T [k1, m]      (scalars of key,   vectors of rows)
    output = value^T[n, k2]  * scores  [k2, m]      (scalars of value, vectors of rows)

are the same register-tiled product with key and value read in place, and maximum, sum and
rescaling are lane by lane, with no reduction across a vector.  Only query, output and a mask are
transposed, once per task (the mask: once per tile), in registers.

Rows past the end repeat the last row: they compute and store the same values, so no store is
predicated.  Keys past the end are not visited.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.attention import Attention
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import At, Expr, Index, Space, View, i64, known, serial

_LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class ScoreScaling:
    """Where log2(e) enters, so that every exponential is an exp2.

    ``query`` multiplies the query once, ``mask`` a float mask, ``exponent`` the difference to
    the maximum.  With neither region nor float mask the scores can be in base 2 from the start.
    """

    query: float
    mask: float
    exponent: float

    @staticmethod
    def of(op: Attention) -> "ScoreScaling":
        """The factors for an op."""
        if op.score_domain == "log2":
            return ScoreScaling(_LOG2E, _LOG2E, 1.0)
        float_mask = "mask" in op.types and op.types["mask"].dtype.startswith(("float", "bfloat"))
        if op.region is None and not float_mask and not op.online:
            return ScoreScaling(_LOG2E, 1.0, 1.0)
        return ScoreScaling(1.0, 1.0, _LOG2E)


@dataclass(frozen=True)
class AttentionOperands:
    """The PrimFunc's parameters while it is built."""

    op: Attention
    space: Space
    views: Mapping[str, View]
    scale: Expr

    @staticmethod
    def declare(op: Attention) -> "AttentionOperands":
        """Add the parameters of ``op`` to the PrimFunc under construction."""
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        space = Space.of(op.extents, symbols)
        views: dict[str, View] = {}
        scale: Expr = tirx.const(op.scale or 0.0, op.compute_dtype)
        for operand in op.signature.operands:
            if operand.role == "scalar":
                scale = emit.cast(
                    I.arg("scale", tirx.Var("scale", operand.dtype)), op.compute_dtype
                )
                continue
            shape = [i64(symbols[e] if isinstance(e, str) else e) for e in operand.shape]
            # Item-size alignment: any NumPy array will do, at no cost in vector moves.
            align = item_bytes(operand.dtype)
            name = f"{operand.name}_out" if operand.role == "result" else operand.name
            buffer = I.arg(name, I.buffer(shape, operand.dtype, align=align))
            views[operand.name] = View(
                buffer, op.maps[operand.name.removesuffix("_init")], space
            )
        return AttentionOperands(op, space, views, scale)


def lanes_kernel(op: Attention, config: LoweringConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form, for a config of :func:`..attention.heuristic`."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        _Lanes(AttentionOperands.declare(op), config).emit()
    return builder.get()


class _Lanes:
    """The kernel under construction."""

    def __init__(self, operands: AttentionOperands, config: LoweringConfig) -> None:
        self.op = op = operands.op
        self.space = space = operands.space
        self.views = operands.views
        self.scale = operands.scale
        self.scaling = ScoreScaling.of(op)
        self.config = config
        self.dtype = op.compute_dtype
        self.lanes = config.vector_lanes
        self.tile_m = config.workgroup_tile["m"]
        self.tile_k2 = config.reduction_tile["k2"]
        self.groups = self.tile_m // self.lanes
        # With a band, the rows of a task must have consecutive positions: one m dim only.
        split = len(op.dims["m"]) - 1 if op.band is not None else 0
        self.row_dims = op.dims["m"][split:]
        self.outer_dims = op.dims["b"] + op.dims["m"][:split]
        self.rows = space.count(self.row_dims)
        self.keys = space.count(op.dims["k2"])
        self.k1 = known(space.count(op.dims["k1"])) or 0
        self.n = known(space.count(op.dims["n"])) or 0

    def const(self, value: float) -> Expr:
        return tirx.const(value, self.dtype)

    def emit(self) -> None:
        tiles = emit.ceil_div(self.rows, self.tile_m)
        tasks = i64(emit.product([self.space.count(self.outer_dims), tiles]))
        loop = I.parallel if self.config.parallel else I.serial
        with I.sblock("root"), loop(i64(0), tasks) as task:
            outer = tirx.floordiv(task, i64(tiles))
            tile = tirx.floormod(task, i64(tiles))
            if self.op.band is not None:
                # Low and high tiles in turn: every run of tasks then has the same work.
                half = tirx.floordiv(tile, i64(2))
                tile = tirx.Select(tirx.floormod(tile, i64(2)) == 0, half, i64(tiles) - 1 - half)
            self.emit_task(self.space.spread(outer, self.outer_dims), I.Bind(tile * self.tile_m))

    # One task: rows first_row .. first_row + tile_m - 1 of one batch point.

    def emit_task(self, outer: At, first_row: Expr) -> None:
        self.outer = {dim: I.Bind(i64(value)) for dim, value in outer.items()}
        self.first_row = first_row
        m = self.tile_m
        self.query = emit.scratch([self.k1, m], self.dtype)
        self.scores = emit.scratch([self.tile_k2, m], self.dtype)
        self.output = emit.scratch([self.n, m], self.dtype)
        self.maximum = emit.scratch([m], self.dtype)
        self.total = emit.scratch([m], self.dtype)
        self.rescale = emit.scratch([m], self.dtype)
        if "key" in self.config.promote:
            self.key = emit.scratch([self.tile_k2, self.k1], self.dtype)
        if "value" in self.config.promote:
            self.value = emit.scratch([self.tile_k2, self.n], self.dtype)
        if self.mask_by_row:
            self.mask = emit.scratch([self.tile_k2, m], self.dtype)

        self.load_query()
        self.start_state()
        begin, end = self.key_range()
        tiles = emit.ceil_div(end - begin if known(begin) != 0 else end, self.tile_k2)
        with serial(tiles) as tile:
            first_key = I.Bind(begin + tile * self.tile_k2)
            keys = self.tile_k2
            if (known(end) or 1) % self.tile_k2:
                keys = I.Bind(emit.smaller(self.tile_k2, i64(end) - first_key))
            self.promote("key", first_key, keys)
            self.load_mask(first_key, keys)
            self.multiply_query_key(first_key, keys)
            self.softmax(first_key, keys)
            self.promote("value", first_key, keys)
            self.multiply_scores_value(first_key, keys)
        self.finish()

    def row_at(self, lane: Index) -> At:
        """The batch point and the row at a lane of the task; past the end, the last row."""
        row = self.first_row + lane
        if (known(self.rows) or 1) % self.tile_m:
            row = emit.smaller(row, i64(self.rows) - 1)
        return {**self.outer, **self.space.spread(row, self.row_dims)}

    def lane_rows(self, group: Index) -> list[At]:
        return [self.row_at(group * self.lanes + lane) for lane in range(self.lanes)]

    def key_at(self, key: Index) -> At:
        return self.space.spread(key, self.op.dims["k2"])

    def key_range(self) -> tuple[Index, Index]:
        """The first key of the first tile, and the end of the last, for the rows of the task."""
        band = self.op.band
        if band is None:
            return 0, self.keys
        begin: Index = 0
        end = self.keys
        first = self.first_row + self.offset
        if band.right is not None:
            last = emit.smaller(self.first_row + (self.tile_m - 1), i64(self.rows) - 1)
            end = I.Bind(emit.smaller(end, emit.larger(last + self.offset + (band.right + 1), 0)))
        if band.left is not None:
            begin = I.Bind(emit.larger(first - band.left, 0))
        return begin, end

    @property
    def offset(self) -> Index:
        """The key position of row 0."""
        assert self.op.band is not None
        return i64(self.keys) - i64(self.rows) if self.op.band.align_end else i64(0)

    @property
    def mask_by_row(self) -> bool:
        """Whether the mask differs between rows, and so is needed transposed."""
        return "mask" in self.views and bool(
            set(self.row_dims) & set(self.op.maps["mask"].dims)
        )

    def mask_value(self, loaded: Expr) -> Expr:
        """What the mask adds to a score."""
        if self.views["mask"].dtype.startswith(("float", "bfloat")):
            value = emit.cast(loaded, self.dtype)
            if self.scaling.mask == 1.0:
                return value
            lanes = int(str(value.ty.dtype).partition("x")[2] or 1)
            return value * emit.splat(self.const(self.scaling.mask), lanes)
        came, _, text = str(loaded.ty.dtype).partition("x")
        lanes = int(text or 1)
        bit = loaded & emit.splat(tirx.const(1, came), lanes)
        return tirx.Select(
            bit != emit.splat(tirx.const(0, came), lanes),
            emit.splat(self.const(0.0), lanes),
            emit.splat(self.const(-math.inf), lanes),
        )

    def load_query(self) -> None:
        factor = I.Bind(self.scale * self.const(self.scaling.query))

        def convert(value: Expr) -> Expr:
            lanes = int(str(value.ty.dtype).partition("x")[2] or 1)
            return emit.cast(value, self.dtype) * emit.splat(factor, lanes)

        dims = self.op.dims["k1"]
        view = self.views["query"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.query,
                view,
                self.lane_rows(group),
                lambda c: self.space.spread(c, dims),
                self.k1,
                view.along(dims),
                lane_base=group * self.lanes,
                convert=convert,
            )

    def load_mask(self, first_key: Expr, keys: Index) -> None:
        if not self.mask_by_row:
            return
        dims = self.op.dims["k2"]
        view = self.views["mask"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.mask,
                view,
                self.lane_rows(group),
                lambda c: self.space.spread(first_key + c, dims),
                keys,
                keys if known(view.along(dims)) != 0 else 0,
                lane_base=group * self.lanes,
                convert=self.mask_value,
            )

    def start_state(self) -> None:
        lowest = float(tirx.min_value(self.dtype).value)
        if not self.op.online:
            self.per_lane(lambda lane: I.buffer_store(self.maximum, self.const(lowest), [lane]))
            self.per_lane(lambda lane: I.buffer_store(self.total, self.const(0.0), [lane]))
            with serial(self.n) as column:
                self.per_lane(
                    lambda lane: I.buffer_store(self.output, self.const(0.0), [column, lane])
                )
            return
        with serial(self.tile_m) as lane:
            row = self.row_at(lane)
            # The scores of masked keys are -inf: from -inf the difference would be NaN.
            maximum = self.views["max_init"].load(row, self.dtype)
            I.buffer_store(self.maximum, tirx.max(self.const(lowest), maximum), [lane])
            I.buffer_store(self.total, self.views["sum_init"].load(row, self.dtype), [lane])
        # A maximum of -inf counts as the lowest number below, but its sum then counts nothing.
        dims = self.op.dims["n"]
        view = self.views["output_init"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.output,
                view,
                self.lane_rows(group),
                lambda c: self.space.spread(c, dims),
                self.n,
                view.along(dims),
                lane_base=group * self.lanes,
                convert=lambda value: emit.cast(value, self.dtype),
            )

    def per_lane(self, body: Any, groups: Index | None = None) -> None:
        """``body(lane)`` for all rows of the task, as vector code."""
        with serial(self.groups) as group, emit.vector_loop(self.lanes) as lane:
            body(group * self.lanes + lane)

    def promote(self, name: str, first_key: Expr, keys: Index) -> None:
        """Copy a tile of key or value to scratch, converted, columns contiguous."""
        if name not in self.config.promote:
            return
        view = self.views[name]
        target = self.key if name == "key" else self.value
        dims = self.op.dims["k1" if name == "key" else "n"]
        columns = self.k1 if name == "key" else self.n
        contiguous = known(view.along(dims)) or 0
        blocks = contiguous // self.lanes
        with serial(keys) as key:
            at = {**self.outer, **self.key_at(first_key + key)}
            with serial(blocks) as block:
                here = {**at, **self.space.spread(block * self.lanes, dims)}
                value = view.load(here, self.dtype, self.lanes)
                I.buffer_store(target, value, [key, emit.run(block * self.lanes, self.lanes)])
            with serial(columns, blocks * self.lanes) as column:
                here = {**at, **self.space.spread(column, dims)}
                I.buffer_store(target, view.load(here, self.dtype), [key, column])

    def multiply_query_key(self, first_key: Expr, keys: Index) -> None:
        rows, vectors = self.config.register_tile["k2"], self.config.register_tile["m"]
        width = vectors * self.lanes
        last = i64(self.keys) - 1

        with serial(self.tile_m // width) as part, serial(emit.ceil_div(keys, rows)) as block:

            def column(k: Expr, j: int) -> Expr:
                return self.query[k, emit.run(part * width + j * self.lanes, self.lanes)]

            def scalar(i: int, k: Expr) -> Expr:
                if "key" in self.config.promote:
                    return self.key[block * rows + i, k]
                key = emit.smaller(first_key + (block * rows + i), last)
                at = {**self.outer, **self.key_at(key), **self.space.spread(k, self.op.dims["k1"])}
                return self.views["key"].load(at, self.dtype)

            def finish(i: int, j: int, value: Expr) -> None:
                place = emit.run(part * width + j * self.lanes, self.lanes)
                I.buffer_store(self.scores, value, [block * rows + i, place])

            emit.multiply_tile(
                rows=rows,
                vectors=vectors,
                lanes=self.lanes,
                depth=self.k1,
                dtype=self.dtype,
                x=column,
                y=scalar,
                start=lambda i, j: emit.splat(self.const(0.0), self.lanes),
                finish=finish,
            )

    def softmax(self, first_key: Expr, keys: Index) -> None:
        """Finish the scores of a tile, and turn them into weights relative to the new maximum."""
        exponent = self.const(self.scaling.exponent)
        with serial(self.groups) as group:
            new = emit.registers(self.lanes, self.dtype)
            sums = emit.registers(self.lanes, self.dtype)
            base = group * self.lanes
            with emit.vector_loop(self.lanes) as lane:
                I.buffer_store(new, self.maximum[base + lane], [lane])
            with serial(keys) as key:
                with emit.vector_loop(self.lanes) as lane:
                    score = self.scores[key, base + lane]
                    finished = self.finished_score(score, first_key + key, key, base + lane)
                    if not finished.same_as(score):
                        I.buffer_store(self.scores, finished, [key, base + lane])
                with emit.vector_loop(self.lanes) as lane:
                    score = self.scores[key, base + lane]
                    I.buffer_store(new, tirx.max(new[lane], score), [lane])
            with emit.vector_loop(self.lanes) as lane:
                difference = self.maximum[base + lane] - new[lane]
                shrink = I.Bind(tirx.exp2(difference * exponent))
                I.buffer_store(self.rescale, shrink, [base + lane])
                I.buffer_store(sums, self.total[base + lane] * shrink, [lane])
                I.buffer_store(self.maximum, new[lane], [base + lane])
            with serial(keys) as key, emit.vector_loop(self.lanes) as lane:
                difference = self.scores[key, base + lane] - new[lane]
                weight = I.Bind(tirx.exp2(difference * exponent))
                I.buffer_store(self.scores, weight, [key, base + lane])
                I.buffer_store(sums, sums[lane] + weight, [lane])
            with emit.vector_loop(self.lanes) as lane:
                I.buffer_store(self.total, sums[lane], [base + lane])

    def finished_score(self, score: Expr, key: Expr, tile_key: Expr, lane: Expr) -> Expr:
        """Region, mask and band applied to one score."""
        if self.op.region is not None:
            score = self.op.region(score)
        if self.mask_by_row:
            score = score + self.mask[tile_key, lane]
        elif "mask" in self.views:
            at = {**self.outer, **self.key_at(key)}
            score = score + self.mask_value(self.views["mask"].load(at, self.views["mask"].loaded))
        band = self.op.band
        if band is not None:
            position = self.first_row + lane + self.offset
            low, high = tirx.const(True), tirx.const(True)
            if band.right is not None:
                high = key <= position + band.right
            if band.left is not None:
                low = key >= position - band.left
            inside = tirx.And(low, high) if band.left is not None else high
            inside = low if band.right is None else inside
            score = tirx.Select(inside, score, self.const(-math.inf))
        return score

    def multiply_scores_value(self, first_key: Expr, keys: Index) -> None:
        rows, vectors = self.config.register_tile["n"], self.config.register_tile["m"]
        width = vectors * self.lanes

        def tile(part: Index, first: Index, count: int) -> None:
            def place(j: int) -> Expr:
                return emit.run(part * width + j * self.lanes, self.lanes)

            def scalar(i: int, k: Expr) -> Expr:
                if "value" in self.config.promote:
                    return self.value[k, first + i]
                at = {
                    **self.outer,
                    **self.key_at(first_key + k),
                    **self.space.spread(first + i, self.op.dims["n"]),
                }
                return self.views["value"].load(at, self.dtype)

            emit.multiply_tile(
                rows=count,
                vectors=vectors,
                lanes=self.lanes,
                depth=keys,
                dtype=self.dtype,
                x=lambda k, j: self.scores[k, place(j)],
                y=scalar,
                start=lambda i, j: self.output[i64(first + i), place(j)] * self.rescale[place(j)],
                finish=lambda i, j, value: I.buffer_store(
                    self.output, value, [i64(first + i), place(j)]
                ),
            )

        with serial(self.tile_m // width) as part:
            with serial(self.n // rows) as block:
                tile(part, block * rows, rows)
            if self.n % rows:
                tile(part, self.n // rows * rows, self.n % rows)

    def finish(self) -> None:
        """Write the results: normalised, or, for online attention, the state."""
        lowest = tirx.min_value(self.dtype)
        if self.op.online:
            with serial(self.tile_m) as lane:
                self.store_state(lane, lowest)
        else:
            self.per_lane(
                lambda lane: I.buffer_store(
                    self.rescale, self.const(1.0) / self.total[lane], [lane]
                )
            )
        dims = self.op.dims["n"]
        view = self.views["output"]
        with serial(self.groups) as group:
            base = group * self.lanes
            emit.store_transposed(
                view,
                self.lane_rows(group),
                lambda c: self.space.spread(c, dims),
                self.n,
                known(view.along(dims)) or 0,
                vector=lambda c: self.output[c, emit.run(base, self.lanes)]
                * self.rescale[emit.run(base, self.lanes)],
                element=lambda c, lane: self.output[c, base + lane] * self.rescale[base + lane],
            )

    def store_state(self, lane: Expr, lowest: Expr) -> None:
        """Write max and sum of a row; ``rescale`` becomes the factor of its output.

        The dialect's formula gives NaN for a row that starts at -inf and sees only -inf.
        """
        row = self.row_at(lane)
        started = self.views["max_init"].load(row, self.dtype)
        empty = tirx.And(
            tirx.And(started == self.const(-math.inf), self.maximum[lane] == lowest),
            self.total[lane] == self.const(0.0),
        )
        nan = self.const(math.nan)
        maximum = tirx.Select(empty, self.const(-math.inf), self.maximum[lane])
        self.views["max"].store(row, maximum)
        self.views["sum"].store(row, tirx.Select(empty, nan, self.total[lane]))
        I.buffer_store(self.rescale, tirx.Select(empty, nan, self.const(1.0)), [lane])
