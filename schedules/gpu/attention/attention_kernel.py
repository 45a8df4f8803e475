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

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.intrin.fragments import run as run_along
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.emit import Index
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_products import (
    Feed,
    emit_product,
    is_multiply_add,
)
from tvm_iree_ext.schedules.gpu.attention.attention_rows import side_by_side
from tvm_iree_ext.schedules.gpu.attention.attention_shared import (
    FragmentReads,
    SharedTile,
    TileWrites,
)
from tvm_iree_ext.schedules.gpu.attention.attention_tiles import FragmentLoad, Source, TileCopy
from tvm_iree_ext.schedules.gpu.attention.attention_workgroup import AttentionWorkgroup
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import emit_conversion
from tvm_iree_ext.schedules.gpu.emit.chip_math import as_held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import LaneRegisters, WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, where, wide
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import i64, known

ALIGNMENT_BYTES = 16  # of the operands, which are read in vectors


def attention_kernel(plan: AttentionPlan) -> tirx.PrimFunc:
    """The function of the op, with its kernel."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_attr({EXACT_BUFFERS: True})
        operands = AttentionOperands.declare(plan.op, ALIGNMENT_BYTES)
        _Kernel(plan, operands).emit()
    return builder.get()


class _Kernel(AttentionWorkgroup):
    def _workgroup(self) -> None:
        plan, lanes, dims = self.plan, self.lanes, self.op.dims
        first, second = plan.first, plan.second
        hardware = (plan.subgroups, plan.lanes)
        once = not self._loops()
        self.key_copy, self.keys = self._tile(
            "key", plan.key_tile, self._source("key", dims["k2"], dims["k1"]), once
        )
        self.value_copy, self.values = self._tile(
            "value", plan.value_tile, self._source("value", dims["k2"], dims["n"]), once
        )
        self._accumulators()
        self.weight_registers = plan.weight_steps * second.operand("lhs").elements_per_lane
        if plan.feed is Feed.SHUFFLE:
            count = plan.row_tiles * self.weight_registers
            self.converted = self._registers(count, plan.held_dtypes[1])
        if (tile := plan.weight_tile) is not None:
            self.weight_shared_tile = tile
            self.weight_buffer = I.alloc_buffer(
                (tile.elements,), tile.dtype, scope=lanes.scope, align=ALIGNMENT_BYTES
            )
            reads = FragmentReads(
                tile, hardware, plan.chip, second.operand("lhs"), (0, 1),
                subgroup_keys=plan.row_tiles * second.m,
            )  # fmt: skip
            self.shared_weights = FragmentLoad(lanes, self.weight_buffer, reads)
        self.looped = is_multiply_add(first)
        self._query()
        self._bind_tables()
        self._masked()
        begin, end = self._range()
        self._steps(begin, end)
        self._finish()

    def _tile(
        self, name: str, tile: SharedTile, source: Source, once: bool
    ) -> tuple[TileCopy, FragmentLoad]:
        """The copy of key or value, and how it is read."""
        key_rows = self.plan.key_rows(name)
        run = source.run(key_rows, tile.columns if key_rows else tile.keys)
        copy = TileCopy(self.lanes, self.plan.chip, source, self.plan.writes(name, tile, run))
        reads = self.plan.reads(name, tile)
        return copy, FragmentLoad(self.lanes, copy.buffer, reads, once)

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

    # The query.

    def _query(self) -> None:
        plan, lanes = self.plan, self.lanes
        source = self._source("query", self.row_dims, self.op.dims["k1"])
        operand = plan.first.operand("lhs")
        if (shared := plan.query_tile) is not None:
            hardware = (plan.subgroups, plan.lanes)
            bits = 8 * max(item_bytes(shared.dtype), item_bytes(source.view.dtype))
            run = source.run(True, shared.columns)
            copy = TileCopy(lanes, plan.chip, source, TileWrites(shared, hardware, True, run, bits))
            reads = FragmentReads(
                shared, hardware, plan.chip, operand, (0, 1),
                subgroup_keys=plan.row_tiles * plan.first.m,
            )  # fmt: skip
            self.queries = FragmentLoad(lanes, copy.buffer, reads, once=True)
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

    # The loop over keys.

    def _bind_tables(self) -> None:
        for tiles in self._groups(self.plan.score_tiles, self.keys.reads.together):
            for step in self._bound_steps(self.plan.depth_steps):
                self.keys.bind(self._key_fragments(tiles, step))
        for tiles in self._groups(self.plan.column_tiles, self.values.reads.together):
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
            for tiles in self._groups(plan.score_tiles, self.keys.reads.together):
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
    def _shift(counter: Any, tile: SharedTile, keys: int, columns: int) -> Any:
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
        self._weigh(tile)
        if plan.feed is Feed.SHUFFLE:
            first = tile * self.weight_registers
            have = LaneRegisters(self.weights, lambda register: [base + register])
            want = LaneRegisters(self.converted, lambda register: [first + register])
            lanes = self.lanes
            workgroup = WorkgroupIds(0, lanes.lane, 1, lanes.size, lanes.kind)
            emit_conversion(*plan.conversion, have, want, workgroup)
        if plan.feed is Feed.SHARED:
            for address, start, count in self._weight_stores():
                value = self.weights[vector(tirx.const(base + start, "int32"), count)]
                shift = tile * plan.first.m * self.weight_shared_tile.pitch
                at = self.lanes.table(address) + shift
                I.buffer_store(self.weight_buffer, value, [vector(at, count)])

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
            for tiles in self._groups(plan.column_tiles, self.values.reads.together):
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
