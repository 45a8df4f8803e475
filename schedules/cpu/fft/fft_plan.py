"""The passes of an FFT, and the split of a row into a matrix of columns and rows.

Of all ways the one with the least estimated work is taken, counted in vector instructions for a
vector of points: those of the codelets (:func:`.fft_codelets.operations`), four for each product
with a root of unity, and what the trips through memory cost.
"""

import math
from functools import cache

from tvm_iree_ext.schedules.shared.fft.fft_codelets import LARGEST_PRIME, operations

_TWIDDLE = 4.0
# Loads and stores go beside arithmetic, but not all of them.
_TRIP = 3.0
# A codelet of more points leaves some of them on the stack: half of them with few registers.
_LARGEST_HELD = 12
_SPILLS = 1.0
# Codelets of up to so many points are chosen where there are 16 registers, not 32.
_FEW_REGISTERS_RADIX = 8
# Beyond this many points in lanes, passes leave their results in the second cache: both parts of
# them take 32 KiB in vectors of 64 bytes.
_CACHED_POINTS = 256
_FAR_TRIP = 4.0
# The same where vectors are of half the size: from so many points on all of a trip is one to the
# second cache, which is half as wide there; measured on a Zen 3.
_FAR_POINTS, _FAR_TRIP_OF_FEW, _FAR_COLUMN_TRIP_OF_FEW = 1024, 8.0, 6.0
# Columns of a row leave their results beside the memory of their passes, and read lines far apart:
# up to so many points all is in the first cache, from so many on it is in the second.
_NEAR_COLUMN, _FAR_COLUMN = 64, 256
_FAR_COLUMN_TRIP = 5.0
# A vector's work within a row takes that much less than in lanes, where rows are transposed: most
# where many rows lie side by side, as long as they fit the second cache beside all else; measured.
_ROW_FASTER, _ROW_FASTER_THAN_MANY = 1.21, 2.45
_MANY_LANES, _MOST_POINTS = 16, 1536
_ROW_FASTER_OF_FEW = 1.13  # with few registers


@cache
def passes(length: int, largest: int) -> tuple[int, ...] | None:
    """The radices of the passes, the largest first; None where a prime factor is too large.

    A radix is at most ``largest``, or a prime that there is a codelet for.
    """
    if length == 1:
        return ()
    found = []
    for radix in range(2, min(length, max(largest, LARGEST_PRIME)) + 1):
        if length % radix == 0 and (radix <= largest or _is_prime(radix)):
            rest = passes(length // radix, largest)
            if rest is not None:
                found.append(tuple(sorted((radix, *rest), reverse=True)))
    return min(found, key=lambda radices: _work_of(radices, largest), default=None)


def has_few_registers(largest: int) -> bool:
    """Whether a largest radix is one for few registers."""
    return largest <= _FEW_REGISTERS_RADIX


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, number))


def _work_of(radices: tuple[int, ...], largest: int) -> float:
    """The work of transforms in lanes for each of their points."""
    return _cached_work(radices, largest) + _far_trip(math.prod(radices), largest) * len(radices)


def _far_trip(points: int, largest: int) -> float:
    """Cost of a trip to memory beyond one to the first cache, for passes over so many points."""
    if not has_few_registers(largest):
        return _FAR_TRIP if points > _CACHED_POINTS else 0.0
    share = (points - _CACHED_POINTS) / (_FAR_POINTS - _CACHED_POINTS)
    return _FAR_TRIP_OF_FEW * min(max(share, 0.0), 1.0)


def _cached_work(radices: tuple[int, ...], largest: int) -> float:
    """The same with all memory in the first cache."""
    held = _LARGEST_HELD // 2 if has_few_registers(largest) else _LARGEST_HELD
    work = 0.0
    for number, radix in enumerate(radices):
        twiddles = _TWIDDLE * (radix - 1) / radix if number else 0.0
        spills = _SPILLS if radix > held else 0.0
        work += operations(radix) / radix + twiddles + spills + _TRIP
    return work


def columns_of(length: int, lanes: int, largest: int, least: int = 0) -> list[int]:
    """The lengths that the columns of a row can have, the one of the least work first.

    A row has a vector of columns at least; a column has ``least`` elements, or a vector.
    """
    if passes(length, largest) is None:
        return []

    def work(first: int) -> float:
        return _row_work(length, first, lanes, largest)

    firsts = range(least or lanes, length // lanes + 1)
    return sorted((n for n in firsts if length % n == 0), key=work)


def _row_work(length: int, first: int, lanes: int, largest: int) -> float:
    """The work of transforms within a row, of columns of ``first``, for each point."""
    columns, rows = passes(first, largest), passes(length // first, largest)
    assert columns is not None, length
    assert rows is not None, length
    high, wide = (-(-n // lanes) * lanes / n for n in (first, length // first))
    exchanges = 2 * (lanes.bit_length() - 1)
    share = (first - _NEAR_COLUMN) / (_FAR_COLUMN - _NEAR_COLUMN)
    trip = _FAR_COLUMN_TRIP_OF_FEW if has_few_registers(largest) else _FAR_COLUMN_TRIP
    far_columns = trip * len(columns) * min(max(share, 0.0), 1.0)
    # The first pass reads what columns left in the second cache, however long rows are; and the
    # last one strews a single group's results.
    far_passes = len(rows) if first <= lanes else len(rows) - 1
    far_rows = _far_trip(length // first, largest) * far_passes
    column_work = _cached_work(columns, largest) + far_columns + _TWIDDLE
    return wide * column_work + high * (wide * exchanges + _cached_work(rows, largest) + far_rows)


def goes_in_lanes(length: int, columns: int, lanes: int, largest: int) -> bool:
    """Whether a row of such columns leaves so much of its vectors empty that lanes are faster.

    Rows of whole vectors lose less than is estimated.
    """
    radices = passes(length, largest)
    assert radices is not None, length
    if length // columns % lanes == 0:
        return False
    many = lanes >= _MANY_LANES and length <= _MOST_POINTS
    one = _ROW_FASTER_OF_FEW if has_few_registers(largest) else _ROW_FASTER
    faster = _ROW_FASTER_THAN_MANY if many else one
    return _row_work(length, columns, lanes, largest) > faster * _work_of(radices, largest)
