"""The kernels of a scan: a workgroup's walk along its lines, and what stands between workgroups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.gpu.collectives.look_back import (
    LookBack,
    PartsMemory,
    take_ticket,
)
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, workgroups
from tvm_iree_ext.schedules.gpu.emit.wrapping_integers import wrapped
from tvm_iree_ext.schedules.gpu.lines.line_plan import LineParts, LinePlan
from tvm_iree_ext.schedules.gpu.lines.line_tile import LineTile, LineWords
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands

_TOTALS = 8  # of parts, that a lane has: read at once


class ScanKernels:
    """The function of a scan while it is built."""

    def __init__(self, plan: LinePlan, operands: ScanOperands) -> None:
        self.plan, self.operands, self.lines = plan, operands, operands.lines
        self.count = emit.product([self.lines.outer, self.lines.inner])

    def combine(self, earlier: Values, later: Values) -> Values:
        """Combine two neighbouring parts."""
        return (wrapped(self.operands.combine(earlier[0], later[0])),)

    def emit(self) -> None:
        """One kernel, or those of lines that are cut; both, where the call tells which."""
        whole_lines = replace(self.plan, part=None, workgroups=0, looks_back=False)
        parts = self.plan.parts(self.lines)
        if parts is None or (self.plan.looks_back and known(parts.count) == 1):
            self._launch(whole_lines, None)
        elif known(parts.count) is not None:
            self._emit_parts(parts)
        else:
            parts = LineParts(*(I.Bind(i64(one)) for one in (parts.positions, parts.count)))
            with I.If(parts.count > 1):
                with I.Then():
                    self._emit_parts(parts)
                with I.Else():
                    self._launch(whole_lines, None)

    def _emit_parts(self, parts: LineParts) -> None:
        if self.plan.looks_back:
            self._launch_looking_back(parts)
            return
        shape = [i64(emit.product([self.count, parts.count]))]
        totals = I.alloc_buffer(shape, self.operands.held, scope="global")
        IRBuilder.name("total_of_part", totals)
        cut = _Cut(parts, totals)
        self._launch(self.plan, cut, sums_only=True)
        self._scan_totals(cut)
        self._launch(self.plan, cut)

    def _launch(self, plan: LinePlan, cut: "_Cut | None", *, sums_only: bool = False) -> None:
        tiles = emit.ceil_div(self.count, plan.lines)
        parts = 1 if cut is None else cut.parts.count
        count = emit.product([tiles, parts])
        with workgroups(count, plan.subgroups, plan.size, plan.kind) as (number, workgroup):
            tile_number, part = emit.divide(wide(number), parts)
            tile = LineTile(plan, self.lines, workgroup, I.Bind(tile_number))
            _Walk(self, tile, cut, I.Bind(part), sums_only=sums_only).emit()

    def _launch_looking_back(self, parts: LineParts) -> None:
        """One pass over memory: workgroups tell one another what their parts come to."""
        plan = self.plan
        tiles = emit.ceil_div(self.count, plan.lines)
        lanes = plan.layout.thread_tile[1]
        memory = PartsMemory.declare(plan.kind, self.count, parts.count, lanes, self.operands.held)
        memory.clear(WorkgroupShape(plan.subgroups, plan.size))
        count = emit.product([tiles, parts.count])
        with workgroups(count, plan.subgroups, plan.size, plan.kind) as (_, workgroup):
            number = wide(take_ticket(workgroup, memory.tickets, 0))
            # The same part of all lines first: they wait for nobody that starts with them.
            part = I.Bind(tirx.truncdiv(number, i64(tiles)))
            tile_number = I.Bind(tirx.truncmod(number, i64(tiles)))
            tile = LineTile(plan, self.lines, workgroup, tile_number)
            cut = _Cut(parts, memory=memory)
            _Walk(self, tile, cut, part, sums_only=False).emit()

    def _scan_totals(self, cut: "_Cut") -> None:
        """A subgroup for each line: its parts' totals, from the first on, in their places."""
        size, count, dtype = self.plan.size, cut.parts.count, self.operands.held
        layout = NestedLayout((1,), (1,), (1,), (size,), (_TOTALS,), (0,), (1,))
        with (
            I.launch_thread("blockIdx.x", i64(self.count)) as number,
            I.launch_thread("threadIdx.x", size) as lane,
        ):
            workgroup = WorkgroupIds(tirx.const(0, "int32"), lane, 1, size, self.plan.kind)
            across = Across(workgroup, layout, 0, (dtype,))
            first = I.Bind(wide(number) * i64(count))
            carry = I.alloc_buffer((1,), dtype, scope="local")
            I.buffer_store(carry, tirx.const(0, dtype), [0])
            with serial(emit.ceil_div(count, size * _TOTALS)) as step:
                begin = I.Bind(step * (size * _TOTALS) + wide(lane) * _TOTALS)
                inside = [begin + at < i64(count) for at in range(_TOTALS)]
                nothing = tirx.const(0, dtype)
                own = [
                    held(tirx.if_then_else(exists, cut.totals[first + (begin + at)], nothing))
                    for at, exists in enumerate(inside)
                ]
                for at in range(1, _TOTALS):
                    own[at] = held(self.combine((own[at - 1],), (own[at],))[0])
                upto = across.scan_lanes((own[-1],), self.combine)
                (others,) = across.before(upto)
                after = self.combine((carry[0],), (others,))[0]
                before = held(
                    tirx.Select(lane == 0, carry[0], tirx.Select(step > 0, after, others))
                )
                begun = tirx.Or(step > 0, lane > 0)
                for at, mine in enumerate(own):
                    value = tirx.Select(begun, self.combine((before,), (mine,))[0], mine)
                    own[at] = held(value)
                    with I.If(inside[at]), I.Then():
                        I.buffer_store(cut.totals, own[at], [first + (begin + at)])
                I.buffer_store(carry, across.last((own[-1],))[0], [0])


@dataclass(frozen=True)
class _Cut:
    """Lines that are cut: their parts, and the totals of each line and part.

    After the second kernel, the totals are those of all parts up to each one.  Where workgroups
    look back, they are in the ``memory`` through which these hand them to one another.
    """

    parts: LineParts
    totals: Any = None
    memory: PartsMemory | None = None


class _Walk:
    """A workgroup's walk along its lines, or parts of them.

    ``carry`` has what lies before a tile, for each of a lane's lines.
    """

    def __init__(
        self, kernels: ScanKernels, tile: LineTile, cut: _Cut | None, part: Expr, *, sums_only: bool
    ) -> None:
        self.tile, self.cut, self.part = tile, cut, part
        self.plan, self.operands = tile.plan, kernels.operands
        self.combine, self.sums_only = kernels.combine, sums_only
        self.op, self.held = self.operands.op, self.operands.held
        self.carry = I.alloc_buffer((tile.slots,), self.held, scope="local")
        source, target = self.operands.input, self.operands.output
        assert isinstance(source, LineWords)
        assert isinstance(target, LineWords)
        self.source, self.target = source, target
        self.words = tile.registers(source.word)

    def emit(self) -> None:
        """All tiles."""
        plan, tile = self.plan, self.tile
        first: Index = 0
        stop = tile.reach
        if self.cut is not None:
            size = i64(self.cut.parts.positions)
            first = I.Bind(self.part * size)
            stop = I.Bind(i64(emit.smaller(first + size, stop)))
        for slot in range(tile.slots):
            I.buffer_store(self.carry, self._start(slot), [slot])
        if not self.sums_only:
            self._without_elements()
        layout = plan.layout
        self.across = Across(tile.workgroup, layout, 1, (self.held,), tile.slots)
        if self.cut is not None and self.cut.memory is not None:
            self._one_tile(i64(first), self.cut.memory)
            return
        with tile.walk(first, stop) as at:
            tile.load(self.source, at, self.words)
            if plan.serial:
                self._one_by_one(at)
            else:
                self._together(at, at > first)
            if not self.sums_only:
                self._accumulate(at)
                tile.store(self.target, at, self.words)
        if self.sums_only:
            assert self.cut is not None
            with where(tile.first_of_line()):
                for slot in range(tile.slots):
                    I.buffer_store(self.cut.totals, self.carry[slot], [self._place_of_part(slot)])

    def _one_tile(self, at: Expr, memory: PartsMemory) -> None:
        """The part is a tile, of which others tell what lies before it."""
        tile = self.tile
        tile.load(self.source, at, self.words)
        self._together(at, self.part > 0, memory)
        self._accumulate(at)
        tile.store(self.target, at, self.words)

    def _place_of_part(self, slot: int) -> Expr:
        """Index of this part's total."""
        assert self.cut is not None
        line = self.operands.lines.line(*self.tile.line(slot))
        return line * i64(self.cut.parts.count) + self.part

    def _without_elements(self) -> None:
        """The accumulator keeps its init where the call says that lines have no elements."""
        operands, tile = self.operands, self.tile
        if known(operands.lines.length) is not None:
            return
        with I.If(i64(operands.lines.length) == 0), I.Then(), where(tile.first_of_line()):
            for slot in range(tile.slots):
                line = operands.lines.line(*tile.line(slot))
                operands.accumulator.store(line, operands.init.load(line))

    def _start(self, slot: int) -> Expr:
        """Value before the first tile; any, where nothing lies there."""
        line = self.operands.lines.line(*self.tile.line(slot))
        nothing = tirx.const(0, self.held)
        if self.sums_only:
            return nothing
        init = nothing if self.op.inclusive else self.operands.init.load(line)
        if self.cut is None or self.cut.memory is not None:
            return init
        before = self.cut.totals[tirx.max(self._place_of_part(slot) - 1, i64(0))]
        if not self.op.inclusive:
            (before,) = self.combine((held(init),), (held(before),))
        return tirx.if_then_else(self.part > 0, before, init)

    def _out(self, batch: int, at: int, slot: int, value: Expr) -> None:
        """A result, in place of its element."""
        if self.sums_only:
            return
        value = held(value)
        register = self.tile.place(batch, at, slot)
        I.buffer_store(self.words, self.target.word_of(value), [register])

    def _accumulate(self, at: Expr) -> None:
        """The accumulator, where a result of the tile is a line's last."""
        tile, length = self.tile, i64(self.operands.lines.length)
        # Once all results are there, since a condition for each takes a register of its own.
        with I.If(at + self.plan.positions >= length), I.Then(), where(tile.exists):
            for batch in range(tile.batches):
                for number in range(tile.held):
                    with I.If(self.positions[batch][number] == length - 1), I.Then():
                        for slot in range(tile.slots):
                            self._last(slot, self.words[tile.place(batch, number, slot)])

    def _last(self, slot: int, word: Expr) -> None:
        """A line's last result."""
        operands = self.operands
        line = operands.lines.line(*self.tile.line(slot))
        value, length = self.target.held_of(word), known(operands.lines.length)
        if length == 1:
            value = operands.init.load(line)
        elif length is None:
            many = i64(operands.lines.length) > 1
            value = tirx.if_then_else(many, value, operands.init.load(line))
        operands.accumulator.store(line, value)

    def _element(self, batch: int, at: int, slot: int) -> Expr:
        return held(self.source.held_of(self.words[self.tile.place(batch, at, slot)]))

    def _place(self, tile_at: Expr) -> None:
        tile = self.tile
        self.positions = [
            [I.Bind(tile.position(tile_at, batch, at)) for at in range(tile.held)]
            for batch in range(tile.batches)
        ]

    def _one_by_one(self, at: Expr) -> None:
        """Each lane its own lines, each result from the one before."""
        tile = self.tile
        self._place(at)
        for batch in range(tile.batches):
            for number in range(tile.held):
                here = self.positions[batch][number]
                for slot in range(tile.slots):
                    element = self._element(batch, number, slot)
                    before = self.carry[slot]
                    if not self.op.inclusive:
                        self._out(batch, number, slot, before)
                    after = wrapped(self.operands.step(before, element))
                    if self.op.inclusive or tile.shift is not None:
                        first = here == 0 if self.op.inclusive else here < 0
                        after = tirx.Select(first, element if self.op.inclusive else before, after)
                    I.buffer_store(self.carry, after, [slot])
                    if self.op.inclusive:
                        self._out(batch, number, slot, self.carry[slot])

    def _together(self, at: Expr, begun: Expr, memory: PartsMemory | None = None) -> None:
        """All lanes of a line; ``begun`` where tiles lie before this one.

        With ``memory`` others tell what they come to.
        """
        tile, across = self.tile, self.across
        self._place(at)
        runs = [
            [self._runs(batch, slot) for slot in range(tile.slots)] for batch in range(tile.batches)
        ]
        lanes = [[across.scan_lanes((run[-1],), self.combine) for run in batch] for batch in runs]
        ends = [[across.last(one) for one in batch] for batch in lanes]
        totals: list[Values] = []
        for slot in range(tile.slots):
            total = ends[0][slot]
            for later in ends[1:]:
                total = (held(self.combine(total, later[slot])[0]),)
            totals.append(total)
        if across.parts > 1:
            across.leave(totals, across.digit == 0 if across.lanes > 1 else None)
        if memory is not None:
            self._look_back(memory, totals)
        before: list[Values] = [(held(self.carry[slot]),) for slot in range(tile.slots)]
        started = self._carried(begun)
        if across.parts > 1:
            started = self._subgroups(before, started)
        else:
            self._advance(totals, started)
        for batch in range(tile.batches):
            for slot in range(tile.slots):
                self._finish(
                    batch, slot, runs[batch][slot], lanes[batch][slot], before[slot], started
                )
                follows = ends[batch][slot]
                if batch == 0:
                    before[slot] = self._after(before[slot], follows, started)
                elif batch < tile.batches - 1:
                    before[slot] = (held(self.combine(before[slot], follows)[0]),)
            started = None

    def _carried(self, begun: Expr) -> Expr | None:
        """Whether something lies before a tile; None where always."""
        if self.sums_only:
            return begun
        if not self.op.inclusive:
            return None
        return begun if self.cut is None else tirx.Or(begun, self.part > 0)

    def _look_back(self, memory: PartsMemory, totals: Sequence[Values]) -> None:
        """The carry, from the workgroups that have the parts before.

        One subgroup of a line looks back, and leaves what it finds in shared memory.
        """
        across, tile = self.across, self.tile
        alone = across.parts == 1
        found = None
        if not alone:
            totals = [self._of_subgroups(slot) for slot in range(tile.slots)]
            shape = (tile.slots * across.groups,)
            found = I.alloc_buffer(shape, self.held, scope="shared")
        with where(None if alone else across.part == 0):
            look = LookBack(memory, across, self.part)
            for slot, total in enumerate(totals):
                line = self.operands.lines.line(*tile.line(slot))
                mine = (
                    across.digit == 0
                    if tile.exists is None
                    else tirx.And(tile.exists, across.digit == 0)
                )
                (before,) = look.before(line, total, self.combine, mine)
                if found is None:
                    self._carry_on(slot, before)
                else:
                    with where(across.digit == 0):
                        I.buffer_store(found, before, [slot * across.groups + across.apart])
        if found is not None:
            for slot in range(tile.slots):
                self._carry_on(slot, held(found[slot * across.groups + across.apart]))

    def _carry_on(self, slot: int, before: Expr) -> None:
        """Go on from what lies before the part."""
        if self.op.inclusive:
            I.buffer_store(self.carry, before, [slot])
            return
        init = self.carry[slot]
        (both,) = self.combine((held(init),), (before,))
        I.buffer_store(self.carry, tirx.Select(self.part > 0, both, init), [slot])

    def _of_subgroups(self, slot: int) -> Values:
        """What all subgroups of a line have left."""
        total = self.across.left(slot, 0)
        for part in range(1, self.across.parts):
            total = (held(self.combine(total, self.across.left(slot, part))[0]),)
        return total

    def _after(self, before: Values, values: Values, started: Expr | None) -> Values:
        """With what lies before, where something does."""
        both = self.combine(before, values)[0]
        return (held(both if started is None else tirx.Select(started, both, values[0])),)

    def _advance(self, totals: Sequence[Values], started: Expr | None) -> None:
        """The carry, past a tile."""
        for slot, total in enumerate(totals):
            value = self._after((self.carry[slot],), total, started)
            I.buffer_store(self.carry, value[0], [slot])

    def _subgroups(self, before: list[Values], started: Expr | None) -> Expr | None:
        """From what all have left: what lies before each subgroup, and past the tile."""
        across = self.across
        for slot in range(self.tile.slots):
            mine = upto = before[slot]
            for part in range(across.parts):
                left = across.left(slot, part)
                if part:
                    mine = (held(tirx.Select(across.part == part, upto[0], mine[0])),)
                upto = self._after(upto, left, None if part else started)
            before[slot] = mine
            I.buffer_store(self.carry, upto[0], [slot])
        return None if started is None else tirx.Or(started, across.part > 0)

    def _runs(self, batch: int, slot: int) -> list[Expr]:
        """Prefixes of the first elements of a lane's run: of one, of two and so on."""
        found: list[Expr] = []
        for at in range(self.tile.held):
            element = self._element(batch, at, slot)
            if found:
                value = self.combine((found[-1],), (element,))[0]
                if self.tile.shift is not None and batch == 0:
                    value = tirx.Select(self.positions[batch][at] <= 0, element, value)
                element = held(value)
            found.append(element)
        return found

    def _finish(
        self,
        batch: int,
        slot: int,
        run: Sequence[Expr],
        lanes: Values,
        before: Values,
        started: Expr | None,
    ) -> None:
        """The results of a lane's run."""
        if self.sums_only:
            return
        across, tile = self.across, self.tile
        prefix, begun = before, started
        if across.lanes > 1:
            others = across.before(lanes)
            with_others = self._after(before, others, started)
            first = across.digit == 0
            prefix = (held(tirx.Select(first, before[0], with_others[0])),)
            begun = None if started is None else tirx.Or(started, across.digit > 0)
        for at, value in enumerate(run):
            if self.op.inclusive:
                self._out(batch, at, slot, self._after(prefix, (value,), begun)[0])
            elif at == 0:
                self._out(batch, at, slot, prefix[0])
            else:
                result = self.combine(prefix, (run[at - 1],))[0]
                if tile.shift is not None and batch == 0:
                    result = tirx.Select(self.positions[batch][at] <= 0, prefix[0], result)
                self._out(batch, at, slot, result)
