"""The transform of one contiguous row: vectors within the row.

A row of n = n1 * n2 is a matrix of n1 rows and n2 columns, row-major.  Then a transform is

    columns:  Y[k1, j2] = exp(-2 pi i k1 j2 / n) * sum_j1 x[j1, j2] exp(-2 pi i j1 k1 / n1)
    rows:     X[k2, k1] = sum_j2 Y[k1, j2] exp(-2 pi i j2 k2 / n2)

In both steps the transforms side by side lie side by side in memory: columns j2 in x, and k1 in X.
So a step is transforms in lanes; only between them a vector of columns becomes one of rows, by a
transpose in registers.  Three trips through memory, whatever the length: x, Y and X, and what the
passes of a step leave to each other is n1 or n2 vectors.

A last group of less than a vector starts earlier and computes some transforms twice.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft_lanes import LanesTransform, Load, Store, radices
from tvm_iree_ext.schedules.cpu.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.fft_codelets import Point, Registers

# Turns of columns up to this length come from one table; beyond, as products of two small ones.
_ONE_TABLE = 4096


def split(length: int, lanes: int, largest_radix: int) -> tuple[int, int] | None:
    """The most even factors, each at least a vector and of small primes; None without any."""
    if radices(length, largest_radix) is None:
        return None
    first = int(length**0.5)
    while first >= lanes and length % first:
        first -= 1
    return (first, length // first) if first >= lanes else None


class RowTransform:
    """Emits transforms of one length; making it emits its tables."""

    def __init__(self, length: int, lanes: int, dtype: str, largest_radix: int) -> None:
        found = split(length, lanes, largest_radix)
        assert found is not None, length
        self.length, self.lanes, self.dtype = length, lanes, dtype
        self.n1, self.n2 = found
        self.columns = LanesTransform(self.n1, lanes, dtype, largest_radix)
        self.rows = (
            self.columns
            if self.n1 == self.n2
            else LanesTransform(self.n2, lanes, dtype, largest_radix)
        )
        if length <= _ONE_TABLE:
            self.turns = Table(length, length, self.turn_at(self.n2), dtype, lanes)
        else:
            groups = -(-self.n2 // lanes)
            self.turns = Table(self.n1 * lanes, length, self.turn_at(lanes), dtype, lanes)
            self.base_turns = Table(groups * self.n1, length, self.base_turn, dtype, lanes)

    def turn_at(self, width: int) -> Callable[[Any], Any]:
        """Turns k1 * j2 at (k1, j2) of a table of ``width`` columns."""

        def turn(position: Any) -> Any:
            if isinstance(position, int):
                return position // width * (position % width)
            k1 = I.Bind(tirx.floordiv(position, i64(width)))
            return k1 * (position - k1 * width)

        return turn

    def base_turn(self, position: Any) -> Any:
        """Turns k1 * (first column of a group) at (group, k1)."""
        if isinstance(position, int):
            return position % self.n1 * min(position // self.n1 * self.lanes, self.n2 - self.lanes)
        group = I.Bind(tirx.floordiv(position, i64(self.n1)))
        return (position - group * self.n1) * self.first(group, self.n2)

    def first(self, group: Expr, count: int) -> Expr:
        """The first of a group of lanes among ``count``."""
        base = group * self.lanes
        return i64(emit.smaller(base, count - self.lanes)) if count % self.lanes else base

    def between(self) -> Any:
        """Memory for all of Y, by groups of k1: shared where steps are split among threads."""
        groups = -(-self.n1 // self.lanes)
        return emit.scratch([2, groups * self.n2 * self.lanes], self.dtype)

    def emit(self, load: Load, store: Store) -> None:
        """All of a row, with memory of its own; ``load`` and ``store`` take runs of ``lanes``."""
        self.emit_steps(load, store, self.between(), serial)

    def emit_steps(
        self, load: Load, store: Store, between: Any, loop: Callable[[int], Any]
    ) -> None:
        """All of a row; ``loop(count)`` makes the loops over groups of lanes."""
        with loop(-(-self.n2 // self.lanes)) as group:
            self.emit_columns(I.Bind(i64(group)), load, between)
        with loop(-(-self.n1 // self.lanes)) as group:
            self.emit_rows(I.Bind(i64(group)), store, between)

    def emit_columns(self, group: Expr, load: Load, between: Any) -> None:
        """Columns of one group, and their transpose."""
        lanes = self.lanes
        first = I.Bind(self.first(group, self.n2))
        column = emit.scratch([2, self.n1 * lanes], self.dtype)
        self.columns.emit(
            self.columns.scratch(),
            lambda j1: load(j1 * self.n2 + first),
            self.columns.writer(column),
        )
        with serial(-(-self.n1 // lanes)) as block:
            k1 = I.Bind(self.first(block, self.n1))
            turned = [self.turned(column, k1 + lane, group, first) for lane in range(lanes)]
            for part in range(2):
                vectors = emit.transpose([point[part] for point in turned])
                for lane, vector in enumerate(vectors):
                    at = (block * self.n2 + first + lane) * lanes
                    I.buffer_store(between, vector, [i64(part), emit.run(at, lanes)])

    def turned(self, column: Any, k1: Expr, group: Expr, first: Expr) -> Point:
        """Y[k1, first ..]."""
        registers = Registers(self.lanes, self.dtype)
        place = emit.run(k1 * self.lanes, self.lanes)
        point = registers.point((column[0, place], column[1, place]))
        if self.length <= _ONE_TABLE:
            return registers.multiply(point, self.turns.vector(k1 * self.n2 + first, self.lanes))
        point = registers.multiply(point, self.base_turns.splat(group * self.n1 + k1, self.lanes))
        return registers.multiply(point, self.turns.vector(k1 * self.lanes, self.lanes))

    def emit_rows(self, group: Expr, store: Store, between: Any) -> None:
        """Rows of one group of k1."""
        first = I.Bind(self.first(group, self.n1))

        def load(j2: Expr) -> Point:
            place = emit.run((group * self.n2 + j2) * self.lanes, self.lanes)
            return between[0, place], between[1, place]

        self.rows.emit(self.rows.scratch(), load, lambda k2, v: store(k2 * self.n1 + first, v))


def _convolution_length(least: int, lanes: int, largest_radix: int) -> int:
    """The next length from ``least`` on that splits, a power of two or little more."""
    candidates = [odd << bits for odd in (1, 3, 5) for bits in range(3, least.bit_length() + 9)]
    return min(c for c in candidates if c >= least and split(c, lanes, largest_radix) is not None)


class BluesteinTransform:
    """The transform of a row of any length n, as a convolution of a length that has small factors.

    With c[j] = exp(-i pi j^2 / n), X[k] = c[k] * sum_j (x[j] c[j]) conj(c[k - j]).  The transform
    of conj(c) is made once for a call, for all rows.
    """

    def __init__(self, length: int, lanes: int, dtype: str, largest_radix: int) -> None:
        self.length, self.lanes, self.dtype = length, lanes, dtype
        size = _convolution_length(2 * length - 1, lanes, largest_radix)
        self.size = size
        self.inner = RowTransform(size, lanes, dtype, largest_radix)

        def square(position: Any) -> Any:
            return position * position

        self.chirp = Table(length, 2 * length, square, dtype, lanes)
        self.filter = emit.scratch([2, size], dtype)
        self.emit_filter()

    def emit_filter(self) -> None:
        """The transform of conj(c), periodic, over ``size``: what undoes the inner transforms."""
        around = emit.scratch([2, self.size], self.dtype)
        zero, scale = tirx.const(0.0, self.dtype), tirx.const(1.0 / self.size, self.dtype)
        with serial(self.size) as j:
            for part in range(2):
                I.buffer_store(around, zero, [i64(part), j])
        with serial(self.length) as j:
            back = tirx.Select(j == 0, i64(0), i64(self.size) - j)
            for place in (j, back):
                I.buffer_store(around, self.chirp.real[j] * scale, [i64(0), place])
                I.buffer_store(around, (zero - self.chirp.imag[j]) * scale, [i64(1), place])
        self.inner.emit(self.reader(around), self.writer(self.filter))

    def reader(self, buffer: Any) -> Load:
        """Loads of runs."""

        def load(at: Expr) -> Point:
            place = emit.run(at, self.lanes)
            return buffer[0, place], buffer[1, place]

        return load

    def writer(self, buffer: Any) -> Store:
        """Stores of runs."""

        def store(at: Expr, value: Point) -> None:
            for part in range(2):
                I.buffer_store(buffer, value[part], [i64(part), emit.run(at, self.lanes)])

        return store

    def emit_elements(
        self,
        load: Callable[[Expr], Point],
        store: Callable[[Expr, Point], None],
        results: int,
    ) -> None:
        """A row, of which ``results`` are stored; ``load`` and ``store`` take single elements."""
        work = emit.scratch([2, self.size], self.dtype)
        with serial(self.length) as j:
            registers = Registers(1, self.dtype)
            point = registers.point(load(j))
            value = registers.multiply(point, self.chirp.splat(j, 1))
            for part in range(2):
                I.buffer_store(work, value[part], [i64(part), j])
        with serial(self.size, self.length) as j:
            for part in range(2):
                I.buffer_store(work, tirx.const(0.0, self.dtype), [i64(part), j])
        spectrum = emit.scratch([2, self.size], self.dtype)
        self.inner.emit(self.reader(work), self.writer(spectrum))

        def product(at: Expr) -> Point:
            """Real and imaginary parts in each other's place: then forward is inverse."""
            registers = Registers(self.lanes, self.dtype)
            point = registers.point(self.reader(spectrum)(at))
            real, imag = registers.multiply(point, self.reader(self.filter)(at))
            return imag, real

        self.inner.emit(product, lambda at, v: self.writer(work)(at, (v[1], v[0])))
        with serial(results) as k:
            registers = Registers(1, self.dtype)
            point = registers.point((work[0, k], work[1, k]))
            store(k, registers.multiply(point, self.chirp.splat(k, 1)))
