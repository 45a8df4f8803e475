"""Barriers in shared memory, and copies of boxes by tensor maps that arrive at them (sm_90).

A barrier's phase ends when the arrivals that it counts came and the bytes that were expected.
Copies are made when they are started; who may use them is a question of order: see
:mod:`.happens_before`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BARRIER, BOUNDS, INSTRUCTION, MISALIGNED, some
from tvm_iree_ext.simulator.base.lane_values import Value
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.asynchronous_copies import Copies
from tvm_iree_ext.simulator.machine.memory_view import MemoryView
from tvm_iree_ext.simulator.machine.strands import Strands, uniform
from tvm_iree_ext.simulator.races.happens_before import HappensBefore, OrderedLog

_ALIGNMENT = 128  # of what a copy writes


@dataclass
class TensorMap:
    """A matrix, or an array of more dims, and the boxes that are copied of it.

    Attributes:
        array: its elements.
        box: extents of a box, in the array's dims.
        swizzle_bytes: of a row of the box in shared memory; 16 for none.
        written: which bytes have contents; None for all.
        steps: elements of the array from one of the box to the next, by dim; none for 1 in each.
    """

    array: np.ndarray
    box: tuple[int, ...]
    swizzle_bytes: int = 16
    written: np.ndarray | None = None
    steps: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of a box."""
        return int(np.prod(self.box)) * self.array.itemsize

    def take(self, first: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The bytes of the box from ``first`` on, zeros beyond the array; and which are written."""
        size = self.array.itemsize
        raw = np.zeros((*self.box, size), np.uint8)
        known = np.ones(raw.shape, bool)
        inside, there = [], []
        steps = self.steps or (1,) * len(self.box)
        for at, part, extent, step in zip(first, self.box, self.array.shape, steps, strict=True):
            places = [n for n in range(part) if 0 <= at + n * step < extent]
            start = places[0] if places else 0
            there.append(slice(start, start + len(places)))
            begin = at + start * step if places else 0
            inside.append(slice(begin, begin + len(places) * step if places else 0, step))
        bytes_ = self.array.view(np.uint8).reshape(*self.array.shape, size)
        raw[tuple(there)] = bytes_[tuple(inside)]
        if self.written is not None:
            known[tuple(there)] = self.written.reshape(bytes_.shape)[tuple(inside)]
        return raw.reshape(-1), known.reshape(-1)


@dataclass
class Barrier:
    """A barrier, its phase, and who knows what of it."""

    count: int
    pending: int
    party: int
    clock: np.ndarray  # what those know who arrived
    released: np.ndarray  # at the end of the last phase
    made_by: tuple[int, int]  # subgroup, and its clock
    expected: int = 0  # bytes that are still to come
    ended: int = 0  # phases
    fenced: bool = False
    # Of the other workgroup of a pair: the phase that its products or copies count in last, and
    # the clocks of its lanes that arrived.
    signalled: int = 0
    arrived: np.ndarray | None = None
    seen: int = 0  # phases of whose end lanes know


class Barriers:
    """Barriers of a workgroup, by the memory and the word where they are."""

    def __init__(
        self, state: WorkgroupState, order: HappensBefore, copies: Copies, strands: Strands | None
    ) -> None:
        self._state, self._order, self._copies = state, order, copies
        self.strands = strands or Strands(self.report_blocked)
        self._all: dict[tuple[int, int], Barrier] = {}
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[Barrier, str, int, np.ndarray]] = []

    def init(self, view: MemoryView, index: Value, count: int, mask: Any, statement: int) -> None:
        """Make a barrier."""
        if mask is NOBODY:
            return
        state, order = self._state, self._order
        for word, lanes in uniform(index, state.active(mask), state.lanes):
            if not self._in_bounds(view, word, lanes, statement):
                continue
            subgroup = int(np.flatnonzero(lanes)[0]) // state.subgroup_size
            party = order.party()
            nothing = np.zeros(order.clocks.shape[1], np.int32)
            made = (subgroup, int(order.clocks[subgroup, subgroup]))
            self._all[id(view.memory), word] = Barrier(
                int(count), int(count), party, nothing, nothing.copy(), made
            )
            self._names[id(view.memory)] = view.memory.name

    def made(self, memory: SimulatedMemory, word: int) -> Barrier | None:
        """The barrier at an element of a memory."""
        return self._all.get((id(memory), word))

    def each(self) -> Iterator[tuple[str, Barrier]]:
        """All, each with where it is."""
        for (memory, word), barrier in self._all.items():
            yield f"the barrier at element {word} of {self._names[memory]}", barrier

    def fence_init(self, mask: Any) -> None:
        """Barriers are there for copies."""
        if mask is not NOBODY:
            for barrier in self._all.values():
                barrier.fenced = True

    def _in_bounds(self, view: MemoryView, word: int, lanes: np.ndarray, statement: int) -> bool:
        if 0 <= word < view.size:
            return True
        self._state.report(
            BOUNDS, statement, np.flatnonzero(lanes),
            f"a barrier at element {word} of {view.name}, which has {view.size}", view.name, word,
        )  # fmt: skip
        return False

    def _at(self, view: MemoryView, word: int, lanes: np.ndarray, statement: int) -> Barrier | None:
        barrier = self._all.get((id(view.memory), word))
        state = self._state
        if barrier is None:
            state.report(
                INSTRUCTION, statement, np.flatnonzero(lanes),
                f"{self._where(view, word)} was never made", view.name, word,
            )  # fmt: skip
            return None
        party, clock = barrier.made_by
        for subgroup in self._order.subgroups_in(lanes):
            if self._order.clocks[subgroup, party] < clock:
                state.report(
                    INSTRUCTION, statement, np.flatnonzero(lanes),
                    f"{self._where(view, word)} is used by {some(np.flatnonzero(lanes))} with"
                    " nothing between it and its making", view.name, word,
                )  # fmt: skip
        return barrier

    def _where(self, view: MemoryView, word: int) -> str:
        return f"the barrier at element {word} of {view.name}"

    def _reached(
        self, view: MemoryView, index: Value, mask: Any, statement: int
    ) -> Iterator[tuple[Barrier, int, np.ndarray]]:
        """The barriers that active lanes name, each with its element and those lanes."""
        if mask is NOBODY:
            return
        for word, lanes in uniform(index, self._state.active(mask), self._state.lanes):
            barrier = self._at(view, word, lanes, statement)
            if barrier is not None:
                yield barrier, word, lanes

    def arrive(
        self, view: MemoryView, index: Value, nbytes: Value, mask: Any, statement: int
    ) -> None:
        """An arrival of each lane, after which ``nbytes`` of copies are expected for each."""
        for barrier, word, lanes in self._reached(view, index, mask, statement):
            expected = np.broadcast_to(np.asarray(nbytes), (self._state.lanes,))[lanes]
            barrier.expected += int(expected.sum())
            self._order.release(lanes, barrier.clock)
            self.arrived(barrier, view, word, lanes, statement)

    def arrive_with_copies(self, view: MemoryView, index: Value, mask: Any, statement: int) -> None:
        """An arrival of each lane when its ``cp.async`` so far have ended."""
        for barrier, word, lanes in self._reached(view, index, mask, statement):
            self._order.arriving = (barrier.party, barrier.ended + 1)
            self._copies.end(lanes, statement)
            self._order.arriving = None
            self.arrived(barrier, view, word, lanes, statement)

    def arrive_with_products(
        self, view: MemoryView, index: Value, clock: int, mask: Any, statement: int
    ) -> None:
        """An arrival when products in tensor memory are done up to a clock."""
        for barrier, word, lanes in self._reached(view, index, mask, statement):
            self._order.release_products(lanes, clock, barrier.clock)
            self.arrived(barrier, view, word, lanes, statement)

    def arrived(
        self, barrier: Barrier, view: MemoryView, word: int, lanes: np.ndarray, statement: int
    ) -> None:
        """Count an arrival of each lane."""
        barrier.pending -= int(lanes.sum())
        if barrier.pending < 0:
            self._state.report(
                INSTRUCTION, statement, np.flatnonzero(lanes),
                f"{self._where(view, word)} counts {barrier.count} arrivals;"
                f" {barrier.count - barrier.pending} came", view.name, word,
            )  # fmt: skip
            barrier.pending = 0
        self._ended(barrier)

    def brought(self, barrier: Barrier, nbytes: int) -> None:
        """Bytes of a copy came."""
        barrier.expected -= nbytes
        self._ended(barrier)

    def _ended(self, barrier: Barrier) -> None:
        if barrier.pending or barrier.expected:
            return
        barrier.ended += 1
        barrier.pending = barrier.count
        barrier.clock[barrier.party] = barrier.ended
        barrier.released = barrier.clock.copy()

    def wait(
        self, view: MemoryView, index: Value, parity: Value, mask: Any, statement: int
    ) -> None:
        """Until the phase of a parity has ended; phase -1, of parity 1, ended before all."""
        if mask is NOBODY:
            return
        state = self._state
        index = state.decided("the address of a barrier", index, mask, statement)
        parity = state.decided("the parity of a phase", parity, mask, statement)
        for barrier, word, lanes in self._reached(view, index, mask, statement):
            for wanted, who in uniform(parity, lanes, state.lanes):
                self._wait(barrier, wanted & 1, self._where(view, word), who, statement)
            state.counts["mbarrier wait"] += len(self._order.subgroups_in(lanes))

    def _wait(
        self, barrier: Barrier, parity: int, where: str, lanes: np.ndarray, statement: int
    ) -> None:
        def over() -> bool:
            return (barrier.ended - 1) % 2 == parity

        waiting = (barrier, where, statement, lanes)
        self._waiting.append(waiting)
        self.strands.wait(over)
        self._waiting.remove(waiting)
        barrier.seen = barrier.ended
        self._order.acquire(lanes, barrier.released)

    def report_blocked(self) -> None:
        """Nobody can go on."""
        for barrier, where, statement, lanes in self._waiting:
            who = np.flatnonzero(lanes)
            self._state.report(
                BARRIER, statement, who,
                f"{some(who)} wait for ever at {where}, of which phase {barrier.ended} lacks"
                f" {barrier.pending} arrivals and {barrier.expected} bytes",
            )  # fmt: skip

    # Copies.

    def copy_box(
        self,
        target: MemoryView,
        index: Value,
        tensor_map: TensorMap,
        first: tuple[Value, ...],
        barrier_view: MemoryView,
        barrier_index: Value,
        mask: Any,
        statement: int,
    ) -> None:
        """Each active lane starts a copy; ``first`` has the fastest dim first."""
        state = self._state
        starts = self.starts((index, *first, barrier_index), mask, statement)
        for lane, lanes, (at, *corner, word) in starts:
            barrier = self._at(barrier_view, word, lanes, statement)
            if barrier is None:
                continue
            if not barrier.fenced:
                state.report(
                    INSTRUCTION, statement, (lane,),
                    f"{self._where(barrier_view, word)} was made without"
                    " fence.mbarrier_init before a copy uses it", barrier_view.name, word,
                )  # fmt: skip
            place = at * target.dtype.itemsize
            self.write(target.memory, place, tensor_map, tuple(reversed(corner)), lane,
                       (barrier.party, barrier.ended + 1), statement)  # fmt: skip
            self.brought(barrier, tensor_map.nbytes)

    def starts(
        self, values: tuple[Value, ...], mask: Any, statement: int
    ) -> Iterator[tuple[int, np.ndarray, list[int]]]:
        """Each active lane, which starts a copy, also as a mask, and its values."""
        if mask is NOBODY:
            return
        state = self._state
        spelt = [
            np.broadcast_to(
                state.decided("where a copy begins", value, mask, statement), (state.lanes,)
            )
            for value in values
        ]
        for lane in map(int, np.flatnonzero(state.active(mask))):
            lanes = np.zeros(state.lanes, bool)
            lanes[lane] = True
            yield lane, lanes, [int(value[lane]) for value in spelt]

    def write(
        self,
        memory: SimulatedMemory,
        place: int,
        tensor_map: TensorMap,
        corner: tuple[int, ...],
        lane: int,
        done: tuple[int, int],
        statement: int,
    ) -> None:
        """Write a box; it is done for those who know of the clock of a party."""
        state = self._state
        state.counts["tensor map copy"] += 1
        raw, known = tensor_map.take(corner)
        width = tensor_map.swizzle_bytes
        if memory.address + place & _ALIGNMENT - 1:
            state.report(
                MISALIGNED, statement, (lane,),
                f"a copy to byte {place} of {memory.name}, which is no multiple of {_ALIGNMENT}",
                memory.name, place // memory.unit,
            )  # fmt: skip
        if place < 0 or place + len(raw) > len(memory.data):
            state.report(
                BOUNDS, statement, (lane,),
                f"a copy to bytes {place}..{place + len(raw) - 1} of {memory.name}, which has"
                f" {len(memory.data)}", memory.name, place // memory.unit,
            )  # fmt: skip
            return
        to = memory.address + place + np.arange(len(raw))
        to = (to ^ ((to >> 7 & (width // 16 - 1)) << 4)) - memory.address
        memory.data[to] = raw
        units = np.unique(to // memory.unit)
        good = np.ones(memory.units, bool)
        np.logical_and.at(good, to // memory.unit, known)
        memory.valid[units] = good[units]
        memory.complete = bool(memory.complete and known.all())
        if memory.unfenced is not None:
            memory.unfenced[units] = False
        log: Any = memory.touches
        if isinstance(log, OrderedLog):
            log.written_by_copy(units, lane, *done, statement)

    def finish(self) -> None:
        """The end of the kernel: bytes that nobody expected, or that never came."""
        for (memory, word), barrier in self._all.items():
            if barrier.expected:
                more = "more" if barrier.expected < 0 else "fewer"
                self._state.report(
                    INSTRUCTION, -1, (0,),
                    f"copies brought {abs(barrier.expected)} bytes {more} to the barrier at element"
                    f" {word} of {self._names[memory]} than were expected",
                    self._names[memory], word,
                )  # fmt: skip
