"""The kernels of :mod:`.strided`: rows along near's memory, or squares transposed in registers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.transfer.transfer_canonical import signed, summable
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.emit.strided import StridedBound, TableNumber, Walk
from tvm_iree_ext.schedules.cpu.emit.tasks import FAR_ROW_BYTES, ROWS_AHEAD, Tasks
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.targets.cpu import CpuFeatures

_UNIT = 4096  # elements that are worth finding their place by divisions
_CHUNK = 4096  # elements of a row, at most, that belong to one task
_PIECE = 32  # elements between which lines are asked for


@dataclass(frozen=True)
class StridedConfig(RuleConfig):
    """How a walk is cut up.

    Attributes:
        rows: of the crossing loop that are transposed together; 1 where none are.
        columns: elements of a row, at most, that belong to one task.
        unit: elements that are worth finding their place.
    """

    rows: int = number("workgroup_tile.rows")
    columns: int = number("workgroup_tile.columns")
    unit: int = number("workgroup_tile.unit")
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")


def strided_config(walk: Walk, item: int, cores: int, parallel: bool) -> StridedConfig:
    """The usual config of a walk over elements of ``item`` bytes."""
    extents = walk.loops.extents
    lanes = min(16, emit.LINE_BYTES // item)
    crossing = walk.crossing
    if crossing is not None:
        while lanes > 1 and lanes > min(extents[crossing], extents[-1]):
            lanes //= 2
    squares = crossing is not None and lanes >= 4
    return StridedConfig(
        "squares" if squares else "rows",
        rows=2 * lanes if squares else 1,
        columns=_CHUNK,
        unit=_UNIT,
        lanes=lanes if squares else 1,
        splits=cores if parallel else 1,
        parallel=parallel,
    )


def parse_strided(walk: Walk, check: ConfigCheck) -> StridedConfig:
    """The numbers that :func:`move` takes; ScheduleError for those that it cannot use."""
    forms = ["rows"] if walk.crossing is None else ["rows", "squares"]
    typed = StridedConfig.parse(check, *forms)
    if typed.algorithm == "squares":
        typed.multiple(check, "rows", check.lanes(least=2), "lanes")
    return typed


@dataclass(frozen=True)
class StridedMemory:
    """The buffers of a walk: words of one axis, but for the mask and the tables.

    ``mask`` holds bytes, ``tables`` integers by symbol.  ``padding`` is what a position of near
    takes that is left out; None leaves it alone.  ``loads`` says which way the data go, and
    ``is_filled`` that far has an element at 0, which stands for one that is left out.
    """

    near: Any
    far: Any
    loads: bool
    mask: Any = None
    tables: Mapping[str, Any] | None = None
    padding: Expr | None = None
    is_filled: bool = False


def move(walk: Walk, memory: StridedMemory, config: StridedConfig, features: CpuFeatures) -> None:
    """Emit the walk."""
    _Mover(walk, memory, config, features).emit()


At = dict[int, Index]


class _Mover:
    """The kernel under construction."""

    def __init__(
        self, walk: Walk, memory: StridedMemory, config: StridedConfig, features: CpuFeatures
    ) -> None:
        self.walk, self.memory, self.config = walk, memory, config
        self.loops, self.last = walk.loops, walk.last
        self.tasks = Tasks(config.splits, config.parallel)
        self.most_swept = features.first_cache_bytes // emit.LINE_BYTES
        """Lines of a row of which most are read."""
        self.chunk = min(config.columns, self.loops.extents[-1])

    def emit(self) -> None:
        """Tasks share units: so many loops inside one that it is worth its place being found."""
        crossing = self.walk.crossing if self.config.algorithm == "squares" else None
        extents = list(self.loops.extents)
        extents[-1] = -(-extents[-1] // self.chunk)
        if crossing is not None:
            extents[crossing] = -(-extents[crossing] // self.config.rows)
        inside = len(extents) - 1
        if crossing is None:
            done = self.chunk
            while inside and done < self.config.unit:
                if prod(extents[: inside - 1]) < 4 * self.config.splits:
                    break
                inside -= 1
                done *= extents[inside]
        # Units go over the loops before ``inside``, and over the chunks of the last.
        shared = [*range(inside), self.last]
        with self.tasks.each() as task:
            total = prod(extents[loop] for loop in shared)
            first, stop = self.tasks.share(task, total)
            with serial(stop, first) as unit:
                at: At = {}
                for loop in reversed(shared):
                    at[loop] = I.Bind(tirx.floormod(unit, i64(extents[loop])))
                    unit = tirx.floordiv(unit, i64(extents[loop]))
                chunk = at.pop(self.last)
                low = I.Bind(i64(chunk) * i64(self.chunk))
                high: Index = low + self.chunk
                if self.loops.extents[-1] % self.chunk:
                    high = emit.smaller(high, self.loops.extents[-1])
                if self.loops.extents[-1] == self.chunk:
                    low, high = i64(0), self.chunk
                if crossing is None:
                    self.inner(at, list(range(inside, self.last)), low, high)
                else:
                    self.squares(at, crossing, low, high)

    def inner(self, at: At, loops: Sequence[int], low: Expr, high: Index) -> None:
        """The loops inside a unit, and the rows in them."""
        if not loops:
            self.row(at, low, high)
            return
        with serial(self.loops.extents[loops[0]]) as index:
            self.inner({**at, loops[0]: index}, loops[1:], low, high)

    def place(self, name: str, at: At) -> Expr:
        """Offset of an operand, but for the loops that are not in ``at``."""
        place = i64(self.walk.starts.get(name, 0))
        for loop, index in at.items():
            if self.loops.moves(name, loop):
                place = place + i64(index) * i64(self.loops.step(name, loop))
        for symbol in self.walk.symbols:
            moved = symbol.moves.get(name, 0)
            # Read where all that it depends on is known.
            depends = {k for k in range(self.last + 1) if self.loops.moves(symbol.name, k)}
            if depends <= at.keys() and known(moved) != 0:
                place = place + self.read(symbol, at) * i64(moved)
        return place

    def read(self, symbol: TableNumber, at: At) -> Expr:
        """A symbol's number."""
        return self.number(symbol, self.place(symbol.name, at))

    def number(self, symbol: TableNumber, place: Expr) -> Expr:
        """A symbol's number in its table."""
        assert self.memory.tables is not None
        number = signed(self.memory.tables[symbol.name][place])
        return summable(number) if symbol.is_summed else number

    def row(self, at: At, low: Expr, high: Index) -> None:
        """The positions ``low`` to ``high`` - 1 of the last loop."""
        live = self.live(at)
        start = I.Bind(self.place("near", at))
        if live is None:
            self.run(at, start, low, high)
            return
        with I.If(live):
            with I.Then():
                self.run(at, start, low, high)
            if self.memory.padding is not None:
                with I.Else():
                    self.fill(start, low, high)

    def live(self, at: At) -> Expr | None:
        """Whether positions of a row are not left out, but for what the last loop decides.

        None where none ever is.
        """
        walk, last = self.walk, self.last
        tests = []
        if walk.has_mask and not self.loops.moves("mask", last):
            tests.append(self.kept(at))
        for one in walk.bounds:
            if not self.loops.moves(one.name, last) and not walk.reads(one, last):
                tests += self.inside(one, at)
        return tirx.all(*tests) if tests else None

    def kept(self, at: At) -> Expr:
        """Whether the mask keeps a position."""
        return tirx.NE(self.memory.mask[self.place("mask", at)], tirx.const(0, "uint8"))

    def inside(self, bound: StridedBound, at: At) -> list[Expr]:
        """The tests of a bound."""
        place = self.place(bound.name, at)
        tests = [] if bound.least is None else [i64(bound.least) <= place]
        return [*tests, place < i64(bound.limit)]

    def fill(self, near: Expr, low: Index, high: Index) -> None:
        """Pad positions of near."""
        assert self.memory.padding is not None
        step = i64(self.loops.step("near", self.last))
        with serial(high, low) as j:
            I.buffer_store(self.memory.near, self.memory.padding, [near + j * step])

    def run(self, at: At, near: Expr, low: Expr, high: Index) -> None:
        """A row whose positions are live, but for what the last loop decides."""
        last, memory = self.last, self.memory
        varying = self.walk.gathered(last)
        far = I.Bind(self.place("far", at))
        steps = {name: i64(self.loops.step(name, last)) for name in ("near", "far")}
        starts = {one.name: I.Bind(self.place(one.name, at)) for one in varying}
        growing = self.walk.growing(last)
        if growing:
            first, stop = map(I.Bind, self.within(growing, at, low, high))
            if memory.padding is not None:
                if any(one.least is not None for one in growing):
                    self.fill(near, low, first)
                self.fill(near, stop, high)
            low, high = first, stop
        ahead = self.ahead(at)
        if ahead is not None and not varying and self.live_in_row(at, i64(low)) is None:
            place, start = far + i64(low), near + i64(low)
            length = self.chunk if known(low) == 0 and known(high) else i64(high) - i64(low)
            emit.copy_row(memory.near, start, memory.far, place, length, I.Bind(ahead + i64(low)))
            return

        def gather(j: Expr) -> None:
            place = far + j * steps["far"]
            for one in varying:
                number = self.number(
                    one, starts[one.name] + j * i64(self.loops.step(one.name, last))
                )
                place = place + number * i64(one.moves["far"])
            self.element(near + j * steps["near"], place, self.live_in_row(at, j))

        lines = self.swept(varying) if not growing else None
        if lines is None:
            with serial(high, low) as j:
                gather(j)
            return
        # The row after this one, line by line while this one is gathered.
        size = emit.LINE_BYTES // item_bytes(str(memory.near.dtype))
        pieces = self.chunk // _PIECE
        with serial(pieces) as piece:
            each = -(-lines // pieces)
            for line in range(each):
                emit.prefetch(memory.far, far + (lines + piece * each + line) * size)
            with serial(_PIECE) as j:
                gather(piece * _PIECE + j)
        with serial(self.chunk, pieces * _PIECE) as j:
            gather(j)

    def ahead(self, at: At) -> Expr | None:
        """Start of far's row after the next; None where rows are short, or no table says it."""
        last, memory = self.last, self.memory
        row = self.chunk * item_bytes(str(memory.near.dtype))
        straight = all(known(self.loops.step(name, last)) == 1 for name in ("near", "far"))
        loops = [loop for loop in range(last) if self.walk.gathered(loop)]
        if not (memory.loads and straight and loops and row >= FAR_ROW_BYTES):
            return None
        loop = loops[-1]
        behind = tirx.min(i64(at[loop]) + ROWS_AHEAD, i64(self.loops.extents[loop] - 1))
        return self.place("far", {**at, loop: behind})

    def swept(self, varying: Sequence[TableNumber]) -> int | None:
        """The lines of far's row, where one row of it follows the other and most of it is read."""
        last = self.last
        step = self.loops.step("far", last - 1) if last else 0
        if not (self.memory.loads and varying and isinstance(step, int) and step):
            return None
        straight = all(known(one.moves.get("far", 0)) == 1 for one in varying)
        lines = step * item_bytes(str(self.memory.near.dtype)) // emit.LINE_BYTES
        whole = self.chunk == self.loops.extents[-1] and self.chunk >= _PIECE
        near = 1 < lines <= min(self.most_swept, 2 * self.chunk)
        return lines if straight and whole and near else None

    def live_in_row(self, at: At, j: Expr) -> Expr | None:
        """Condition of the last loop's position ``j`` on its own, beyond :meth:`within`."""
        here = {**at, self.last: j}
        tests = []
        if self.walk.has_mask and self.loops.moves("mask", self.last):
            tests.append(self.kept(here))
        for one in self.walk.bounds:
            if self.walk.reads(one, self.last):
                tests += self.inside(one, here)
        return tirx.all(*tests) if tests else None

    def element(self, near: Expr, far: Expr, live: Expr | None) -> None:
        """One element."""
        memory = self.memory
        if memory.loads:
            if live is None:
                value = memory.far[far]
            elif memory.is_filled:  # no branch, so LLVM can gather many at once
                assert memory.padding is not None
                live = I.Bind(live)
                value = I.Bind(memory.far[tirx.Select(live, far, i64(0))])
                value = tirx.Select(live, value, memory.padding)
            else:
                assert memory.padding is not None
                value = tirx.if_then_else(live, memory.far[far], memory.padding)
            I.buffer_store(memory.near, value, [near])
        elif live is None:
            I.buffer_store(memory.far, memory.near[near], [far])
        else:
            with I.If(live), I.Then():
                I.buffer_store(memory.far, memory.near[near], [far])

    def within(
        self, growing: Sequence[StridedBound], at: At, low: Expr, high: Index
    ) -> tuple[Expr, Expr]:
        """Range of the part of a row that is in bounds whose coordinates only grow."""
        first, stop = low, i64(high)
        for one in growing:
            step, start = i64(self.loops.step(one.name, self.last)), self.place(one.name, at)
            stop = tirx.min(stop, tirx.floordiv(i64(one.limit) - start + step - 1, step))
            if one.least is not None:
                below = i64(one.least) - start + step - 1
                first = tirx.max(first, tirx.floordiv(below, step))
        stop = tirx.max(stop, low)
        return tirx.min(first, stop), stop

    def squares(self, at: At, crossing: int, low: Expr, high: Index) -> None:
        """Some rows of the crossing loop, transposed."""
        rows = self.config.rows
        tile = at[crossing]
        outer = {loop: index for loop, index in at.items() if loop != crossing}
        live = self.live(outer)

        def body() -> None:
            first = I.Bind(i64(tile) * i64(rows))
            extent = self.loops.extents[crossing]
            if extent % rows == 0:
                self.square_rows(outer, crossing, first, rows, low, high)
                return
            with I.If(first + rows <= i64(extent)):
                with I.Then():
                    self.square_rows(outer, crossing, first, rows, low, high)
                with I.Else():
                    self.plain_rows(outer, crossing, first, i64(extent), low, high)

        if live is None:
            body()
            return
        with I.If(live):
            with I.Then():
                body()
            if self.memory.padding is not None:
                with I.Else(), serial(rows) as row:
                    index = I.Bind(i64(tile) * i64(rows) + row)
                    with I.If(index < i64(self.loops.extents[crossing])), I.Then():
                        self.fill(self.place("near", {**outer, crossing: index}), low, high)

    def plain_rows(
        self, outer: At, crossing: int, first: Expr, stop: Expr, low: Index, high: Index
    ) -> None:
        """Elements of some rows one after another."""
        with serial(stop, first) as row:
            at = {**outer, crossing: row}
            self.run(at, I.Bind(self.place("near", at)), i64(low), high)

    def square_rows(
        self, outer: At, crossing: int, first: Expr, rows: int, low: Index, high: Index
    ) -> None:
        """``rows`` whole rows: squares, and what is left over at their ends."""
        lanes, last = self.config.lanes, self.last
        count = tirx.floordiv(i64(high) - i64(low), i64(lanes))
        if known(i64(high)) is not None and known(i64(low)) is not None:
            count = i64((int(i64(high)) - int(i64(low))) // lanes)

        def square(column: Expr, row: Expr) -> None:
            fars = [
                I.Bind(self.place("far", {**outer, crossing: row, last: column + lane}))
                for lane in range(lanes)
            ]
            start = I.Bind(self.place("near", {**outer, crossing: row, last: column}))
            step = i64(self.loops.step("near", crossing))
            nears = [start + i64(lane) * step for lane in range(lanes)]
            source, sources, target, targets = self.memory.far, fars, self.memory.near, nears
            if not self.memory.loads:
                source, sources, target, targets = target, targets, source, sources
            emit.move_transposed(target, targets, source, sources)

        with serial(count) as block:
            column = I.Bind(i64(low) + block * i64(lanes))

            def tiles(column: Expr = column) -> None:
                with serial(rows // lanes) as part:
                    square(column, I.Bind(first + part * i64(lanes)))

            tests = [self.live_in_row(outer, column + lane) for lane in range(lanes)]
            lives = [one for one in tests if one is not None]
            if not lives:
                tiles()
            else:
                with I.If(tirx.all(*lives)):
                    with I.Then():
                        tiles()
                    with I.Else():
                        self.plain_rows(
                            outer, crossing, first, first + rows, column, column + lanes
                        )
        rest = I.Bind(i64(low) + count * i64(lanes))
        if known(i64(high)) is None or self.loops.extents[-1] % lanes:
            self.plain_rows(outer, crossing, first, first + rows, rest, high)
