"""Attention with query rows in the lanes of a vector: the form for many rows.

A task owns ``m`` rows of one batch point and walks over the keys in tiles of ``k2``, carrying the
running maximum, sum and output of the online softmax, so scratch grows with the tile only.  All
tiles are held transposed, rows last: scores[k2, m], output[n, m].  Then

    scores = key    [k2, k1] * query^T [k1, m]      (scalars of key,   vectors of rows)
    output = value^T[n, k2]  * scores  [k2, m]      (scalars of value, vectors of rows)

are the same register-tiled product with key and value read in place, and maximum, sum and
rescaling are lane by lane, with no reduction across a vector.  Only query, output and a mask are
transposed, once per task (the mask: once per tile), in registers.  A tile of keys is finished for
a part of the rows, those of a register tile, before the next: scores stay in the first cache.
Of query and output a vector of rows has all of its lines together: query[m / lanes * k1, lanes].

Rows past the end repeat the last row: they compute and store the same values, so no store is
predicated.  Keys past the end are not visited.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.attention.attention_config import AttentionConfig
from tvm_iree_ext.schedules.cpu.attention.attention_mask import load_mask
from tvm_iree_ext.schedules.cpu.attention.attention_prefetch import Ahead
from tvm_iree_ext.schedules.cpu.products.register_product import MultiplyAdd, multiply_tile
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, known, serial
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands


def lanes_kernel(op: Attention, config: AttentionConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form: whole register tiles of rows and keys."""
    with IRBuilder() as builder, I.prim_func():
        LanesForm(AttentionOperands.declare(op), config).emit()
    return builder.get()


# Maxima of a vector of rows that are taken beside each other: one alone would wait for itself.
_CHAINS = 4


class LanesForm:
    """The kernel under construction; how products read their factors is what others may change."""

    def __init__(self, operands: AttentionOperands, config: AttentionConfig) -> None:
        op, space = operands.op, operands.space
        self.operands = operands
        self.op, self.space, self.views = op, space, operands.views
        self.config = config
        self.add: MultiplyAdd | None = None  # where products are not of numbers
        self.dtype = op.compute_dtype
        self.lanes = config.lanes
        self.tile_m = config.rows
        self.tile_k2 = config.keys
        self.vectors = config.vectors
        self.width = self.vectors * self.lanes
        # With a band, the rows of a task must have consecutive positions: one m dim only.
        split = len(op.dims["m"]) - 1 if op.band is not None else 0
        self.row_dims = op.dims["m"][split:]
        self.outer_dims = operands.in_tasks(op.dims["b"] + op.dims["m"][:split])
        self.rows = space.count(self.row_dims)
        self.k1, self.n = (_count(space.count(op.dims[role])) for role in ("k1", "n"))
        self.query_lines = self.k1
        self.output_lines = self.n
        self.finishes = op.region is not None or "mask" in op.maps or op.band is not None
        self.mask_by_row = "mask" in op.maps and bool(
            set(self.row_dims) & set(op.maps["mask"].dims)
        )

    def emit(self) -> None:
        """Tasks over batch points and row tiles."""
        tiles = emit.ceil_div(self.rows, self.tile_m)
        tasks = i64(emit.product([self.space.count(self.outer_dims), tiles]))
        loop = I.parallel if self.config.parallel else I.serial
        with I.sblock("root"), self.declared(), loop(i64(0), tasks) as task:
            outer, tile = emit.divide(task, tiles)
            if self.op.band is not None:
                # Low and high tiles in turn: every run of tasks then has the same work.
                half = tirx.floordiv(tile, i64(2))
                tile = tirx.Select(tirx.floormod(tile, i64(2)) == 0, half, i64(tiles) - 1 - half)
            self.emit_task(self.space.spread(outer, self.outer_dims), I.Bind(tile * self.tile_m))

    def declared(self) -> AbstractContextManager[Any]:
        """With what :attr:`add` takes."""
        return nullcontext()

    def emit_task(self, outer: At, first_row: Expr) -> None:
        """Rows first_row .. first_row + tile_m - 1 of one batch point."""
        self.outer = emit.bound(outer)
        self.keys = self.operands.key_count(self.outer)
        self.first_row = first_row
        m, width = self.tile_m, self.width
        # In the last tile, register tiles without any live row are left out.
        self.parts: Index = m // width
        if (known(self.rows) or 1) % m:
            live = emit.smaller(m, i64(self.rows) - first_row)
            self.parts = I.Bind(i64(emit.ceil_div(live, width)))
        self.scores = emit.scratch([self.tile_k2, self.width], self.dtype)
        self.output = emit.scratch([m // self.lanes * self.output_lines, self.lanes], self.dtype)
        self.maximum = emit.scratch([m], self.dtype)
        self.total = emit.scratch([m], self.dtype)
        self.rescale = emit.scratch([m], self.dtype)
        self.allocate_factors()
        self.ahead = Ahead(
            self.operands,
            self.outer,
            self.row_at,
            groups=m // self.lanes,
            width=width,
            tile_k2=self.tile_k2,
            # Where the next page lies only the table says.
            in_place=[
                name
                for name in ("key", "value")
                if name not in self.config.promote and not self.op.paged
            ],
            mask_by_row=self.mask_by_row,
        )
        self.load_query()
        self.start()
        last_row = emit.smaller(first_row + (m - 1), i64(self.rows) - 1)
        begin, end = self.operands.band_range(first_row, last_row, self.keys)
        with serial(emit.ceil_div(i64(end) - begin, self.tile_k2)) as tile:
            first_key = I.Bind(i64(begin) + tile * self.tile_k2)
            keys: Index = self.tile_k2
            if known(begin) != 0 or (known(end) or 1) % self.tile_k2:
                keys = I.Bind(emit.smaller(self.tile_k2, i64(end) - first_key))
            self.promote(first_key, keys)
            with serial(self.parts) as part:
                base, group = I.Bind(part * self.width), I.Bind(part * self.vectors)
                self.ahead.locate(first_key, part, self.parts)
                # The last tile alone may be of few keys, beside which there is little time.
                self.near_end = I.Bind(first_key + 2 * self.tile_k2 > i64(end))
                self.multiply_query_key(first_key, keys, group)
                self.softmax(first_key, keys, base)
                self.multiply_weights_value(first_key, keys, group)
        self.finish()

    def allocate_factors(self) -> None:
        """Scratch for the factors of both products."""
        self.query = emit.scratch(
            [self.tile_m // self.lanes * self.query_lines, self.lanes], self.dtype
        )
        self.weights = self.scores
        self.promoted = {
            name: emit.scratch([self.tile_k2, width], self.dtype)
            for name, width in (("key", self.k1), ("value", self.n))
            if name in self.config.promote
        }

    def promote(self, first_key: Expr, keys: Index) -> None:
        """Copy what is not read in place of a tile of keys."""
        for name, target in self.promoted.items():
            width = self.k1 if name == "key" else self.n
            self.operands.promote(name, target, width, self.outer, first_key, keys, self.lanes)

    def row_index(self, lane: Index) -> Expr:
        """The row at a lane of the task; past the end, the last row."""
        row = self.first_row + lane
        if (known(self.rows) or 1) % self.tile_m:
            row = i64(emit.smaller(row, i64(self.rows) - 1))
        return row

    def row_at(self, lane: Index) -> At:
        """The batch point and the row at a lane."""
        return {**self.outer, **self.space.spread(self.row_index(lane), self.row_dims)}

    def lane_rows(self, first: Index) -> list[At]:
        """The rows of one vector."""
        return [emit.bound(self.row_at(first + lane)) for lane in range(self.lanes)]

    def per_lane(self, body: Callable[[Expr], None]) -> None:
        """``body(lane)`` for all rows of the task, as vector code."""
        with serial(self.groups) as group, emit.vector_loop(self.lanes) as lane:
            body(group * self.lanes + lane)

    @property
    def groups(self) -> Index:
        """Vectors of rows that are in use."""
        return self.parts * self.vectors

    def load_query(self) -> None:
        """Bring the rows of query into ``query[k1, lanes]`` of each vector of them, scaled."""
        factor = I.Bind(self.operands.query_factor)

        def convert(value: Expr) -> Expr:
            lanes = int(str(value.ty.dtype).partition("x")[2] or 1)
            return emit.cast(value, self.dtype) * emit.splat(factor, lanes)

        self.transpose_query(self.views["query"], convert)

    def transpose_query(self, view: OperandView, convert: Callable[[Expr], Expr]) -> None:
        """Bring the rows of ``view``, which is of query, into lanes."""
        dims = self.op.dims["k1"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.query,
                view,
                self.lane_rows(group * self.lanes),
                lambda c: view.space.spread(c, dims),
                view.space.count(dims),
                view.along(dims),
                line_base=group * self.query_lines,
                convert=convert,
            )

    def start(self) -> None:
        """Set the running state: empty, or what online attention is given."""
        operands = self.operands
        if not self.op.online:
            lowest, zero = operands.const(operands.lowest), operands.const(0.0)
            self.per_lane(lambda lane: I.buffer_store(self.maximum, lowest, [lane]))
            self.per_lane(lambda lane: I.buffer_store(self.total, zero, [lane]))
            with serial(self.groups * self.output_lines) as line:
                zeros = operands.const(0.0, self.lanes)
                I.buffer_store(self.output, zeros, [line, emit.run(0, self.lanes)])
            return
        with serial(self.groups * self.lanes) as lane:
            row = emit.bound(self.row_at(lane))
            maximum, counts = operands.start(row)
            I.buffer_store(self.maximum, maximum, [lane])
            given = self.views["sum_init"].load(row, self.dtype)
            I.buffer_store(self.total, given * counts, [lane])
            I.buffer_store(self.rescale, counts, [lane])
        dims, view = self.op.dims["n"], self.views["output_init"]
        with serial(self.groups) as group:
            emit.load_transposed(
                self.output,
                view,
                self.lane_rows(group * self.lanes),
                lambda c: self.space.spread(c, dims),
                self.n,
                view.along(dims),
                line_base=group * self.output_lines,
                convert=lambda value: emit.cast(value, self.dtype),
            )
        self.rescale_output(0, self.groups)

    def rescale_output(self, first: Index, groups: Index) -> None:
        """Multiply what there is of the output by the rows' factors, of vectors of rows."""
        with serial(groups) as own:
            group = I.Bind(first + own)
            factor = I.Bind(self.rescale[emit.run(group * self.lanes, self.lanes)])
            with serial(self.output_lines) as line:
                at = [group * self.output_lines + line, emit.run(0, self.lanes)]
                I.buffer_store(self.output, self.output[tuple(at)] * factor, at)

    def multiply_query_key(self, first_key: Expr, keys: Index, group: Expr) -> None:
        """scores[k2, rows] = key[k2, k1] * query[k1, rows], scaled; rows from a vector on."""
        rows = self.config.keys_at_once
        last = i64(self.keys) - 1
        # Few lines are fetched at a time: all at once would keep the product waiting.
        depth = known(self.depth(self.k1)) or 1
        every = 1 << (max(1, depth * self.tile_k2 // rows // self.width).bit_length() - 1)
        shares = -(-depth // every)

        with serial(emit.ceil_div(keys, rows)) as block:

            def scalar(i: int, k: Expr) -> Expr:
                own = block * rows + i
                # The last block may reach past the last key; its surplus scores are not used.
                return self.key_scalar(own, emit.smaller(first_key + own, last), k)

            def finish(i: int, j: int, value: Expr) -> None:
                place = emit.run(j * self.lanes, self.lanes)
                I.buffer_store(self.scores, self.scaled(value), [block * rows + i, place])

            def fetch(k: Expr) -> None:
                with I.If(tirx.floormod(k, i64(every)) == 0), I.Then():
                    share = block * shares + tirx.floordiv(k, i64(every))
                    steps = self.tile_k2 // rows * shares
                    self.ahead.mask(share, steps)
                    with I.If(self.near_end), I.Then():
                        self.ahead.output(share, steps)

            multiply_tile(
                rows=rows,
                vectors=self.vectors,
                lanes=self.lanes,
                depth=self.depth(self.k1),
                dtype=self.dtype,
                x=lambda k, j: self.query[
                    (group + j) * self.query_lines + k, emit.run(0, self.lanes)
                ],
                y=scalar,
                start=lambda i, j: self.operands.const(0.0, self.lanes),
                finish=finish,
                add=self.add,
                beside=fetch,
            )

    def depth(self, count: Index) -> Index:
        """The steps of a product over so many elements."""
        return count

    def key_scalar(self, own: Expr, key: Expr, k: Expr) -> Expr:
        """The factor of a step of the first product: of a key, which is ``own`` of its tile."""
        if "key" in self.promoted:
            return self.promoted["key"][own, k]
        at = {**self.outer, **self.operands.key_at(key)}
        at |= self.space.spread(k, self.op.dims["k1"])
        return self.views["key"].load(at, self.dtype)

    def scaled(self, score: Expr) -> Expr:
        """A vector of the first product, times the scale that is not in the query."""
        return score

    def softmax(self, first_key: Expr, keys: Index, part: Expr) -> None:
        """Finish the scores of a part, and make them weights relative to the new maximum."""
        with serial(self.vectors) as vector:
            newest = emit.registers(_CHAINS * self.lanes, self.dtype)
            sums = emit.registers(self.lanes, self.dtype)
            own, base = vector * self.lanes, I.Bind(part + vector * self.lanes)
            # A tile is summed by itself, so that its terms do not drown in a long sum.
            with emit.vector_loop(self.lanes) as lane:
                for chain in range(_CHAINS):
                    at = [chain * self.lanes + lane]
                    I.buffer_store(newest, self.maximum[base + lane], at)
                I.buffer_store(sums, self.operands.const(0.0), [lane])

            added = emit.registers(self.lanes, self.dtype)

            def see(key: Expr, chain: int, mask: bool = False) -> None:
                if self.finishes:
                    # Stored and read again: a region may hold what TVM can do by lanes only.
                    with emit.vector_loop(self.lanes) as lane:
                        score = self.raw_score(key, own + lane)
                        mask_of = added[lane] if mask else None
                        score = self.finished_score(score, first_key + key, mask_of, base + lane)
                        I.buffer_store(self.scores, score, [key, own + lane])
                with emit.vector_loop(self.lanes) as lane:
                    at = chain * self.lanes + lane
                    score = self.score(key, own + lane)
                    I.buffer_store(newest, emit.larger_float(newest[at], score), [at])

            def see_masked(key: Expr, place: int, value: Expr) -> None:
                I.buffer_store(added, value, [emit.run(0, self.lanes)])
                see(key, place % _CHAINS, mask=True)

            if self.mask_by_row:
                load_mask(self.operands, self.lane_rows(base), first_key, keys, see_masked)
            else:
                blocks = emit.divide(keys, _CHAINS)[0]
                with serial(blocks) as block:
                    for chain in range(_CHAINS):
                        see(block * _CHAINS + chain, chain)
                with serial(keys, blocks * _CHAINS) as key:
                    see(key, 0)
            with emit.vector_loop(self.lanes) as lane:
                for chain in range(1, _CHAINS):
                    other = newest[chain * self.lanes + lane]
                    I.buffer_store(newest, emit.larger_float(newest[lane], other), [lane])
            with emit.vector_loop(self.lanes) as lane:
                change = self.operands.weight(self.maximum[base + lane] - newest[lane])
                I.buffer_store(self.rescale, change, [base + lane])
            self.rescaled(base)
            self.weigh(keys, own, newest, sums)
            with emit.vector_loop(self.lanes) as lane:
                total = self.total[base + lane] * self.rescale[base + lane] + sums[lane]
                I.buffer_store(self.total, total, [base + lane])
                maximum = newest[lane]
                if self.op.online:
                    maximum = self.operands.newest(maximum, sums[lane])
                I.buffer_store(self.maximum, maximum, [base + lane])

    def rescaled(self, first: Expr) -> None:
        """Called when the factors of a vector of rows, from one on, are known."""

    def weigh(self, keys: Index, own: Expr, newest: Any, sums: Any) -> None:
        """The weights of a vector of rows, the part's from ``own`` on, and their sums."""
        group = I.Bind(tirx.floordiv(self.ahead.base + own, i64(self.lanes)))
        with serial(keys) as key:
            self.ahead.keys(key, group)
            with emit.vector_loop(self.lanes) as lane:
                weight = self.operands.weight(self.score(key, own + lane) - newest[lane])
                I.buffer_store(self.weights, weight, [key, own + lane])
                I.buffer_store(sums, sums[lane] + weight, [lane])

    def raw_score(self, key: Expr, lane: Expr) -> Expr:
        """A score, scaled, as the first product leaves it."""
        return self.scores[key, lane]

    def score(self, key: Expr, lane: Expr) -> Expr:
        """A score after all that is done to it."""
        return self.scores[key, lane] if self.finishes else self.raw_score(key, lane)

    def finished_score(self, score: Expr, key: Expr, mask: Expr | None, lane: Expr) -> Expr:
        """Region, mask and band applied to one score."""
        score = self.op.changed(score, {**self.row_at(lane), **self.operands.key_at(key)})
        if mask is not None:
            score = score + mask
        elif "mask" in self.views:
            view = self.views["mask"]
            loaded = view.load({**self.outer, **self.operands.key_at(key)}, view.loaded)
            score = score + self.operands.mask_value(loaded)
        return self.operands.in_band(score, self.row_index(lane), key, self.keys)

    def multiply_weights_value(self, first_key: Expr, keys: Index, group: Expr) -> None:
        """output[n, m] = rescale[m] * output[n, m] + value[k2, n] * weights[k2, rows]."""
        rows = self.config.columns_at_once

        def tile(first: Index, count: int) -> None:
            def finish(i: int, j: int, value: Expr) -> None:
                at = [(group + j) * self.output_lines + first + i, emit.run(0, self.lanes)]
                factor = self.rescale[emit.run((group + j) * self.lanes, self.lanes)]
                I.buffer_store(self.output, self.output[tuple(at)] * factor + value, at)

            multiply_tile(
                rows=count,
                vectors=self.vectors,
                lanes=self.lanes,
                depth=self.depth(keys),
                dtype=self.dtype,
                x=lambda k, j: self.weights[k, emit.run(j * self.lanes, self.lanes)],
                y=lambda i, k: self.value_scalar(first_key, k, first + i),
                start=lambda i, j: self.operands.const(0.0, self.lanes),
                finish=finish,
                add=self.add,
            )

        blocks, rest = emit.divide(self.n, rows)
        with serial(blocks) as block:
            tile(block * rows, rows)
        if (left := known(rest)) is None:
            with serial(rest) as column:
                tile(blocks * rows + column, 1)
        elif left:
            tile(blocks * rows, left)

    def value_scalar(self, first_key: Expr, k: Expr, column: Index) -> Expr:
        """The factor of a step of the second product."""
        if "value" in self.promoted:
            return self.promoted["value"][k, column]
        at = {**self.outer, **self.operands.key_at(first_key + k)}
        at |= self.space.spread(column, self.op.dims["n"])
        return self.views["value"].load(at, self.dtype)

    def finish(self) -> None:
        """Write the results: normalised, or, for online attention, the state."""
        if self.op.online:
            with serial(self.groups * self.lanes) as lane:
                maximum, total = self.maximum[lane], self.total[lane]
                factor = self.operands.settle(self.row_at(lane), maximum, total)
                I.buffer_store(self.rescale, factor, [lane])
        else:
            one = self.operands.const(1.0)
            self.per_lane(lambda lane: I.buffer_store(self.rescale, one / self.total[lane], [lane]))
            if "log_sum_exp" in self.views:
                factor = self.operands.const(self.operands.scaling.result)
                with serial(self.groups * self.lanes) as lane:
                    maximum, total = self.maximum[lane] * factor, self.total[lane]
                    self.operands.settle_log_sum_exp(self.row_at(lane), maximum, total)
        dims, view = self.op.dims["n"], self.views["output"]
        with serial(self.groups) as group:
            base, line = group * self.lanes, group * self.output_lines
            place, lanes = emit.run(base, self.lanes), emit.run(0, self.lanes)
            emit.store_transposed(
                view,
                self.lane_rows(group * self.lanes),
                lambda c: self.space.spread(c, dims),
                self.n,
                view.along(dims),
                vector=lambda c: self.output[line + c, lanes] * self.rescale[place],
                element=lambda c, lane: self.output[line + c, lane] * self.rescale[base + lane],
            )


def _count(columns: Index) -> Any:
    """Columns as a number, where they are one at build time."""
    number = known(columns)
    return columns if number is None else number
