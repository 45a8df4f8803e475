"""Scores before the softmax: scale, region, mask, and the keys that a row sees."""

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules.gpu.attention.attention_place import WorkgroupPlace
from tvm_iree_ext.schedules.gpu.attention.attention_rows import side_by_side
from tvm_iree_ext.schedules.gpu.attention.attention_softmax import ScoreDomain
from tvm_iree_ext.schedules.gpu.emit.chip_math import as_held, as_held_dtype, held
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, wide
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.tir.tir_expressions import cast, i64, known

_LOG2E = math.log2(math.e)


class ScoreMask:
    """Scores of a step, from products to what the softmax takes."""

    def __init__(self, place: WorkgroupPlace) -> None:
        self.place, self.plan, self.op = place, place.plan, place.op
        self.operands, self.lanes = place.operands, place.lanes
        plan, lanes, operands = self.plan, self.lanes, self.operands
        self.key_count = place.key_count
        self.mask_keys = operands.space.count(self.op.dims["k2"])
        self.whole_keys = (known(self.key_count) or 1) % plan.keys == 0
        self.masked = "mask" in self.op.maps
        self.placed = self.op.region is not None and bool(self.op.region.dims)
        self.needs_rows = self.masked or self.op.band is not None or self.placed
        self.rows = self._rows() if self.needs_rows else {}
        self.keys = plan.key_order[plan.scores[..., 1]]
        self.runs = self._runs()
        if self.needs_rows or not self.whole_keys:
            for register in range(self.keys.shape[1]):
                lanes.table(self.keys[:, register])

    def _rows(self) -> dict[tuple[int, int], Any]:
        """The row of each slot, bound; where there is none, the last."""
        place = self.place
        found = {}
        for tile in range(self.plan.row_tiles):
            for slot in range(self.plan.score_rows.count):
                row = place.row(tile, slot)
                if not place.whole_rows:
                    row = tirx.min(row, i64(place.row_count) - 1)
                found[tile, slot] = I.Bind(row)
        return found

    def emit(self, first_key: Any, scores: Any, registers: int, domain: ScoreDomain) -> None:
        """Scale, change and mask the scores of a step; at the edges of what rows see, hide keys."""
        plan, op = self.plan, self.op
        slots = plan.score_rows.slots
        base = 1.0 if op.score_domain == "natural" else _LOG2E
        factor = self.operands.scale * self.operands.const(base)
        if op.scale is None and not domain.products:
            factor = I.Bind(factor)
        for tile in range(plan.row_tiles):
            for start, count in self.runs:
                added = self._added(tile, first_key, start, count)
                for register in range(start, start + count):
                    at = tile * registers + register
                    score = scores[at]
                    if not domain.products:
                        score = score * factor
                    if op.region is not None:
                        score = op.changed(
                            held(score), self._position_of(tile, first_key, register)
                        )
                    if added:
                        score = score + added[register - start]
                    if not domain.products or added:
                        I.buffer_store(scores, score, [at])
        edge = self._edge(first_key)
        if edge is None:
            return
        with I.If(edge), I.Then():
            for tile in range(plan.row_tiles):
                for register in range(registers):
                    at = tile * registers + register
                    seen = self._seen(tile, slots[register], first_key, register)
                    hidden = self.operands.const(-math.inf)
                    I.buffer_store(scores, tirx.Select(seen, scores[at], hidden), [at])

    def _runs(self) -> list[tuple[int, int]]:
        """Registers of a row whose keys the mask has side by side: first and count."""
        most = 1
        if self.masked:
            view, dims = self.operands.views["mask"], self.op.dims["k2"]
            if known(view.along(dims)) != 0:
                most = vector_elements(8 * item_bytes(view.dtype), self.plan.keys, self.mask_keys)
        return side_by_side(self.keys, self.plan.score_rows.slots, most)

    def _added(self, tile: int, first_key: Any, start: int, count: int) -> list[Any]:
        """What the mask adds to the scores of a run of registers; nothing without one."""
        if not self.masked:
            return []
        operands = self.operands
        view, space = operands.views["mask"], operands.space
        key = first_key + wide(self.lanes.table(self.keys[:, start]))
        if not self.whole_keys:
            key = tirx.min(key, i64(self.mask_keys) - count)
        row = self.rows[tile, self.plan.score_rows.slots[start]]
        at = self.place.at_row(row) | space.spread(key, self.op.dims["k2"])
        if count == 1:
            value = cast(view.buffer[tuple(view.index(at))], view.loaded)
            return [operands.mask_value(value)]
        buffer = view.buffer
        if view.dtype == "bool":  # of which CUDA has no vectors
            buffer = I.decl_buffer(buffer.shape, "int8", data=buffer.data)
        dtype = as_held_dtype(view.loaded)
        cell = I.alloc_buffer((count,), dtype, scope="local", align=16)
        I.buffer_store(
            cell,
            as_held(buffer[tuple(view.index(at, count))], dtype),
            [vector(tirx.const(0, "int32"), count)],
        )
        values = [cell[place] for place in range(count)]
        if dtype != view.loaded:
            values = [tirx.reinterpret(view.loaded, value) for value in values]
        return [operands.mask_value(value) for value in values]

    def _position_of(self, tile: int, first_key: Any, register: int) -> dict[int, Any]:
        """The iteration dims of a score, where the region takes some."""
        if not self.placed:
            return {}
        key = first_key + wide(self.lanes.table(self.keys[:, register]))
        row = self.rows[tile, self.plan.score_rows.slots[register]]
        spread = self.operands.space.spread
        return self.place.at_row(row) | spread(key, self.op.dims["k2"])

    def _position(self, row: Any) -> Any:
        """The position of a row along the last of the row dims."""
        if len(self.place.row_dims) < 2:
            return row
        last = self.place.row_dims[-1]
        return self.operands.space.spread(row, self.place.row_dims)[last]

    def _seen(self, tile: int, slot: int, first_key: Any, register: int) -> Any:
        key = first_key + wide(self.lanes.table(self.keys[:, register]))
        bounds = []
        if not self.whole_keys:
            bounds.append(key < self.key_count)
        band = self.op.band
        if band is not None:
            position = i64(self._position(self.rows[tile, slot])) + self.operands.band_offset(
                self.key_count
            )
            if band.right is not None:
                bounds.append(key <= position + band.right)
            if band.left is not None:
                bounds.append(key >= position - band.left)
        seen = bounds[0]
        for bound in bounds[1:]:
            seen = tirx.And(seen, bound)
        return seen

    def _edge(self, first_key: Any) -> Any | None:
        """Whether some row of the workgroup does not see some key of the step."""
        plan, band = self.plan, self.op.band
        edges = []
        if not self.whole_keys:
            edges.append(first_key + plan.keys > self.key_count)
        if band is not None and len(self.place.row_dims) > 1:
            return tirx.const(True, "bool")
        if band is not None:
            first = self.place.first_row + self.operands.band_offset(self.key_count)
            if band.right is not None:
                edges.append(first_key + (plan.keys - 1) > first + band.right)
            if band.left is not None:
                edges.append(first_key < first + (plan.rows - 1) - band.left)
        if not edges:
            return None
        edge = edges[0]
        for other in edges[1:]:
            edge = tirx.Or(edge, other)
        return edge
