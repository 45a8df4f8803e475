"""The product of a vector, or a few of them, and a matrix that is read once, in order.

    for slabs, blocks of n (a task):
        columns:
            factors[k] = a                                  (scratch)
            for some lines of b at a time:  sums[n] += factors[k] * b[k, n]
        rows:
            for blocks of depth:
                factors[m, k] = a                           (scratch)
                for some lines of b at a time:  sums[m, n] += sum over k of factors[m, k] * b[n, k]
        result = epilogue(init + sums)

``columns`` where there is one vector, and n lies next to each other in b; ``rows`` where the
reduced dim does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import ContractionConfig
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.products.register_tiles import odd_lines, zeros
from tvm_iree_ext.schedules.emit import (
    At,
    Expr,
    Index,
    IterationSpace,
    held_index,
    i64,
    known,
    serial,
)
from tvm_iree_ext.targets.cpu import CpuFeatures

# Vectors that a matrix is multiplied with at once.
_MOST_ROWS = 8

# Elements of a line from which on the next lines are fetched ahead of their use: the processor
# foresees a run of memory, and not which is next.
_LONG = 512

# Of a vector, whose part of depth may be one of several runs.
_MOST_LANES = 16

# Sums in registers that hide the latency of one.
_SUMS = 8


def vector_form(plan: ContractionPlan) -> str | None:
    """``"columns"``, ``"rows"``, or None where the product is of another kind."""
    rows = plan.extent(plan.m)
    if rows is None or rows > _MOST_ROWS:
        return None
    if rows == 1 and plan.n is not None and plan.lies_along(plan.b, [plan.n]):
        return "columns"
    return "rows" if plan.lies_in_runs(plan.b, _MOST_LANES) else None


def lines_at_once(form: str, rows: int, registers: int) -> int:
    """Lines of b side by side; for ``rows``, so many that the registers hold their sums."""
    if form == "columns":
        return 8
    return next(lines for lines in (4, 2, 1) if lines == 1 or lines * rows <= registers * 3 // 4)


class VectorLoops:
    """A kernel under construction."""

    def __init__(
        self,
        plan: ContractionPlan,
        operands: ContractionOperands,
        config: ContractionConfig,
        features: CpuFeatures,
    ) -> None:
        self.plan, self.operands, self.config = plan, operands, config
        self.lanes = config.lanes
        # Those of a block of depth, which are read again for each line of b.
        self.factor_bytes = features.first_cache_bytes
        self.together = config.rows
        self.dtype = plan.op.accumulator_dtype
        self.high = plan.extent(plan.m) or 1
        self.wide = self.operands.extent(plan.n)
        self.depth = self.operands.space.count(plan.depth)
        self.block = config.block_n

    def emit(self) -> None:
        """The whole function."""
        plan, operands = self.plan, self.operands
        slabs = operands.space.count(plan.slabs)
        columns = emit.smaller(self.block, self.wide)
        space = IterationSpace((slabs, emit.ceil_div(self.wide, self.block)))
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(space.count((0, 1)))) as task:
            at = space.spread(task, (0, 1))
            slab = emit.bound({**operands.origin, **operands.space.spread(at[0], plan.slabs)})
            column = i64(held_index(i64(at[1]) * self.block))
            self.sums = emit.scratch([self.high * self.block], self.dtype)
            live = emit.part(columns, self.wide, column)
            if self.config.algorithm == "columns":
                self.over_columns(slab, column, live)
            else:
                self.over_rows(slab, column, live)
            for row in range(self.high):
                with self.if_there(row):
                    self.write(operands.at(slab, plan.m, row), column, live, row)

    @contextmanager
    def if_there(self, row: int) -> Iterator[None]:
        """Guard of a row's work: nothing is done where there are not so many rows."""
        high = self.operands.extent(self.plan.m)
        if row == 0 or known(high) is not None:
            yield
            return
        with I.If(i64(row) < i64(high)), I.Then():
            yield

    def pack(self, line: At, first: Expr, depth: Index, start: int) -> None:
        """``factors[start + k]`` = a line of a from ``first`` on."""
        view = self.operands.views[self.plan.a]

        def move(k: Index, lanes: int) -> None:
            value = view.load(self.operands.depth_at(line, first + k), self.dtype, lanes)
            I.buffer_store(self.factors, value, [emit.run(i64(k) + start, lanes)])

        along = self.plan.lies_in_runs(self.plan.a, _MOST_LANES)
        emit.in_vectors(depth, self.lanes if along else 1, move)

    def clear(self, count: Index) -> None:
        """Begin sums with zeros."""

        def piece(n: Index, lanes: int) -> None:
            I.buffer_store(self.sums, zeros(self.dtype, lanes), [emit.run(n, lanes)])

        emit.in_vectors(count, self.lanes, piece)

    def matrix(self, slab: At, n: Index, k: Index, lanes: int) -> Expr:
        """Elements of b from a place on."""
        at = self.operands.depth_at(self.operands.at(slab, self.plan.n, n), k)
        return self.operands.views[self.plan.b].load(at, self.dtype, lanes)

    def fetch(self, slab: At, n: Expr, k: Expr) -> None:
        """Have an element of b fetched, if there is one."""
        view = self.operands.views[self.plan.b]
        at = self.operands.depth_at(self.operands.at(slab, self.plan.n, n), k)
        emit.prefetch(view.buffer, *view.index(at))

    def over_columns(self, slab: At, column: Expr, columns: Index) -> None:
        """Lines of b, some at a time, each times its factor."""
        self.factors = emit.scratch([self.depth], self.dtype)
        self.pack(slab, i64(0), self.depth, 0)
        self.clear(columns)

        held = item_bytes(self.operands.views[self.plan.b].dtype)

        def lines(k: Index, count: int) -> None:
            factors = [I.Bind(self.factors[i64(k) + line]) for line in range(count)]

            def piece(n: Index, lanes: int) -> None:
                place = emit.run(n, lanes)
                total = zeros(self.dtype, lanes)
                for line, factor in enumerate(factors):
                    if lanes * held >= emit.LINE_BYTES:  # else each line would be fetched twice
                        self.fetch(slab, column + n, i64(k) + line + count)
                    value = self.matrix(slab, column + n, i64(k) + line, lanes)
                    total = total + value * emit.splat(factor, lanes)
                I.buffer_store(self.sums, self.sums[place] + total, [place])

            emit.in_vectors(columns, self.lanes, piece)

        _in_groups(self.depth, self.together, lines)

    def over_rows(self, slab: At, column: Expr, columns: Index) -> None:
        """Sums over lines of b, a block of depth at a time."""
        room = self.factor_bytes // (self.high * item_bytes(self.dtype)) // self.lanes * self.lanes
        block = emit.smaller(room, self.depth)
        stride = odd_lines(known(block) or room, item_bytes(self.dtype))
        parts = emit.ceil_div(self.depth, room)
        self.factors = emit.scratch([self.high * stride], self.dtype)
        single = known(parts) == 1
        if not single:
            self.clear(self.high * self.block)
        with serial(parts) as part:
            first = I.Bind(part * i64(room))
            depth = emit.part(block, self.depth, first)
            for row in range(self.high if not self.reads_once else 0):
                line = self.operands.at(slab, self.plan.m, row)
                with self.if_there(row):
                    self.pack(line, first, depth, row * stride)

            def lines(n: Index, count: int) -> None:
                totals = self.multiply_lines(slab, column + n, count, first, depth, stride)
                for line in range(count):
                    for row in range(self.high):
                        at = i64(n) + (row * self.block + line)
                        total = totals[i64(line * self.high + row)]
                        I.buffer_store(self.sums, total if single else self.sums[at] + total, [at])

            _in_groups(columns, self.together, lines)

    @property
    def reads_once(self) -> bool:
        """Whether ``a`` is read where it is: for one line of b packing it would double the work."""
        return known(self.wide) == 1 and self.plan.lies_along(self.plan.a, self.plan.depth)

    def factor(self, slab: At, row: int, first: Expr, k: Expr, lanes: int, stride: int) -> Expr:
        """Elements of a line of a, from a k of the block on."""
        if not self.reads_once:
            return self.factors[emit.run(k + row * stride, lanes)]
        at = self.operands.depth_at(self.operands.at(slab, self.plan.m, row), first + k)
        return self.operands.views[self.plan.a].load(at, self.dtype, lanes)

    def multiply_lines(
        self, slab: At, n: Expr, count: int, first: Expr, depth: Index, stride: int
    ) -> Any:
        """The sums, over a block of depth, of ``count`` lines of b times each line of a."""
        lanes, high = self.lanes, self.high
        vectors = max(1, _SUMS // (count * high))
        exact = known(self.depth)
        long = known(self.wide) != 1 and (exact is None or exact >= _LONG)
        tile = emit.registers(count * high * vectors * lanes, self.dtype)
        totals = emit.registers(count * high, self.dtype)

        def at(line: int, row: int, vector: int) -> Expr:
            return emit.run(((line * high + row) * vectors + vector) * lanes, lanes)

        def multiply(k: Expr, line: int, vector: int) -> None:
            if long:
                self.fetch(slab, n + line + count, first + k)
            value = self.matrix(slab, n + line, first + k, lanes)
            for row in range(high):
                place = at(line, row, vector)
                product = value * self.factor(slab, row, first, k, lanes, stride)
                I.buffer_store(tile, tile[place] + product, [place])

        sums = [(line, row) for line in range(count) for row in range(high)]
        for line, row in sums:
            for vector in range(vectors):
                I.buffer_store(tile, zeros(self.dtype, lanes), [at(line, row, vector)])
        whole = tirx.floordiv(i64(depth), i64(lanes))
        steps = tirx.floordiv(whole, i64(vectors))
        with serial(steps) as step:
            for vector in range(vectors):
                for line in range(count):
                    multiply((step * vectors + vector) * lanes, line, vector)
        with serial(whole, steps * vectors) as step:
            for line in range(count):
                multiply(step * lanes, line, 0)
        for number, (line, row) in enumerate(sums):
            total = tile[at(line, row, 0)]
            for vector in range(1, vectors):
                total = total + tile[at(line, row, vector)]
            I.buffer_store(totals, _lane_sum(total, lanes), [i64(number)])
        with serial(depth, whole * lanes) as k:
            for number, (line, row) in enumerate(sums):
                value = self.matrix(slab, n + line, first + k, 1)
                product = value * self.factor(slab, row, first, k, 1, stride)
                I.buffer_store(totals, totals[i64(number)] + product, [i64(number)])
        return totals

    def write(self, line: At, column: Expr, columns: Index, row: int) -> None:
        """The sums to a line of the result, through the epilogue."""
        start = row * self.block
        self.operands.write(line, column, columns, self.lanes, lambda n: self.sums[n + start])


def _in_groups(length: Index, count: int, group: Callable[[Index, int], None]) -> None:
    """``group(first, count)`` for all of a length, as :func:`.emit.in_vectors`, never unrolled."""
    whole = tirx.floordiv(i64(length), i64(count))
    with serial(whole) as index:
        group(index * count, count)
    exact = known(length)
    if exact is not None:
        first = exact // count * count
        emit.in_vectors(exact - first, count, lambda i, n: group(i64(first) + i, n))
        return
    with serial(length, whole * count) as index:
        group(index, 1)


def _lane_sum(vector: Expr, lanes: int) -> Expr:
    """The sum of a vector's lanes, halves added to each other."""
    while lanes > 1:
        vector = I.Bind(vector)
        half = lanes // 2
        low, high = range(half), range(half, lanes)
        vector = tirx.Shuffle([vector], list(low)) + tirx.Shuffle([vector], list(high))
        lanes = half
    return vector
