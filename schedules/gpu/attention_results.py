"""What a workgroup writes: the normalised output, or the running state merged with what came in."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.cpu.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.cpu.emit import At, Index
from tvm_iree_ext.schedules.gpu.attention_kinds import acc_coordinates
from tvm_iree_ext.schedules.gpu.attention_math import exp2, held
from tvm_iree_ext.schedules.gpu.attention_plan import AttentionPlan, side_by_side
from tvm_iree_ext.schedules.gpu.attention_softmax import ScoreDomain, Softmax
from tvm_iree_ext.schedules.gpu.attention_tiles import Lanes, Source, vector, where, wide

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.expressions import known

Finish: TypeAlias = Callable[[Any, At], Any]
"""A result from what was summed, and where it is."""

_LOG2E = math.log2(math.e)


class Results:
    """The end of a kernel."""

    def __init__(
        self,
        plan: AttentionPlan,
        operands: AttentionOperands,
        lanes: Lanes,
        outer: dict[int, Any],
        row_dims: Ints,
        first_row: Any,
        row_count: Index,
        first_column: Any,
        softmax: Softmax,
        outputs: Any,
    ) -> None:
        self.plan, self.operands, self.lanes, self.op = plan, operands, lanes, plan.op
        self.outer, self.row_dims = outer, row_dims
        self.first_row, self.row_count, self.first_column = first_row, row_count, first_column
        self.softmax, self.outputs = softmax, outputs
        self.coordinates = acc_coordinates(plan.second, plan.column_major)

    def emit(self) -> None:
        """Store what each lane holds, as far as the result reaches."""
        plan = self.plan
        each = len(plan.output_slots or ())
        subgroup = np.arange(plan.subgroups)[:, None] * plan.row_tiles * plan.second.m
        for tile in range(plan.row_tiles):
            for slot in range(plan.score_rows.count):
                rows = subgroup + tile * plan.second.m + plan.score_rows.held[None, :, slot]
                row = I.Bind(self.first_row + wide(self.lanes.table(rows)))
                with where(row < self.row_count if self._partial_rows() else None):
                    finished = self._finished(row, tile * plan.score_rows.count + slot)
                    for column_tile in range(plan.column_tiles):
                        base = (tile * plan.column_tiles + column_tile) * each
                        for start, count in self._runs(slot):
                            self._store(row, column_tile, base, start, count, finished)

    def _finished(self, row: Any, at: int) -> Finish:
        """What makes a row's result of its sums."""
        softmax, operands = self.softmax, self.operands
        if not self.op.online:
            inverse = held(operands.const(1.0) / softmax.sums[at])
            return lambda value, _: value * _splat(inverse, value)
        place = {**self.outer, **operands.space.spread(row, self.row_dims)}
        state = Merge(operands, softmax.domain, self.lanes.kind, place)
        maximum = softmax.maxima[at] * operands.const(softmax.domain.result)
        first = None if isinstance(self.first_column, int) else self.first_column == 0
        state.settle(maximum, softmax.sums[at], first)
        return state.output

    def _partial_rows(self) -> bool:
        return (known(self.row_count) or 1) % self.plan.rows != 0 or known(self.row_count) is None

    def _runs(self, slot: int) -> list[tuple[int, int]]:
        """Registers of a row whose columns are side by side, as memory's are: first and count."""
        slots, columns = self.plan.output_slots or (), self.coordinates[..., 1]
        source = Source(
            self.operands.views["output"], self.operands.space, self.row_dims, self.op.dims["n"],
            self.outer,
        )  # fmt: skip
        runs = side_by_side(columns, slots, source.run(True, 16))
        return [(start, count) for start, count in runs if slots[start] == slot]

    def _store(
        self, row: Any, column_tile: int, base: int, start: int, count: int, finished: Finish
    ) -> None:
        plan, operands = self.plan, self.operands
        column = self.coordinates[:, start, 1] + column_tile * plan.second.n
        view, space = operands.views["output"], operands.space
        place = wide(self.lanes.table(column)) + self.first_column
        at = {**self.outer, **space.spread(row, self.row_dims)}
        at |= space.spread(place, self.op.dims["n"])
        register = vector(tirx.const(base + start, "int32"), count)
        width = self.op.count("n")
        outside = int(column.max()) + count > width or not isinstance(self.first_column, int)
        with where(place < width if outside else None):
            view.store(at, finished(self.outputs[register], at), count)


def _splat(number: Any, like: Any) -> Any:
    lanes = int(like.ty.dtype.lanes)
    return tirx.Broadcast(number, lanes) if lanes > 1 else number


class Merge:
    """Running state merged with what a kernel found, by the online rule.

    mx' = max(mx, maximum);  c = 2^(mx - mx'), b = 2^(maximum - mx'), in the domain's base
    sum' = c * sum + b * total;  output' = c * output + b * products
    """

    def __init__(
        self, operands: AttentionOperands, domain: ScoreDomain, kind: str, row: At
    ) -> None:
        self.operands, self.kind, self.row = operands, kind, row
        self.base = 1.0 if operands.op.score_domain == "log2" else _LOG2E
        self.carried: Any = None
        self.added: Any = None

    def settle(self, maximum: Any, total: Any, first: Any | None) -> None:
        """Write ``max`` and ``sum`` (where ``first`` holds), and keep the factors."""
        operands, views = self.operands, self.operands.views
        dtype = operands.op.compute_dtype
        started = held(views["max_init"].load(self.row, dtype))
        found, total = held(maximum), held(total)
        # What saw only -inf, or nothing, adds nothing; NaN is not passed over.
        seen = tirx.Or(total > operands.const(0.0), tirx.isnan(total))
        kept = tirx.Or(tirx.isnan(started), tirx.Or(started > found, tirx.Not(seen)))
        newest = tirx.Select(kept, started, found)
        unseen = tirx.And(tirx.isnan(total), found < operands.const(math.inf))
        newest = held(tirx.Select(unseen, total, newest))
        self.carried = held(self._power(started - newest))
        self.added = held(tirx.Select(seen, self._power(found - newest), operands.const(0.0)))
        summed = views["sum_init"].load(self.row, dtype)
        with where(first):
            views["max"].store(self.row, newest)
            views["sum"].store(self.row, self.carried * summed + self.added * total)

    def _power(self, difference: Any) -> Any:
        scaled = difference if self.base == 1.0 else difference * self.operands.const(self.base)
        return held(exp2(self.kind, scaled))

    def output(self, value: Any, at: At) -> Any:
        """The output at a point, from the products there: one, or a run of them."""
        count = int(value.ty.dtype.lanes)
        view = self.operands.views["output_init"]
        before = view.load(at, self.operands.op.compute_dtype, count)
        return _splat(self.carried, value) * before + _splat(self.added, value) * value
