"""Memory traffic of accesses: bank conflicts and segments, counted as they happen.

The same pattern comes again in every step of a loop, so its cost is kept by what decides it: the
distances between the lanes' addresses, which lanes take part, and how the first lies to the banks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

BANK_BYTES = 4


@dataclass(frozen=True)
class Hardware:
    """Properties of a GPU on which the cost and the order of accesses depend.

    ``lockstep``: the lanes of a subgroup run together in any case, as AMD's do; where they do not,
    all of them must come to a barrier of the subgroup.  ``chip`` tells instructions apart that have
    one name on several.
    """

    subgroup_size: int = 32
    banks: int = 32
    segment_bytes: int = 32
    lockstep: bool = False
    chip: str = ""


@dataclass(frozen=True)
class Pattern:
    """The cost of one access by the lanes of a workgroup.

    ``passes`` over the banks of shared memory, or ``segments`` of global memory, and the fewest in
    which that width could be moved; ``duplicates``: two lanes have the same address.
    """

    subgroups: int
    passes: int
    ideal: int
    worst: int
    duplicates: bool


def shared_pattern(addresses: np.ndarray, active: np.ndarray, width: int, hw: Hardware) -> Pattern:
    """Passes over the banks, for first bytes ``[lanes]`` of accesses of ``width`` bytes.

    Lanes are served in groups of as many as the banks hold at once, consecutive ones; those that
    read the same word are served together.
    """
    group = max(1, min(hw.subgroup_size, BANK_BYTES * hw.banks // width))
    words = np.arange(0, max(width, BANK_BYTES), BANK_BYTES)
    passes = worst = groups = 0
    for start in range(0, len(addresses), group):
        lanes = slice(start, start + group)
        here = addresses[lanes][active[lanes]]
        if here.size:
            touched = np.unique((here[:, None] + words) // BANK_BYTES)
            most = int(np.bincount(touched % hw.banks).max())
            passes, worst, groups = passes + most, max(worst, most), groups + 1
    return _pattern(addresses, active, hw, passes, groups, worst)


def global_pattern(addresses: np.ndarray, active: np.ndarray, width: int, hw: Hardware) -> Pattern:
    """Aligned segments of memory that the subgroups touch."""
    inside = np.arange(0, width, min(width, hw.segment_bytes))
    passes = worst = ideal = 0
    for start in range(0, len(addresses), hw.subgroup_size):
        lanes = slice(start, start + hw.subgroup_size)
        here = addresses[lanes][active[lanes]]
        if here.size:
            touched = len(np.unique((here[:, None] + inside) // hw.segment_bytes))
            needed = -(-len(np.unique(here)) * width // hw.segment_bytes)
            passes, ideal, worst = passes + touched, ideal + needed, max(worst, touched)
    return _pattern(addresses, active, hw, passes, ideal, worst)


def _pattern(
    addresses: np.ndarray, active: np.ndarray, hw: Hardware, passes: int, ideal: int, worst: int
) -> Pattern:
    starts = range(0, len(addresses), hw.subgroup_size)
    subgroups = sum(bool(active[start : start + hw.subgroup_size].any()) for start in starts)
    taken = addresses[active]
    return Pattern(subgroups, passes, ideal, worst, len(np.unique(taken)) < len(taken))


@dataclass
class StatementTraffic:
    """All traffic of one statement with one buffer.

    Attributes:
        access_bytes: of one lane in one instruction.
        instructions: of subgroups.
        total: passes over the banks of shared memory, or segments of global memory; ``ideal`` is
            the fewest, and ``worst`` the most in one instruction (of one group of lanes).
        addresses: the first bytes ``[lanes]`` of its costliest execution, with -1 where a lane took
            no part.
    """

    statement: int
    text: str
    space: str
    buffer: str
    store: bool
    access_bytes: int
    addresses: np.ndarray
    instructions: int = 0
    total: int = 0
    ideal: int = 0
    worst: int = 0


class Traffic:
    """Counts accesses by statement; see :class:`StatementTraffic`."""

    def __init__(self, hardware: Hardware, lanes: int) -> None:
        self.hardware = hardware
        self._all = np.ones(lanes, bool)
        self._seen: dict[Any, list] = {}  # key -> [pattern, times, first addresses]

    def note(
        self,
        statement: int,
        space: str,
        buffer: str,
        store: bool,
        first: np.ndarray,
        itemsize: int,
        count: int,
        mask: np.ndarray | None,
    ) -> Pattern:
        """One access of ``count`` consecutive elements from ``first[lanes]``; its pattern."""
        active = self._all if mask is None else mask
        base = first[active.argmax()]
        segment = self.hardware.segment_bytes
        offset = int(base) * itemsize % (segment if space == "global" else BANK_BYTES)
        # Garbage in lanes that take no part is no part of the key.
        distances = first - base if mask is None else np.where(mask, first - base, 0)
        key = (
            statement,
            buffer,
            store,
            offset,
            count * itemsize,
            distances.tobytes(),
            None if mask is None else mask.tobytes(),
        )
        entry = self._seen.get(key)
        if entry is None:
            addresses = distances.astype(np.int64) * itemsize + int(base) * itemsize
            function = global_pattern if space == "global" else shared_pattern
            width = count * itemsize
            pattern = function(addresses, active, min(width, 16), self.hardware)
            entry = [pattern, 0, np.where(active, addresses, -1), space]
            self._seen[key] = entry
        entry[1] += 1
        return entry[0]

    def accesses(self, text: Any) -> list[StatementTraffic]:
        """The sums, in the order of the statements; ``text`` gives a statement's."""
        sums: dict[Any, StatementTraffic] = {}
        costliest: dict[Any, tuple[int, int]] = {}
        for key, (pattern, times, addresses, space) in self._seen.items():
            statement, buffer, store, _, width, *_ = key
            pieces = -(-width // 16)
            access = sums.setdefault(
                (statement, buffer, store, width),
                StatementTraffic(
                    statement, text(statement), space, buffer, store, width // pieces, addresses
                ),
            )
            cost = (pattern.passes - pattern.ideal, pattern.worst)
            if cost > costliest.setdefault((statement, buffer, store, width), cost):
                costliest[statement, buffer, store, width] = cost
                access.addresses = addresses
            access.instructions += times * pattern.subgroups * pieces
            access.total += times * pattern.passes * pieces
            access.ideal += times * pattern.ideal * pieces
            access.worst = max(access.worst, pattern.worst)
        return sorted(sums.values(), key=lambda access: access.statement)
