"""Transforms in lanes: one transform in each lane of a vector, all of the same length.

Stockham's form: a pass of radix r over the length m leaves its results in the order in which the
next pass wants them, so nothing is ever reversed.  Before a pass, transforms of length L are done,
those of the s = m / L subsequences q, q + s, q + 2s, ...; element (k, q) is at k * s + q.  Then

    X'[k + L c, q] = sum_j exp(-2 pi i j c / r) exp(-2 pi i j k / (L r)) X[k, q + j s / r]

The first pass reads what the caller loads, the last one gives the caller its results, and those
between go through scratch memory: m vectors, which the caller chooses small enough for a cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft_plan import passes
from tvm_iree_ext.schedules.cpu.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.fft_codelets import Point, Registers, dft, turned_dft, turned_roots

Load = Callable[[Expr], Point]
Store = Callable[[Expr, Point], None]


class VectorRegisters(Registers):
    """Registers of a target whose multiply-adds LLVM chooses.

    Left to itself, it makes a product of its own of one that goes into two sums.
    """

    def multiply_add(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """``a * b + c``."""
        dtype = f"{self.dtype}x{self.lanes}" if self.lanes > 1 else self.dtype
        return tirx.call_llvm_pure_intrin(dtype, "llvm.fmuladd", a, b, c)


@dataclass(frozen=True)
class Memory:
    """Points in lanes in scratch memory, from the element ``base`` of each part on."""

    buffer: Any
    lanes: int
    base: Expr

    def load(self, index: Expr) -> Point:
        """A point."""
        place = emit.run(self.base + index * self.lanes, self.lanes)
        return self.buffer[0, place], self.buffer[1, place]

    def store(self, index: Expr, value: Point) -> None:
        """Write a point."""
        place = emit.run(self.base + index * self.lanes, self.lanes)
        for part in range(2):
            I.buffer_store(self.buffer, value[part], [i64(part), place])


class LanesTransform:
    """Emits transforms of one length; making it emits its tables."""

    def __init__(self, length: int, lanes: int, dtype: str, largest_radix: int) -> None:
        found = passes(length, largest_radix)
        assert found is not None, length
        self.length, self.lanes, self.dtype = length, lanes, dtype
        self.radices = found
        self.tables: list[Table | None] = []
        done = 1
        for radix in self.radices:
            self.tables.append(self.twiddles(done, radix) if done > 1 else None)
            done *= radix

    def twiddles(self, done: int, radix: int) -> Table:
        """The roots of the butterflies k below ``done``, those of a butterfly side by side."""
        order = done * radix
        roots = [(p, q * (order // m)) for p, q, m in _roots(radix)]
        count = len(roots)

        def turns(position: Any) -> Any:
            if isinstance(position, int):
                power, offset = roots[position % count]
                return position // count * power + offset
            k = I.Bind(position // i64(count))
            at = I.Bind(position - k * count)
            value = k * roots[0][0] + roots[0][1]
            for number, (power, offset) in enumerate(roots[1:], 1):
                value = tirx.Select(at == number, k * power + offset, value)
            return value

        return Table(done * count, order, turns, self.dtype, self.lanes)

    @property
    def count(self) -> int:
        """How many passes there are."""
        return len(self.radices)

    def scratch(self, *, in_place: bool = False) -> list[Any]:
        """What :meth:`emit` needs besides: for a task of its own.

        ``in_place`` where there is memory for the first pass already.
        """
        count = min(2, max(0, len(self.radices) - 1)) - in_place
        return [self.memory(self.length) for _ in range(count)]

    def memory(self, count: int) -> Memory:
        """Scratch memory for so many points."""
        return Memory(emit.scratch([2, count * self.lanes], self.dtype), self.lanes, i64(0))

    def emit(self, scratch: Sequence[Memory], load: Load, store: Store) -> None:
        """Transform ``load(0 .. length - 1)``, and ``store`` the results in any order.

        The first pass leaves its results where it found its points: ``load`` may read
        ``scratch[0]``.
        """
        if not self.radices:
            registers = Registers(self.lanes, self.dtype)
            store(i64(0), registers.point(load(i64(0))))
            return
        done, last = 1, len(self.radices) - 1
        for number, radix in enumerate(self.radices):
            source = load if number == 0 else scratch[(number - 1) % 2].load
            target = store if number == last else scratch[number % 2].store
            self.emit_pass(done, radix, self.tables[number], source, target)
            done *= radix

    def emit_pass(
        self, done: int, radix: int, table: Table | None, load: Load, store: Store
    ) -> None:
        """One pass; see the module."""
        left = self.length // done
        step = left // radix

        def butterfly(k: Index, q: Expr, twiddled: bool) -> None:
            registers = VectorRegisters(self.lanes, self.dtype)
            points = [registers.point(load(i64(k) * left + q + j * step)) for j in range(radix)]
            if twiddled:
                assert table is not None
                count = len(_roots(radix))
                roots = [
                    registers.point(table.splat(i64(k) * count + at, self.lanes))
                    for at in range(count)
                ]
                values = _turned(registers, points, roots)
            else:
                values = dft(registers, points)
            for c, value in enumerate(values):
                store((i64(k) + done * c) * step + q, value)

        with serial(step) as q:
            butterfly(i64(0), q, twiddled=False)
        if done > 1:
            with serial(done, 1) as k, serial(step) as q:
                butterfly(k, q, twiddled=True)


def _roots(radix: int) -> list[tuple[int, int, int]]:
    """Triples (p, q, m): the roots w^p exp(-2 pi i q / m) that :func:`_turned` takes."""
    if radix & (radix - 1):
        return [(power, 0, 1) for power in range(1, radix)]
    return turned_roots(radix)


def _turned(registers: Registers, points: list[Point], roots: list[Point]) -> list[Point]:
    """The transform of points of which the j'th is first turned by w^j."""
    if len(points) & (len(points) - 1) == 0:
        return turned_dft(registers, points, roots)
    turned = [registers.multiply(a, w) for a, w in zip(points[1:], roots, strict=True)]
    return dft(registers, [points[0], *turned])
