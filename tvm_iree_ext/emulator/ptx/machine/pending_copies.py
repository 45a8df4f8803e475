"""Copies that go on while lanes do something else.

Source: PTX ISA 9.0, *Asynchronous copy*; *Data Movement and Conversion Instructions: Non-bulk
copy*. They end as late as they may, when lanes wait for them or nobody can go on without them, or
at once (``early``): the first shows waits that are missing, the second copies that begin too early.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes, Warps


@dataclass
class _Pending:
    """What lanes of some warps have started: ``do`` is done for lanes when it ends for them.

    ``mask`` and ``group`` are of all lanes of the warps; a group is the number of commits before.
    """

    do: Callable[[np.ndarray], None]
    mask: np.ndarray
    group: np.ndarray
    is_arrival: bool = False


@dataclass
class _OfWarps:
    committed: np.ndarray
    pending: list[_Pending] = field(default_factory=list)


class PendingCopies:
    """Asynchronous copies of some workgroups that have not ended.

    ``early`` ones end at once.
    """

    def __init__(self, *, early: bool) -> None:
        self._early = early
        self._of: dict[int, _OfWarps] = {}
        self._boxes: list[tuple[int, int, Callable[[], None]]] = []

    def _own(self, warps: Warps) -> _OfWarps:
        found = self._of.get(id(warps))
        if found is None:
            found = self._of[id(warps)] = _OfWarps(np.zeros((warps.size, WARP), np.int64))
        return found

    def start(
        self, lanes: Lanes, do: Callable[[np.ndarray], None], *, is_arrival: bool = False
    ) -> None:
        """A copy of each lane, or its arrival after all of its copies before.

        ``do`` gets the mask of the warps' lanes for which it ends.
        """
        mask = lanes.over_warps(lanes.active)
        if self._early:
            do(mask)
            return
        own = self._own(lanes.warps)
        own.pending.append(_Pending(do, mask, own.committed.copy(), is_arrival))

    def commit(self, lanes: Lanes) -> None:
        """*cp.async.commit_group*: close each lane's group."""
        if self._early:
            return
        self._own(lanes.warps).committed += lanes.over_warps(lanes.active)

    def wait(self, lanes: Lanes, newest: int | None) -> None:
        """*cp.async.wait_group*, *wait_all*: all but the newest groups end; None: all copies."""
        if self._early:
            return
        own = self._own(lanes.warps)
        mask = lanes.over_warps(lanes.active)
        kept: list[_Pending] = []
        for one in own.pending:
            ending = one.mask & mask & (not one.is_arrival)
            if newest is not None:
                ending &= one.group < own.committed - newest
            if ending.any():
                one.do(ending)
                one.mask = one.mask & ~ending
            if one.mask.any():
                kept.append(one)
        own.pending = kept

    def start_box(self, group: int, barrier: int, do: Callable[[], None]) -> None:
        """A copy by the unit that copies boxes; it ends at a barrier in memory."""
        if self._early:
            do()
        else:
            self._boxes.append((group, barrier, do))

    def go_on(self) -> bool:
        """Something ends now, since nobody can go on; whether there was anything.

        Of boxes those that end at the barrier which is the first one's, in each workgroup.
        """
        boxes, self._boxes = self._boxes, []
        first: dict[int, int] = {}
        for group, barrier, copy in boxes:
            if first.setdefault(group, barrier) == barrier:
                copy()
            else:
                self._boxes.append((group, barrier, copy))
        return self._arrive() or bool(boxes)

    def _arrive(self) -> bool:
        """Arrivals, and the copies before them."""
        found = False
        for own in self._of.values():
            last = max((n for n, one in enumerate(own.pending) if one.is_arrival), default=-1)
            for one in own.pending[: last + 1]:
                one.do(one.mask)
            del own.pending[: last + 1]
            found |= last >= 0
        return found
