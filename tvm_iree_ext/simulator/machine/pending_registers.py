"""Registers that belong to an asynchronous instruction until lanes wait for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import UNWAITED
from tvm_iree_ext.simulator.base.lane_values import Origin, Poison, Value
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState


@dataclass
class _Pending:
    target: Any  # Registers or LaneView
    index: int
    value: Value
    lanes: np.ndarray  # that have not waited


class PendingRegisters:
    """What loads bring, by register; until it is waited for, registers are poison."""

    def __init__(self, state: WorkgroupState) -> None:
        self._state = state
        self._all: dict[tuple[int, int], _Pending] = {}

    def start(
        self, target: Any, index: int, value: Value, mask: Any, what: str, statement: int
    ) -> None:
        """The lanes' register will have a value."""
        state, key = self._state, (id(target), index)
        old = current(target, index)
        lanes = state.active(mask).copy()
        if (before := self._all.get(key)) is not None:
            value = state.merged(mask, value, before.value)
            lanes |= before.lanes
        self._all[key] = _Pending(target, index, value, lanes)
        unready = Poison(np.zeros(state.lanes, target.dtype), True, Origin(what, -1, statement))
        put(state, target, index, state.merged(mask, unready, old))

    def end(self, active: np.ndarray) -> None:
        """Lanes waited."""
        state = self._state
        for key, pending in list(self._all.items()):
            here = pending.lanes & active
            held = current(pending.target, pending.index)
            value = state.merged(None if here.all() else here, pending.value, held)
            put(state, pending.target, pending.index, value)
            pending.lanes = pending.lanes & ~active
            if not pending.lanes.any():
                del self._all[key]

    def finish(self, what: str) -> None:
        """At the end of the kernel."""
        if self._all:
            name = next(iter(self._all.values())).target.name
            self._state.report(
                UNWAITED, -1, (0,),
                f"{len(self._all)} registers of {what}, such as those of {name}, are never waited"
                " for", name,
            )  # fmt: skip


def current(target: Any, index: int) -> Value:
    """What a register holds."""
    return target[index] if isinstance(target, list) else target.get(index)


def put(state: WorkgroupState, target: Any, index: int, value: Value) -> None:
    """Put a value into a register of all lanes."""
    if isinstance(target, list):
        target[index] = value
    else:
        target.set(state, index, value, None)
