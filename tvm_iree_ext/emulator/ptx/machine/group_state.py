"""What the warps of some workgroups share: barriers, copies under way, and who waits."""

from collections.abc import Callable

import numpy as np

from tvm_iree_ext.emulator.findings import INSTRUCTION
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes
from tvm_iree_ext.emulator.ptx.machine.mbarriers import Mbarriers
from tvm_iree_ext.emulator.ptx.machine.pending_copies import PendingCopies

BARRIERS = 16
"""Of a workgroup, by their numbers (PTX ISA, *barrier*)."""

AT_MBARRIER = 1 << 20
"""What a lane that waits for a phase of a barrier in memory waits for, in place of a number."""

AT_PAUSE = AT_MBARRIER + 1
"""What a lane that sleeps waits for: that nobody else can go on."""

_MOST_BLOCKS = 2_000_000  # some minutes

Release = Callable[[int, np.ndarray | None], None]
"""``release(number, groups)``: lanes that wait for a number go on, in these workgroups or all."""


class Endless(Exception):
    """A kernel does not come to an end."""


class GroupState:
    """Some workgroups that are executed at the same time.

    Attributes:
        count: how many there are.
        lanes: of each; ``warps`` of each.
        early: whether copies end at once; then products end late, and the other way round.
        impatient: whether a wait for a phase ends without success, since nobody can go on.
        idle: how often that was so since a phase ended.
    """

    def __init__(self, count: int, lanes: int, *, early: bool) -> None:
        self.count, self.lanes, self.early = count, lanes, early
        self.warps = -(-lanes // WARP)
        self.impatient, self.idle = False, 0
        self.copies = PendingCopies(early=early)
        self.mbarriers = Mbarriers(count, self._wake)
        self._releases: list[Release] = []
        self._arrived: dict[int, np.ndarray] = {}
        self._blocks = 0

    def join(self, release: Release) -> None:
        """Warps that may wait: they are told when they need no longer."""
        self._releases.append(release)

    def count_block(self) -> None:
        """One more block is executed.

        Raises:
            Endless: where there have been too many.
        """
        self._blocks += 1
        if self._blocks > _MOST_BLOCKS:
            raise Endless(f"it has not ended after {_MOST_BLOCKS} blocks of instructions")

    def release(self, number: int, groups: np.ndarray | None = None) -> None:
        """Lanes that wait for a number go on."""
        for release in self._releases:
            release(number, groups)

    def _wake(self) -> None:
        """A phase has ended: those that wait for one look again."""
        self.idle = 0
        self.release(AT_MBARRIER)

    def arrive(
        self,
        lanes: Lanes,
        number: int,
        count: int | None,
        park: Callable[[Lanes, int], None] | None,
    ) -> None:
        """Warps arrive at a barrier: each counts for 32 lanes (PTX ISA, *barrier*).

        ``park`` makes them wait there.
        """
        if not 0 <= number < BARRIERS:
            lanes.found(INSTRUCTION, f"barrier {number}; there are {BARRIERS}")
            return
        if lanes.mask is None and lanes.rows is None:
            came = np.full(self.count, WARP * (lanes.count // self.count))
        else:
            warps = lanes.active.any(axis=1)
            came = WARP * np.bincount(lanes.groups, warps, self.count).astype(np.int64)
        wanted = self.warps * WARP if count is None else count
        arrived = self._arrived.setdefault(number, np.zeros(self.count, np.int64))
        arrived += came
        if park is not None:
            park(lanes, number)
        complete = arrived >= wanted
        if (arrived > wanted).any():
            lanes.found(INSTRUCTION, f"more than the {wanted} lanes of barrier {number} arrive")
        if complete.any():
            arrived[complete] = 0
            self.release(number, None if complete.all() else complete)
