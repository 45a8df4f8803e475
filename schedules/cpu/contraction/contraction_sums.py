"""Sums of products of a task on their way to the result, where they need no pass of their own.

    each block of depth begins with zeros, and all but the first add what is kept to its sums;
    the last one takes the sums in registers through the epilogue to the result

One chain of additions, as long as depth, would lose more.  Between blocks sums are kept in the
result itself, where it has their type and whole vectors, or in scratch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.products.register_product import Either
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known

Take = Callable[[Expr, Expr, Expr], None]
Finish = Take | Either


def kept_in_result(plan: ContractionPlan, lanes: int) -> bool:
    """Whether the result can hold sums between blocks of depth."""
    wide = plan.extent(plan.n)
    same = plan.op.types["result"].dtype == plan.op.accumulator_dtype
    return same and wide is not None and wide % lanes == 0


def without_scratch(plan: ContractionPlan, lanes: int, single: bool) -> bool:
    """Whether sums need no scratch, however blocks are cut; ``single`` where depth is one."""
    return plan.runs_along_n and (single or kept_in_result(plan, lanes))


@dataclass(frozen=True)
class DirectSums:
    """The sums of a task.

    ``slab``, ``row`` and ``column`` say where its block of ``rows`` x ``columns`` begins;
    ``scratch``, of lines of ``stride``, is None where sums are kept in the result, or not at all.
    No vector of the result begins behind ``last`` (:meth:`.Plan.last_vector`).
    """

    operands: ContractionOperands
    slab: At
    row: Expr
    rows: Index
    column: Expr
    columns: Index
    lanes: int
    scratch: Any = None
    stride: int = 0
    last: int | None = None

    @property
    def held(self) -> str:
        """The type of sums."""
        return self.operands.op.accumulator_dtype

    def at(self, i: Expr, j: Expr) -> At:
        """The point of the result at a row and column of the block."""
        operands, plan = self.operands, self.operands.plan
        at = operands.at(self.slab, plan.m, self.row + i)
        return operands.at(at, plan.n, self.column + j)

    @contextmanager
    def inside(self, i: Expr, j: Expr) -> Iterator[None]:
        """Guard of work for vectors of the block only, not for those that fill a tile."""
        held = []
        if known(self.rows) is None:
            held.append(i < i64(self.rows))
        if known(self.columns) is None:
            held.append(j < i64(self.columns))
        if not held:
            yield
            return
        with I.If(tirx.all(*held)), I.Then():
            yield

    def load(self, i: Expr, j: Expr) -> Expr:
        """A vector that is kept."""
        if self.scratch is not None:
            return self.scratch[emit.run(i * self.stride + j, self.lanes)]
        if known(self.rows) is None:
            i = tirx.min(i, i64(self.rows) - 1)
        if known(self.columns) is None:
            j = tirx.min(j, i64(self.columns) - self.lanes)
        return self.operands.views["result"].load(self.at(i, j), self.held, self.lanes)

    def ways(self, block: Expr, blocks: Index) -> Finish:
        """Finish for sums of a block of depth: keep, add or store vectors."""
        if known(blocks) == 1:
            return self.finish

        def added(take: Take) -> Take:
            return lambda i, j, value: take(i, j, emit.cast(value, self.held) + self.load(i, j))

        later = Either(block + 1 == i64(blocks), added(self.finish), added(self.keep))
        first: Finish = self.keep
        if known(blocks) is None:
            first = Either(i64(blocks) == 1, self.finish, self.keep)
        return Either(block == 0, first, later)

    def keep(self, i: Expr, j: Expr, value: Expr) -> None:
        """Keep a vector."""
        value = emit.cast(value, self.held)
        if self.scratch is not None:
            I.buffer_store(self.scratch, value, [emit.run(i * self.stride + j, self.lanes)])
            return
        with self.inside(i, j):
            self.operands.views["result"].store(self.at(i, j), value, self.lanes)

    def finish(self, i: Expr, j: Expr, value: Expr) -> None:
        """Take a vector of sums to the result."""
        sums = emit.registers(self.lanes, self.held)
        I.buffer_store(sums, emit.cast(value, self.held), [emit.run(0, self.lanes)])

        def part(first: Index, lanes: int) -> None:
            with emit.vector_loop(lanes) if lanes > 1 else emit.serial(1) as lane:
                place = i64(first) + i64(lane)
                self.operands.finish(self.at(i, j + place), sums[place])

        wide, exact = self.operands.plan.extent(self.operands.plan.n), known(self.columns)
        with self.inside(i, j):
            if self.last is not None:
                j = emit.smaller(j, self.last - self.column)
                part(0, self.lanes)
                return
            if any(count is not None and count % self.lanes == 0 for count in (wide, exact)):
                part(0, self.lanes)
                return
            with I.If(j + self.lanes <= i64(self.columns)):
                with I.Then():
                    part(0, self.lanes)
                with I.Else():
                    if exact is not None:
                        emit.in_vectors(exact % self.lanes, self.lanes, part)
                    else:
                        with emit.serial(i64(self.columns) - j) as place:
                            part(place, 1)
