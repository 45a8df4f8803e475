"""A workgroup of attention, whatever moves and multiplies: its part, range of keys, softmax.

How keys and values come, and how the products are made, is for :mod:`.attention_kernel` and
:mod:`.attention_warpgroup_kernel`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.emit import Index, ceil_div, divide, smaller
from tvm_iree_ext.schedules.gpu.attention.attention_merge import Partials
from tvm_iree_ext.schedules.gpu.attention.attention_place import WorkgroupPlace
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_products import Feed
from tvm_iree_ext.schedules.gpu.attention.attention_results import Results
from tvm_iree_ext.schedules.gpu.attention.attention_scores import ScoreMask
from tvm_iree_ext.schedules.gpu.attention.attention_softmax import ScoreDomain, Softmax
from tvm_iree_ext.schedules.gpu.attention.attention_tiles import Source
from tvm_iree_ext.schedules.gpu.emit.chip_math import as_held
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes, vector, wide
from tvm_iree_ext.schedules.gpu.sblocks.launch_bounds import LEAST_WORKGROUPS
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import i64, known


class AttentionWorkgroup(ABC):
    """A workgroup while its kernel is emitted."""

    def __init__(self, plan: AttentionPlan, operands: AttentionOperands) -> None:
        self.plan, self.operands, self.op = plan, operands, plan.op
        self.space = operands.space
        dims = self.op.dims
        self.row_dims, outer = self._rows()
        self.grid_dims = (*dims["b"], *outer)
        self.row_count = self.space.count(self.row_dims)

    def _rows(self) -> tuple[Ints, Ints]:
        """The dims that a workgroup's rows run along, and the row dims that are of the grid.

        A band is of the last one's positions: where these fill tiles, the others are left out.
        """
        m = self.op.dims["m"]
        if self.op.band is None or len(m) < 2:
            return m, ()
        last = known(self.space.extents[m[-1]])
        return (m[-1:], m[:-1]) if last is None or last >= self.plan.rows else (m, ())

    def emit(self) -> None:
        """Emit the kernel, and the one that merges parts of keys."""
        plan = self.plan
        splits = plan.config.splits
        row_tiles = ceil_div(self.row_count, plan.rows)
        column_tiles = -(-self.op.count("n") // plan.config.columns)
        grid = self.space.count(self.grid_dims)
        partials = None
        if splits > 1:
            points = i64(grid) * i64(self.row_count)
            partials = Partials(self.operands, splits, points)
        total = i64(grid) * i64(row_tiles) * (column_tiles * splits)
        with self._launched(total) as workgroup:
            rest, row_tile = divide(wide(workgroup), row_tiles)
            rest, column_tile = divide(rest, column_tiles)
            rest, part = divide(rest, splits)
            band = self.op.band
            if band is not None and band.right is not None and band.left is None:
                row_tile = i64(row_tiles) - 1 - row_tile  # the longest first
            self.first_row = I.Bind(row_tile * plan.rows)
            self.first_column: Any = 0
            if column_tiles > 1:
                self.first_column = I.Bind(column_tile * plan.config.columns)
            outer = self.space.spread(rest, self.grid_dims)
            self.outer = {dim: I.Bind(i64(value)) for dim, value in outer.items()}
            self.key_count = self.operands.key_count(self.outer)
            self.part: Any = None
            self.partials: tuple[Partials, Any, Any] | None = None
            if partials is not None:
                self.part = I.Bind(part)
                self.partials = partials, self.part, I.Bind(rest * self.row_count)
            self._workgroup()
        if partials is not None:
            domain = ScoreDomain.of(self.op)
            partials.merge(domain, plan.chip.kind, self.grid_dims, self.row_dims)

    @contextmanager
    def _launched(self, total: Any) -> Iterator[Any]:
        """The kernel's grid; gives the workgroup's number."""
        plan = self.plan
        with (
            I.launch_thread("blockIdx.x", total) as workgroup,
            I.launch_thread("threadIdx.y", plan.subgroups) as subgroup,
            I.launch_thread("threadIdx.x", plan.lanes) as lane,
            # Else ptxas would rather spill than have fewer workgroups on a core.
            I.attr(0, LEAST_WORKGROUPS, 1),
        ):
            self.lanes = WorkgroupLanes(subgroup, lane, plan.subgroups, plan.lanes, plan.chip.kind)
            yield workgroup

    def _source(self, name: str, rows: Ints, columns: Ints) -> Source:
        first = self.first_column if name == "value" else 0
        limit = self.key_count if "key_lengths" in self.op.maps and name != "query" else None
        return Source(
            self.operands.views[name], self.space, rows, columns, self.outer, first, limit
        )

    @abstractmethod
    def _workgroup(self) -> None:
        """What the workgroup does with its rows."""

    def _accumulators(self) -> None:
        """What a lane keeps: scores, weights, outputs and the rows' statistics."""
        plan = self.plan
        first, second = plan.first, plan.second
        second_dtype = plan.held_dtypes[1]
        self.score_registers = plan.score_tiles * first.operand("acc").elements_per_lane
        self.output_registers = plan.column_tiles * second.operand("acc").elements_per_lane
        self.scores = self._registers(plan.row_tiles * self.score_registers, self.op.compute_dtype)
        self.outputs = self._registers(
            plan.row_tiles * self.output_registers, self.op.compute_dtype
        )
        self.weights = self._registers(plan.row_tiles * self.score_registers, second_dtype)
        self.converted = self.weights
        self.softmax = Softmax(plan, self.operands, self.lanes)
        self._fill(self.outputs, plan.row_tiles * self.output_registers)

    def _masked(self) -> None:
        """Make what masks scores."""
        self.mask = ScoreMask(self._place())

    def _place(self) -> WorkgroupPlace:
        return WorkgroupPlace(
            self.plan, self.operands, self.lanes, self.outer, self.row_dims, self.row_count,
            self.first_row, self.first_column, self.key_count,
        )  # fmt: skip

    def _finish(self) -> None:
        """Store the results."""
        self.softmax.finish()
        Results(self._place(), self.softmax, self.outputs, self.partials).emit()

    def _registers(self, count: int, dtype: str) -> Any:
        return I.alloc_buffer((count,), dtype, scope="local", align=16)

    def _fill(self, buffer: Any, count: int) -> None:
        zero = tirx.const(0, str(buffer.dtype))
        each = 4 if count % 4 == 0 else 1
        for at in range(0, count, each):
            value = tirx.Broadcast(zero, each) if each > 1 else zero
            I.buffer_store(buffer, value, [vector(tirx.const(at, "int32"), each)])

    def _range(self) -> tuple[Index, Index]:
        """The tiles of keys that some row of the workgroup sees."""
        band, keys = self.op.band, self.plan.keys
        begin: Index = 0
        end: Index = self.key_count
        if band is not None:
            low, high = self._positions()
            begin, end = self.operands.band_range(low, high, self.key_count)
        first = divide(begin, keys)[0] if known(begin) is None else (known(begin) or 0) // keys
        last = ceil_div(end, keys)
        if self.part is None:
            return first, last
        each = I.Bind(ceil_div(i64(last) - first, self.plan.config.splits))
        mine = I.Bind(self.part * each + first)
        return mine, smaller(mine + each, last)

    def _positions(self) -> tuple[Any, Any]:
        """The positions of the first and last of the workgroup's rows, or bounds of them."""
        if len(self.row_dims) > 1:
            return i64(0), i64(self.space.extents[self.row_dims[-1]]) - 1
        last = self.first_row + (self.plan.rows - 1)
        return self.first_row, smaller(last, i64(self.row_count) - 1)

    def _whole_rows(self) -> bool:
        return (known(self.row_count) or 1) % self.plan.rows == 0

    def _whole_keys(self) -> bool:
        return (known(self.key_count) or 1) % self.plan.keys == 0

    def _weigh(self, tile: int, settle: Callable[[], None] | None = None) -> None:
        """A row tile's scores become weights; what was summed is rescaled.

        ``settle`` waits until all that is under way is summed; weights are written after it.
        """
        plan = self.plan
        base = tile * self.score_registers
        later: list[tuple[int, Any]] = []

        def rescale(slot: int, factor: Any) -> None:
            self._rescale(tile, slot, factor)

        def postpone(slot: int, factor: Any) -> None:
            later.append((slot, factor))

        self.softmax.step(tile, self.scores, base, postpone if settle else rescale)
        if settle is not None:
            settle()
            for slot, factor in later:
                rescale(slot, factor)
        dtype = plan.held_dtypes[1]
        for at, source, count in self._weight_moves():
            score = self.scores[vector(tirx.const(base + source, "int32"), count)]
            place = vector(tirx.const(base + at, "int32"), count)
            I.buffer_store(self.weights, as_held(score, dtype), [place])

    def _rescale(self, tile: int, slot: int, factor: Any) -> None:
        """Multiply what was summed of a row."""
        plan = self.plan
        rescaled = plan.second.operand("acc").elements_per_lane
        for column_tile in range(plan.column_tiles):
            first = tile * self.output_registers + column_tile * rescaled
            for start, count in runs_of(plan.output_slots or (), slot):
                at = vector(tirx.const(first + start, "int32"), count)
                wide_factor = tirx.Broadcast(factor, count) if count > 1 else factor
                I.buffer_store(self.outputs, self.outputs[at] * wide_factor, [at])

    def _weight_moves(self) -> list[tuple[int, int, int]]:
        """Registers of the weights, of the scores that they come from, and how many at once."""
        order = self.plan.weight_registers
        if self.plan.feed is not Feed.REGISTERS or order == tuple(range(self.score_registers)):
            return [(at, at, 2) for at in range(0, self.score_registers, 2)]
        return [(at, source, 1) for at, source in enumerate(order or ())]


def runs_of(slots: Ints, slot: int) -> list[tuple[int, int]]:
    """Registers of a slot in runs: first and count, each a power of two."""
    found, at = [], 0
    while at < len(slots):
        if slots[at] != slot:
            at += 1
            continue
        count = 1
        while at + 2 * count <= len(slots) and set(slots[at : at + 2 * count]) == {slot}:
            count *= 2
        found.append((at, count))
        at += count
    return found
