"""One workgroup at work: all its lanes in lockstep, under masks where they diverge.

A mask is None where every lane takes part, an array ``[lanes]`` of those that do, or ``NOBODY``.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BARRIER, SHUFFLE, UNINITIALISED, Findings, some
from tvm_iree_ext.simulator.base.traffic import Pattern, Traffic
from tvm_iree_ext.simulator.machine.asynchronous_copies import Copies
from tvm_iree_ext.simulator.machine.lane_values import (
    Origin,
    Poison,
    Value,
    choose,
    over_lanes,
    parts,
    plain,
    poisoned,
)
from tvm_iree_ext.simulator.machine.memory_barriers import Barriers
from tvm_iree_ext.simulator.machine.simulated_memory import NOBODY, Memory, View
from tvm_iree_ext.simulator.machine.simulated_registers import LaneBytes, Registers
from tvm_iree_ext.simulator.machine.strands import Strands
from tvm_iree_ext.simulator.machine.warpgroup import Warpgroup
from tvm_iree_ext.simulator.races.barrier_intervals import (
    report_races,
    report_races_between_workgroups,
)
from tvm_iree_ext.simulator.races.happens_before import Order, OrderedLog
from tvm_iree_ext.simulator.races.touches import SUBGROUP_SYNC, Touch

SHARED_GAP = 2048  # between buffers, in the address space of shared memory


class Workgroup:
    """What the translated kernel calls.

    Attributes:
        index: blockIdx x, y, z.
        threads: threadIdx x, y, z of each lane.
        subgroup_size: lanes of a subgroup; the last subgroup may have fewer.
        counts: how often each instruction was executed, by subgroup: barriers, mma, ...
    """

    def __init__(
        self,
        index: tuple[int, int, int],
        number: int,
        extents: tuple[int, int, int],
        traffic: Traffic,
        findings: Findings,
        counts: Counter,
        global_memories: list[Memory],
        ordered: bool = False,
    ) -> None:
        self.index, self.number = index, number
        self.traffic, self.findings, self.counts = traffic, findings, counts
        self.lanes = extents[0] * extents[1] * extents[2]
        self.subgroup_size = traffic.hardware.subgroup_size
        self.subgroups = -(-self.lanes // self.subgroup_size)
        lane = np.arange(self.lanes, dtype=np.int32)
        self.lane = lane
        x, y, _ = extents
        self.threads = (lane % x, lane // x % y, lane // (x * y))
        self.memories = list(global_memories)
        self.everyone = np.ones(self.lanes, bool)
        self.exited = np.zeros(self.lanes, bool)
        self.copies = Copies(self)
        self.warpgroup = Warpgroup(self)
        self.ordered = ordered  # by barriers in shared memory, not those of the workgroup alone
        self.order, self.barriers = Order(self), Barriers(self)
        self.strands = Strands(self.barriers.blocked)
        self._shared_top = SHARED_GAP
        self._sources: dict[Any, tuple[np.ndarray, np.ndarray]] = {}

    # Memory.

    def shared(self, name: str, nbytes: int, unit: int, alignment: int, fenced: bool) -> Memory:
        """A buffer of shared memory, unwritten, with room around it that belongs to nobody.

        Its address has the alignment that it asks for, and no more; ``fenced`` where what is
        stored must be fenced for asynchronous readers.
        """
        data = np.zeros(-(-nbytes // 16) * 16, np.uint8)[:nbytes]
        address = self._shared_top + alignment % SHARED_GAP
        memory = Memory(name, "shared", data, unit, written=False, logged=True, address=address)
        if fenced:
            memory.unfenced = np.zeros(memory.units, bool)
        if self.ordered:
            memory.touches = OrderedLog(self.order, memory, self)
        self._shared_top += (-(-nbytes // SHARED_GAP) + 2) * SHARED_GAP
        self.memories.append(memory)
        return memory

    def shared_at(self, address: int) -> Memory | None:
        """The buffer of shared memory that has a byte."""
        for memory in self.memories:
            if memory.space == "shared" and memory.address <= address < memory.address + len(
                memory.data
            ):
                return memory
        return None

    def fence_proxy(self, mask: Any) -> None:
        """What was stored is there for asynchronous readers, too."""
        if mask is not NOBODY:
            for memory in self.memories:
                if memory.unfenced is not None:
                    memory.unfenced[:] = False

    def registers(self, name: str, size: int, dtype: np.dtype) -> Registers:
        """A local buffer, unwritten."""
        return Registers(name, size, dtype)

    def lane_bytes(self, name: str, size: int) -> LaneBytes:
        """A local buffer that is read as several types."""
        return LaneBytes(name, size, self.lanes)

    def traffic_of(
        self, view: View, at: np.ndarray, count: int, mask: Any, statement: int, *, store: bool
    ) -> Pattern:
        """Count an access."""
        first = at if at.ndim else np.broadcast_to(at, (self.lanes,))
        memory = view.memory
        return self.traffic.note(
            statement, memory.space, view.name, store, first, view.dtype.itemsize, count, mask
        )

    # Masks.

    def active(self, mask: Any) -> np.ndarray:
        """The lanes of a mask as an array."""
        if mask is NOBODY:
            return np.zeros(self.lanes, bool)
        return self.everyone if mask is None else mask

    def narrowed(self, mask: Any, condition: Value, statement: int) -> Any:
        """The lanes of ``mask`` where the condition holds."""
        if mask is NOBODY:
            return NOBODY
        if type(condition) is Poison:
            condition = self.decided("a condition", condition, mask, statement)
        if np.ndim(condition) == 0:
            return mask if condition else NOBODY
        holds: Any = np.broadcast_to(condition, (self.lanes,))
        both = holds if mask is None else mask & holds
        if not both.any():
            return NOBODY
        return None if mask is None and both.all() else both

    def without(self, mask: Any, taken: Any) -> Any:
        """The lanes of ``mask`` that are not in ``taken``, which is a part of it."""
        if taken is NOBODY:
            return mask
        if taken is None or mask is taken or mask is NOBODY:
            return NOBODY
        rest = ~taken if mask is None else mask & ~taken
        return rest if rest.any() else NOBODY

    def merged(self, mask: Any, value: Value, old: Value) -> Value:
        """``value`` in the lanes of the mask, ``old`` in the others."""
        if mask is None:
            return value
        return old if mask is NOBODY else choose(mask, value, old)

    def leave(self, mask: Any) -> None:
        """The lanes of the mask are done."""
        self.exited |= self.active(mask)

    def decided(self, what: str, value: Value, mask: Any, statement: int) -> Any:
        """The plain value; found out, if it decides something and is poison in an active lane."""
        if type(value) is Poison:
            self.uninitialised(what, value, mask, statement, None)
        return plain(value)

    def uninitialised(
        self,
        what: str,
        value: Poison,
        mask: Any,
        statement: int,
        buffer: str | None,
        *,
        compressed: bool = False,
    ) -> None:
        """Report poison in active lanes; ``compressed`` values have no others."""
        bad: Any = np.asarray(value.bad)
        if bad.ndim > 1:
            bad = bad.any(axis=tuple(range(bad.ndim - 1)))
        if compressed:
            lanes = np.flatnonzero(self.active(mask))[np.broadcast_to(bad, self.active(mask).sum())]
        else:
            lanes = np.flatnonzero(np.broadcast_to(bad, (self.lanes,)) & self.active(mask))
        if lanes.size:
            origin = value.origin
            read = ""
            if origin.statement >= 0:
                read = f", read at {self.findings.statement_text(origin.statement)}"
            element = (
                f"element {origin.element} of {origin.what}" if origin.element >= 0 else origin.what
            )
            self.found(
                UNINITIALISED,
                statement,
                lanes,
                f"in {some(lanes)}, {what} depends on {element}, which was not written{read}"
                if origin.element >= 0
                else f"in {some(lanes)}, {what} depends on {element}{read}",
                buffer or origin.what,
                origin.element,
            )

    def found(
        self,
        kind: str,
        statement: int,
        lanes: Iterable[int],
        message: str,
        buffer: str | None = None,
        element: int | None = None,
    ) -> None:
        """Report something wrong."""
        self.findings.add(kind, statement, self.index, lanes, message, buffer, element)

    # Synchronisation.

    def barrier(self, mask: Any, statement: int) -> None:
        """All lanes of the workgroup meet."""
        if mask is NOBODY:
            return
        missing = np.flatnonzero(~self.active(mask) & ~self.exited)
        if missing.size:
            self.found(
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
            self._whole_subgroups(mask, statement, "a barrier of the subgroup")
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
                self.found(
                    SHUFFLE,
                    statement,
                    absent,
                    f"{what} names {some(absent)}, which do not take part",
                )
            left_out = np.flatnonzero(~inside & taking) + start
            if left_out.size:
                self.found(
                    SHUFFLE,
                    statement,
                    left_out,
                    f"{some(left_out)} take part in {what}, which does not name them",
                )

    def whole(self, mask: Any, statement: int, what: str, subgroups: int = 1) -> bool:
        """Whether the subgroups take part with all lanes or none, as an instruction demands."""
        if mask is NOBODY:
            return False
        self._whole_subgroups(mask, statement, what, subgroups)
        return True

    def _whole_subgroups(self, mask: Any, statement: int, what: str, subgroups: int = 1) -> None:
        size = self.subgroup_size * subgroups
        active = self.active(mask)
        for start in range(0, self.lanes, size):
            taking = active[start : start + size]
            here = slice(start, min(start + size, self.lanes))
            absent = np.flatnonzero(~taking & ~self.exited[here]) + start
            if taking.any() and (absent.size or taking.size < size):
                lanes = absent if absent.size else np.arange(start + taking.size, start + size)
                self.found(
                    SHUFFLE,
                    statement,
                    lanes,
                    f"{what} is executed without {some(lanes)} of "
                    + ("their subgroup" if subgroups == 1 else f"their {subgroups} subgroups"),
                )

    def subgroups_of(self, mask: Any) -> int:
        """How many subgroups have lanes in a mask."""
        if mask is None:
            return self.subgroups
        starts = range(0, self.lanes, self.subgroup_size)
        return sum(bool(mask[start : start + self.subgroup_size].any()) for start in starts)

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
        self.barriers.finish()
        self.settle()
