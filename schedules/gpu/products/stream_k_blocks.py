"""The blocks of a product by stream-K: see :mod:`.stream_k`.

workgroup            one of a fixed number
segment              steps of one tile that it multiplies without a break
merged               the sums of what was left of tiles in parts, and their epilogue
"""

from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.products.matmul_blocks import (
    BlockPlace,
    MatmulBlocks,
    TilePlan,
    some_steps,
)
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulOperands
from tvm_iree_ext.schedules.gpu.products.stream_k import BAND, Shares
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import bind_grid


class SharedOutBlocks(MatmulBlocks):
    """The blocks of a product whose tiles and steps are shared out to so many workgroups."""

    def __init__(self, operands: MatmulOperands, plan: TilePlan, workgroups: int) -> None:
        super().__init__(operands, plan)
        self.workgroups = workgroups

    def emit(self) -> None:
        """All kernels."""
        self.tiles = {role: self.whole_tiles(role) for role in "mn"}
        count = self.groups * self.tiles["m"] * self.tiles["n"]
        shares = Shares(self.workgroups, count, self.whole_tiles("k"))
        rows, columns, _ = self.plan.tile
        self.merges = not (isinstance(shares.left, int) and shares.left == 0)
        if self.merges:
            shape = self.consts((shares.parts, rows, columns))
            self.parts = I.sblock_alloc_buffer(shape, self.shape.result_dtype)
            IRBuilder.name("parts", self.parts)
        workgroups = self.const(self.workgroups)
        with I.serial(self.const(0), workgroups) as loop, I.sblock("workgroup"):
            workgroup = I.axis.spatial(workgroups, loop)
            segments = self.const(shares.segments(workgroup))
            with I.serial(self.const(0), segments) as number, I.sblock("segment"):
                self._segment(shares, workgroup, I.axis.spatial(segments, number))
        if self.merges:
            self._merged_parts(shares)

    def _segment(self, shares: Shares, workgroup: Any, number: Any) -> None:
        rows, columns, depth = self.plan.tile
        segment = shares.segment(workgroup, number)
        # As a name: of the expression, schedules cannot prove that its depth is whole tiles.
        steps = I.Bind(self.const(segment.steps))
        group, i, j = self._corner(segment.tile)
        spans = {"m": rows, "n": columns, "k": shares.steps * depth}
        taken = some_steps(shares.steps, steps, depth)
        first = {"m": i * rows, "n": j * columns, "k": segment.first * depth}
        covered = {"m": self.tiles["m"] * rows, "n": self.tiles["n"] * columns}
        covered["k"] = shares.steps * depth

        def store(i: Any, j: Any, value: Any) -> None:
            at = first["m"] + i, first["n"] + j
            if segment.whole is None:
                self.operands.store(group, *at, value)
                return
            with I.If(segment.whole):
                with I.Then():
                    self.operands.store(group, *at, value)
                with I.Else():
                    I.buffer_store(self.parts, value, [segment.part, i, j])

        self.multiply(BlockPlace(group, spans, first, covered, taken), store)

    def _corner(self, tile: Any) -> tuple[Any, Any, Any]:
        """The group, row and column of a tile: groups of rows, column by column."""
        rows, columns = self.tiles["m"], self.tiles["n"]
        group, tile = (tile // (rows * columns), tile % (rows * columns))
        band, inside = tile // (BAND * columns), tile % (BAND * columns)
        height: Any = tirx.min(rows - band * BAND, self.const(BAND))
        if isinstance(rows, int) and (rows <= BAND or rows % BAND == 0):
            height = min(BAND, rows)
        return group, band * BAND + inside % height, inside // height

    def bind(self, sch: s_tir.Schedule, rows: Any, columns: Any) -> None:
        """A segment has one tile: workgroups alone are the grid."""
        bind_grid(sch, sch.get_loops(sch.get_sblock("workgroup")))

    def _merged_parts(self, shares: Shares) -> None:
        """The sums of each tile that was left in parts, in the order of K."""
        rows, columns, _ = self.plan.tile
        extents = self.consts((shares.left, rows, columns))
        with I.grid(*extents) as loops, I.sblock("merged"):
            left, i, j = (I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True))
            begin, end = shares.workgroups_of(left)
            group, row, column = self._corner(shares.rounds * self.workgroups + left)
            m, n = row * rows + i, column * columns + j
            inside = tirx.And(m < self.extents["m"], n < self.extents["n"])
            with I.If(tirx.And(begin < end, inside)), I.Then():
                total = self.parts[begin + left, i, j]
                for number in range(1, shares.parts_of_tile):
                    part = self.parts[begin + number + left, i, j]
                    zero = tirx.const(0, self.shape.result_dtype)
                    there = begin + number <= end
                    total = total + tirx.if_then_else(there, part, zero)
                self.operands.store(group, m, n, total)
