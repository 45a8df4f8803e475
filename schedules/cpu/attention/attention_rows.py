"""Attention with one query row at a time: the form for few rows, such as a decode step.

Reading key and value once is all the work there is, so each is walked along its rows, in vectors
of columns: a score is a dot product, its lanes summed for a block of keys at once by a transpose;
an output row is a sum of value rows.  In one stage they are read in the order of memory, which the
hardware foresees; in two, keys of a block side by side, and what is read next is fetched.

The keys of a batch point can be split among tasks.  Each task leaves its partial output, maximum
and sum in a workspace, and a second loop merges them by the rule of the online softmax.
"""

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.attention.attention_config import AttentionConfig
from tvm_iree_ext.schedules.cpu.products.register_product import multiply_tile
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands

_BYTES_AHEAD = 16 * 1024  # what is fetched by then comes from memory in time


def rows_kernel(op: Attention, config: AttentionConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; the number of rows must be static."""
    with IRBuilder() as builder, I.prim_func():
        _Rows(AttentionOperands.declare(op), config).emit()
    return builder.get()


class _Rows:
    """The kernel under construction."""

    def __init__(self, operands: AttentionOperands, config: AttentionConfig) -> None:
        op, space = operands.op, operands.space
        self.operands = operands
        self.op, self.space, self.views = op, space, operands.views
        self.config = config
        self.dtype = op.compute_dtype
        self.lanes = config.lanes
        self.tile_k2 = config.keys
        self.rows = known(space.count(op.dims["m"])) or 0
        self.k1 = known(space.count(op.dims["k1"])) or 0
        self.n = known(space.count(op.dims["n"])) or 0
        # Whole vectors.  Of a promoted tile, what lies past the operand's columns is zero.  A row
        # read in place has a last vector that ends with it, and repeats some of the one before.
        self.k1_wide, self.n_wide = (
            -(-columns // self.lanes) * self.lanes for columns in (self.k1, self.n)
        )

    def emit(self) -> None:
        """Partial results of all splits, then their merge."""
        points, splits = self.space.count(self.op.dims["b"]), self.config.splits
        with I.sblock("root"):
            self.part_output = emit.scratch([points, splits, self.rows, self.n_wide], self.dtype)
            self.part_maximum = emit.scratch([points, splits, self.rows], self.dtype)
            self.part_total = emit.scratch([points, splits, self.rows], self.dtype)
            loop = I.parallel if self.config.parallel else I.serial
            with loop(i64(0), i64(emit.product([points, splits]))) as task:
                point, split = emit.divide(task, splits)
                self.emit_split(I.Bind(point), I.Bind(split))
            with serial(points) as point, serial(self.rows) as row:
                self.merge(point, row)

    def batch_at(self, point: Expr) -> At:
        """The batch dims at a flat position."""
        return emit.bound(self.space.spread(point, self.operands.in_tasks(self.op.dims["b"])))

    def row_at(self, row: Index) -> At:
        """The row dims at a flat position."""
        return self.space.spread(row, self.op.dims["m"])

    def position(self, row: Index) -> Index:
        """The position of a row for the band: that of the last row dim."""
        return self.row_at(row)[self.op.dims["m"][-1]] if self.op.dims["m"] else 0

    def emit_split(self, point: Expr, split: Expr) -> None:
        """The online softmax over one split of the keys of one batch point."""
        self.outer = self.batch_at(point)
        self.keys = self.operands.key_count(self.outer)
        self.point, self.split = point, split
        self.query = emit.scratch([self.rows, self.k1_wide], self.dtype)
        self.scores = emit.scratch([self.rows, self.tile_k2], self.dtype)
        self.rescale = emit.scratch([self.rows], self.dtype)
        if not self.config.fetch_ahead:
            self.products = emit.scratch([self.lanes, self.lanes], self.dtype)
        promoted = {
            name: emit.scratch([self.tile_k2, width], self.dtype)
            for name, width in (("key", self.k1_wide), ("value", self.n_wide))
            if name in self.config.promote
        }
        self.start()
        last = (known(self.space.extents[self.op.dims["m"][-1]]) or 1) - 1 if self.rows > 1 else 0
        begin, end = self.operands.band_range(0, last, self.keys)
        share = tirx.floordiv(i64(end) - begin + (self.config.splits - 1), self.config.splits)
        share = I.Bind(emit.ceil_div(share, self.lanes) * self.lanes)
        first = I.Bind(i64(begin) + split * share)
        end = I.Bind(emit.smaller(end, first + share))
        with serial(emit.ceil_div(end - first, self.tile_k2)) as tile:
            first_key = I.Bind(first + tile * self.tile_k2)
            keys = I.Bind(emit.smaller(self.tile_k2, end - first_key))
            for name, target in promoted.items():
                width = self.k1_wide if name == "key" else self.n_wide
                self.operands.promote(name, target, width, self.outer, first_key, keys, self.lanes)
            with serial(self.rows) as row:
                self.multiply_query_key(row, first_key, keys, promoted.get("key"))
                self.softmax(row, first_key, keys)
            with serial(self.rows) as row:
                self.multiply_scores_value(row, first_key, keys, promoted.get("value"))

    def start(self) -> None:
        """Scaled query rows in the compute type, and an empty state."""
        operands = self.operands
        factor = I.Bind(operands.query_factor)
        surplus = self.k1_wide - self.k1
        repeated = surplus if "key" not in self.config.promote else 0
        with serial(self.rows) as row:
            at = {**self.outer, **self.row_at(row)}
            with serial(self.k1) as k:
                here = at | self.space.spread(k, self.op.dims["k1"])
                value = self.views["query"].load(here, self.dtype) * factor
                place = k + tirx.Select(k < self.k1_wide - self.lanes, i64(0), i64(repeated))
                I.buffer_store(self.query, value, [row, place])
            first = self.k1_wide - (self.lanes if repeated else surplus)
            with serial(surplus) as k:
                I.buffer_store(self.query, operands.const(0.0), [row, k + first])
            state = [self.point, self.split, row]
            I.buffer_store(self.part_maximum, operands.const(operands.lowest), state)
            I.buffer_store(self.part_total, operands.const(0.0), state)
            with serial(self.n_wide // self.lanes) as v, emit.vector_loop(self.lanes) as lane:
                place = [*state, v * self.lanes + lane]
                I.buffer_store(self.part_output, operands.const(0.0), place)

    def multiply_query_key(self, row: Expr, first_key: Expr, keys: Index, promoted: object) -> None:
        """scores[row, k2]: a dot product per key, the lanes of a block of keys summed together."""
        last, dims = i64(self.keys) - 1, self.op.dims["k1"]
        ahead = self.rows_ahead("key", "k1")
        repeated = self.k1_wide - self.k1 if promoted is None else 0
        steps, whole = self.k1_wide // self.lanes, emit.run(0, self.lanes)

        def place(i: int) -> Expr:
            return emit.run(i * self.lanes, self.lanes)

        def product(block: Expr, i: Index, step: Index, repeated: int) -> Expr:
            """One vector of a key of the block, of which the first ``repeated`` lanes are 0."""
            columns = emit.run(step * self.lanes, self.lanes)
            if promoted is not None:
                loaded = promoted[block * self.lanes + i, columns]  # type: ignore[index]
            else:
                # The last block may reach past the last key; those scores are not used.
                key = emit.smaller(first_key + (block * self.lanes + i), last)
                at = {**self.outer, **self.operands.key_at(key)}
                at |= self.space.spread(step * self.lanes - repeated, dims)
                loaded = self.views["key"].load(at, self.dtype, self.lanes)
            if repeated:
                counts = whole >= emit.splat(i64(repeated), self.lanes)
                loaded = tirx.Select(counts, loaded, self.operands.const(0.0, self.lanes))
            return self.query[row, columns] * loaded

        def each_step(body: Callable[[Index, int], None]) -> None:
            with serial(steps - bool(repeated)) as step:
                body(step, 0)
            if repeated:
                body(i64(steps - 1), repeated)

        def side_by_side(block: Expr) -> list[Expr]:
            """A vector of each key in turn."""
            tile = emit.registers(self.lanes * self.lanes, self.dtype)

            def add(step: Index, repeated: int) -> None:
                for i in range(self.lanes):
                    ahead(first_key + block * self.lanes, step * self.lanes, i)
                    added = tile[place(i)] + product(block, i, step, repeated)
                    I.buffer_store(tile, added, [place(i)])

            for i in range(self.lanes):
                I.buffer_store(tile, self.operands.const(0.0, self.lanes), [place(i)])
            each_step(add)
            return [tile[place(i)] for i in range(self.lanes)]

        def in_turn(block: Expr) -> list[Expr]:
            """All of a key, then the next one."""
            sums = emit.registers(self.lanes, self.dtype)

            def add(step: Index, repeated: int) -> None:
                added = sums[whole] + product(block, key, step, repeated)
                I.buffer_store(sums, added, [whole])

            with serial(self.lanes) as key:
                self.fetch_page("value", first_key + block * self.lanes + key, row)
                I.buffer_store(sums, self.operands.const(0.0, self.lanes), [whole])
                each_step(add)
                I.buffer_store(self.products, sums[whole], [key, whole])
            return [self.products[i64(i), whole] for i in range(self.lanes)]

        walk = side_by_side if self.config.fetch_ahead else in_turn
        with serial(emit.ceil_div(keys, self.lanes)) as block:
            summed = sum_of(emit.transpose(walk(block)))
            I.buffer_store(self.scores, summed, [row, emit.run(block * self.lanes, self.lanes)])

    def fetch_page(self, name: str, key: Expr, row: Expr, turn: Index = 0) -> None:
        """Have a later key fetched, in turn 0 of several: where it lies only the table knows.

        Values are fetched beside the products with keys, and the next tile's keys beside those with
        values.  Each row asks for a part of the columns, so that memory is busy while any row is
        computed.
        """
        if not self.op.paged or name in self.config.promote:
            return
        view, role = self.views[name], "k1" if name == "key" else "n"
        in_line = emit.LINE_BYTES // item_bytes(view.dtype)
        starts = emit.line_starts(self.op.count(role), view.dtype)
        part = -(-len(starts) // self.rows)
        with I.If(tirx.And(i64(turn) == 0, row * part < len(starts))), I.Then():
            later = emit.smaller(key, i64(self.keys) - 1)
            at = emit.bound({**self.outer, **self.operands.key_at(later)})
            for line in range(part):
                column = emit.smaller((row * part + line) * in_line, starts[-1])
                here = {**at, **self.space.spread(column, self.op.dims[role])}
                emit.prefetch(view.buffer, *view.index(here), nearest=False)

    def rows_ahead(self, name: str, role: str) -> Callable[[Expr, Index, int], None]:
        """``fetch(key, first, i)``: vector ``first + i`` from a key's row on is read; fetch ahead.

        In the order of memory, whatever the order of reading: where it changes from key to value
        and back, and where rows are read side by side, the hardware foresees less.  Nothing in one
        stage, and where rows do not follow each other.  Of the vectors in a line of the cache the
        first asks for it.
        """
        view, keys = self.views[name], self.op.dims["k2"]
        in_order = len(keys) == 1 and view.map.axes[-2:] == (keys, self.op.dims[role])
        in_line = max(1, emit.LINE_BYTES // (self.lanes * item_bytes(view.dtype)))
        if not self.config.fetch_ahead or name in self.config.promote or not in_order:
            return lambda key, first, i: None
        flat = emit.flat(view.buffer)
        columns = self.k1 if name == "key" else self.n
        rows = max(1, _BYTES_AHEAD // (columns * item_bytes(view.dtype)))

        def fetch(key: Expr, first: Index, i: int) -> None:
            if i % in_line:
                return
            at = {**self.outer, **self.operands.key_at(key + rows)}
            at |= self.space.spread(i64(0), self.op.dims[role])
            start = emit.flat_index(view.index(at), view.buffer.shape)
            emit.prefetch(flat, start + (first + i) * self.lanes, nearest=False)

        return fetch

    def softmax(self, row: Expr, first_key: Expr, keys: Index) -> None:
        """Finish the scores of a row, and make them weights relative to the new maximum."""
        operands = self.operands
        state = [self.point, self.split, row]
        largest = emit.registers(self.lanes, self.dtype)
        sums = emit.registers(self.lanes, self.dtype)
        whole = tirx.floordiv(keys, i64(self.lanes))

        def each(body: Callable[[Expr, Expr], None]) -> None:
            """``body(key, lane)`` for all keys: as vectors, and the rest in lane 0."""
            with serial(whole) as block, emit.vector_loop(self.lanes) as lane:
                body(block * self.lanes + lane, lane)
            with serial(keys, whole * self.lanes) as key:
                body(key, i64(0))

        def finish(key: Expr, lane: Expr) -> None:
            raw = self.scores[row, key]
            score = self.finished_score(raw, row, first_key + key)
            if not score.same_as(raw):
                I.buffer_store(self.scores, score, [row, key])

        def compare(key: Expr, lane: Expr) -> None:
            score = self.scores[row, key]
            I.buffer_store(largest, emit.larger_float(largest[lane], score), [lane])

        def weigh(key: Expr, lane: Expr) -> None:
            weight = operands.weight(self.scores[row, key] - self.part_maximum[tuple(state)])
            I.buffer_store(self.scores, weight, [row, key])
            I.buffer_store(sums, sums[lane] + weight, [lane])

        old = I.Bind(self.part_maximum[tuple(state)])
        with emit.vector_loop(self.lanes) as lane:
            I.buffer_store(largest, old, [lane])
            I.buffer_store(sums, operands.const(0.0), [lane])
        # Stored and read again: a region may hold what TVM can only do lane by lane.
        each(finish)
        each(compare)
        for lane in range(1, self.lanes):
            I.buffer_store(largest, emit.larger_float(largest[0], largest[lane]), [0])
        I.buffer_store(self.part_maximum, largest[0], state)
        change = operands.weight(old - self.part_maximum[tuple(state)])
        I.buffer_store(self.rescale, change, [row])
        each(weigh)
        added = I.Bind(sum_of([sums[lane] for lane in range(self.lanes)]))
        I.buffer_store(self.part_total, self.part_total[tuple(state)] * change + added, state)
        if self.op.online:
            newest = operands.newest(self.part_maximum[tuple(state)], added)
            I.buffer_store(self.part_maximum, newest, state)

    def finished_score(self, score: Expr, row: Expr, key: Expr) -> Expr:
        """Region, mask and band applied to one score."""
        at = {**self.outer, **self.row_at(row), **self.operands.key_at(key)}
        score = self.op.changed(score, at)
        if "mask" in self.views:
            view = self.views["mask"]
            score = score + self.operands.mask_value(view.load(at, view.loaded))
        return self.operands.in_band(score, self.position(row), key, self.keys)

    def multiply_scores_value(
        self, row: Expr, first_key: Expr, keys: Index, promoted: object
    ) -> None:
        """output[row, n] = rescale * output[row, n] + scores[row, k2] * value[k2, n]."""
        dims = self.op.dims["n"]
        total = self.n_wide // self.lanes
        vectors = min(self.config.columns_at_once, total)
        ahead = self.rows_ahead("value", "n")

        def tile(first: Index, count: int) -> None:
            def place(j: int) -> Expr:
                return emit.run((first + j) * self.lanes, self.lanes)

            def column(k: Expr, j: int) -> Expr:
                if promoted is not None:
                    return promoted[k, place(j)]  # type: ignore[index]
                start: Index = (first + j) * self.lanes
                if self.n % self.lanes:
                    start = emit.smaller(start, self.n - self.lanes)
                at = {**self.outer, **self.operands.key_at(first_key + k)}
                at |= self.space.spread(start, dims)
                ahead(first_key + k, first, j)
                return self.views["value"].load(at, self.dtype, self.lanes)

            def finish(i: int, j: int, value: Expr) -> None:
                here = [self.point, self.split, row, place(j)]
                carried = self.part_output[tuple(here)] * emit.splat(self.rescale[row], self.lanes)
                I.buffer_store(self.part_output, carried + value, here)

            multiply_tile(
                rows=1,
                vectors=count,
                lanes=self.lanes,
                depth=keys,
                dtype=self.dtype,
                x=column,
                y=lambda i, k: self.scores[row, k],
                start=lambda i, j: self.operands.const(0.0, self.lanes),
                finish=finish,
                beside=lambda k: self.fetch_page("key", first_key + self.tile_k2 + k, row, first),
            )

        with serial(total // vectors) as block:
            tile(block * vectors, vectors)
        if total % vectors:
            tile(i64(total // vectors * vectors), total % vectors)

    def merge(self, point: Expr, row: Expr) -> None:
        """Merge the splits of one row, with the state that online attention starts from."""
        operands, splits = self.operands, self.config.splits
        at = {**self.batch_at(point), **self.row_at(row)}
        maximum = emit.registers(1, self.dtype)
        total = emit.registers(1, self.dtype)
        factors = emit.scratch([splits + 1], self.dtype)
        started, counts = operands.const(operands.lowest), operands.const(1.0)
        if self.op.online:
            started, counts = map(I.Bind, operands.start(at))
        I.buffer_store(maximum, started, [0])
        with serial(splits) as split:
            part = self.part_maximum[point, split, row]
            I.buffer_store(maximum, emit.larger_or_nan(maximum[0], part), [0])
        with serial(splits) as split:
            change = operands.weight(self.part_maximum[point, split, row] - maximum[0])
            I.buffer_store(factors, change, [split])
        I.buffer_store(factors, operands.weight(started - maximum[0]) * counts, [splits])
        if self.op.online:
            given = self.views["sum_init"].load(at, self.dtype)
            I.buffer_store(total, given * factors[splits], [0])
        else:
            I.buffer_store(total, operands.const(0.0), [0])
        with serial(splits) as split:
            part = self.part_total[point, split, row] * factors[split]
            I.buffer_store(total, total[0] + part, [0])
        if self.op.online:
            factor = I.Bind(operands.settle(at, maximum[0], total[0]))
        else:
            factor = I.Bind(operands.const(1.0) / total[0])
            if "log_sum_exp" in self.views:
                score = maximum[0] * operands.const(operands.scaling.result)
                operands.settle_log_sum_exp(at, score, total[0])
        with serial(self.n) as column:
            here = {**at, **self.space.spread(column, self.op.dims["n"])}
            if self.op.online:
                given = self.views["output_init"].load(here, self.dtype)
                I.buffer_store(total, given * factors[splits], [0])
            else:
                I.buffer_store(total, operands.const(0.0), [0])
            place = column
            if "value" not in self.config.promote:
                repeated = i64(self.n_wide - self.n)
                place = column + tirx.Select(column < self.n_wide - self.lanes, i64(0), repeated)
            with serial(splits) as split:
                part = self.part_output[point, split, row, place] * factors[split]
                I.buffer_store(total, total[0] + part, [0])
            self.views["output"].store(here, total[0] * factor)


def sum_of(values: Sequence[Expr]) -> Expr:
    """The sum, added pairwise."""
    terms = list(values)
    while len(terms) > 1:
        terms = [
            I.Bind(terms[i] + terms[i + 1]) if i + 1 < len(terms) else terms[i]
            for i in range(0, len(terms), 2)
        ]
    return terms[0]
