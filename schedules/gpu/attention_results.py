"""What a workgroup writes: the normalised output, or the running state merged with what came in."""

from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.emit import Index
from tvm_iree_ext.schedules.gpu.attention_kinds import acc_coordinates
from tvm_iree_ext.schedules.gpu.attention_merge import Finish, Partials, finish
from tvm_iree_ext.schedules.gpu.attention_plan import AttentionPlan, side_by_side
from tvm_iree_ext.schedules.gpu.attention_softmax import Softmax
from tvm_iree_ext.schedules.gpu.attention_tiles import Lanes, Source, vector, where, wide
from tvm_iree_ext.schedules.layouts import vector_elements

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.expressions import known, run


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
        partials: tuple[Partials, Any, Any] | None,
    ) -> None:
        self.plan, self.operands, self.lanes, self.op = plan, operands, lanes, plan.op
        self.outer, self.row_dims = outer, row_dims
        self.first_row, self.row_count, self.first_column = first_row, row_count, first_column
        self.softmax, self.outputs, self.partials = softmax, outputs, partials
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
        softmax, space = self.softmax, self.operands.space
        first = None if isinstance(self.first_column, int) else self.first_column == 0
        if self.partials is not None:
            partials, part, first_point = self.partials
            with where(first):
                point = [part, first_point + row]
                I.buffer_store(partials.maxima, softmax.maxima[at], point)
                I.buffer_store(partials.sums, softmax.sums[at], point)
            return lambda value, _: value
        place = {**self.outer, **space.spread(row, self.row_dims)}
        return finish(
            self.operands, softmax.domain, self.lanes.kind, place, softmax.maxima[at],
            softmax.sums[at], first,
        )  # fmt: skip

    def _partial_rows(self) -> bool:
        return (known(self.row_count) or 1) % self.plan.rows != 0 or known(self.row_count) is None

    def _runs(self, slot: int) -> list[tuple[int, int]]:
        """Registers of a row whose columns are side by side, as memory's are: first and count."""
        slots, columns = self.plan.output_slots or (), self.coordinates[..., 1]
        source = Source(
            self.operands.views["output"], self.operands.space, self.row_dims, self.op.dims["n"],
            self.outer,
        )  # fmt: skip
        most = source.run(True, 16)
        if self.partials is not None:
            most = vector_elements(8 * item_bytes(self.op.compute_dtype), 16, self.op.count("n"))
        runs = side_by_side(columns, slots, most)
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
            if self.partials is None:
                view.store(at, finished(self.outputs[register], at), count)
                return
            partials, part, first_point = self.partials
            columns = run(place, count)
            value = self.outputs[register]
            I.buffer_store(partials.products, value, [part, first_point + row, columns])
