"""Batcher's odd-even merge network: which rows are exchanged, in which order."""

from collections.abc import Iterator

Pair = tuple[int, int]


def batcher(rows: int) -> list[Pair]:
    """The exchanges that sort some rows."""
    return [pair for half, distance in _phases(rows) for pair in _exchanges(rows, half, distance)]


def cleaner(rows: int, distance: int) -> list[Pair]:
    """The exchanges that sort a bitonic run of ``2 * distance`` rows, whose end may be missing."""
    pairs = []
    while distance:
        pairs += [(i, i + distance) for i in range(rows - distance) if not i & distance]
        distance //= 2
    return pairs


def _phases(length: int) -> Iterator[Pair]:
    """Sizes of the halves that are merged, and distances of the pairs, in turn."""
    half = 1
    while half < length:
        distance = half
        while distance >= 1:
            yield half, distance
            distance //= 2
        half *= 2


def _exchanges(rows: int, half: int, distance: int) -> Iterator[Pair]:
    """Pairs ``distance`` apart in every two halves that are merged."""
    first, groups = (0, 1) if distance == half else (distance, half // distance - 1)
    for block in range(0, rows, 2 * half):
        for group in range(groups):
            for i in range(distance):
                left = block + group * 2 * distance + first + i
                if left + distance < rows:
                    yield left, left + distance
