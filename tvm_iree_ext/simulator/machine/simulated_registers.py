"""Local buffers of a simulated kernel: what every lane has for itself."""

from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BOUNDS, some
from tvm_iree_ext.simulator.base.lane_values import Origin, Poison, Value, parts, plain, poisoned
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState


class SimulatedRegisters(list):
    """A local buffer of constant size whose elements are always read as what they were written.

    One value per element; the last is where what is out of bounds goes.
    """

    def __init__(self, name: str, size: int, dtype: np.dtype) -> None:
        super().__init__(
            Poison(np.zeros(1, dtype), True, Origin(name, at, -1)) for at in range(size + 1)
        )
        self.name, self.size, self.dtype = name, size, dtype

    def at(self, state: WorkgroupState, index: int, count: int, mask: Any, statement: int) -> int:
        """The index, or that of the last element where it is out of bounds."""
        if _is_inside(self, state, index, count, mask, statement):
            return index
        return 0 if count > 1 else self.size

    def gather(self, state: WorkgroupState, index: Value, mask: Any, statement: int) -> Value:
        """An element at another index in every lane."""
        return LaneView.of(self, state).gather(state, index, mask, statement)

    def scatter(
        self, state: WorkgroupState, index: Value, value: Value, mask: Any, statement: int
    ) -> None:
        """Store at another index in every lane."""
        where = LaneView.of(self, state).lane_index(state, index, mask, statement)
        for element in np.unique(where[state.active(mask)]):
            here = (where == element) & state.active(mask)
            self[element] = state.merged(here, value, self[element])


def _is_inside(
    buffer: "SimulatedRegisters | LaneView",
    state: WorkgroupState,
    index: int,
    count: int,
    mask: Any,
    statement: int,
) -> bool:
    """Whether ``count`` elements from an index on are a buffer's; it is a finding if not."""
    if 0 <= index <= buffer.size - count:
        return True
    what = f"element {index} of {buffer.name}, which has {buffer.size} in each lane"
    lanes = np.flatnonzero(state.active(mask))
    state.report(BOUNDS, statement, lanes, what, buffer.name, int(index))
    return False


class LaneBytes:
    """A local buffer that is read as another type than it was written: bytes ``[lanes, bytes]``."""

    def __init__(self, name: str, size: int, lanes: int) -> None:
        self.name = name
        self.data = np.zeros((lanes, size), np.uint8)
        self.valid = np.zeros((lanes, size), bool)
        self.complete = False


class LaneView:
    """A local buffer on :class:`LaneBytes`."""

    def __init__(self, memory: LaneBytes, dtype: np.dtype, name: str) -> None:
        self.memory, self.dtype, self.name = memory, dtype, name
        self.array = memory.data.view(dtype)
        self.size = self.array.shape[1]

    @classmethod
    def of(cls, registers: SimulatedRegisters, state: WorkgroupState) -> "LaneView":
        """A copy of registers."""
        nbytes = registers.size * registers.dtype.itemsize
        made = cls(LaneBytes(registers.name, nbytes, state.lanes), registers.dtype, registers.name)
        for element in range(registers.size):
            made.set(state, element, registers[element], None)
        return made

    def at(self, state: WorkgroupState, index: int, count: int, mask: Any, statement: int) -> int:
        """The index, or 0 where it is out of bounds."""
        return index if _is_inside(self, state, index, count, mask, statement) else 0

    def get(self, index: int) -> Value:
        """One element of every lane."""
        value = self.array[:, index].copy()
        if self.memory.complete:
            return value
        size = self.dtype.itemsize
        valid = self.memory.valid[:, index * size : (index + 1) * size].all(axis=1)
        return poisoned(value, ~valid, Origin(self.name, index, -1))

    def set(self, state: WorkgroupState, index: int, value: Value, mask: Any) -> None:
        """Store one element in the lanes of the mask."""
        if mask is NOBODY:
            return
        number, bad, _ = parts(value)
        size = self.dtype.itemsize
        active = slice(None) if mask is None else mask
        number = np.broadcast_to(np.asarray(number, self.dtype), (state.lanes,))
        self.array[active, index] = number[active]
        if not self.memory.complete or np.any(bad):
            good: Any = np.logical_not(np.broadcast_to(bad, (state.lanes,)))
            valid = self.memory.valid
            valid[active, index * size : (index + 1) * size] = good[active][:, None]
            self.memory.complete = bool(valid.all())

    def lane_index(
        self, state: WorkgroupState, index: Value, mask: Any, statement: int
    ) -> np.ndarray:
        """An index for every lane, 0 where it is out of bounds."""
        at = np.broadcast_to(
            plain(state.decided(f"an index into {self.name}", index, mask, statement)),
            (state.lanes,),
        )
        wrong = ((at < 0) | (at >= self.size)) & state.active(mask)
        if wrong.any():
            lanes = np.flatnonzero(wrong)
            element = int(at[lanes[0]])
            state.report(
                BOUNDS,
                statement,
                lanes,
                f"{some(lanes)}: element {element} of {self.name}, which has {self.size} in each"
                " lane",
                self.name,
                element,
            )
        return np.where((at < 0) | (at >= self.size), 0, at)

    def gather(self, state: WorkgroupState, index: Value, mask: Any, statement: int) -> Value:
        """An element at another index in every lane."""
        if mask is NOBODY:
            return self.dtype.type(0)
        at = self.lane_index(state, index, mask, statement)
        every = np.arange(state.lanes)
        value = self.array[every, at]
        if self.memory.complete:
            return value
        size = self.dtype.itemsize
        whole: Any = self.memory.valid.reshape(state.lanes, -1, size).all(axis=2)
        valid = whole[every, at]
        first = int(at[int(np.argmin(valid))])
        return poisoned(value, ~valid, Origin(self.name, first, statement))

    def scatter(
        self, state: WorkgroupState, index: Value, value: Value, mask: Any, statement: int
    ) -> None:
        """Store at another index in every lane."""
        at = self.lane_index(state, index, mask, statement)
        active = np.flatnonzero(state.active(mask))
        places = at[active]
        number, bad, _ = parts(value)
        self.array[active, places] = np.broadcast_to(
            np.asarray(number, self.dtype), (state.lanes,)
        )[active]
        if not self.memory.complete or np.any(bad):
            good: Any = np.logical_not(np.broadcast_to(bad, (state.lanes,)))
            valid = self.memory.valid.reshape(state.lanes, -1, self.dtype.itemsize)
            valid[active, places] = good[active][:, None]
            self.memory.complete = False
