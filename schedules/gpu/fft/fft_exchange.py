"""Shared memory between two stages of a transform, such that no bank serves two lanes at once.

Where all extents are powers of two, a lane's address is linear in the bits of its number, and the
bank in those of the address.  High bits of the address are added to its bank, without carry, so
that the lanes of a subgroup that write an element, and those that read one, all have banks of their
own.  Lines of other lengths have an odd pitch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

_PATIENCE = 20_000  # of a search that most often needs less than a hundred steps


@dataclass(frozen=True)
class ExchangedLines:
    """Places of the elements of some lines.

    Attributes:
        length: of a line.
        lines: a power of two.
        beside: whether elements of neighbouring lines are neighbours, rather than those of a line.
        terms: ``(from, bits, factor)``: bits of an address, from one on, times the factor, are
            added to it without carry.
    """

    length: int
    lines: int
    beside: bool
    terms: tuple[tuple[int, int, int], ...] = ()

    @property
    def pitch(self) -> int:
        """From a line to the next."""
        return self.length if _is_power(self.length) else self.length | 1

    @property
    def extent(self) -> int:
        """Places in all."""
        return self.lines * (self.length if self.beside else self.pitch)

    def at(self, line: Any, position: Any) -> Any:
        """The place of an element, for expressions as for arrays."""
        place = position * self.lines + line if self.beside else line * self.pitch + position
        found = place
        for start, bits, factor in self.terms:
            found = found ^ ((place >> start & ((1 << bits) - 1)) * factor)
        return found


def exchanged_lines(
    length: int,
    lines: int,
    sides: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    beside: bool,
    banks: int,
) -> ExchangedLines:
    """Memory without conflicts, where that is found.

    Args:
        length: of a line.
        lines: how many there are, a power of two.
        sides: ``(lines, positions)`` of the elements that lanes which are served together write at
            once, and of those that they read.
        beside: whether elements of neighbouring lines are neighbours.
        banks: as many elements can be read at once.
    """
    plain = ExchangedLines(length, lines, beside)
    low = banks.bit_length() - 1
    vectors = [_basis(plain.at(*side)) for side in sides]
    if not _is_power(length) or any(one is None for one in vectors):
        return plain
    patterns = [one for one in vectors if one is not None]
    images = _images(patterns, low)
    return plain if images is None else ExchangedLines(length, lines, beside, _terms(images))


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _basis(places: np.ndarray) -> list[int] | None:
    """What each bit of a lane's number adds to the place; None where that is not linear."""
    places = places ^ places[0]
    lanes = np.arange(len(places))
    vectors = [int(places[1 << bit]) for bit in range(len(places).bit_length() - 1)]
    total = np.zeros_like(places)
    for bit, vector in enumerate(vectors):
        total ^= np.where(lanes >> bit & 1, vector, 0)
    return vectors if _is_power(len(places)) and (total == places).all() else None


def _images(patterns: list[list[int]], low: int) -> dict[int, int] | None:
    """To which banks each high bit is added, for vectors of every pattern to be independent."""
    union = 0
    for vector in (one for pattern in patterns for one in pattern):
        union |= vector >> low
    high = [low + bit for bit in range(union.bit_length()) if union >> bit & 1]
    patience = iter(range(_PATIENCE))

    def search(chosen: dict[int, int]) -> dict[int, int] | None:
        if not all(_independent(pattern, chosen, high, low) for pattern in patterns):
            return None
        if len(chosen) == len(high):
            return chosen
        for image in _candidates(low, list(chosen.values())):
            if next(patience, None) is None:
                return None
            found = search({**chosen, high[len(chosen)]: image})
            if found is not None:
                return found
        return None

    return search({})


def _candidates(low: int, before: list[int]) -> Iterator[int]:
    """Images of a high bit: none, the one after the last bit's, single bits, sums of some."""
    yield 0
    following = before[-1] * 2 if before else 1
    single = [following] if 0 < following < 1 << low else []
    single += [1 << bit for bit in range(low) if 1 << bit != following]
    yield from single
    for count in range(2, low + 1):
        for bits in combinations(range(low), count):
            yield sum(1 << bit for bit in bits)


def _independent(pattern: list[int], chosen: dict[int, int], high: list[int], low: int) -> bool:
    """Whether lanes have banks of their own, as far as their bits are known."""
    unknown = sum(1 << bit for bit in high if bit not in chosen)
    reduced: list[int] = []
    for vector in pattern:
        if vector & unknown:
            continue
        bank = vector & ((1 << low) - 1)
        for bit, image in chosen.items():
            bank ^= image if vector >> bit & 1 else 0
        for other in reduced:
            bank = min(bank, bank ^ other)
        if not bank:
            return False
        reduced = sorted([*reduced, bank], reverse=True)
    return True


def _terms(images: dict[int, int]) -> tuple[tuple[int, int, int], ...]:
    """Runs of bits whose images are single bits that follow each other, as one term."""
    terms: list[tuple[int, int, int]] = []
    for bit, image in images.items():
        if not image:
            continue
        if terms:
            start, bits, factor = terms[-1]
            if start + bits == bit and _is_power(factor) and image == factor << bits:
                terms[-1] = (start, bits + 1, factor)
                continue
        terms.append((bit, 1, image))
    return tuple(terms)
