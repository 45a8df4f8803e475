"""Loads, stores and atomics of shared and global memory, as all lanes do them at once.

Every access is checked against the bounds and logged for
:mod:`~tvm_iree_ext.simulator.races.touches`.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base import findings
from tvm_iree_ext.simulator.base.lane_values import Origin, Poison, Value, parts
from tvm_iree_ext.simulator.base.simulated_memory import GLOBAL, SimulatedMemory
from tvm_iree_ext.simulator.base.traffic import Pattern
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.strands import Stuck
from tvm_iree_ext.simulator.races.touches import ATOMIC, READ, WRITE, Touch


class MemoryView:
    """A buffer: memory, and how its bytes are read.

    Indices are of elements: a number where all lanes have the same, or ``[lanes]``.  ``count``
    consecutive elements from there are one access.
    """

    def __init__(self, memory: SimulatedMemory, dtype: np.dtype, name: str) -> None:
        self.memory, self.dtype, self.name = memory, dtype, name
        whole = len(memory.data) // dtype.itemsize * dtype.itemsize
        self.array = memory.data[:whole].view(dtype)
        self.size = len(self.array)
        self.ratio = max(1, dtype.itemsize // memory.unit)

    def load(
        self,
        state: WorkgroupState,
        index: Value,
        mask: Any,
        statement: int,
        count: int = 1,
        kind: int = READ,
    ) -> Value:
        """The elements; ``[count, lanes]`` for more than one."""
        if mask is NOBODY:
            return self.dtype.type(0)
        at, mask = self.inside(state, index, mask, statement, count)
        if mask is NOBODY:
            return self.dtype.type(0)
        memory = self.memory
        if count > 1:
            value = self.array[(at if at.ndim else at[None]) + np.arange(count)[:, None]]
        else:
            value = self.array[at]
        if not memory.complete:
            value = self._poisoned(value, at, count, statement)
        self.count_access(state, at, count, mask, statement, store=False)
        if memory.touches is not None:
            memory.touches.append(Touch(kind, statement, at * self.ratio, count * self.ratio, mask))
        return value

    def _poisoned(self, value: Any, at: np.ndarray, count: int, statement: int) -> Value:
        valid = self.valid_at(at, count)
        if valid.all():
            return value
        memory = self.memory
        if memory.poison is not None:
            return Poison(value, ~valid, memory.poison)
        first = int(np.argmin(valid.ravel()))
        element = np.broadcast_to(at, valid.shape[-1:])[first % valid.shape[-1]] if at.ndim else at
        offset = first // valid.shape[-1] if valid.ndim > 1 else 0
        return Poison(value, ~valid, Origin(self.name, int(element) + offset, statement))

    def valid_at(self, at: np.ndarray, count: int) -> np.ndarray:
        """Whether each element was written: ``[lanes]``, or ``[count, lanes]``."""
        steps = np.arange(count)[:, None] if count > 1 else 0
        first = (at + steps) * self.ratio
        valid = self.memory.valid[first]
        for unit in range(1, self.ratio):
            valid = valid & self.memory.valid[first + unit]
        return valid

    def store(
        self,
        state: WorkgroupState,
        index: Value,
        value: Value,
        mask: Any,
        statement: int,
        count: int = 1,
    ) -> None:
        """Store in the lanes of the mask; lanes that store into one element must agree."""
        if mask is NOBODY:
            return
        at, mask = self.inside(state, index, mask, statement, count)
        if mask is NOBODY:
            return
        pattern = self.count_access(state, at, count, mask, statement, store=True)
        self.write(state, at, value, mask, statement, count, compare=pattern.duplicates)
        if self.memory.touches is not None:
            touch = Touch(WRITE, statement, at * self.ratio, count * self.ratio, mask)
            self.memory.touches.append(touch)

    def write(
        self,
        state: WorkgroupState,
        at: np.ndarray,
        value: Value,
        mask: np.ndarray | None,
        statement: int,
        count: int = 1,
        *,
        compare: bool,
    ) -> None:
        """Put values into memory, uncounted and unlogged."""
        number, bad, origin = parts(value)
        places = np.broadcast_to(at, (state.lanes,))
        shape: tuple[int, ...] = (state.lanes,)
        if count > 1:
            places, shape = places + np.arange(count)[:, None], (count, state.lanes)
        number = np.broadcast_to(np.asarray(number, self.dtype), shape)
        bad = np.broadcast_to(bad, shape)
        if mask is not None:
            places, number, bad = places[..., mask], number[..., mask], bad[..., mask]
        self.array[places] = number
        if compare and not np.array_equal(_raw(self.array[places]), _raw(number)):
            self._disagreement(state, places, number, mask, statement)
        memory = self.memory
        if memory.unfenced is not None:
            for unit in range(self.ratio):
                memory.unfenced[places * self.ratio + unit] = True
        if memory.complete and origin is None:
            return
        if origin is not None and bad.any():
            memory.poison = origin
            if memory.space == GLOBAL:
                state.uninitialised(
                    f"what is stored into element {places[bad][0]} of {self.name}",
                    Poison(number, bad, origin),
                    mask,
                    statement,
                    self.name,
                    compressed=True,
                )
                bad = np.zeros_like(bad)
        first = places * self.ratio
        for unit in range(self.ratio):
            memory.valid[first + unit] = ~bad
        if bad.any():
            memory.complete = False

    def _disagreement(
        self,
        state: WorkgroupState,
        places: np.ndarray,
        number: np.ndarray,
        mask: Any,
        statement: int,
    ) -> None:
        active = np.arange(state.lanes) if mask is None else np.flatnonzero(mask)
        kept = self.array[places]
        wrong = (_raw(kept) != _raw(number)).any(axis=-1)
        at = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        element, lane = int(places[at]), int(active[at[-1]])
        same = np.nonzero((places == element) & ~wrong)
        other = int(active[same[-1][0]])
        state.report(
            findings.DISAGREEMENT,
            statement,
            (lane, other),
            f"lane {lane} stores {number[at]} and lane {other} stores {kept[at]} into element"
            f" {element} of {self.name}",
            self.name,
            element,
        )

    def atomic(
        self, state: WorkgroupState, index: Value, value: Value, mask: Any, statement: int, how: Any
    ) -> Value:
        """Combine by ``how`` (a ufunc) in the order of the lanes; gives what was there before."""
        if mask is NOBODY:
            return self.dtype.type(0)
        at, mask = self.inside(state, index, mask, statement, 1)
        if mask is NOBODY:
            return self.dtype.type(0)
        self.count_access(state, at, 1, mask, statement, store=True)
        value = state.decided("what is added atomically", value, mask, statement)
        places = np.broadcast_to(at, (state.lanes,))
        number = np.broadcast_to(np.asarray(value, self.dtype), (state.lanes,))
        active = np.arange(state.lanes) if mask is None else np.flatnonzero(mask)
        if not self.memory.complete and not self.valid_at(places[active], 1).all():
            first = int(places[active][int(np.argmin(self.valid_at(places[active], 1)))])
            state.report(
                findings.UNINITIALISED,
                statement,
                active[:1],
                f"element {first} of {self.name} is updated atomically and was never written",
                self.name,
                first,
            )
        before = np.zeros(state.lanes, self.dtype)
        for lane in active:  # one after the other: each sees what those before it did
            before[lane] = self.array[places[lane]]
            self.array[places[lane]] = how(before[lane], number[lane])
        if self.memory.touches is not None:
            touch = Touch(ATOMIC, statement, at * self.ratio, self.ratio, mask)
            self.memory.touches.append(touch)
        return before

    def publish(
        self, state: WorkgroupState, index: Value, value: Value, mask: Any, statement: int
    ) -> None:
        """Store words at once, for other workgroups that wait for them."""
        if mask is NOBODY:
            return
        at, mask = self.inside(state, index, mask, statement, 1)
        if mask is NOBODY:
            return
        self.count_access(state, at, 1, mask, statement, store=True)
        self.write(state, at, value, mask, statement, compare=False)
        if self.memory.touches is not None:
            touch = Touch(ATOMIC, statement, at * self.ratio, self.ratio, mask)
            self.memory.touches.append(touch)

    def seen(self, state: WorkgroupState, index: Value, mask: Any, statement: int) -> Value:
        """Published words, 0 where there are none yet."""
        return self.load(state, index, mask, statement, kind=ATOMIC)

    def awaited(
        self, state: WorkgroupState, index: Value, word: Value, mask: Any, statement: int
    ) -> Any:
        """The words, and where they are 0 what is published there.

        Workgroups run one after another: what is not there does not come.

        Raises:
            Stuck: where it is not.
        """
        if mask is NOBODY:
            return self.dtype.type(0)
        word = state.decided("a word that is waited for", word, mask, statement)
        at, mask = self.inside(state, index, mask, statement, 1)
        found = np.where(np.asarray(word) == 0, self.array[at], word)
        lacking = np.broadcast_to(found == 0, (state.lanes,)) & state.active(mask)
        if lacking.any():
            lanes = np.flatnonzero(lacking)
            element = int(np.broadcast_to(at, (state.lanes,))[lanes[0]])
            state.report(
                findings.BARRIER,
                statement,
                lanes,
                f"{findings.some(lanes)} wait for ever: nobody publishes element {element} of"
                f" {self.name}",
                self.name,
                element,
            )
            raise Stuck
        return found

    def count_access(
        self,
        state: WorkgroupState,
        at: np.ndarray,
        count: int,
        mask: Any,
        statement: int,
        *,
        store: bool,
    ) -> Pattern:
        """Note the memory traffic of an access."""
        first = at if at.ndim else np.broadcast_to(at, (state.lanes,))
        space, nbytes = self.memory.space, self.dtype.itemsize
        return state.traffic.note(statement, space, self.name, store, first, nbytes, count, mask)

    def inside(
        self, state: WorkgroupState, index: Value, mask: Any, statement: int, count: int
    ) -> tuple[np.ndarray, Any]:
        """The index, 0 in lanes without a part; and the mask without lanes out of bounds."""
        if type(index) is Poison:
            index = state.decided(f"an index into {self.name}", index, mask, statement)
        at = np.asarray(index)
        last = self.size - count
        if at.ndim == 0:
            if 0 <= at <= last:
                return at, mask
        else:
            if mask is not None:
                at = np.where(mask, at, 0)
            if last >= 0 and at.min() >= 0 and at.max() <= last:
                if count > 1:
                    self._aligned(state, at, count, statement)
                return at, mask
        wrong: Any = np.broadcast_to((at < 0) | (at > last), (state.lanes,)) & state.active(mask)
        lanes = np.flatnonzero(wrong)
        element = int(np.broadcast_to(at, (state.lanes,))[lanes[0]]) if lanes.size else 0
        span = f"elements {element}..{element + count - 1}" if count > 1 else f"element {element}"
        if lanes.size:
            state.report(
                findings.BOUNDS,
                statement,
                lanes,
                f"{findings.some(lanes)}: {span} of {self.name}, which has {self.size}",
                self.name,
                element,
            )
        return np.where(wrong, 0, at), state.without(mask, wrong)

    def _aligned(self, state: WorkgroupState, at: np.ndarray, count: int, statement: int) -> None:
        """A vector access must be aligned to its width, or to 16 bytes if it is wider."""
        width = count * self.dtype.itemsize
        natural = min(width & -width, 16) // self.dtype.itemsize
        if natural > 1 and (at % natural).any():
            lanes = np.flatnonzero(at % natural)
            state.report(
                findings.MISALIGNED,
                statement,
                lanes,
                f"{findings.some(lanes)}: {width} bytes from element {int(at[lanes[0]])} of"
                f" {self.name}, which is not a multiple of {natural} elements",
                self.name,
                int(at[lanes[0]]),
            )


def _raw(values: np.ndarray) -> np.ndarray:
    """The bytes of each value, along a last axis: what is compared where NaN may be stored."""
    return np.ascontiguousarray(values)[..., None].view(np.uint8)
