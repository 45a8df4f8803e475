"""Discrete Fourier transforms of a few points, in registers: what the passes of an FFT are made of.

A point is a vector of lanes, each lane a transform of its own, so there is no shuffle.  Each sum
and product goes to a register of its own: a value used twice would be computed, and by TVM's
simplifier expanded, twice.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr

Point = tuple[Expr, Expr]
"""The real and the imaginary part, a vector each."""

_NO_PHASE = Fraction(0)

LARGEST_PRIME = 13
"""Codelets of larger primes would not fit the registers; their product grows with the square."""


def root(power: int, order: int) -> complex:
    """exp(-2 pi i power / order), right to an ulp: by an angle of at most an eighth of a turn."""
    eighths, rest = divmod(8 * (power % order), order)
    if eighths % 2:
        rest = order - rest
    angle = 2 * math.pi * rest / (8 * order)
    x, y = (math.cos(angle), math.sin(angle)) if rest < order else (math.sqrt(0.5),) * 2
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


class CodeletRegisters:
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

    def settled(self, points: Sequence[Point]) -> list[Point]:
        """Points that are computed before any that come later: here as the compiler likes."""
        return list(points)

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

    def multiply_add(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """``a * b + c``."""
        return a * b + c

    def scaled_sum(self, a: Point, b: Point, x: float, y: float | None = None) -> Point:
        """``a + x b``; ``y`` is the factor of the imaginary part, where it is another."""
        factors = (x, x if y is None else y)
        if factors == (1.0, 1.0):
            return self.add(a, b)
        if factors == (-1.0, -1.0):
            return self.subtract(a, b)
        real, imag = (self.multiply_add(b[i], self.const(factors[i]), a[i]) for i in range(2))
        return self.point((real, imag))

    def sum_of_product(self, a: Point, b: Point, w: Point) -> Point:
        """``a + b * w``."""
        real = self.keep(self.multiply_add(b[0], w[0], a[0]))
        imag = self.keep(self.multiply_add(b[1], w[0], a[1]))
        real_less = self.multiply_add(self.keep(self.negative(b[1])), w[1], real)
        return self.point((real_less, self.multiply_add(b[0], w[1], imag)))

    def twice_less(self, a: Point, b: Point) -> Point:
        """``2 a - b``."""
        two = self.const(2.0)
        real, imag = (
            self.multiply_add(a[i], two, self.keep(self.negative(b[i]))) for i in range(2)
        )
        return self.point((real, imag))

    def negative(self, x: Expr) -> Expr:
        """``-x``, which compilers make part of the sum it goes to; of ``0 - x`` they may not."""
        return self.const(-0.0) - x

    def quarters(self, a: Point, power: int) -> Point:
        """``a * (-i) ** power``."""
        x, y = a
        if power % 4 == 0:
            return a
        if power % 4 == 2:
            return self.point((self.negative(x), self.negative(y)))
        if power % 4 == 1:
            return y, self.keep(self.negative(x))
        return self.keep(self.negative(y)), x

    def tilted(self, a: Point, phase: Fraction) -> tuple[float, Point]:
        """A scale s and a point b with ``a * exp(-2 pi i phase) = s b``.

        The root is s (1 + i t) or s (t + i), with t of at most 1: b takes two multiply-adds, and s
        goes into those of the sums that b goes to.  Quarters of a turn cost nothing.
        """
        if (4 * phase).denominator == 1:
            return 1.0, self.quarters(a, int(4 * phase))
        w, (x, y) = root(phase.numerator, phase.denominator), a
        if abs(w.real) >= abs(w.imag):
            t = self.const(w.imag / w.real)
            return w.real, self.point((x - y * t, y + x * t))
        t = self.const(w.real / w.imag)
        return w.imag, self.point((x * t - y, y * t + x))

    def twiddled(self, a: Point, phase: Fraction) -> tuple[float, Point]:
        """The same, for a point of an odd number of points."""
        return self.tilted(a, phase)

    def butterfly(self, a: Point, b: Point, phase: Fraction) -> tuple[Point, Point]:
        """``a + w b`` and ``a - w b`` for w = exp(-2 pi i phase).

        Six multiply-adds in all, where w b itself would be four and the sums another four.
        """
        scale, b = self.tilted(b, phase)
        return self.scaled_sum(a, b, scale), self.scaled_sum(a, b, -scale)


def twiddle_roots(radix: int) -> list[tuple[int, int, int]]:
    """Triples (p, q, m): the roots w^p exp(-2 pi i q / m) that :func:`twiddled_dft` takes."""
    half = [] if radix == 2 else twiddle_roots(radix // 2)
    own = [(1, q, radix) for q in range(max(1, radix // 4))]
    return own + [(2 * p, q, m) for p, q, m in half]


def twiddled_dft(
    registers: CodeletRegisters, points: Sequence[Point], roots: Sequence[Point]
) -> list[Point]:
    """The transform of a power of two of points, of which the j'th is first multiplied by w^j.

    The products are in the butterflies, a + w b and 2 a - (a + w b): six multiply-adds, and half as
    many roots as there are points.
    """
    count = len(points)
    if count == 1:
        return list(points)
    quarter = max(1, count // 4)
    even, odd = (twiddled_dft(registers, points[side::2], roots[quarter:]) for side in range(2))
    sums, differences = [], []
    for k, (a, b) in enumerate(zip(even, odd, strict=True)):
        w = roots[k % quarter]
        total = registers.sum_of_product(a, registers.quarters(b, k // quarter), w)
        sums.append(total)
        differences.append(registers.twice_less(a, total))
    return sums + differences


def dft(
    registers: CodeletRegisters, points: Sequence[Point], phase: Fraction = _NO_PHASE
) -> list[Point]:
    """The transform of as many points as there are: a product of small primes.

    Point j is first multiplied by exp(-2 pi i j phase).
    """
    found = results(registers, lambda j: points[j], len(points), phase)
    return _in_order(found, len(points))


def results(
    registers: CodeletRegisters,
    point: Callable[[int], Point],
    count: int,
    phase: Fraction = _NO_PHASE,
) -> Iterator[tuple[int, Point]]:
    """The points of a transform, each with its number, as they are computed.

    Point j is first multiplied by exp(-2 pi i j phase), in the butterflies that it goes to.

    What is loaded late, by ``point(j)``, and stored at once leaves registers to the others.  All
    points are asked for before the first is given: a transform may be in place.
    """
    point = cache(point)
    if count == 1:
        return iter([(0, point(0))])
    if count & (count - 1) == 0:
        return _halves(registers, point, count, phase)
    first = _first_factor(count)
    if first == count:
        return _odd(registers, point, count, phase)
    if math.gcd(first, count // first) == 1 and not phase:
        return _coprime(registers, point, count, first)
    return _composite(registers, point, count, first, phase)


def _in_order(points: Iterator[tuple[int, Point]], count: int) -> list[Point]:
    by_number = dict(points)
    return [by_number[number] for number in range(count)]


def _step(
    registers: CodeletRegisters,
    point: Callable[[int], Point],
    count: int,
    phase: Fraction = _NO_PHASE,
) -> list[Point]:
    """A transform that is part of a larger one."""
    return registers.settled(_in_order(results(registers, point, count, phase), count))


def operations(count: int) -> int:
    """How many sums and multiply-adds of vectors :func:`dft` makes, with twiddle factors."""
    if count == 1:
        return 0
    if count & (count - 1) == 0:
        sums = sum(6 if 4 * k % count else 4 for k in range(count // 2))
        return 2 * operations(count // 2) + sums
    first, half = _first_factor(count), count // 2
    if first == count:
        return 4 * half * half + 8 * half
    second = count // first
    twiddles = 0 if math.gcd(first, second) == 1 else 4 * (first - 1) * (second - 1)
    return second * operations(first) + first * operations(second) + twiddles


def _first_factor(count: int) -> int:
    """A factor of a count that is no power of two: an odd prime, or its power if one is left."""
    prime = next(one for one in range(3, count + 1, 2) if count % one == 0)
    power = prime
    while count % (power * prime) == 0:
        power *= prime
    return power if power < count else prime


def _halves(
    registers: CodeletRegisters, point: Callable[[int], Point], count: int, phase: Fraction
) -> Iterator[tuple[int, Point]]:
    """A power of two: transforms of the even and of the odd points, and butterflies."""
    half = count // 2
    even = _step(registers, lambda j: point(2 * j), half, 2 * phase)
    odd = _step(registers, lambda j: point(2 * j + 1), half, 2 * phase)
    for k, (a, b) in enumerate(zip(even, odd, strict=True)):
        total, difference = registers.butterfly(a, b, Fraction(k, count) + phase)
        yield k, total
        yield k + half, difference


def _coprime(
    registers: CodeletRegisters, point: Callable[[int], Point], count: int, first: int
) -> Iterator[tuple[int, Point]]:
    """Coprime factors: no twiddle factors, in Good's order.

    With the remainders of j and k for indices, j k / count is the sum of the fractions of both.
    """
    second = count // first

    def column(q: int) -> list[Point]:
        return _step(registers, lambda j: point((j * second + q * first) % count), first)

    columns = [column(q) for q in range(second)]
    for k in range(first):
        row = [points[k] for points in columns]
        for c, value in enumerate(dft(registers, row)):
            yield next(m for m in range(count) if m % first == k and m % second == c), value


def _composite(
    registers: CodeletRegisters,
    point: Callable[[int], Point],
    count: int,
    first: int,
    phase: Fraction,
) -> Iterator[tuple[int, Point]]:
    """Transforms of ``first`` points, and those of the others, after twiddle factors."""
    second = count // first

    def column(q: int) -> list[Point]:
        return _step(registers, lambda j: point(j * second + q), first, second * phase)

    columns = [column(q) for q in range(second)]
    for k in range(first):
        row = [points[k] for points in columns]
        for c, value in enumerate(dft(registers, row, phase + Fraction(k, count))):
            yield k + c * first, value


def _odd(
    registers: CodeletRegisters, point: Callable[[int], Point], count: int, phase: Fraction
) -> Iterator[tuple[int, Point]]:
    """By the sums and differences of points j and count - j: half the products.

    Of the sines in an odd part, the largest goes into the sums of odd and even parts, and so do the
    scales of twiddled points.
    """
    pairs = range(1, (count + 1) // 2)
    scales, points, sums = dict[int, float](), dict[int, Point](), dict[int, Point]()
    for j in pairs:
        for one in (j, count - j):
            scales[one], points[one] = registers.twiddled(point(one), one * phase)
        ratio = scales[count - j] / scales[j]
        sums[j] = registers.scaled_sum(points[j], points[count - j], ratio)
    differences = {
        j: registers.scaled_sum(points[j], points[count - j], -scales[count - j] / scales[j])
        for j in pairs
    }
    total = point(0)
    for j in pairs:
        total = registers.scaled_sum(total, sums[j], scales[j])
    yield 0, total
    for c in pairs:
        cosines = {j: root(j * c, count).real * scales[j] for j in pairs}
        sines = {j: root(j * c, count).imag * scales[j] for j in pairs}
        largest = max(pairs, key=lambda j: abs(sines[j]))
        even, odd = point(0), differences[largest]
        for j in pairs:
            even = registers.scaled_sum(even, sums[j], cosines[j])
            if j != largest:
                odd = registers.scaled_sum(odd, differences[j], sines[j] / sines[largest])
        # Minus i times the odd part, and plus i times it for the mirrored point.
        sine = -sines[largest]
        yield c, registers.scaled_sum(even, (odd[1], odd[0]), sine, -sine)
        yield count - c, registers.scaled_sum(even, (odd[1], odd[0]), -sine, sine)
