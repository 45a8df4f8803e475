"""The attention kernel: a workgroup's rows against all keys that they see, a tile at a time.

    query fragments to registers (or its tile to shared memory)
    start the copy of the first keys
    for tile of keys:
        keys have arrived | start the copy of the tile's values
        S = Q K            -> mask -> maximum, P = exp2(S - maximum), rescale O and the sum
        values have arrived | start the copy of the next keys
        O += P V
    O / sum, or the running state merged with what came in

Both copies have a product to hide behind, with one tile each in shared memory and two barriers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.emit import Index, ceil_div, divide, smaller
from tvm_iree_ext.schedules.gpu.attention_kinds import emit_product, is_multiply_add
from tvm_iree_ext.schedules.gpu.attention_math import as_held
from tvm_iree_ext.schedules.gpu.attention_merge import Partials
from tvm_iree_ext.schedules.gpu.attention_plan import AttentionPlan, Feed, Tile, side_by_side
from tvm_iree_ext.schedules.gpu.attention_results import Results
from tvm_iree_ext.schedules.gpu.attention_scores import ScoreMask
from tvm_iree_ext.schedules.gpu.attention_softmax import ScoreDomain, Softmax
from tvm_iree_ext.schedules.gpu.attention_tiles import (
    FragmentLoad,
    Lanes,
    Source,
    TileCopy,
    vector,
    where,
    wide,
)
from tvm_iree_ext.schedules.gpu.conversion import emit_conversion
from tvm_iree_ext.schedules.gpu.registers import Registers, Workgroup

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.intrin.fragments import run as run_along
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.expressions import i64, known

ALIGNMENT_BYTES = 16  # of the operands, which are read in vectors


def attention_kernel(plan: AttentionPlan) -> tirx.PrimFunc:
    """The function of the op, with its kernel."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = AttentionOperands.declare(plan.op, ALIGNMENT_BYTES)
        _Kernel(plan, operands).emit()
    return builder.get()


class _Kernel:
    def __init__(self, plan: AttentionPlan, operands: AttentionOperands) -> None:
        self.plan, self.operands, self.op = plan, operands, plan.op
        self.space = operands.space
        dims = self.op.dims
        self.row_dims, outer = self._rows()
        self.grid_dims = (*dims["b"], *outer)
        self.row_count = self.space.count(self.row_dims)
        self.key_count = self.space.count(dims["k2"])

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
        plan = self.plan
        splits = plan.config.splits
        row_tiles = ceil_div(self.row_count, plan.rows)
        column_tiles = -(-self.op.count("n") // plan.config.workgroup_tile["n"])
        grid = self.space.count(self.grid_dims)
        partials = None
        if splits > 1:
            points = i64(grid) * i64(self.row_count)
            partials = Partials(self.operands, splits, points)
        total = i64(grid) * i64(row_tiles) * (column_tiles * splits)
        with (
            I.launch_thread("blockIdx.x", total) as workgroup,
            I.launch_thread("threadIdx.y", plan.subgroups) as subgroup,
            I.launch_thread("threadIdx.x", plan.lanes) as lane,
            # Else ptxas would rather spill than have fewer workgroups on a core.
            I.attr(0, "tirx.launch_bounds_min_blocks_per_sm", 1),
        ):
            self.lanes = Lanes(subgroup, lane, plan.subgroups, plan.lanes, plan.chip.kind)
            rest, row_tile = divide(wide(workgroup), row_tiles)
            rest, column_tile = divide(rest, column_tiles)
            rest, part = divide(rest, splits)
            band = self.op.band
            if band is not None and band.right is not None and band.left is None:
                row_tile = i64(row_tiles) - 1 - row_tile  # the longest first
            self.first_row = I.Bind(row_tile * plan.rows)
            self.first_column: Any = 0
            if column_tiles > 1:
                self.first_column = I.Bind(column_tile * plan.config.workgroup_tile["n"])
            outer = self.space.spread(rest, self.grid_dims)
            self.outer = {dim: I.Bind(i64(value)) for dim, value in outer.items()}
            self.part: Any = None
            self.partials: tuple[Partials, Any, Any] | None = None
            if partials is not None:
                self.part = I.Bind(part)
                self.partials = partials, self.part, I.Bind(rest * self.row_count)
            self._workgroup()
        if partials is not None:
            domain = ScoreDomain.of(self.op)
            partials.merge(domain, plan.chip.kind, self.grid_dims, self.row_dims)

    def _source(self, name: str, rows: Ints, columns: Ints) -> Source:
        first = self.first_column if name == "value" else 0
        return Source(self.operands.views[name], self.space, rows, columns, self.outer, first)

    def _workgroup(self) -> None:
        plan, lanes, dims = self.plan, self.lanes, self.op.dims
        first, second = plan.first, plan.second
        _, second_dtype = plan.held_dtypes
        # Keys lie in the order in which lanes read them: neighbours' rows pass over all banks.
        order, places = plan.key_order, None
        if plan.key_tile.key_rows:
            order, places = np.arange(plan.keys), np.argsort(order)
        self.key_copy = TileCopy(
            lanes, self._source("key", dims["k2"], dims["k1"]), plan.key_tile,
            plan.key_rows("key"), places,
        )  # fmt: skip
        self.value_copy = TileCopy(
            lanes, self._source("value", dims["k2"], dims["n"]), plan.value_tile,
            plan.key_rows("value"),
        )  # fmt: skip
        once = not self._loops()
        self.keys = FragmentLoad(
            lanes, first.operand("rhs"), self.key_copy.buffer, plan.key_tile, (1, 0),
            order, once=once,
        )  # fmt: skip
        self.values = FragmentLoad(
            lanes, second.operand("rhs"), self.value_copy.buffer, plan.value_tile, (0, 1), once=once
        )
        self.score_registers = plan.score_tiles * first.operand("acc").elements_per_lane
        self.output_registers = plan.column_tiles * second.operand("acc").elements_per_lane
        self.scores = self._registers(plan.row_tiles * self.score_registers, self.op.compute_dtype)
        self.outputs = self._registers(
            plan.row_tiles * self.output_registers, self.op.compute_dtype
        )
        self.weights = self._registers(plan.row_tiles * self.score_registers, second_dtype)
        self.converted = self.weights
        self.weight_registers = plan.weight_steps * second.operand("lhs").elements_per_lane
        if plan.feed is Feed.SHUFFLE:
            self.converted = self._registers(plan.row_tiles * self.weight_registers, second_dtype)
        if (tile := plan.weight_tile) is not None:
            self.weight_shared_tile = tile
            self.weight_buffer = I.alloc_buffer(
                (tile.elements,), tile.dtype, scope=lanes.scope, align=ALIGNMENT_BYTES
            )
            self.shared_weights = FragmentLoad(
                lanes, second.operand("lhs"), self.weight_buffer, tile, (0, 1),
                subgroup_keys=plan.row_tiles * second.m,
            )  # fmt: skip
        self.looped = is_multiply_add(first)
        self.softmax = Softmax(plan, self.operands, lanes)
        self._fill(self.outputs, plan.row_tiles * self.output_registers)
        self._query()
        self._bind_tables()
        self.mask = ScoreMask(
            plan, self.operands, lanes, self.outer, self.row_dims, self.first_row, self.row_count
        )
        begin, end = self._range()
        self._steps(begin, end)
        self.softmax.finish()
        Results(
            plan, self.operands, lanes, self.outer, self.row_dims, self.first_row, self.row_count,
            self.first_column, self.softmax, self.outputs, self.partials,
        ).emit()  # fmt: skip

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
            begin, end = self.operands.band_range(low, high)
        first = divide(begin, keys)[0] if known(begin) is None else (known(begin) or 0) // keys
        last = ceil_div(end, keys)
        if self.part is None:
            return first, last
        each = I.Bind(ceil_div(i64(last) - first, self.plan.config.splits))
        mine = I.Bind(self.part * each + first)
        return mine, smaller(mine + each, last)

    def _loops(self) -> bool:
        """Whether the steps are surely a loop to TVM, which simplifies one of a single step."""
        plan, band, keys = self.plan, self.op.band, known(self.key_count)
        if keys is not None and keys < 2 * plan.keys * plan.config.splits:
            return False
        if band is None:
            return True
        rows = known(self.row_count)
        both = band.left is not None and band.right is not None
        return not both and plan.config.splits == 1 and (rows is None or rows > plan.rows)

    def _positions(self) -> tuple[Any, Any]:
        """The positions of the first and last of the workgroup's rows, or bounds of them."""
        if len(self.row_dims) > 1:
            return i64(0), i64(self.space.extents[self.row_dims[-1]]) - 1
        last = self.first_row + (self.plan.rows - 1)
        return self.first_row, smaller(last, i64(self.row_count) - 1)

    # The query.

    def _query(self) -> None:
        plan, lanes = self.plan, self.lanes
        source = self._source("query", self.row_dims, self.op.dims["k1"])
        operand = plan.first.operand("lhs")
        if plan.query_tile is not None:
            copy = TileCopy(lanes, source, plan.query_tile, True)
            self.queries = FragmentLoad(
                lanes, operand, copy.buffer, plan.query_tile, (0, 1),
                subgroup_keys=plan.row_tiles * plan.first.m, once=True,
            )  # fmt: skip
            copy.issue(self.first_row, self._whole_rows())
            copy.commit()
            copy.arrive()
            lanes.barrier()
            return
        each = operand.elements_per_lane
        count = plan.row_tiles * plan.depth_steps * each
        self.query = self._registers(count, plan.held_dtypes[0])
        held = operand.coordinates(lanes.size)
        run = min(
            run_along(operand, 1), source.run(True, each),
            16 // max(item_bytes(source.view.dtype), item_bytes(plan.held_dtypes[0])),
        )  # fmt: skip
        subgroup = np.arange(plan.subgroups)[:, None] * plan.row_tiles * plan.first.m
        for tile in range(plan.row_tiles):
            for step in range(plan.depth_steps):
                for start in range(0, each, run):
                    row = subgroup + tile * plan.first.m + held[None, :, start, 0]
                    column = held[:, start, 1] + step * plan.first.k
                    at = (tile * plan.depth_steps + step) * each + start
                    self._load_query(source, row, column, run, at)

    def _load_query(
        self, source: Source, row: np.ndarray, column: np.ndarray, run: int, at: int
    ) -> None:
        row_at = self.first_row + wide(self.lanes.table(row))
        if not self._whole_rows():
            row_at = tirx.min(row_at, i64(self.row_count) - 1)
        column_at = self.lanes.table(column)
        exists = None
        if int(column.max()) + run > source.width:
            exists = column_at < source.width
            column_at = tirx.min(column_at, source.width - run)
        value = source.view.buffer[tuple(source.index(row_at, column_at, run))]
        value = as_held(value, self.plan.held_dtypes[0])
        if exists is not None:
            zero = tirx.const(0, self.plan.held_dtypes[0])
            value = tirx.Select(exists, value, tirx.Broadcast(zero, run) if run > 1 else zero)
        I.buffer_store(self.query, value, [vector(tirx.const(at, "int32"), run)])

    def _whole_rows(self) -> bool:
        return (known(self.row_count) or 1) % self.plan.rows == 0

    def _whole_keys(self) -> bool:
        return (known(self.key_count) or 1) % self.plan.keys == 0

    # The loop over keys.

    def _bind_tables(self) -> None:
        for tiles in self._groups(self.plan.score_tiles, self.keys.together):
            for step in self._bound_steps(self.plan.depth_steps):
                self.keys.bind(self._key_fragments(tiles, step))
        for tiles in self._groups(self.plan.column_tiles, self.values.together):
            for step in self._bound_steps(self.plan.weight_steps):
                self.values.bind(self._value_fragments(tiles, step))
        for row_tile in range(self.plan.row_tiles):
            if self.plan.query_tile is not None:
                for step in self._bound_steps(self.plan.depth_steps):
                    self.queries.bind(self._query_fragments(row_tile, step))
            if self.plan.weight_tile is not None:
                for step in self._bound_steps(self.plan.weight_steps):
                    self.shared_weights.bind(self._weight_fragments(row_tile, step))
        if self.plan.weight_tile is not None:
            for address, _, _ in self._weight_stores():
                self.lanes.table(address)

    def _bound_steps(self, count: int) -> range:
        return range(1 if self.looped else count)

    def _counted(self, count: int) -> Iterator[tuple[int, Any]]:
        """Steps of a product: each by itself, or a loop over them, with its variable."""
        if not self.looped:
            yield from ((step, None) for step in range(count))
            return
        with I.serial(0, count) as step:
            yield 0, step

    @staticmethod
    def _groups(count: int, together: int) -> list[list[int]]:
        return [
            list(range(first, min(first + together, count))) for first in range(0, count, together)
        ]

    def _key_fragments(self, tiles: list[int], step: int) -> list[Ints]:
        return [(step * self.plan.first.k, tile * self.plan.first.n) for tile in tiles]

    def _value_fragments(self, tiles: list[int], step: int) -> list[Ints]:
        return [(step * self.plan.second.k, tile * self.plan.second.n) for tile in tiles]

    def _query_fragments(self, row_tile: int, step: int) -> list[Ints]:
        return [(row_tile * self.plan.first.m, step * self.plan.first.k)]

    def _weight_fragments(self, row_tile: int, step: int) -> list[Ints]:
        return [(row_tile * self.plan.second.m, step * self.plan.second.k)]

    def _steps(self, begin: Index, end: Index) -> None:
        plan, lanes = self.plan, self.lanes
        first, last = i64(begin), i64(end)
        some = None
        if known(begin) is None or known(end) is None:
            first, last = I.Bind(first), I.Bind(last)
            some = first < last
        whole = self._whole_keys()
        with where(some):
            self.key_copy.issue(first * plan.keys, whole)
            self.key_copy.commit()
        with I.serial(first, last) as step:
            start = I.Bind(step * plan.keys)
            self.key_copy.arrive()
            lanes.barrier()
            self.value_copy.issue(start, whole)
            self.value_copy.commit()
            self._scores()
            self.mask.emit(start, self.scores, self.score_registers, self.softmax.domain)
            for tile in range(plan.row_tiles):
                self._weights(tile)
            self.value_copy.arrive()
            lanes.barrier()
            with where(step + 1 < last):
                self.key_copy.issue(start + plan.keys, whole)
                self.key_copy.commit()
            self._outputs()

    def _scores(self) -> None:
        plan, first = self.plan, self.plan.first
        self._fill(self.scores, plan.row_tiles * self.score_registers)
        rhs, lhs, acc = (first.operand(name).elements_per_lane for name in ("rhs", "lhs", "acc"))
        for step, counter in self._counted(plan.depth_steps):
            query, base = self._query_registers(step, counter, lhs)
            for tiles in self._groups(plan.score_tiles, self.keys.together):
                fragment = self._registers(rhs * len(tiles), plan.held_dtypes[0])
                shift = self._shift(counter, plan.key_tile, 0, first.k)
                self.keys.load(self._key_fragments(tiles, step), fragment, 0, shift)
                for row_tile in range(plan.row_tiles):
                    for number, tile in enumerate(tiles):
                        place = row_tile * self.score_registers + tile * acc
                        self._product(
                            first, (query, base[row_tile]), (fragment, number * rhs),
                            (self.scores, place),
                        )  # fmt: skip

    @staticmethod
    def _shift(counter: Any, tile: Tile, keys: int, columns: int) -> Any:
        """How far a loop's step is from its first in a tile; None outside loops."""
        if counter is None:
            return None
        return counter * (
            keys * tile.pitch + columns if tile.key_rows else columns * tile.pitch + keys
        )

    def _query_registers(self, step: int, counter: Any, each: int) -> tuple[Any, list[int]]:
        """Where the query's fragments of a step are, by row tile."""
        plan, tile = self.plan, self.plan.query_tile
        tiles = range(plan.row_tiles)
        if tile is None:
            return self.query, [(row * plan.depth_steps + step) * each for row in tiles]
        fragments = self._registers(plan.row_tiles * each, plan.held_dtypes[0])
        for row in tiles:
            shift = self._shift(counter, tile, 0, plan.first.k)
            self.queries.load(self._query_fragments(row, step), fragments, row * each, shift)
        return fragments, [row * each for row in tiles]

    def _product(
        self, mma: Any, lhs: tuple[Any, int], rhs: tuple[Any, int], acc: tuple[Any, int]
    ) -> None:
        def load(buffer: Any, base: int) -> Any:
            return lambda start, count: buffer[vector(tirx.const(base + start, "int32"), count)]

        def store(start: int, count: int, value: Any) -> None:
            at = tirx.const(acc[1] + start, "int32")
            I.buffer_store(acc[0], value, [vector(at, count)])

        emit_product(mma, self.plan.column_major, load(*lhs), load(*rhs), load(*acc), store)

    def _weights(self, tile: int) -> None:
        plan = self.plan
        base = tile * self.score_registers
        rescaled = plan.second.operand("acc").elements_per_lane
        slots = plan.output_slots or ()

        def rescale(slot: int, factor: Any) -> None:
            for column_tile in range(plan.column_tiles):
                first = tile * self.output_registers + column_tile * rescaled
                for start, count in runs_of(slots, slot):
                    at = vector(tirx.const(first + start, "int32"), count)
                    wide_factor = tirx.Broadcast(factor, count) if count > 1 else factor
                    I.buffer_store(self.outputs, self.outputs[at] * wide_factor, [at])

        self.softmax.step(tile, self.scores, base, rescale)
        dtype = plan.held_dtypes[1]
        for at, source, count in self._weight_moves():
            score = self.scores[vector(tirx.const(base + source, "int32"), count)]
            place = vector(tirx.const(base + at, "int32"), count)
            I.buffer_store(self.weights, as_held(score, dtype), [place])
        if plan.feed is Feed.SHUFFLE:
            first = tile * self.weight_registers
            have = Registers(self.weights, lambda register: [base + register])
            want = Registers(self.converted, lambda register: [first + register])
            lanes = self.lanes
            workgroup = Workgroup(0, lanes.lane, 1, lanes.size, lanes.kind)
            emit_conversion(*plan.conversion, have, want, workgroup)
        if plan.feed is Feed.SHARED:
            for address, start, count in self._weight_stores():
                value = self.weights[vector(tirx.const(base + start, "int32"), count)]
                shift = tile * plan.first.m * self.weight_shared_tile.pitch
                at = self.lanes.table(address) + shift
                I.buffer_store(self.weight_buffer, value, [vector(at, count)])

    def _weight_moves(self) -> list[tuple[int, int, int]]:
        """Registers of the weights, of the scores that they come from, and how many at once."""
        order = self.plan.weight_registers
        if self.plan.feed is not Feed.REGISTERS or order == tuple(range(self.score_registers)):
            return [(at, at, 2) for at in range(0, self.score_registers, 2)]
        return [(at, source, 1) for at, source in enumerate(order or ())]

    def _weight_stores(self) -> list[tuple[np.ndarray, int, int]]:
        """Address, first register and count of what a lane writes of a row tile's weights."""
        plan, tile = self.plan, self.weight_shared_tile
        rows, keys = plan.scores[..., 0], plan.key_order[plan.scores[..., 1]]
        most = 16 // item_bytes(tile.dtype)
        subgroup = np.arange(plan.subgroups)[:, None] * plan.row_tiles * plan.first.m
        return [
            (tile.address(rows[None, :, start] + subgroup, keys[None, :, start]), start, count)
            for start, count in side_by_side(keys, plan.score_rows.slots, most)
        ]

    def _outputs(self) -> None:
        plan, second = self.plan, self.plan.second
        rhs, lhs, acc = (second.operand(name).elements_per_lane for name in ("rhs", "lhs", "acc"))
        for step, counter in self._counted(plan.weight_steps):
            weights, base = self._weight_registers(step, counter, lhs)
            for tiles in self._groups(plan.column_tiles, self.values.together):
                fragment = self._registers(rhs * len(tiles), plan.held_dtypes[1])
                shift = self._shift(counter, plan.value_tile, second.k, 0)
                self.values.load(self._value_fragments(tiles, step), fragment, 0, shift)
                for row_tile in range(plan.row_tiles):
                    for number, tile in enumerate(tiles):
                        place = row_tile * self.output_registers + tile * acc
                        self._product(
                            second, (weights, base[row_tile]), (fragment, number * rhs),
                            (self.outputs, place),
                        )  # fmt: skip

    def _weight_registers(self, step: int, counter: Any, each: int) -> tuple[Any, list[int]]:
        """Where the weights' fragments of a step are, by row tile."""
        plan, tile = self.plan, self.plan.weight_tile
        tiles = range(plan.row_tiles)
        if tile is None:
            return self.converted, [row * self.weight_registers + step * each for row in tiles]
        fragments = self._registers(plan.row_tiles * each, plan.held_dtypes[1])
        for row in tiles:
            shift = self._shift(counter, tile, 0, plan.second.k)
            self.shared_weights.load(
                self._weight_fragments(row, step), fragments, row * each, shift
            )
        return fragments, [row * each for row in tiles]


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
