"""Transforms in lanes: one transform in each lane of a vector, all of the same length.

Stockham's form: a pass of radix r over the length m leaves its results in the order in which the
next pass wants them, so nothing is ever reversed.  Before a pass, transforms of length L are done,
those of the s = m / L subsequences q, q + s, q + 2s, ...; element (k, q) is at k * s + q.  Then

    X'[k + L c, q] = sum_j exp(-2 pi i j c / r) exp(-2 pi i j k / (L r)) X[k, q + j s / r]

The first pass reads what the caller loads, the last one gives the caller its results, and those
between go through scratch memory: m vectors, which the caller chooses small enough for a cache.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.fft_codelets import Point, Registers, dft, radices

Load = Callable[[Expr], Point]
Store = Callable[[Expr, Point], None]


class LanesTransform:
    """Emits transforms of one length; making it emits its tables."""

    def __init__(self, length: int, lanes: int, dtype: str, largest_radix: int) -> None:
        found = radices(length, largest_radix)
        assert found is not None, length
        self.length, self.lanes, self.dtype = length, lanes, dtype
        self.radices = found
        self.tables: list[Table | None] = []
        done = 1
        for radix in self.radices:
            self.tables.append(self.twiddles(done, radix) if done > 1 else None)
            done *= radix

    def twiddles(self, done: int, radix: int) -> Table:
        """exp(-2 pi i j k / (done * radix)) at (k, j - 1)."""
        others = radix - 1

        def turns(position: Any) -> Any:
            if isinstance(position, int):
                return position // others * (position % others + 1)
            k = I.Bind(position // i64(others))
            return k * (position - k * others + 1)

        return Table(done * others, done * radix, turns, self.dtype, self.lanes)

    def scratch(self) -> list[Any]:
        """What :meth:`emit` needs besides: for a task of its own."""
        count = min(2, max(0, len(self.radices) - 1))
        return [emit.scratch([2, self.length * self.lanes], self.dtype) for _ in range(count)]

    def emit(self, scratch: Sequence[Any], load: Load, store: Store) -> None:
        """Transform ``load(0 .. length - 1)``, and ``store`` the results in any order."""
        if not self.radices:
            registers = Registers(self.lanes, self.dtype)
            store(i64(0), registers.point(load(i64(0))))
            return
        done, last = 1, len(self.radices) - 1
        for number, radix in enumerate(self.radices):
            source = load if number == 0 else self.reader(scratch[(number - 1) % 2])
            target = store if number == last else self.writer(scratch[number % 2])
            self.emit_pass(done, radix, self.tables[number], source, target)
            done *= radix

    def reader(self, buffer: Any) -> Load:
        """Loads from scratch memory."""

        def load(index: Expr) -> Point:
            place = emit.run(index * self.lanes, self.lanes)
            return buffer[0, place], buffer[1, place]

        return load

    def writer(self, buffer: Any) -> Store:
        """Stores to scratch memory."""

        def store(index: Expr, value: Point) -> None:
            place = emit.run(index * self.lanes, self.lanes)
            for part in range(2):
                I.buffer_store(buffer, value[part], [i64(part), place])

        return store

    def emit_pass(
        self, done: int, radix: int, table: Table | None, load: Load, store: Store
    ) -> None:
        """One pass; see the module."""
        left = self.length // done
        step = left // radix

        def butterfly(k: Index, q: Expr, twiddled: bool) -> None:
            registers = Registers(self.lanes, self.dtype)
            points = []
            for j in range(radix):
                point = registers.point(load(i64(k) * left + q + j * step))
                if twiddled and j:
                    assert table is not None
                    w = table.splat(i64(k) * (radix - 1) + (j - 1), self.lanes)
                    point = registers.multiply(point, w)
                points.append(point)
            for c, value in enumerate(dft(registers, points)):
                store((i64(k) + done * c) * step + q, value)

        with serial(step) as q:
            butterfly(i64(0), q, twiddled=False)
        if done > 1:
            with serial(done, 1) as k, serial(step) as q:
                butterfly(k, q, twiddled=True)
