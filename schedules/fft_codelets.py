"""Discrete Fourier transforms of a few points, in registers: what the passes of an FFT are made of.

A point is a vector of lanes, each lane a transform of its own, so there is no shuffle.  Each sum
and product goes to a register of its own: a value used twice would be computed, and by TVM's
simplifier expanded, twice.
"""

import math
from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr

Point = tuple[Expr, Expr]
"""The real and the imaginary part, a vector each."""

LARGEST_PRIME = 13
"""Codelets of larger primes would not fit the registers; their product grows with the square."""


def root(turn: int, order: int) -> complex:
    """exp(-2 pi i turn / order), right to an ulp: by an angle of at most an eighth of a turn."""
    eighths, rest = divmod(8 * (turn % order), order)
    if eighths % 2:
        rest = order - rest
    angle = 2 * math.pi * rest / (8 * order)
    x, y = math.cos(angle), math.sin(angle)
    if eighths % 4 in (1, 2):
        x, y = y, x
    return complex(x if eighths in (0, 1, 6, 7) else -x, -y if eighths < 4 else y)


def radices(length: int, largest: int) -> list[int] | None:
    """Radices whose product is ``length``, few and even; None where a prime is too large."""
    odd = []
    for prime in range(3, LARGEST_PRIME + 1, 2):
        while length % prime == 0:
            odd.append(prime)
            length //= prime
    if length & (length - 1):
        return None
    bits, widest = length.bit_length() - 1, largest.bit_length() - 1
    passes = -(-bits // widest)
    twos = [2 ** (bits // passes + (i < bits % passes)) for i in range(passes)]
    return odd + twos


_CHUNK = 32  # registers declared at a time


class Registers:
    """Vectors in registers, for the statements of one loop body."""

    def __init__(self, lanes: int, dtype: str) -> None:
        self.lanes, self.dtype = lanes, dtype
        self._used = _CHUNK
        self._chunk: object = None

    def keep(self, value: Expr) -> Expr:
        """A register that holds ``value``."""
        if self._used == _CHUNK:
            self._chunk, self._used = emit.registers(_CHUNK * self.lanes, self.dtype), 0
        place = emit.run(self._used * self.lanes, self.lanes)
        self._used += 1
        I.buffer_store(self._chunk, value, [place])
        return self._chunk[place]  # type: ignore[index]

    def const(self, value: float) -> Expr:
        """A number in each lane."""
        return emit.splat(tirx.const(value, self.dtype), self.lanes)

    def point(self, value: Point) -> Point:
        """Registers for a point."""
        return self.keep(value[0]), self.keep(value[1])

    def add(self, a: Point, b: Point) -> Point:
        """``a + b``."""
        return self.point((a[0] + b[0], a[1] + b[1]))

    def subtract(self, a: Point, b: Point) -> Point:
        """``a - b``."""
        return self.point((a[0] - b[0], a[1] - b[1]))

    def multiply(self, a: Point, w: Point) -> Point:
        """``a * w``."""
        return self.point((a[0] * w[0] - a[1] * w[1], a[0] * w[1] + a[1] * w[0]))

    def turn(self, a: Point, numerator: int, denominator: int) -> Point:
        """``a * exp(-2 pi i numerator / denominator)``; eighths of a turn cost less."""
        eighths, rest = divmod(8 * (numerator % denominator), denominator)
        if rest:
            w = root(numerator, denominator)
            return self.multiply(a, (self.const(w.real), self.const(w.imag)))
        x, y = a
        if eighths & 1:
            half = self.const(math.sqrt(0.5))
            x, y = self.keep((x + y) * half), self.keep((y - x) * half)
        zero = self.const(0.0)
        quarters: list[Point] = [(x, y), (y, zero - x), (zero - x, zero - y), (zero - y, x)]
        return self.point(quarters[eighths // 2])


def dft(registers: Registers, points: Sequence[Point]) -> list[Point]:
    """The transform of as many points as there are: a power of two, or a small odd prime."""
    count = len(points)
    if count == 1:
        return list(points)
    if count == 2:
        return [registers.add(*points), registers.subtract(*points)]
    if count % 2:
        return _odd(registers, points)
    return _composite(registers, points, 4 if count > 4 else 2)


def _composite(registers: Registers, points: Sequence[Point], first: int) -> list[Point]:
    """Cooley and Tukey's: transforms of ``first`` points, turns, transforms of the others."""
    count = len(points)
    second = count // first
    columns = [dft(registers, points[q::second]) for q in range(second)]
    result: list[Point] = [points[0]] * count
    for k in range(first):
        row = [columns[0][k]]
        row += [registers.turn(columns[q][k], q * k, count) for q in range(1, second) if k]
        row += [columns[q][k] for q in range(1, second) if not k]
        result[k::first] = dft(registers, row)
    return result


def _odd(registers: Registers, points: Sequence[Point]) -> list[Point]:
    """By the sums and differences of points j and count - j: half the products."""
    count = len(points)
    pairs = range(1, (count + 1) // 2)
    sums = {j: registers.add(points[j], points[count - j]) for j in pairs}
    differences = {j: registers.subtract(points[j], points[count - j]) for j in pairs}
    total = points[0]
    for j in pairs:
        total = registers.add(total, sums[j])
    result = [total] * count
    for c in pairs:
        even, odd = points[0], None
        for j in pairs:
            w = root(j * c, count)
            cosine, sine = registers.const(w.real), registers.const(-w.imag)
            x, y = sums[j]
            even = registers.point((even[0] + x * cosine, even[1] + y * cosine))
            x, y = differences[j]
            step = (x * sine, y * sine)
            odd = registers.point(step if odd is None else (odd[0] + step[0], odd[1] + step[1]))
        assert odd is not None
        # Minus i times the odd part, and plus i times it for the mirrored point.
        result[c] = registers.point((even[0] + odd[1], even[1] - odd[0]))
        result[count - c] = registers.point((even[0] - odd[1], even[1] + odd[0]))
    return result
