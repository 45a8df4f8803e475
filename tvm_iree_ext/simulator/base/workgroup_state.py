"""Lanes, memories, findings and counts of a workgroup: what all parts of the simulator read.

A mask is None where every lane takes part, an array ``[lanes]`` of those that do, or ``NOBODY``.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import SHUFFLE, UNINITIALISED, Findings, some
from tvm_iree_ext.simulator.base.lane_values import Poison, Value, choose, plain
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.traffic import Traffic


class Nobody:
    """The mask of no lane at all."""


NOBODY = Nobody()


class WorkgroupState:
    """A workgroup without the parts that act for its lanes.

    Attributes:
        index: blockIdx x, y, z.
        number: of the workgroup, in the order in which they run.
        threads: threadIdx x, y, z of each lane.
        subgroup_size: lanes of a subgroup; the last subgroup may have fewer.
        counts: how often each instruction was executed, by subgroup: barriers, mma, ...
        memories: global memory, and the shared memory that has been made.
    """

    def __init__(
        self,
        index: tuple[int, int, int],
        number: int,
        extents: tuple[int, int, int],
        traffic: Traffic,
        findings: Findings,
        counts: Counter,
        global_memories: list[SimulatedMemory],
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

    def shared_at(self, address: int) -> SimulatedMemory | None:
        """The buffer of shared memory that has a byte."""
        for memory in self.memories:
            if memory.space == "shared" and memory.address <= address < memory.address + len(
                memory.data
            ):
                return memory
        return None

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

    def whole(self, mask: Any, statement: int, what: str, subgroups: int = 1) -> bool:
        """Whether lanes take part; reports subgroups that do with some lanes but not with all."""
        if mask is NOBODY:
            return False
        size = self.subgroup_size * subgroups
        active = self.active(mask)
        for start in range(0, self.lanes, size):
            taking = active[start : start + size]
            here = slice(start, min(start + size, self.lanes))
            absent = np.flatnonzero(~taking & ~self.exited[here]) + start
            if taking.any() and (absent.size or taking.size < size):
                lanes = absent if absent.size else np.arange(start + taking.size, start + size)
                self.report(
                    SHUFFLE,
                    statement,
                    lanes,
                    f"{what} is executed without {some(lanes)} of "
                    + ("their subgroup" if subgroups == 1 else f"their {subgroups} subgroups"),
                )
        return True

    def subgroups_of(self, mask: Any) -> int:
        """How many subgroups have lanes in a mask."""
        if mask is None:
            return self.subgroups
        starts = range(0, self.lanes, self.subgroup_size)
        return sum(bool(mask[start : start + self.subgroup_size].any()) for start in starts)

    # Values that decide something.

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
            self.report(
                UNINITIALISED,
                statement,
                lanes,
                f"in {some(lanes)}, {what} depends on {element}, which was not written{read}"
                if origin.element >= 0
                else f"in {some(lanes)}, {what} depends on {element}{read}",
                buffer or origin.what,
                origin.element,
            )

    def report(
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
