"""The GPU rule for arg_compare: one kernel for both vendors, and a second where lines are cut.

    every lane     walks along its positions from the init on, and notes where it found its best
    the workgroup  what its lanes found, by shuffles and shared memory; ties by position
    a subgroup     what the parts of a line found, where lines are few and long

Comparisons alone may be shared so: any other comparator has a lane for each line, which goes
through it in the order of the definition.
"""

from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.emit.wrapping_integers import wrapped
from tvm_iree_ext.schedules.gpu.lines.line_plan import LinePlan, LineShape
from tvm_iree_ext.schedules.gpu.lines.line_rule import LineRule
from tvm_iree_ext.schedules.gpu.lines.line_tile import ALIGNMENT_BYTES, LineTile, LineWords
from tvm_iree_ext.schedules.shared.arg_compare_operands import (
    NONE,
    ArgCompareOperands,
    position_dtype,
)
from tvm_iree_ext.schedules.shared.lines import held_dtype


class GpuArgCompare(LineRule):
    """arg_compare on NVIDIA's and AMD's GPUs."""

    name = "gpu.arg_compare"
    lowers = ArgCompare

    def lines(self, op: ArgCompare) -> LineShape:
        """Shared by lanes where the comparator allows."""
        left = held_dtype(op.type.dtype), position_dtype(op)
        return LineShape.of(op.type, op.dimension, op.comparison is None, left)

    def lower(self, op: ArgCompare, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        plan = LinePlan.of(self.lines(op), target, self.check(config))
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            operands = ArgCompareOperands.declare(op, align=ALIGNMENT_BYTES, make=LineWords.declare)
            _Kernels(plan, operands).emit()
        return ir.IRModule({op.entry: builder.get()})


class _Kernels:
    """The function while it is built."""

    def __init__(self, plan: LinePlan, operands: ArgCompareOperands) -> None:
        self.plan, self.operands, self.lines = plan, operands, operands.lines
        self.count = emit.product([self.lines.outer, self.lines.inner])
        self.dtypes = operands.held, operands.position_dtype
        self.partials: list[Any] = []  # of each line and part

    def emit(self) -> None:
        """One kernel, or two."""
        plan = self.plan
        parts = plan.parts(self.lines.length)
        if plan.part is not None:
            shape = [i64(emit.product([self.count, parts]))]
            for name, dtype in zip(("best", "position"), self.dtypes, strict=True):
                memory = I.alloc_buffer(shape, dtype, scope="global")
                IRBuilder.name(f"{name}_of_part", memory)
                self.partials.append(memory)
        tiles = emit.ceil_div(self.count, plan.lines)
        count = emit.product([tiles, parts])
        with workgroups(count, plan.subgroups, plan.size, plan.kind) as (number, workgroup):
            tile_number, part = emit.divide(wide(number), parts)
            tile = LineTile(plan, self.lines, workgroup, I.Bind(tile_number))
            self._workgroup(tile, part, parts)
        if plan.part is not None:
            self._merge(parts)

    def _workgroup(self, tile: LineTile, part: Expr, parts: Index) -> None:
        plan, operands = self.plan, self.operands
        best, position = (
            I.alloc_buffer((tile.slots,), dtype, scope="local") for dtype in self.dtypes
        )
        for slot in range(tile.slots):
            I.buffer_store(best, operands.start(*tile.line(slot)), [slot])
            I.buffer_store(position, tirx.const(NONE, operands.position_dtype), [slot])
        first: Index = 0
        stop = tile.reach
        if plan.part is not None:
            first = I.Bind(part * plan.part)
            stop = I.Bind(i64(emit.smaller(first + plan.part, stop)))
        source = operands.input
        assert isinstance(source, LineWords)
        words = tile.registers(source.word)
        with tile.walk(first, stop) as at:
            tile.load(source, at, words)
            for batch in range(tile.batches):
                for element in range(tile.held):
                    here = I.Bind(tile.position(at, batch, element))
                    for slot in range(tile.slots):
                        word = words[tile.place(batch, element, slot)]
                        self._take(source.held_of(word), here, tile, best, position, slot)
        totals: list[Values] = [(best[slot], position[slot]) for slot in range(tile.slots)]
        if not (plan.layout.thread_tile[1] == plan.layout.subgroup_tile[1] == 1):
            across = Across(tile.workgroup, plan.layout, 1, self.dtypes, tile.slots, commutes=True)
            totals = across.reduce(totals, self._better)
        with where(tile.first_of_line()):
            for slot, (value, where_found) in enumerate(totals):
                self._leave(tile.line(slot), part, parts, value, where_found)

    def _take(
        self, element: Expr, here: Expr, tile: LineTile, best: Any, position: Any, slot: int
    ) -> None:
        """One more element of a line."""
        value = held(element)
        wins = wrapped(self.operands.wins(value, best[slot]))
        if (inside := tile.inside(here)) is not None:
            wins = tirx.And(inside, wins)
        wins = held(wins)
        place = emit.cast(here, self.operands.position_dtype)
        I.buffer_store(position, tirx.Select(wins, place, position[slot]), [slot])
        I.buffer_store(best, tirx.Select(wins, value, best[slot]), [slot])

    def _better(self, mine: Values, other: Values) -> Values:
        wins = self.operands.beats(*other, *mine)
        return tuple(tirx.Select(wins, a, b) for a, b in zip(other, mine, strict=True))

    def _leave(
        self, line: tuple[Expr, Expr], part: Expr, parts: Index, value: Expr, position: Expr
    ) -> None:
        if self.plan.part is None:
            self.operands.finish(*line, value, position)
            return
        place = self.lines.line(*line) * parts + part
        for memory, one in zip(self.partials, (value, position), strict=True):
            I.buffer_store(memory, one, [place])

    def _merge(self, parts: Index) -> None:
        """A subgroup for each line: the parts that its lanes take, then those of all lanes."""
        operands, size = self.operands, self.plan.size
        layout = NestedLayout((1,), (1,), (1,), (size,), (1,), (0,), (1,))
        with (
            I.launch_thread("blockIdx.x", i64(self.count)) as number,
            I.launch_thread("threadIdx.x", size) as lane,
        ):
            workgroup = WorkgroupIds(tirx.const(0, "int32"), lane, 1, size, self.plan.kind)
            line = I.Bind(wide(number))
            outer, inner = emit.divide(line, self.lines.inner)
            cells = [I.alloc_buffer((1,), dtype, scope="local") for dtype in self.dtypes]
            start = operands.start(outer, inner), tirx.const(NONE, operands.position_dtype)
            for cell, value in zip(cells, start, strict=True):
                I.buffer_store(cell, value, [0])
            with serial(emit.ceil_div(parts, size)) as step:
                part = I.Bind(step * size + wide(lane))
                with I.If(part < i64(parts)), I.Then():
                    place = line * parts + part
                    other = tuple(held(memory[place]) for memory in self.partials)
                    better = self._better((cells[0][0], cells[1][0]), other)
                    for cell, value in zip(cells, tuple(map(held, better)), strict=True):
                        I.buffer_store(cell, value, [0])
            across = Across(workgroup, layout, 0, self.dtypes, commutes=True)
            ((value, position),) = across.reduce([(cells[0][0], cells[1][0])], self._better)
            with I.If(lane == 0), I.Then():
                operands.finish(outer, inner, value, position)
