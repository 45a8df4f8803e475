"""Copies that go on while the lanes do something else: cp.async and its kin.

A copy reads its source when it starts.  What it writes arrives when the lane that started it waits
for the group that it belongs to; until then the destination belongs to the copy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import UNWAITED, some
from tvm_iree_ext.simulator.base.lane_values import Value
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.memory_view import MemoryView
from tvm_iree_ext.simulator.races.touches import ENDED, UNDER_WAY, WRITE, Touch


@dataclass
class _Copy:
    view: MemoryView
    at: np.ndarray  # [lanes]
    count: int
    value: Value
    waiting: np.ndarray  # lanes whose part has not arrived
    group: np.ndarray  # of each lane
    statement: int


class Copies:
    """The copies of a workgroup that are under way, in groups of each lane's own."""

    def __init__(self, state: WorkgroupState) -> None:
        self._state = state
        self._groups = np.zeros(state.lanes, np.int64)  # how many each lane has committed
        self._under_way: list[_Copy] = []

    def start(
        self,
        target: MemoryView,
        index: Value,
        source: MemoryView,
        source_index: Value,
        elements: int,
        kept: Value,
        mask: Any,
        statement: int,
    ) -> None:
        """Start copying ``elements`` of the target's type; those from ``kept`` on become 0."""
        if mask is NOBODY:
            return
        state = self._state
        from_mask = mask
        if not (isinstance(kept, int) and kept >= elements):
            from_mask = state.narrowed(mask, np.asarray(kept) > 0, statement)
        at, mask = target.inside(state, index, mask, statement, elements)
        value = source.load(state, source_index, from_mask, statement, elements)
        if from_mask is not mask:
            taken = np.arange(elements)[:, None] < np.broadcast_to(kept, (state.lanes,))
            value = state.merged(taken if elements > 1 else taken[0], value, target.dtype.type(0))
        if mask is NOBODY:
            return
        target.count_access(state, at, elements, mask, statement, store=True)
        at = np.broadcast_to(at, (state.lanes,))
        copy = _Copy(
            target, at, elements, value, state.active(mask).copy(), self._groups.copy(), statement
        )
        self._under_way.append(copy)
        self._log(copy, copy.waiting, UNDER_WAY)

    def commit(self, mask: Any) -> None:
        """Close the group of copies that each lane started since its last."""
        if mask is not NOBODY:
            self._groups[self._state.active(mask)] += 1

    def wait(self, newest: int, mask: Any, statement: int) -> None:
        """All groups of each lane but its ``newest`` last have arrived."""
        if mask is NOBODY:
            return
        active = self._state.active(mask)
        self._arrive(active, self._groups - newest, statement)

    def wait_all(self, mask: Any, statement: int) -> None:
        """Whatever the lanes started has arrived, committed or not."""
        if mask is not NOBODY:
            self._arrive(self._state.active(mask), self._groups + 1, statement)

    def end(self, lanes: np.ndarray, statement: int) -> None:
        """Whatever lanes started arrives now, and is announced to others."""
        self._arrive(lanes, self._groups + 1, statement)

    def _arrive(self, active: np.ndarray, before: np.ndarray, statement: int) -> None:
        state = self._state
        for copy in self._under_way:
            done = copy.waiting & active & (copy.group < before)
            if done.any():
                mask = None if done.all() else done
                copy.view.write(
                    state, copy.at, copy.value, mask, copy.statement, copy.count, compare=False
                )
                self._log(copy, done, ENDED)
                copy.waiting &= ~done
        self._under_way = [copy for copy in self._under_way if copy.waiting.any()]

    def _log(self, copy: _Copy, lanes: np.ndarray, phase: int) -> None:
        touches, ratio = copy.view.memory.touches, copy.view.ratio
        if touches is not None:
            touches.append(
                Touch(
                    WRITE, copy.statement, copy.at * ratio, copy.count * ratio, lanes.copy(), phase
                )
            )

    def log_those_under_way(self) -> None:
        """At the start of an interval between barriers."""
        for copy in self._under_way:
            self._log(copy, copy.waiting, UNDER_WAY)

    def finish(self) -> None:
        """At the end of the kernel: what nobody waited for was for nothing, or is missing."""
        for copy in self._under_way:
            lanes = np.flatnonzero(copy.waiting)
            self._state.report(
                UNWAITED,
                copy.statement,
                lanes,
                f"the copy into {copy.view.name} that {some(lanes)} started is never waited for",
                copy.view.name,
            )
        self._under_way = []
