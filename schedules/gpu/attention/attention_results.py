"""Results of attention: the normalised output, or the running state merged with the given one."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules.gpu.attention.attention_merge import Finish, Partials, finish
from tvm_iree_ext.schedules.gpu.attention.attention_place import WorkgroupPlace
from tvm_iree_ext.schedules.gpu.attention.attention_products import acc_coordinates
from tvm_iree_ext.schedules.gpu.attention.attention_rows import side_by_side
from tvm_iree_ext.schedules.gpu.attention.attention_softmax import Softmax
from tvm_iree_ext.schedules.gpu.attention.attention_tiles import Source
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, where, wide
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.tir.tir_expressions import run


class Results:
    """The end of a kernel."""

    def __init__(
        self,
        place: WorkgroupPlace,
        softmax: Softmax,
        outputs: Any,
        partials: tuple[Partials, Any, Any] | None,
    ) -> None:
        self.place, self.plan, self.op = place, place.plan, place.op
        self.operands, self.lanes = place.operands, place.lanes
        self.softmax, self.outputs, self.partials = softmax, outputs, partials
        self.coordinates = acc_coordinates(self.plan.second, self.plan.column_major)

    def emit(self, column_tiles: Sequence[int] | None = None) -> None:
        """Store what each lane holds, as far as the result reaches.

        ``column_tiles`` are those to store, by default all.  What is written of a row beside its
        output goes with the first.
        """
        plan = self.plan
        stored = range(plan.column_tiles) if column_tiles is None else column_tiles
        each = len(plan.output_slots or ())
        for tile in range(plan.row_tiles):
            for slot in range(plan.score_rows.count):
                row = I.Bind(self.place.row(tile, slot))
                with where(None if self.place.whole_rows else row < self.place.row_count):
                    finished = self._finished(
                        row, tile * plan.score_rows.count + slot, with_row=0 in stored
                    )
                    for column_tile in stored:
                        base = (tile * plan.column_tiles + column_tile) * each
                        for start, count in self._runs(slot):
                            self._store(row, column_tile, base, start, count, finished)

    def _finished(self, row: Any, at: int, *, with_row: bool) -> Finish:
        """What makes a row's result of its sums; ``with_row`` these are written, where results."""
        softmax, column = self.softmax, self.place.first_column
        first = None if isinstance(column, int) else column == 0
        if not with_row:
            first = tirx.const(0, "bool")
        if self.partials is not None:
            partials, part, first_point = self.partials
            with where(first):
                point = [part, first_point + row]
                I.buffer_store(partials.maxima, softmax.maxima[at], point)
                I.buffer_store(partials.sums, softmax.sums[at], point)
            return lambda value, _: value
        return finish(
            self.operands, softmax.domain, self.lanes.kind, self.place.at_row(row),
            softmax.maxima[at], softmax.sums[at], first,
        )  # fmt: skip

    def _runs(self, slot: int) -> list[tuple[int, int]]:
        """Registers of a row whose columns are side by side, as memory's are: first and count."""
        slots, columns = self.plan.output_slots or (), self.coordinates[..., 1]
        source = Source(
            self.operands.views["output"], self.operands.space, self.place.row_dims,
            self.op.dims["n"], self.place.outer,
        )  # fmt: skip
        most = source.run(True, 16)
        if self.lanes.kind == "cuda":  # which has no vectors of more than 16 bytes
            most = min(most, 16 // item_bytes(self.op.compute_dtype))
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
        place = wide(self.lanes.table(column)) + self.place.first_column
        at = self.place.at_row(row) | space.spread(place, self.op.dims["n"])
        register = vector(tirx.const(base + start, "int32"), count)
        width = self.op.count("n")
        outside = int(column.max()) + count > width or not isinstance(self.place.first_column, int)
        with where(place < width if outside else None):
            if self.partials is None:
                view.store(at, finished(self.outputs[register], at), count)
                return
            partials, part, first_point = self.partials
            columns = run(place, count)
            value = self.outputs[register]
            I.buffer_store(partials.products, value, [part, first_point + row, columns])
