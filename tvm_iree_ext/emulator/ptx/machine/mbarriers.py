"""Barriers in shared memory, by their addresses.

Source: PTX ISA 9.0, *Parallel Synchronization and Communication Instructions: mbarrier*.  A phase
ends when as many arrivals came as the barrier was made for, and as many bytes as were expected.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.emulator.findings import INSTRUCTION
from tvm_iree_ext.emulator.ptx.machine.lanes import Lanes


@dataclass
class _Mbarrier:
    """A barrier at an address, of each workgroup: arrivals and bytes that are still to come."""

    made: np.ndarray
    wanted: np.ndarray
    arrivals: np.ndarray
    bytes: np.ndarray
    phase: np.ndarray


class Mbarriers:
    """The barriers of ``count`` workgroups; ``wake`` is called when a phase ends."""

    def __init__(self, count: int, wake: Callable[[], None]) -> None:
        self._count, self._wake = count, wake
        self._at: dict[int, _Mbarrier] = {}

    def _each(self, lanes: Lanes, addresses: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Addresses, and how many lanes of each workgroup name them."""
        counts = []
        whole = lanes.full(addresses)
        for address in lanes.uniform(addresses):
            chosen = (whole == address) & lanes.active
            number = np.bincount(lanes.groups, chosen.sum(axis=1), self._count)
            counts.append((int(address), number.astype(np.int64)))
        return counts

    def init(self, lanes: Lanes, addresses: np.ndarray, count: np.ndarray) -> None:
        """*mbarrier.init*."""
        groups = self._count
        for address, here in self._each(lanes, addresses):
            if address not in self._at:
                zeros = [np.zeros(groups, np.int64) for _ in range(4)]
                self._at[address] = _Mbarrier(np.zeros(groups, bool), *zeros)
            one, new = self._at[address], here > 0
            wanted = int(lanes.uniform(count)[0])
            one.made |= new
            one.wanted[new] = one.arrivals[new] = wanted
            one.bytes[new] = one.phase[new] = 0

    def _known(self, lanes: Lanes, address: int, groups: np.ndarray) -> _Mbarrier | None:
        one = self._at.get(address)
        if one is None or not one.made[groups].all():
            lanes.found(INSTRUCTION, f"no barrier was made at {address:#x} of shared memory")
            return None
        return one

    def arrive(
        self, lanes: Lanes, addresses: np.ndarray, count: int = 1, expected: int | None = None
    ) -> np.ndarray:
        """*mbarrier.arrive*, with ``.expect_tx``: the phase in which it was, of each lane."""
        phases = np.zeros(lanes.shape, np.uint64)
        for address, here in self._each(lanes, addresses):
            one = self._known(lanes, address, here > 0)
            if one is None:
                continue
            own = lanes.full(addresses) == address
            phases = np.where(own, one.phase[lanes.groups][:, None].astype(np.uint64), phases)
            if expected is not None:
                one.bytes += here * expected
            one.arrivals -= here * count
            if (one.arrivals < 0).any():
                lanes.found(INSTRUCTION, "more arrivals than the barrier was made for")
            self._complete(one)
        return phases

    def more_arrivals(self, lanes: Lanes, addresses: np.ndarray) -> None:
        """Arrivals that a phase waits for in addition (*cp.async.mbarrier.arrive*)."""
        for address, here in self._each(lanes, addresses):
            if (one := self._known(lanes, address, here > 0)) is not None:
                one.arrivals += here

    def expect(self, lanes: Lanes, addresses: np.ndarray, size: int) -> None:
        """*mbarrier.expect_tx*."""
        for address, here in self._each(lanes, addresses):
            if (one := self._known(lanes, address, here > 0)) is not None:
                one.bytes += here * size

    def arrived(self, address: int, groups: np.ndarray, size: int) -> None:
        """Bytes of a copy, for workgroups by their numbers."""
        one = self._at.get(address)
        if one is not None:
            one.bytes[groups] -= size
            self._complete(one)

    def _complete(self, one: _Mbarrier) -> None:
        ended = one.made & (one.arrivals == 0) & (one.bytes == 0) & (one.wanted > 0)
        if ended.any():
            one.phase[ended] += 1
            one.arrivals[ended] = one.wanted[ended]
            self._wake()

    def ended(
        self, lanes: Lanes, addresses: np.ndarray, phases: np.ndarray, *, is_parity: bool
    ) -> np.ndarray:
        """Whether the phase of a state, or of a parity, has ended, of each lane."""
        found = np.zeros(lanes.shape, bool)
        for address, here in self._each(lanes, addresses):
            one = self._known(lanes, address, here > 0)
            if one is None:
                return np.ones(lanes.shape, bool)
            now = one.phase[lanes.groups][:, None]
            known = lanes.full(phases).astype(np.int64)
            done = (now & 1) != (known & 1) if is_parity else now != known
            found = np.where(lanes.full(addresses) == address, done, found)
        return found
