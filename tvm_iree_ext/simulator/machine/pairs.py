"""Pairs: two workgroups of a cluster that run together, and what each does to the other.

A lane of one may arrive at a barrier of the other, have a copy count its bytes there, and have
products read the shared memory of both (:mod:`.tensor_memory`).  Addresses of the cluster are those
of shared memory, with the rank of the workgroup above.

Clocks of one workgroup are handed to the other as that one counts parties: see
:mod:`~tvm_iree_ext.simulator.races.happens_before`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BARRIER, INSTRUCTION, UNWAITED, some
from tvm_iree_ext.simulator.base.lane_values import Value
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.memory_barriers import Barrier, Barriers, TensorMap
from tvm_iree_ext.simulator.machine.memory_view import MemoryView
from tvm_iree_ext.simulator.machine.strands import Strands, uniform
from tvm_iree_ext.simulator.machine.tensor_memory import TensorMemory
from tvm_iree_ext.simulator.races.happens_before import HappensBefore, OrderedLog

_RANK_SHIFT = 24  # where the workgroup's rank begins in an address of the cluster
_WORD = np.dtype(np.uint64)


@dataclass
class Member:
    """A workgroup of a pair.

    Attributes:
        handed: what all of its lanes knew each time that they arrived to meet the other's.
        met: how often they have waited for the other's since.
        waits_at: the statement where they wait to meet them, if they do.
        left: whether the kernel has ended for it.
    """

    state: WorkgroupState
    order: HappensBefore
    barriers: Barriers
    handed: list[np.ndarray] = field(default_factory=list)
    met: int = 0
    waits_at: int | None = None
    left: bool = False


def mapped(address: Any, rank: Any) -> Any:
    """The address in the cluster of what lies at an address in a workgroup of a rank."""
    return np.asarray(address).astype(np.uint32) + np.uint32(int(rank) << _RANK_SHIFT)


class WorkgroupPair:
    """Two workgroups, by their ranks."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.tensor_memories: list[TensorMemory] = []
        self.strands = Strands(self._report_blocked)

    def run(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Run what both do, together."""

        def leaving(member: Member, body: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                body()
                member.left = True

            return run

        pairs = zip(self.members, bodies, strict=True)
        self.strands.together([leaving(member, body) for member, body in pairs])

    # All lanes of both.

    def arrive_to_meet(self, rank: int, mask: Any, statement: int) -> None:
        """``barrier.cluster.arrive``."""
        if mask is NOBODY:
            return
        member = self.members[rank]
        state = member.state
        missing = np.flatnonzero(~state.active(mask) & ~state.exited)
        if missing.size:
            state.report(
                BARRIER, statement, missing,
                f"{some(missing)} of {state.lanes} do not reach the cluster's barrier",
            )  # fmt: skip
        handed = np.zeros(member.order.clocks.shape[1], np.int32)
        member.order.release(state.active(mask), handed)
        member.handed.append(handed)

    def meet(self, rank: int, mask: Any, statement: int) -> None:
        """``barrier.cluster.wait``."""
        if mask is NOBODY:
            return
        member, other = self.members[rank], self.members[1 - rank]
        turn = len(member.handed)
        if turn == member.met:
            who = np.flatnonzero(member.state.active(mask))
            member.state.report(
                BARRIER, statement, who,
                f"{some(who)} wait at the cluster's barrier, at which they have not arrived",
            )  # fmt: skip
            return
        member.met = turn
        member.waits_at = statement
        self.strands.wait(lambda: len(other.handed) >= turn)
        member.waits_at = None
        known = np.maximum(member.handed[turn - 1], member.order.seen(other.handed[turn - 1]))
        member.order.acquire(member.state.active(mask), known)
        member.state.counts["cluster barrier"] += member.state.subgroups

    def _report_blocked(self) -> None:
        for member in self.members:
            member.barriers.report_blocked()
            if member.waits_at is not None:
                member.state.report(
                    BARRIER, member.waits_at, (0,),
                    "the workgroup waits for ever for the other of its pair",
                )  # fmt: skip

    # Barriers of either.

    def _at(
        self, rank: int, address: int, lanes: np.ndarray, statement: int
    ) -> tuple[Member, MemoryView, int, Barrier] | None:
        """The barrier at an address of the cluster, which lanes of a workgroup use."""
        owner_rank, place = address >> _RANK_SHIFT, address & ((1 << _RANK_SHIFT) - 1)
        member, owner = self.members[rank], self.members[owner_rank]
        memory = owner.state.shared_at(place)
        word = (place - memory.address) // _WORD.itemsize if memory is not None else 0
        barrier = owner.barriers.made(memory, word) if memory is not None else None
        where = f"the barrier at element {word} of workgroup {owner_rank} of the pair"
        who = np.flatnonzero(lanes)
        problem = ""
        if memory is None or barrier is None:
            problem = "was never made"
        elif owner.left:
            problem = "is used after its workgroup has left"
        elif not barrier.fenced:
            problem = "was made without fence.mbarrier_init before the cluster uses it"
        elif any(
            self._known(member, owner, one)[barrier.made_by[0]] < barrier.made_by[1]
            for one in member.order.subgroups_in(lanes)
        ):
            problem = f"is used by {some(who)} with nothing between it and its making"
        if problem:
            member.state.report(INSTRUCTION, statement, who, f"{where} {problem}")
        if memory is None or barrier is None:
            return None
        return owner, MemoryView(memory, _WORD, memory.name), word, barrier

    @staticmethod
    def _known(member: Member, owner: Member, subgroup: int) -> np.ndarray:
        """What a subgroup knows, as the owner counts."""
        known = member.order.clocks[subgroup]
        return known if member is owner else member.order.seen(known)

    def arrive(self, rank: int, address: Value, mask: Any, statement: int) -> None:
        """An arrival of each lane at a barrier by its address in the cluster."""
        member = self.members[rank]
        for number, lanes in self._addresses(member, address, mask, statement):
            if (found := self._at(rank, number, lanes, statement)) is None:
                continue
            owner, view, word, barrier = found
            handed = np.zeros_like(barrier.clock)
            member.order.release(lanes, handed)
            if owner is not member:
                handed = member.order.seen(handed)
                did = np.zeros_like(handed)
                for one in member.order.subgroups_in(lanes):
                    party = owner.order.others(int(one))
                    did[party] = handed[party]
                barrier.arrived = (
                    did if barrier.arrived is None else np.maximum(barrier.arrived, did)
                )
            np.maximum(barrier.clock, handed, out=barrier.clock)
            owner.barriers.arrived(barrier, view, word, lanes, statement)

    @staticmethod
    def _addresses(
        member: Member, address: Value, mask: Any, statement: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        if mask is NOBODY:
            return
        state = member.state
        known = state.decided("the address of a barrier", address, mask, statement)
        yield from uniform(known, state.active(mask), state.lanes)

    def commit(
        self, rank: int, view: MemoryView, index: Value, targets: int, done: int, mask: Any,
        statement: int,
    ) -> None:  # fmt: skip
        """An arrival at barriers of the same place in each target, when products are done."""
        member = self.members[rank]
        for word, lanes in self._addresses(member, index, mask, statement):
            place = view.memory.address + word * _WORD.itemsize
            for target in (one for one in range(len(self.members)) if targets >> one & 1):
                address = int(mapped(place, target))
                if (found := self._at(rank, address, lanes, statement)) is None:
                    continue
                owner, there, at, barrier = found
                handed = np.zeros_like(barrier.clock)
                member.order.release_products(lanes, done, handed)
                if owner is not member:
                    handed = member.order.seen(handed)
                    barrier.signalled = barrier.ended + 1
                np.maximum(barrier.clock, handed, out=barrier.clock)
                owner.barriers.arrived(barrier, there, at, lanes, statement)

    def copy_box(
        self, rank: int, target: MemoryView, index: Value, tensor_map: TensorMap,
        first: tuple[Value, ...], address: Value, mask: Any, statement: int,
    ) -> None:  # fmt: skip
        """As :meth:`.Barriers.copy_box`, by a barrier's address in the cluster."""
        member = self.members[rank]
        starts = member.barriers.starts((index, *first, address), mask, statement)
        for lane, lanes, (at, *corner, number) in starts:
            if (found := self._at(rank, number, lanes, statement)) is None:
                continue
            owner, _, _, barrier = found
            party = barrier.party
            if owner is not member:
                party, barrier.signalled = member.order.others(party), barrier.ended + 1
            place, box = at * target.dtype.itemsize, tuple(reversed(corner))
            member.barriers.write(
                target.memory, place, tensor_map, box, lane, (party, barrier.ended + 1), statement
            )
            owner.barriers.brought(barrier, tensor_map.nbytes)

    # The end.

    def finish(self) -> None:
        """Whether a workgroup may have left while the other had something to do with it."""
        for rank, member in enumerate(self.members):
            known = member.order.clocks.max(axis=0)
            for problem in self._early(member, known):
                member.state.report(
                    UNWAITED, -1, (0,), f"workgroup {rank} of the pair may leave before {problem}"
                )

    @staticmethod
    def _early(member: Member, known: np.ndarray) -> Iterator[str]:
        for memory in member.state.memories:
            log: Any = memory.touches
            if isinstance(log, OrderedLog) and log.read_by_other(known):
                yield f"tcgen05.mma of the other has read {memory.name}"
        for where, barrier in member.barriers.each():
            if barrier.signalled > barrier.seen:
                yield f"products or copies of the other arrive at {where}"
            if barrier.arrived is not None and (barrier.arrived > known).any():
                yield f"lanes of the other arrive at {where}"
