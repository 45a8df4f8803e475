"""A workgroup at work: all its lanes in lockstep, under masks where they diverge."""

from collections import Counter
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BARRIER, SHUFFLE, Findings, some
from tvm_iree_ext.simulator.base.lane_values import (
    Origin,
    Value,
    over_lanes,
    parts,
    plain,
    poisoned,
)
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.traffic import Traffic
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.asynchronous_copies import Copies
from tvm_iree_ext.simulator.machine.memory_barriers import Barriers
from tvm_iree_ext.simulator.machine.memory_view import MemoryView
from tvm_iree_ext.simulator.machine.pairs import Member, WorkgroupPair
from tvm_iree_ext.simulator.machine.scaled_tensor_memory import ScaledTensorMemory
from tvm_iree_ext.simulator.machine.simulated_registers import (
    LaneBytes,
    LaneView,
    SimulatedRegisters,
)
from tvm_iree_ext.simulator.machine.warpgroup import Warpgroup
from tvm_iree_ext.simulator.races.barrier_intervals import (
    report_races,
    report_races_between_workgroups,
)
from tvm_iree_ext.simulator.races.happens_before import HappensBefore, OrderedLog
from tvm_iree_ext.simulator.races.touches import SUBGROUP_SYNC, Touch

SHARED_GAP = 2048  # between buffers, in the address space of shared memory


class SimulatedWorkgroup(WorkgroupState):
    """State and parts of a workgroup: what the translated kernel calls."""

    def __init__(
        self,
        index: tuple[int, int, int],
        number: int,
        extents: tuple[int, int, int],
        traffic: Traffic,
        findings: Findings,
        counts: Counter,
        global_memories: list[SimulatedMemory],
        ordered: bool = False,
        pair: WorkgroupPair | None = None,
    ) -> None:
        super().__init__(index, number, extents, traffic, findings, counts, global_memories)
        self.ordered = ordered  # by barriers in shared memory, not those of the workgroup alone
        self.order = HappensBefore(self, paired=pair is not None)
        self.copies = Copies(self)
        self.warpgroup = Warpgroup(self, self.order)
        strands = pair.strands if pair is not None else None
        self.barriers = Barriers(self, self.order, self.copies, strands)
        together = pair.tensor_memories if pair is not None else []
        self.tensor_memory = ScaledTensorMemory(self, self.order, self.barriers, together)
        self.pair, self.rank = pair, len(pair.members) if pair is not None else 0
        if pair is not None:
            pair.members.append(Member(self, self.order, self.barriers))
        self.strands = self.barriers.strands
        self._shared_top = SHARED_GAP
        self._sources: dict[Any, tuple[np.ndarray, np.ndarray]] = {}

    # Memory.

    def shared(
        self, name: str, nbytes: int, unit: int, alignment: int, fenced: bool
    ) -> SimulatedMemory:
        """A buffer of shared memory, unwritten, with room around it that belongs to nobody.

        Its address has the alignment that it asks for, and no more; ``fenced`` where what is
        stored must be fenced for asynchronous readers.
        """
        data = np.zeros(-(-nbytes // 16) * 16, np.uint8)[:nbytes]
        address = self._shared_top + alignment % SHARED_GAP
        memory = SimulatedMemory(
            name, "shared", data, unit, written=False, logged=True, address=address
        )
        if fenced:
            memory.unfenced = np.zeros(memory.units, bool)
        if self.ordered:
            memory.touches = OrderedLog(self.order, memory, self)
        self._shared_top += (-(-nbytes // SHARED_GAP) + 2) * SHARED_GAP
        self.memories.append(memory)
        return memory

    def fence_proxy(self, mask: Any) -> None:
        """Proxy fence: make what was stored visible to asynchronous readers."""
        if mask is not NOBODY:
            for memory in self.memories:
                if memory.unfenced is not None:
                    memory.unfenced[:] = False

    def registers(self, name: str, size: int, dtype: np.dtype) -> SimulatedRegisters:
        """A local buffer, unwritten."""
        return SimulatedRegisters(name, size, dtype)

    def lane_bytes(self, name: str, size: int) -> LaneBytes:
        """A local buffer that is read as several types."""
        return LaneBytes(name, size, self.lanes)

    def view(
        self, memory: SimulatedMemory | LaneBytes, dtype: np.dtype, name: str | None = None
    ) -> MemoryView | LaneView:
        """Memory, or a local buffer, as elements of a type."""
        name = name or memory.name
        if isinstance(memory, LaneBytes):
            return LaneView(memory, dtype, name)
        return MemoryView(memory, dtype, name)

    # Synchronisation.

    def barrier(self, mask: Any, statement: int) -> None:
        """All lanes of the workgroup meet."""
        if mask is NOBODY:
            return
        missing = np.flatnonzero(~self.active(mask) & ~self.exited)
        if missing.size:
            self.report(
                BARRIER,
                statement,
                missing,
                f"{some(missing)} of {self.lanes} do not reach the barrier that the others wait at",
            )
        self.counts["barrier"] += self.subgroups
        self.order.join(self.active(mask))
        self.settle()

    def subgroup_barrier(self, mask: Any, statement: int) -> None:
        """The lanes of each subgroup meet."""
        if mask is NOBODY:
            return
        if not self.traffic.hardware.lockstep:
            self.whole(mask, statement, "a barrier of the subgroup")
        for memory in self.memories:
            if memory.touches:
                memory.touches.append(Touch(SUBGROUP_SYNC, statement, self.lane, 1, mask))

    def settle(self) -> None:
        """Look at what was touched since the last barrier, and start a new interval."""
        for memory in self.memories:
            if memory.touches is None:
                continue
            if memory.touches:
                report_races(self, memory)
                report_races_between_workgroups(self, memory)
                memory.touches.clear()
            if not memory.complete:
                memory.complete = bool(memory.valid.all())
        if not self.ordered:
            self.copies.log_those_under_way()
            self.warpgroup.log_those_under_way()

    # Subgroups.

    def shuffle(
        self, kind: str, value: Value, by: Value, width: int, mask: Any, statement: int
    ) -> Value:
        """A value of another lane: ``idx``, ``up``, ``down`` or ``xor``, within ``width`` lanes.

        ``first`` is ``idx`` that becomes a scalar of the subgroup: it costs no shuffle.
        """
        if mask is NOBODY:
            return value
        by = self.decided("the source lane of a shuffle", by, mask, statement)
        key = (kind, int(by) if np.ndim(by) == 0 else None, int(width))
        cached = self._sources.get(key) if key[1] is not None else None
        if cached is None:
            source = self._source(kind, by, int(width))
            exists = source < self.lanes
            cached = (np.where(exists, source, self.lane), ~exists)
            if key[1] is not None:
                self._sources[key] = cached
        source, absent = cached
        if kind != "first":
            self.counts["shuffle"] += self.subgroups_of(mask)
        number, bad, origin = parts(over_lanes(value, self.lanes))
        result = number[..., source]
        if origin is None and mask is None and not absent.any():
            return result
        silent = absent if mask is None else mask & (absent | ~mask[source])
        bad = np.broadcast_to(bad, number.shape)[..., source] | silent
        return poisoned(result, bad, origin or Origin("a lane that takes no part", -1, statement))

    def _source(self, kind: str, by: Any, width: int) -> np.ndarray:
        lane, within = self.lane, self.lane % width
        first = lane - within
        if kind in ("idx", "first"):
            return first + (np.asarray(by) % width)
        if kind == "xor":
            other = self.lane % self.subgroup_size ^ by
            other = other + lane // self.subgroup_size * self.subgroup_size
            return np.where(other < first + width, other, lane)
        other = within - by if kind == "up" else within + by
        return np.where((other >= 0) & (other < width), first + other, lane)

    def vote(self, kind: str, value: Value, mask: Any, statement: int) -> Any:
        """``any``, ``all`` or ``ballot`` of a condition over the active lanes of each subgroup."""
        if mask is NOBODY:
            return np.uint64(0)
        value = over_lanes(self.decided("a vote", value, mask, statement), self.lanes)
        true, active = np.asarray(value != 0), self.active(mask)
        self.counts["vote"] += self.subgroups_of(mask)
        result = np.zeros(self.lanes, np.uint64)
        for start in range(0, self.lanes, self.subgroup_size):
            lanes = slice(start, start + self.subgroup_size)
            here, taking = true[lanes] & active[lanes], active[lanes]
            if kind == "ballot":
                weights = np.uint64(1) << np.arange(here.size, dtype=np.uint64)
                result[lanes] = weights[here].sum(dtype=np.uint64)
            else:
                result[lanes] = here.any() if kind == "any" else (here | ~taking).all()
        return result

    def elected(self, mask: Any, statement: int) -> Any:
        """1 in one lane of each subgroup, 0 in the others."""
        if not self.whole(mask, statement, "elect.sync"):
            return np.uint32(0)
        return (
            self.lane
            == self.first_lanes(mask) + self.lane // self.subgroup_size * self.subgroup_size
        ).astype(np.uint32)

    def active_lanes(self, mask: Any, statement: int) -> Any:
        """The mask of each subgroup's active lanes, as bits."""
        return self.vote("ballot", np.bool_(True), mask, statement)

    def check_named(self, named: Value, mask: Any, statement: int, what: str) -> None:
        """The lanes that a mask operand names must be the ones that take part."""
        if mask is NOBODY:
            return
        bits = over_lanes(self.decided("a lane mask", named, mask, statement), self.lanes)
        active = self.active(mask)
        position = (self.lane % self.subgroup_size).astype(np.uint64)
        for start in range(0, self.lanes, self.subgroup_size):
            lanes = slice(start, min(start + self.subgroup_size, self.lanes))
            taking = active[lanes]
            if not taking.any():
                continue
            word = np.uint64(int(bits[lanes][int(np.argmax(taking))]) & ((1 << 64) - 1))
            inside = (word >> position[lanes]) & np.uint64(1) != 0
            absent = np.flatnonzero(inside & ~taking & ~self.exited[lanes]) + start
            if absent.size:
                self.report(
                    SHUFFLE,
                    statement,
                    absent,
                    f"{what} names {some(absent)}, which do not take part",
                )
            left_out = np.flatnonzero(~inside & taking) + start
            if left_out.size:
                self.report(
                    SHUFFLE,
                    statement,
                    left_out,
                    f"{some(left_out)} take part in {what}, which does not name them",
                )

    def rounds(self, extent: Value, mask: Any, statement: int) -> int:
        """How often a loop runs for the lane that stays longest."""
        if mask is NOBODY:
            return 0
        counts = np.broadcast_to(
            self.decided("the extent of a loop", extent, mask, statement), (self.lanes,)
        )
        return max(0, int(counts[self.active(mask)].max()))

    def first_lanes(self, mask: Any) -> np.ndarray:
        """For each lane, the first active one of its subgroup."""
        active = self.active(mask)
        result = np.zeros(self.lanes, np.int32)
        for start in range(0, self.lanes, self.subgroup_size):
            lanes = slice(start, start + self.subgroup_size)
            result[lanes] = int(np.argmax(active[lanes]))
        return result

    def lanes_before(self, mask: Value, base: Value, low: bool) -> np.ndarray:
        """How many bits of a lane mask's half belong to lanes before each, plus ``base``."""
        bits = np.broadcast_to(plain(mask), (self.lanes,)).view(np.uint32)
        place = self.lane % self.subgroup_size - (0 if low else 32)
        total = np.broadcast_to(plain(base), (self.lanes,)).astype(np.int32)
        for bit in range(32):
            total = total + ((bits >> np.uint32(bit)) & np.uint32(1) != 0) * (place > bit)
        return total.astype(np.int32)

    def finish(self) -> None:
        """The end of the kernel."""
        self.copies.finish()
        self.warpgroup.finish()
        self.tensor_memory.finish()
        self.barriers.finish()
        self.settle()
