"""Race detection in an interval between two barriers.

Accesses to an element by two lanes, one of them a write, race unless a barrier lies between them,
or a synchronisation of the subgroup that both belong to.  Accesses are logged, and looked at when
a barrier ends the interval: most intervals only read, or write each element from one lane, and
these cost next to nothing.  Otherwise the interval is replayed in order, with the last writer and
the last readers of every element.

Stores of one statement into one element are no race here: their values are compared when they are
stored, and equal values are how lanes that replicate an element write it.

An asynchronous write lasts from the statement that starts it to the one that waits for it.  It is
logged at its start, at the start of every interval in which it is under way, and at its end;
until then not even the lane that started it may touch the element.
"""

from typing import NamedTuple

import numpy as np

READ, WRITE, ATOMIC, SUBGROUP_SYNC = range(4)
AT_ONCE, UNDER_WAY, ENDED = range(3)

_NOBODY = -1
_SEVERAL = -2  # lanes of several subgroups; below it: several lanes of subgroup -3 - code


class Touch(NamedTuple):
    """One access: ``width`` units from ``first[lanes]``, by the lanes of ``mask``."""

    kind: int
    statement: int
    first: np.ndarray
    width: int
    mask: np.ndarray | None
    phase: int = AT_ONCE


class Conflict(NamedTuple):
    """Two accesses to a unit that race; one lane: it used what is still being written."""

    unit: int
    earlier: Touch
    earlier_lane: int
    later: Touch
    later_lane: int


def units_and_lanes(touch: Touch, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The units of an access, and the lane of each."""
    lane = np.arange(lanes, dtype=np.int32)
    first = np.broadcast_to(touch.first, lane.shape)
    if touch.mask is not None:
        first, lane = first[touch.mask], lane[touch.mask]
    if touch.width == 1:
        return first, lane
    return (first[:, None] + np.arange(touch.width)).ravel(), np.repeat(lane, touch.width)


def conflicts(
    touches: list[Touch], units: int, lanes: int, subgroup_size: int, most: int = 4
) -> list[Conflict]:
    """The first races of an interval between barriers; empty where there is none."""
    if not any(touch.kind in (WRITE, ATOMIC) for touch in touches):
        return []
    flat = [units_and_lanes(touch, lanes) for touch in touches]
    if not _suspicious(touches, flat, units):
        return []
    return _Replay(touches, flat, units, subgroup_size).run(most)


_Flat = list[tuple[np.ndarray, np.ndarray]]


def _suspicious(touches: list[Touch], flat: _Flat, units: int) -> bool:
    """Whether two lanes touch a unit that is written, or any one that is being written."""
    writer = np.full(units, _NOBODY, np.int32)
    under_way = np.zeros(units, bool)
    for touch, (unit, lane) in zip(touches, flat, strict=True):
        if touch.kind in (WRITE, ATOMIC):
            writer[unit] = lane
            if touch.phase == UNDER_WAY:
                under_way[unit] = True
    copies = bool(under_way.any())
    for touch, (unit, lane) in zip(touches, flat, strict=True):
        if touch.kind != SUBGROUP_SYNC:
            found = writer[unit]
            if ((found != lane) & (found != _NOBODY)).any():
                return True
            if copies and touch.phase == AT_ONCE and under_way[unit].any():
                return True
    return False


class _Replay:
    """The interval in order: the last writer of each unit, and who read it since."""

    def __init__(self, touches: list[Touch], flat: _Flat, units: int, subgroup_size: int) -> None:
        self.touches, self.flat, self.subgroup_size = touches, flat, subgroup_size
        self.phase = np.array([touch.phase for touch in touches])
        self.kind = np.array([touch.kind for touch in touches])
        self.writer = np.full(units, _NOBODY, np.int32)
        self.written_at = np.full(units, -1, np.int32)
        self.reader = np.full(units, _NOBODY, np.int32)
        self.read_at = np.full(units, -1, np.int32)
        last = max((int(lane.max()) for _, lane in flat if lane.size), default=0)
        self.synced_at = np.zeros(last // subgroup_size + 1, np.int32)
        self.races: list[Conflict] = []

    def run(self, most: int) -> list[Conflict]:
        for at, (touch, (unit, lane)) in enumerate(zip(self.touches, self.flat, strict=True)):
            if len(self.races) >= most:
                break
            if not unit.size:
                continue
            if touch.kind == SUBGROUP_SYNC:
                self.synced_at[np.unique(lane // self.subgroup_size)] = at
            elif touch.kind == READ:
                self._after_write(at, touch, unit, lane)
                self._remember(self.reader, self.read_at, at, unit, lane)
            else:
                self._after_write(at, touch, unit, lane)
                self._after_read(at, unit, lane)
                self._remember(self.writer, self.written_at, at, unit, lane)
        return self.races[:most]

    def _after_write(self, at: int, touch: Touch, unit: np.ndarray, lane: np.ndarray) -> None:
        last, when = self.writer[unit], self.written_at[unit]
        subgroup = lane // self.subgroup_size
        ordered = (self._subgroup(last) == subgroup) & (when < self.synced_at[subgroup])
        races = (last != lane) & ~ordered
        if touch.kind == ATOMIC:
            races &= self.kind[when] != ATOMIC
        if touch.phase == AT_ONCE:
            races |= (last == lane) & (self.phase[when] == UNDER_WAY)
        self._report((last != _NOBODY) & races & (when != at), at, unit, lane, when, last)

    def _after_read(self, at: int, unit: np.ndarray, lane: np.ndarray) -> None:
        last, when = self.reader[unit], self.read_at[unit]
        subgroup = lane // self.subgroup_size
        ordered = (self._subgroup(last) == subgroup) & (when < self.synced_at[subgroup])
        races = (last != _NOBODY) & (last != lane) & ~ordered
        self._report(races & (when != at), at, unit, lane, when, last)

    def _remember(
        self, who: np.ndarray, when: np.ndarray, at: int, unit: np.ndarray, lane: np.ndarray
    ) -> None:
        """Note who touched units: with those before who still count, unless it is a plain write."""
        units, now = self._by_unit(unit, lane)
        if self.kind[at] != WRITE:
            before, then = who[units], when[units]
            first, last = self._subgroup(before), self._subgroup(now)
            one_subgroup = (first == last) & (before != _SEVERAL) & (now != _SEVERAL)
            over = (before == _NOBODY) | (self.kind[then] != self.kind[at])
            over |= one_subgroup & (then < self.synced_at[np.maximum(last, 0)])  # all ordered
            both = np.where(before == now, now, np.where(one_subgroup, -3 - last, _SEVERAL))
            now = np.where(over, now, both)
        who[units], when[units] = now, at

    def _by_unit(self, unit: np.ndarray, lane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each unit once, with its lane, or a code for several of a subgroup, or of several."""
        units, inverse = np.unique(unit, return_inverse=True)
        low, high = np.full(units.shape, 1 << 30, np.int32), np.full(units.shape, -1, np.int32)
        np.minimum.at(low, inverse, lane)
        np.maximum.at(high, inverse, lane)
        subgroup = low // self.subgroup_size
        several = np.where(subgroup == high // self.subgroup_size, -3 - subgroup, _SEVERAL)
        return units, np.where(low == high, low, several).astype(np.int32)

    def _subgroup(self, code: np.ndarray) -> np.ndarray:
        """Subgroup of one lane, or of several; -1 for several subgroups."""
        return np.where(code >= 0, code // self.subgroup_size, -3 - code)

    def _report(
        self,
        races: np.ndarray,
        at: int,
        unit: np.ndarray,
        lane: np.ndarray,
        when: np.ndarray,
        who: np.ndarray,
    ) -> None:
        for index in np.flatnonzero(races)[:4]:
            where, mine, earlier = int(unit[index]), int(lane[index]), int(when[index])
            other = int(who[index])
            if other < 0:
                units, lanes = self.flat[earlier]
                others = lanes[(units == where) & (lanes != mine)]
                other = int(others[0]) if others.size else mine
            self.races.append(Conflict(where, self.touches[earlier], other, self.touches[at], mine))
