"""The product of a vector and a matrix: each element of the matrix is read once, in order.

    for slabs, blocks of n (a task):
        factors[k] = a                                          (scratch)
        columns:  for some rows of b at a time:  sums[n] += factors[k] * b[k, n]
        rows:     for some n at a time:          sums[n] = sum over k of factors[k] * b[n, k]
        result = epilogue(init + sums)

``columns`` where n lies next to each other in b, ``rows`` where the reduced dim does.
"""

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.contraction_plan import Operands, Plan
from tvm_iree_ext.schedules.cpu.emit import At, Expr, Index, Space, held_index, i64, serial
from tvm_iree_ext.schedules.cpu.matmul import zeros

# Vectors of a line of b at a time: with the lines, enough sums to hide the latency of one.
_VECTORS = 2


def vector_form(plan: Plan) -> str | None:
    """``"columns"``, ``"rows"``, or None where the product is of another kind."""
    if plan.m is not None or plan.n is None:
        return None
    if plan.lies_along(plan.b, [plan.n]):
        return "columns"
    return "rows" if plan.lies_along(plan.b, plan.depth) else None


class VectorLoops:
    """A kernel under construction."""

    def __init__(self, plan: Plan, config: LoweringConfig) -> None:
        self.plan, self.config = plan, config
        self.operands = Operands(plan)
        self.lanes = config.vector_lanes
        self.together = config.register_tile["rows"]
        self.dtype = plan.op.accumulator_dtype
        self.wide = self.operands.extent(plan.n)
        self.depth = self.operands.space.count(plan.depth)
        self.block = config.workgroup_tile["n"]

    def emit(self) -> None:
        """The whole function."""
        plan, operands = self.plan, self.operands
        slabs = operands.space.count(plan.slabs)
        columns = emit.smaller(self.block, self.wide)
        space = Space((slabs, emit.ceil_div(self.wide, self.block)))
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(space.count((0, 1)))) as task:
            at = space.spread(task, (0, 1))
            slab = emit.bound({**operands.origin, **operands.space.spread(at[0], plan.slabs)})
            column = i64(held_index(i64(at[1]) * self.block))
            self.factors = emit.scratch([self.depth], self.dtype)
            self.sums = emit.scratch([self.block], self.dtype)
            self.pack(slab)
            live = emit.part(columns, self.wide, column)
            if self.config.algorithm == "columns":
                self.over_columns(slab, column, live)
            else:
                emit.in_vectors(
                    live, self.together, lambda n, count: self.over_rows(slab, column, n, count)
                )
            self.write(slab, column, live)

    def pack(self, slab: At) -> None:
        """``factors`` = a."""
        view = self.operands.views[self.plan.a]

        def move(k: Index, lanes: int) -> None:
            value = view.load(self.operands.depth_at(slab, k), self.dtype, lanes)
            I.buffer_store(self.factors, value, [emit.run(k, lanes)])

        along = self.plan.lies_along(self.plan.a, self.plan.depth)
        emit.in_vectors(self.depth, self.lanes if along else 1, move)

    def matrix(self, slab: At, n: Index, k: Index, lanes: int) -> Expr:
        """Elements of b from a place on."""
        at = self.operands.depth_at(self.operands.at(slab, self.plan.n, n), k)
        return self.operands.views[self.plan.b].load(at, self.dtype, lanes)

    def over_columns(self, slab: At, column: Expr, columns: Index) -> None:
        """Lines of b, some at a time, each times its factor."""

        def clear(n: Index, lanes: int) -> None:
            I.buffer_store(self.sums, zeros(self.dtype, lanes), [emit.run(n, lanes)])

        emit.in_vectors(columns, self.lanes, clear)

        def lines(k: Index, count: int) -> None:
            factors = [I.Bind(self.factors[i64(k) + line]) for line in range(count)]

            def piece(n: Index, lanes: int) -> None:
                place = emit.run(n, lanes)
                total = self.sums[place]
                for line, factor in enumerate(factors):
                    value = self.matrix(slab, column + n, i64(k) + line, lanes)
                    total = total + value * emit.splat(factor, lanes)
                I.buffer_store(self.sums, total, [place])

            emit.in_vectors(columns, self.lanes, piece)

        emit.in_vectors(self.depth, self.together, lines)

    def over_rows(self, slab: At, column: Expr, n: Index, count: int) -> None:
        """``count`` sums, each over a line of b."""
        lanes, vectors = self.lanes, _VECTORS
        tile = emit.registers(count * vectors * lanes, self.dtype)
        totals = emit.registers(count, self.dtype)

        def at(line: int, vector: int) -> Expr:
            return emit.run((line * vectors + vector) * lanes, lanes)

        places = [(line, vector) for vector in range(vectors) for line in range(count)]
        for line, vector in places:
            I.buffer_store(tile, zeros(self.dtype, lanes), [at(line, vector)])
        steps = tirx.floordiv(i64(self.depth), i64(vectors * lanes))
        with serial(steps) as step:
            for line, vector in places:
                k = (step * vectors + vector) * lanes
                value = self.matrix(slab, column + n + line, k, lanes)
                product = value * self.factors[emit.run(k, lanes)]
                I.buffer_store(tile, tile[at(line, vector)] + product, [at(line, vector)])
        for line in range(count):
            parts = [tile[i64(line * vectors * lanes + i)] for i in range(vectors * lanes)]
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [a + b for a, b in zip(parts[:half], parts[half:], strict=True)]
            I.buffer_store(totals, parts[0], [i64(line)])
        with serial(self.depth, steps * (vectors * lanes)) as k:
            for line in range(count):
                product = self.matrix(slab, column + n + line, k, 1) * self.factors[k]
                I.buffer_store(totals, totals[i64(line)] + product, [i64(line)])
        for line in range(count):
            I.buffer_store(self.sums, totals[i64(line)], [i64(n) + line])

    def write(self, slab: At, column: Expr, columns: Index) -> None:
        """The sums to the result, through the epilogue."""
        self.operands.write(slab, column, columns, self.lanes, lambda n: self.sums[n])
