"""The transform of one contiguous row: vectors within the row.

A row of n = n1 * n2 is a matrix of n1 rows and n2 columns, row-major.  Then a transform is

    columns:  Y[k1, j2] = exp(-2 pi i k1 j2 / n) * sum_j1 x[j1, j2] exp(-2 pi i j1 k1 / n1)
    rows:     X[k2, k1] = sum_j2 Y[k1, j2] exp(-2 pi i j2 k2 / n2)

In both steps the transforms side by side lie side by side in memory: columns j2 in x, and k1 in X.
So a step is transforms in lanes; only between them a vector of columns becomes one of rows, by a
transpose in registers.  Three trips through memory, whatever the length: x, Y and X, and what the
passes of a step leave to each other is n1 or n2 vectors.

The rows of a group of k1 make vectors of X that lie n1 apart, parts of lines and each in another
page.  Where X is long, rows leave their results in place in Y, and X is written in order: a trip
more, and faster.

Columns are multiplied by twiddle factors at once.  Of a codelet's the real parts stay in registers
for their transpose, the imaginary ones wait in scratch memory: LLVM leaves more on the stack.

A last group of less than a vector starts earlier and computes some transforms twice.  Rows X[k2]
may be less than a vector: then lanes are left over, and what stores the rows masks them.  Of up to
three quarters, the lower half and what is above it are transposed each by itself, and become one
vector as they are read: a round less, and none for lanes that stay empty.

With few registers a column of a vector's length and its transpose in one body leave half of their
numbers on the stack.  Then all columns of a row go to Y first, and squares of it are transposed in
place after them.

What is fetched ahead, next inputs and lines of results, is asked for a little at a time, beside
vectors that are read and written anyway: a burst of these waits for the slowest.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft import fft_lanes
from tvm_iree_ext.schedules.cpu.fft.fft_plan import has_few_registers
from tvm_iree_ext.schedules.cpu.fft.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, i64, known, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point

PartStore = Callable[[int, Expr, Expr], None]
"""Writes a run of real or imaginary parts alone."""

# Turns of columns up to this length come from one table; beyond, as products of two small ones.
_ONE_TABLE = 4096
# Transforms of more points are faster with the largest radix first; measured.
_FEW_POINTS = 64
# Columns of one codelet that stay in registers until they are transposed.
_HELD_COLUMN = 12
# Groups of columns that have code of their own, whose places are numbers.
_UNROLLED_COLUMNS = 4
# Groups of k1 of which code writes one vector each.
_UNROLLED_GROUPS = 16


class _Column:
    """The results of one codelet, until they are transposed.

    Registers hold the real parts, which go first, and of few points all; the others are in memory.
    """

    def __init__(self, memory: fft_lanes.LanesMemory | None) -> None:
        self.memory, self.points = memory, dict[int, Point]()

    def load(self, index: Expr) -> Point:
        """A point."""
        real, imag = self.points[_number(index)]
        return real, imag if self.memory is None else self.memory.load(index)[1]

    def store(self, index: Expr, value: Point) -> None:
        """Keep a point."""
        self.points[_number(index)] = value
        if self.memory is not None:
            self.memory.store_part(1, index, value[1])


def _number(index: Expr) -> int:
    number = known(index)
    assert number is not None, index
    return number


class FftRow:
    """Emits transforms of one length; making it emits its tables.

    With ``store_part(part, at, vector)`` long rows are written in order by it.
    """

    def __init__(
        self,
        length: int,
        columns: int,
        vectors: fft_lanes.TransformVectors,
        store_part: PartStore | None = None,
    ) -> None:
        assert length % columns == 0, (length, columns)
        lanes, dtype, self.barriers = vectors.lanes, vectors.dtype, vectors.barriers
        self.length, self.lanes, self.dtype = length, lanes, dtype
        self.n1, self.n2 = columns, length // columns
        self.columns = self.step(self.n1, vectors)
        self.rows = self.columns if self.n1 == self.n2 else self.step(self.n2, vectors)
        # X that fits the first cache may be written in any order.
        is_near = 2 * length * item_bytes(dtype) <= vectors.near_bytes
        is_long = self.n1 > lanes and not is_near
        self.store_part = store_part if is_long else None
        if self.store_part is not None:
            self.rows.emit_places()
        squares = self.n1 == lanes and self.n2 % lanes == 0
        self.in_squares = squares and is_near and has_few_registers(vectors.radix)
        self.above = self.lanes_above()
        groups = -(-self.n2 // lanes)
        # Whole vectors, each of which is in a line.
        self.width = groups * lanes
        if length <= _ONE_TABLE:
            count = self.n1 * self.width
            self.twiddles = Table(count, length, self.power_at(self.width), dtype, lanes)
        else:
            self.twiddles = Table(self.n1 * lanes, length, self.power_at(lanes), dtype, lanes)
            self.base_roots = Table(groups * self.n1, length, self.base_power, dtype, lanes)

    def lanes_above(self) -> int:
        """Lanes of Y's vectors above the lower half, a power of two, where that is stored apart.

        Without barriers LLVM would make one vector of both by shuffles again.
        """
        half, quarter = self.lanes // 2, self.lanes // 4
        if self.barriers is None or not half < self.n1 <= half + quarter:
            return 0
        return 1 << (self.n1 - half - 1).bit_length()

    def step(self, count: int, vectors: fft_lanes.TransformVectors) -> fft_lanes.LanesTransform:
        """Transforms of columns, or of rows: of a few points, large codelets go beside stores."""
        few = count <= _FEW_POINTS
        return fft_lanes.LanesTransform(count, vectors, smallest_first=few)

    def power_at(self, width: int) -> Callable[[Any], Any]:
        """Powers k1 * j2 at (k1, place) of a table, ``width`` wide: of all groups, or of one."""

        def column(place: Any) -> Any:
            if width == self.lanes or width == self.n2:
                return place
            group = place // self.lanes
            if isinstance(place, int):
                return min(group * self.lanes, self.n2 - self.lanes) + place % self.lanes
            return self.first(group, self.n2) + place - group * self.lanes

        def power(position: Any) -> Any:
            if isinstance(position, int):
                return position // width * column(position % width)
            k1 = I.Bind(tirx.floordiv(position, i64(width)))
            return k1 * column(I.Bind(position - k1 * width))

        return power

    def base_power(self, position: Any) -> Any:
        """Powers k1 * (first column of a group) at (group, k1)."""
        if isinstance(position, int):
            return position % self.n1 * min(position // self.n1 * self.lanes, self.n2 - self.lanes)
        group = I.Bind(tirx.floordiv(position, i64(self.n1)))
        return (position - group * self.n1) * self.first(group, self.n2)

    def first(self, group: Expr, count: int) -> Expr:
        """The first of a group of lanes among ``count``."""
        base = group * self.lanes
        if count % self.lanes == 0 or count < self.lanes:
            return base
        return i64(emit.smaller(base, count - self.lanes))

    def between(self) -> Any:
        """Memory for all of Y, by groups of k1: shared where steps are split among threads."""
        if self.above:
            return emit.scratch([2, (self.lanes // 2 + self.above) * self.n2], self.dtype)
        groups = -(-self.n1 // self.lanes)
        return emit.scratch([2, groups * self.n2 * self.lanes], self.dtype)

    def emit(self, load: fft_lanes.Load, store: fft_lanes.Store) -> None:
        """All of a row, with memory of its own; ``load`` and ``store`` take runs of ``lanes``."""
        self.emit_steps(load, store, self.between(), serial)

    def emit_steps(
        self,
        load: fft_lanes.Load,
        store: fft_lanes.Store,
        between: Any,
        loop: Callable[[int], Any],
        fetch_inputs: Callable[[Expr], None] | None = None,
        fetch_results: Callable[[int, Expr], None] | None = None,
    ) -> None:
        """All of a row; ``loop(count)`` makes the loops over groups of lanes, and over X[k2].

        ``fetch_inputs(vector)`` has a vector of the next inputs fetched, by its number, and
        ``fetch_results(part, vector)`` one of these results.
        """
        if self.barriers is not None:
            self.barriers.aligned()
        groups = -(-self.n2 // self.lanes)
        few = loop is serial and groups <= _UNROLLED_COLUMNS
        if loop is serial and self.in_squares:
            with loop(groups) as group:
                self.emit_square(I.Bind(group * self.lanes), load, between)
            with loop(groups) as group:
                self.emit_transpose(I.Bind(group), between, fetch_results)
        else:
            with I.unroll(i64(0), i64(groups)) if few else loop(groups) as group:
                self.emit_columns(I.Bind(i64(group)), load, between, fetch_results)
        if self.above and self.barriers is not None:
            self.barriers.stored()
        with loop(-(-self.n1 // self.lanes)) as group:
            self.emit_rows(I.Bind(i64(group)), store, between, fetch_inputs)
        if self.store_part is not None:
            with loop(self.n2) as row:
                self.emit_results(I.Bind(i64(row)), self.store_part, between)

    def column(self) -> fft_lanes.LanesMemory | _Column:
        """Memory of a group of columns' results until they are transposed."""
        if self.barriers is None or self.columns.count > 1 or self.n1 > self.lanes:
            return self.columns.memory(self.n1)
        return _Column(None if self.n1 <= _HELD_COLUMN else self.columns.memory(self.n1))

    def emit_columns(
        self,
        group: Expr,
        load: fft_lanes.Load,
        between: Any,
        fetch_results: Callable[[int, Expr], None] | None,
    ) -> None:
        """Columns of one group, and their transpose."""
        first = I.Bind(self.first(group, self.n2))
        column = self.column()

        def store(k1: Expr, value: Point) -> None:
            column.store(k1, self.twiddled(value, k1, group))

        self.columns.emit(lambda j1: load(j1 * self.n2 + first), store)
        if self.barriers is not None:
            self.barriers.stored()

        def transpose(block: Expr) -> None:
            start, count = self.first(block, self.n1), min(self.lanes, self.n1)
            points = [column.load(start + lane) for lane in range(count)]
            if self.above:
                self.store_halves(points, group, first, between, fetch_results)
                return
            points += points[-1:] * (self.lanes - count)
            self.store_transposed(points, block * self.n2 + first, between, fetch_results)

        if self.n1 <= self.lanes:
            transpose(i64(0))
        else:
            with serial(-(-self.n1 // self.lanes)) as block:
                transpose(block)

    def store_transposed(
        self,
        points: list[Point],
        number: Expr,
        between: Any,
        fetch_results: Callable[[int, Expr], None] | None,
    ) -> None:
        """A square of Y, from the vector of that number on."""
        lanes = self.lanes
        line = max(1, emit.LINE_BYTES // (lanes * item_bytes(self.dtype)))
        for part in range(2):
            for lane, vector in enumerate(emit.transpose([point[part] for point in points])):
                at = number + lane
                I.buffer_store(between, vector, [i64(part), emit.run(at * lanes, lanes)])
                if fetch_results is not None and lane % line == 0:
                    fetch_results(part, at)

    def store_halves(
        self,
        points: list[Point],
        group: Expr,
        first: Expr,
        between: Any,
        fetch_results: Callable[[int, Expr], None] | None,
    ) -> None:
        """The lower lanes of a group of Y, all of its vectors', and what is above them."""
        half = self.lanes // 2
        # Evenly beside the groups, as many vectors as a row has.
        fetched = -(-self.length // self.lanes) // (self.width // self.lanes) + 1
        for part in range(2):
            for count, rows, start in (
                (half, points[:half], i64(0)),
                (self.above, points[half:], i64(half * self.n2)),
            ):
                vectors = [point[part] for point in rows]
                vectors += vectors[-1:] * (count - len(vectors))
                for number, vector in enumerate(emit.interleaved(vectors, self.lanes)):
                    at = start + first * count + number * self.lanes
                    I.buffer_store(between, vector, [i64(part), emit.run(at, self.lanes)])
            if fetch_results is not None:
                for number in range(fetched):
                    fetch_results(part, group * fetched + number)

    def load_halves(self, between: Any, j2: Expr) -> Point:
        """A vector of Y; its empty lanes are anything."""
        half = self.lanes // 2

        def load(part: int) -> Expr:
            below = I.Bind(between[part, emit.run(j2 * half, half)])
            at = j2 * self.above + half * self.n2
            above = [between[part, at + lane % self.above] for lane in range(half)]
            return tirx.Shuffle([below, *above], list(range(self.lanes)))

        return load(0), load(1)

    def emit_square(self, first: Expr, load: fft_lanes.Load, between: Any) -> None:
        """Columns of one group, not yet twiddled, where their square of Y will be."""
        square = fft_lanes.LanesMemory(between, self.lanes, I.Bind(first * self.lanes))
        self.columns.emit(lambda j1: load(j1 * self.n2 + first), square.store)

    def emit_transpose(
        self, group: Expr, between: Any, fetch_results: Callable[[int, Expr], None] | None
    ) -> None:
        """A square of Y from the columns that are there."""
        first = I.Bind(group * self.lanes)
        square = fft_lanes.LanesMemory(between, self.lanes, I.Bind(first * self.lanes))
        places = [i64(k1) for k1 in range(self.lanes)]
        twiddled = [self.twiddled(square.load(k1), k1, group) for k1 in places]
        self.store_transposed(twiddled, first, between, fetch_results)

    def twiddled(self, point: Point, k1: Expr, group: Expr) -> Point:
        """A vector of Y[k1] from the transforms of a group of columns."""
        if known(k1) == 0:
            return point
        registers = CodeletRegisters(self.lanes, self.dtype)
        point = registers.point(point)
        if self.length <= _ONE_TABLE:
            place = k1 * self.width + group * self.lanes
            return registers.multiply(point, self.twiddles.vector(place, self.lanes))
        point = registers.multiply(point, self.base_roots.splat(group * self.n1 + k1, self.lanes))
        return registers.multiply(point, self.twiddles.vector(k1 * self.lanes, self.lanes))

    def emit_rows(
        self,
        group: Expr,
        store: fft_lanes.Store,
        between: Any,
        fetch_inputs: Callable[[Expr], None] | None,
    ) -> None:
        """Rows of one group of k1, left in place where X is written in order."""
        found = self.rows.memory() if self.above else self.rows_memory(group, between)
        if self.store_part is not None:
            self.rows.emit_in_place(found.load, found)
            return
        first = I.Bind(self.first(group, self.n1))

        def load(j2: Expr) -> Point:
            if fetch_inputs is not None:
                fetch_inputs(group * self.n2 + j2)
            return self.load_halves(between, j2) if self.above else found.load(j2)

        self.rows.emit(load, lambda k2, v: store(k2 * self.n1 + first, v), found)

    def rows_memory(self, group: Expr, between: Any) -> fft_lanes.LanesMemory:
        """Memory of the points of a group of k1."""
        return fft_lanes.LanesMemory(between, self.lanes, I.Bind(group * (self.n2 * self.lanes)))

    def emit_results(self, k2: Expr, store_part: PartStore, between: Any) -> None:
        """X[k2] from where its rows have left it.

        One part after the other: a store that begins in a line follows the one that ends there.
        """
        place, groups = I.Bind(self.rows.result_place(k2)), -(-self.n1 // self.lanes)
        loop = I.unroll if groups <= _UNROLLED_GROUPS else I.serial
        for part in range(2):
            with loop(i64(0), i64(groups)) as group:
                point = self.rows_memory(group, between).load(place)
                store_part(part, k2 * self.n1 + self.first(group, self.n1), point[part])
