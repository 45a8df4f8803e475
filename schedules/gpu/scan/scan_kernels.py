"""The kernels of a scan: a workgroup's walk along its lines, and what stands between workgroups."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.emit.wrapping_integers import wrapped
from tvm_iree_ext.schedules.gpu.lines.line_plan import LinePlan
from tvm_iree_ext.schedules.gpu.lines.line_tile import LineTile, LineWords
from tvm_iree_ext.schedules.shared.scan_operands import ScanOperands


class ScanKernels:
    """The function of a scan while it is built."""

    def __init__(self, plan: LinePlan, operands: ScanOperands) -> None:
        self.plan, self.operands, self.lines = plan, operands, operands.lines
        self.count = emit.product([self.lines.outer, self.lines.inner])
        self.parts = plan.parts(self.lines.length)
        self.totals: Any = None  # of each line and part; then of all parts up to it

    def combine(self, earlier: Values, later: Values) -> Values:
        """Combine two neighbouring parts."""
        return (wrapped(self.operands.combine(earlier[0], later[0])),)

    def emit(self) -> None:
        """One kernel, or three."""
        plan = self.plan
        if plan.part is None:
            self._launch(sums_only=False)
            return
        shape = [i64(emit.product([self.count, self.parts]))]
        self.totals = I.alloc_buffer(shape, self.operands.held, scope="global")
        IRBuilder.name("total_of_part", self.totals)
        self._launch(sums_only=True)
        self._scan_totals()
        self._launch(sums_only=False)

    def _launch(self, *, sums_only: bool) -> None:
        plan = self.plan
        tiles = emit.ceil_div(self.count, plan.lines)
        count = emit.product([tiles, self.parts])
        with workgroups(count, plan.subgroups, plan.size, plan.kind) as (number, workgroup):
            tile_number, part = emit.divide(wide(number), self.parts)
            tile = LineTile(plan, self.lines, workgroup, I.Bind(tile_number))
            _Walk(self, tile, I.Bind(part), sums_only=sums_only).emit()

    def _scan_totals(self) -> None:
        """A subgroup for each line: its parts' totals, from the first on, in their places."""
        size = self.plan.size
        layout = NestedLayout((1,), (1,), (1,), (size,), (1,), (0,), (1,))
        with (
            I.launch_thread("blockIdx.x", i64(self.count)) as number,
            I.launch_thread("threadIdx.x", size) as lane,
        ):
            workgroup = WorkgroupIds(tirx.const(0, "int32"), lane, 1, size, self.plan.kind)
            across = Across(workgroup, layout, 0, (self.operands.held,))
            first = I.Bind(wide(number) * i64(self.parts))
            carry = I.alloc_buffer((1,), self.operands.held, scope="local")
            I.buffer_store(carry, tirx.const(0, self.operands.held), [0])
            with serial(emit.ceil_div(self.parts, size)) as step:
                part = I.Bind(step * size + wide(lane))
                exists, nothing = part < i64(self.parts), tirx.const(0, self.operands.held)
                mine = held(tirx.if_then_else(exists, self.totals[first + part], nothing))
                upto = across.scan_lanes((mine,), self.combine)
                after = self.combine((carry[0],), upto)
                (all_before,) = upto if known(self.parts) == 1 else (
                    tirx.Select(step > 0, after[0], upto[0]),
                )  # fmt: skip
                all_before = held(all_before)
                with I.If(exists), I.Then():
                    I.buffer_store(self.totals, all_before, [first + part])
                I.buffer_store(carry, across.last((all_before,))[0], [0])


class _Walk:
    """A workgroup's walk along its lines, or parts of them.

    ``carry`` has what lies before a tile, for each of a lane's lines.
    """

    def __init__(
        self, kernels: ScanKernels, tile: LineTile, part: Expr, *, sums_only: bool
    ) -> None:
        self.kernels, self.tile, self.part = kernels, tile, part
        self.plan, self.operands = kernels.plan, kernels.operands
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
        if plan.part is not None:
            first = I.Bind(self.part * plan.part)
            stop = I.Bind(i64(emit.smaller(first + plan.part, stop)))
        for slot in range(tile.slots):
            I.buffer_store(self.carry, self._start(slot), [slot])
        if not self.sums_only:
            self._without_elements()
        layout = plan.layout
        self.across = Across(tile.workgroup, layout, 1, (self.held,), tile.slots)
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
            with where(tile.first_of_line()):
                for slot in range(tile.slots):
                    line = self.operands.lines.line(*tile.line(slot))
                    place = line * i64(self.kernels.parts) + self.part
                    I.buffer_store(self.kernels.totals, self.carry[slot], [place])

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
        if self.plan.part is None:
            return init
        place = line * i64(self.kernels.parts) + self.part
        before = self.kernels.totals[tirx.max(place - 1, i64(0))]
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

    def _together(self, at: Expr, begun: Expr) -> None:
        """All lanes of a line; ``begun`` where tiles lie before this one."""
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
        before: list[Values] = [(held(self.carry[slot]),) for slot in range(tile.slots)]
        started = self._carried(begun)
        if across.parts > 1:
            started = self._subgroups(totals, before, started)
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
        return begun if self.plan.part is None else tirx.Or(begun, self.part > 0)

    def _after(self, before: Values, values: Values, started: Expr | None) -> Values:
        """With what lies before, where something does."""
        both = self.combine(before, values)[0]
        return (held(both if started is None else tirx.Select(started, both, values[0])),)

    def _advance(self, totals: Sequence[Values], started: Expr | None) -> None:
        """The carry, past a tile."""
        for slot, total in enumerate(totals):
            value = self._after((self.carry[slot],), total, started)
            I.buffer_store(self.carry, value[0], [slot])

    def _subgroups(
        self, totals: Sequence[Values], before: list[Values], started: Expr | None
    ) -> Expr | None:
        """Through shared memory: what lies before each subgroup, and past the tile."""
        across = self.across
        across.leave(totals, across.digit == 0 if across.lanes > 1 else None)
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
