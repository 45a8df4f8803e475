"""Transforms in lanes: one transform in each lane of a vector, all of the same length.

Before a pass of radix r over the length m, transforms of length L are done, those of the s = m / L
subsequences q, q + s, q + 2s, ...; then

    X'[k + L c, q] = sum_j exp(-2 pi i j c / r) exp(-2 pi i j k / (L r)) X[k, q + j s / r]

Passes are in place: element (k, q) is at place(k) + q, where place(k) has the digits of k in the
opposite order, of the first radix the most significant.  So one piece of scratch memory of m
vectors serves them all, which the caller chooses small enough for a cache.  The first pass reads
what the caller loads; the last one gives the caller its results, in order: nothing is reversed.  Or
it is in place, too, and the caller is told where each result is.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.compiler_barriers import CompilerBarriers
from tvm_iree_ext.schedules.cpu.fft.fft_plan import passes
from tvm_iree_ext.schedules.cpu.fft.fft_tables import Table, integers
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import (
    CodeletRegisters,
    Point,
    results,
    root,
    twiddle_roots,
    twiddled_dft,
)

_MOST_PLACES = 4096  # in a table of constants
_UNROLLED = 4  # codelets of a pass that have code of their own
_ODD_POWERS = (3, 5, 7, 9, 11, 13)  # of primes

Load = Callable[[Expr], Point]
Store = Callable[[Expr, Point], None]


class VectorRegisters(CodeletRegisters):
    """Registers of a target whose multiply-adds LLVM chooses, with barriers or in its own order.

    Left to itself, it makes a product of its own of one that goes into two sums.
    """

    def __init__(self, vectors: "TransformVectors") -> None:
        super().__init__(vectors.lanes, vectors.dtype)
        self.barriers, self.in_butterflies = vectors.barriers, vectors.in_butterflies

    def settled(self, points: Sequence[Point]) -> list[Point]:
        """Points that are computed before any that come later."""
        if self.barriers is None:
            return super().settled(points)
        settled = self.barriers.settled
        return [self.point((settled(real), settled(imag))) for real, imag in points]

    def twiddled(self, a: Point, phase: Fraction) -> tuple[float, Point]:
        """Multiply by a twiddle factor, in the sums that follow or, if not, by a product."""
        if self.in_butterflies or not phase:
            return super().twiddled(a, phase)
        w = root(phase.numerator, phase.denominator)
        return 1.0, self.multiply(a, (self.const(w.real), self.const(w.imag)))

    def multiply_add(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """``a * b + c``."""
        dtype = f"{self.dtype}x{self.lanes}" if self.lanes > 1 else self.dtype
        return tirx.call_llvm_pure_intrin(dtype, "llvm.fmuladd", a, b, c)


@dataclass(frozen=True)
class TransformVectors:
    """The vectors that transforms are computed in, with codelets of ``radix`` points at most.

    ``in_butterflies`` says that twiddle factors are in the butterflies of powers of two, by fewer
    multiply-adds.  Not where registers are few: each multiply-add overwrites an operand, and
    butterflies need both again.  Products before plain sums need no copies, fewer registers, and go
    beside the sums where those have units of their own.

    With compiler ``barriers`` codelets leave less on the stack.  ``near_bytes`` of points fit the
    first cache beside what else is in use.
    """

    lanes: int
    dtype: str
    radix: int
    in_butterflies: bool
    barriers: CompilerBarriers | None
    near_bytes: int


@dataclass(frozen=True)
class LanesMemory:
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
        for part in range(2):
            self.store_part(part, index, value[part])

    def store_part(self, part: int, index: Expr, value: Expr) -> None:
        """Write the real or the imaginary part of a point."""
        place = emit.run(self.base + index * self.lanes, self.lanes)
        I.buffer_store(self.buffer, value, [i64(part), place])


class LanesTransform:
    """Emits transforms of one length; making it emits its tables.

    ``ahead(first, count)`` emits what is to be done beside each codelet: it works on ``count``
    points, from ``first`` on among those of all passes.  Passes of the largest radix come first, or
    of the smallest.
    """

    def __init__(
        self,
        length: int,
        vectors: TransformVectors,
        ahead: Callable[[Expr, int], None] | None = None,
        smallest_first: bool = False,
    ) -> None:
        found = passes(length, vectors.radix)
        assert found is not None, length
        found = found[::-1] if smallest_first else found
        self.length, self.ahead, self.radices = length, ahead, found
        self.lanes, self.dtype = vectors.lanes, vectors.dtype
        self.vectors = vectors
        self.places: Any = None
        self.tables: list[Table | None] = []
        done = 1
        for radix in self.radices:
            self.tables.append(self.twiddles(done, radix) if done > 1 else None)
            done *= radix

    def twiddles(self, done: int, radix: int) -> Table:
        """The roots of the butterflies k below ``done``, those of a butterfly side by side."""
        order = done * radix
        roots = [(p, q * (order // m)) for p, q, m in self.roots(radix)]
        count = len(roots)

        def power_at(position: Any) -> Any:
            if isinstance(position, int):
                power, offset = roots[position % count]
                return position // count * power + offset
            k = I.Bind(position // i64(count))
            at = I.Bind(position - k * count)
            value = k * roots[0][0] + roots[0][1]
            for number, (power, offset) in enumerate(roots[1:], 1):
                value = tirx.Select(at == number, k * power + offset, value)
            return value

        return Table(done * count, order, power_at, self.dtype, self.lanes)

    @property
    def count(self) -> int:
        """How many passes there are."""
        return len(self.radices)

    def memory(self, count: int | None = None) -> LanesMemory:
        """Scratch memory for so many points, or for those of a transform."""
        size = (self.length if count is None else count) * self.lanes
        return LanesMemory(emit.scratch([2, size], self.dtype), self.lanes, i64(0))

    def emit(self, load: Load, store: Store, memory: LanesMemory | None = None) -> None:
        """Transform ``load(0 .. length - 1)``, and ``store`` the results in any order.

        ``load`` may read the ``memory`` that the passes are to work in.
        """
        if not self.radices:
            registers = CodeletRegisters(self.lanes, self.dtype)
            store(i64(0), registers.point(load(i64(0))))
            return
        last = self.count - 1
        if last:
            memory = memory or self.memory()
            self.emit_pass(0, load, memory.store)
            self.emit_middle(memory)
            load = memory.load
        done = self.length // self.radices[-1]

        def finish(k: Index, start: Expr) -> None:
            self.work_ahead(last, i64(k))
            self.codelet(
                last, k, lambda j: load(start + j), lambda c, v: store(k + i64(done * c), v)
            )

        self.each(last, finish)

    def emit_in_place(self, load: Load, memory: LanesMemory) -> None:
        """Transform ``load(0 .. length - 1)``; result k is left at ``result_place(k)``.

        ``load`` may read the same memory.
        """
        for number in range(self.count):
            self.emit_pass(number, memory.load if number else load, memory.store)

    def result_place(self, index: Expr) -> Expr:
        """Index of a result after all passes in place."""
        if self.count < 2:
            return index
        if self.places is not None:
            return tirx.Cast("int64", self.places[index])
        done = self.length // self.radices[-1]
        c = I.Bind(tirx.truncdiv(index, i64(done)))
        return I.Bind(self.place(I.Bind(index - c * done), self.count - 1) + c)

    def emit_places(self) -> None:
        """A table of the results' places: dividing by radices again and again takes longer."""
        if self.count > 1 and self.length <= _MOST_PLACES:
            places = np.arange(self.length).reshape(self.radices).transpose().reshape(-1)
            self.places = integers(places, self.lanes)

    def emit_middle(self, memory: LanesMemory) -> None:
        """The passes between the first and the last."""
        for number in range(1, self.count - 1):
            self.emit_pass(number, memory.load, memory.store)

    def emit_pass(self, number: int, load: Load, store: Store) -> None:
        """A pass that leaves its results in place."""
        step = self.length // math.prod(self.radices[: number + 1])

        def along(k: Index, start: Expr) -> None:
            with serial(step) as q:
                at = I.Bind(start + q)
                self.work_ahead(number, k * step + q)
                self.codelet(
                    number, k, lambda j: load(at + j * step), lambda c, v: store(at + c * step, v)
                )

        self.each(number, along)

    def work_ahead(self, number: int, codelet: Expr) -> None:
        """Emit the work to be done beside a codelet of a pass."""
        if self.ahead is not None:
            radix = self.radices[number]
            self.ahead(codelet * radix + number * self.length, radix)

    def each(self, number: int, body: Callable[[Index, Expr], None]) -> None:
        """``body(k, place(k))`` for the transforms done before a pass, with k = 0 by itself.

        In a last pass a few have code of their own each, if known twiddle factors take less work.
        """
        body(0, i64(0))
        done = self.done(number)
        few = number == self.count - 1 and done <= _UNROLLED
        if few and self.folds_twiddles(self.radices[number]):
            for k in range(1, done):
                body(k, I.Bind(self.place(i64(k), number)))
        elif done > 1:
            with serial(done, 1) as k:
                body(k, I.Bind(self.place(k, number)))

    def done(self, number: int) -> int:
        """The length of the transforms that are done before a pass."""
        return math.prod(self.radices[:number])

    def folds_twiddles(self, radix: int) -> bool:
        """Whether known twiddle factors of a codelet are half the work of those of a table.

        So of powers of odd primes: factors without a common divisor need none between them but
        where all points have one, and powers of two have them in their butterflies anyway.
        """
        return self.vectors.in_butterflies and radix in _ODD_POWERS

    def place(self, k: Expr, number: int) -> Expr:
        """Start of the elements of transform k before a pass."""
        left, start = self.length, i64(0)
        for position, radix in enumerate(self.radices[:number]):
            left //= radix
            digit = k
            if position < number - 1:
                rest = I.Bind(tirx.truncdiv(k, i64(radix)))
                digit, k = k - rest * radix, rest
            start = start + digit * left
        return start

    def codelet(
        self,
        number: int,
        k: Index,
        load: Callable[[int], Point],
        store: Callable[[int, Point], None],
    ) -> None:
        """A butterfly: its points are ``load(j)``; ``store(c, value)`` takes its results."""
        registers = VectorRegisters(self.vectors)
        radix, roots = self.radices[number], self.splat_roots(number, k)
        values: Iterable[tuple[int, Point]]
        if isinstance(k, int):
            phase = Fraction(k, radix * self.done(number))
            values = results(registers, lambda j: registers.point(load(j)), radix, phase)
        elif roots and self.twiddles_in_butterflies(radix):
            points = [registers.point(load(j)) for j in range(radix)]
            values = enumerate(twiddled_dft(registers, points, [registers.point(w) for w in roots]))
        else:

            def point(j: int) -> Point:
                value = registers.point(load(j))
                scaled = j > 0 and roots
                return registers.multiply(value, registers.point(roots[j - 1])) if scaled else value

            values = results(registers, point, radix)
        for c, value in values:
            store(c, value)

    def splat_roots(self, number: int, k: Index) -> list[Point]:
        """Twiddle factors of a codelet's points, if there are any."""
        table = self.tables[number]
        if isinstance(k, int) or table is None:
            return []
        count = len(self.roots(self.radices[number]))
        return [table.splat(i64(k) * count + at, self.lanes) for at in range(count)]

    def twiddles_in_butterflies(self, radix: int) -> bool:
        """Whether twiddle factors are applied in the butterflies of a pass."""
        return self.vectors.in_butterflies and radix & (radix - 1) == 0

    def roots(self, radix: int) -> list[tuple[int, int, int]]:
        """Triples (p, q, m): the roots w^p exp(-2 pi i q / m) that :meth:`twiddled` takes."""
        if self.twiddles_in_butterflies(radix):
            return twiddle_roots(radix)
        return [(power, 0, 1) for power in range(1, radix)]


def run_loads(buffer: Any, lanes: int) -> Load:
    """Loads of runs of ``lanes`` points from scratch memory."""

    def load(at: Expr) -> Point:
        place = emit.run(at, lanes)
        return buffer[0, place], buffer[1, place]

    return load


def run_stores(buffer: Any, lanes: int) -> Store:
    """Stores of runs of ``lanes`` points to scratch memory."""

    def store(at: Expr, value: Point) -> None:
        for part in range(2):
            I.buffer_store(buffer, value[part], [i64(part), emit.run(at, lanes)])

    return store
