"""The GPU rule for arg_compare: one kernel for both vendors, and a second where lines are cut.

    every lane     walks along its positions from the init on, and notes where it found its best
    the workgroup  what its lanes found, by shuffles and shared memory; ties by position
    a workgroup    what the parts of a line found, where lines are few and long

Comparisons alone may be shared so: any other comparator has a lane for each line, which goes
through it in the order of the definition.
"""

from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.emit.wrapping_integers import wrapped
from tvm_iree_ext.schedules.gpu.lines.line_plan import LineParts, LinePlan, LineShape
from tvm_iree_ext.schedules.gpu.lines.line_rule import LineRule
from tvm_iree_ext.schedules.gpu.lines.line_tile import ALIGNMENT_BYTES, LineTile, LineWords
from tvm_iree_ext.schedules.shared.arg_compare_operands import (
    NONE,
    ArgCompareOperands,
    position_dtype,
)
from tvm_iree_ext.schedules.shared.lines import held_dtype

_MERGING = 8  # subgroups that compare a line's parts


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
            I.func_attr({EXACT_BUFFERS: True})
            operands = ArgCompareOperands.declare(op, align=ALIGNMENT_BYTES, make=LineWords.declare)
            _Kernels(plan, operands).emit()
        return ir.IRModule({op.entry: builder.get()})


@dataclass(frozen=True)
class _Cut:
    """Lines that are cut: their parts, and what was found in each line and part."""

    parts: LineParts
    partials: list[Any]


class _Kernels:
    """The function while it is built."""

    def __init__(self, plan: LinePlan, operands: ArgCompareOperands) -> None:
        self.plan, self.operands, self.lines = plan, operands, operands.lines
        self.count = emit.product([self.lines.outer, self.lines.inner])
        self.dtypes = operands.held, operands.position_dtype

    def emit(self) -> None:
        """One kernel, or two; both, where the call tells which."""
        parts = self.plan.parts(self.lines)
        if parts is None:
            self._launch(None)
        elif known(parts.count) is not None:
            self._emit_parts(parts)
        else:
            parts = LineParts(*map(I.Bind, (parts.positions, parts.count)))
            with I.If(parts.count > 1):
                with I.Then():
                    self._emit_parts(parts)
                with I.Else():
                    self._launch(None)

    def _emit_parts(self, parts: LineParts) -> None:
        shape = [i64(emit.product([self.count, parts.count]))]
        partials = []
        for name, dtype in zip(("best", "position"), self.dtypes, strict=True):
            memory = I.alloc_buffer(shape, dtype, scope="global")
            IRBuilder.name(f"{name}_of_part", memory)
            partials.append(memory)
        cut = _Cut(parts, partials)
        self._launch(cut)
        self._merge(cut)

    def _launch(self, cut: "_Cut | None") -> None:
        plan = self.plan
        tiles = emit.ceil_div(self.count, plan.lines)
        parts = 1 if cut is None else cut.parts.count
        count = emit.product([tiles, parts])
        with workgroups(count, plan.subgroups, plan.size, plan.kind) as (number, workgroup):
            tile_number, part = emit.divide(wide(number), parts)
            tile = LineTile(plan, self.lines, workgroup, I.Bind(tile_number))
            self._workgroup(tile, cut, part)

    def _workgroup(self, tile: LineTile, cut: "_Cut | None", part: Expr) -> None:
        plan, operands = self.plan, self.operands
        best, position = (
            I.alloc_buffer((tile.slots,), dtype, scope="local") for dtype in self.dtypes
        )
        for slot in range(tile.slots):
            I.buffer_store(best, operands.start(*tile.line(slot)), [slot])
            I.buffer_store(position, tirx.const(NONE, operands.position_dtype), [slot])
        first: Index = 0
        stop = tile.reach
        if cut is not None:
            size = i64(cut.parts.positions)
            first = I.Bind(part * size)
            stop = I.Bind(i64(emit.smaller(first + size, stop)))
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
                self._leave(tile.line(slot), cut, part, value, where_found)

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
        self, line: tuple[Expr, Expr], cut: "_Cut | None", part: Expr, value: Expr, position: Expr
    ) -> None:
        if cut is None:
            self.operands.finish(*line, value, position)
            return
        place = self.lines.line(*line) * i64(cut.parts.count) + part
        for memory, one in zip(cut.partials, (value, position), strict=True):
            I.buffer_store(memory, one, [place])

    def _merge(self, cut: "_Cut") -> None:
        """A workgroup for each line: the parts that its lanes take, then those of all lanes."""
        operands, size, parts = self.operands, self.plan.size, cut.parts.count
        subgroups = _MERGING
        while subgroups > 1 and subgroups * size >= 2 * (known(parts) or subgroups * size):
            subgroups //= 2
        layout = NestedLayout(
            (subgroups,), (1,), (1,), (size,), (1,), (1 if subgroups > 1 else 0,), (1,)
        )
        kind = self.plan.kind
        with workgroups(self.count, subgroups, size, kind) as (number, workgroup):
            line = I.Bind(wide(number))
            outer, inner = emit.divide(line, self.lines.inner)
            cells = [I.alloc_buffer((1,), dtype, scope="local") for dtype in self.dtypes]
            start = operands.start(outer, inner), tirx.const(NONE, operands.position_dtype)
            for cell, value in zip(cells, start, strict=True):
                I.buffer_store(cell, value, [0])
            lanes = subgroups * size
            mine = I.Bind(wide(workgroup.subgroup) * size + wide(workgroup.lane))
            with serial(emit.ceil_div(parts, lanes)) as step:
                part = I.Bind(step * lanes + mine)
                with I.If(part < i64(parts)), I.Then():
                    place = line * i64(parts) + part
                    other = tuple(held(memory[place]) for memory in cut.partials)
                    better = self._better((cells[0][0], cells[1][0]), other)
                    for cell, value in zip(cells, tuple(map(held, better)), strict=True):
                        I.buffer_store(cell, value, [0])
            across = Across(workgroup, layout, 0, self.dtypes, commutes=True)
            ((value, position),) = across.reduce([(cells[0][0], cells[1][0])], self._better)
            with I.If(mine == 0), I.Then():
                operands.finish(outer, inner, value, position)
