"""Warps that are executed together: their registers, and where each lane is in the program.

While all lanes of all warps are at one block, registers are whole arrays and nothing is masked.
When they are not, those that are at the earliest block go on until they meet the others.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BARRIER, INSTRUCTION, Faults, Site
from tvm_iree_ext.emulator.ptx.machine.execution import ExecutingWarps, Execution
from tvm_iree_ext.emulator.ptx.machine.group_state import AT_MBARRIER, AT_PAUSE, GroupState
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes
from tvm_iree_ext.emulator.ptx.machine.memory_spaces import MemorySpaces
from tvm_iree_ext.emulator.ptx.machine.pending_products import PendingProducts
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.running.program import EXIT, PtxBlock, PtxProgram, PtxStep

_FREE = -1  # a lane that waits for nothing


class Strand(ExecutingWarps):
    """Some warps of each workgroup, executed as far as they can go.

    The register file, ``values``, is for the launch to fill.
    """

    def __init__(
        self,
        program: PtxProgram,
        places: list[tuple[int, int, int]],
        numbers: np.ndarray,
        faults: Faults,
        state: GroupState,
        spaces: MemorySpaces,
    ) -> None:
        super().__init__(places, numbers, faults)
        self.program, self.state, self.spaces = program, state, spaces
        self.products = PendingProducts(self.size, early=not state.early)
        self.values: list[Value] = []
        exists = self.numbers[:, None] * WARP + np.arange(WARP) < state.lanes
        # At one block: its number; else None, and each lane's is in _pc.
        self._common: int | None = 0
        self._alive: np.ndarray | None = None if exists.all() else exists
        self._parked = _FREE  # for what all wait, while they are at one block
        self._pc = np.zeros((0, WARP), np.int64)
        self._waits = np.zeros((0, WARP), np.int64)
        state.join(self._release)

    @property
    def done(self) -> bool:
        """Whether all lanes have ended."""
        return self._common is not None and self._common >= EXIT

    @property
    def runnable(self) -> bool:
        """Whether any lane can go on."""
        if self._common is not None:
            return self._common < EXIT and self._parked == _FREE
        return bool(((self._pc < EXIT) & (self._waits == _FREE)).any())

    @property
    def pausing(self) -> bool:
        """Whether any lane sleeps."""
        if self._common is not None:
            return self._parked == AT_PAUSE
        return bool((self._waits == AT_PAUSE).any())

    def run(self) -> None:
        """Until no lane can go on."""
        while self.runnable:
            self.state.count_block()
            if self._common is not None:
                self._execute(self.program.blocks[self._common], None, self._alive)
            else:
                self._execute_earliest()

    def _execute_earliest(self) -> None:
        """The earliest block at which lanes are that do not wait."""
        at = np.where(self._waits == _FREE, self._pc, EXIT)
        number = int(at.min())
        mask = at == number
        used = mask.any(axis=1)
        rows = None if used.all() else np.flatnonzero(used)
        mask = mask if rows is None else mask[rows]
        self._execute(self.program.blocks[number], rows, None if mask.all() else mask)
        self._meet()

    def _meet(self) -> None:
        """Go back to one block for all, where all are at one."""
        if self._common is not None:
            return
        alive = self._pc < EXIT
        if not alive.any():
            self._common = EXIT
            return
        first = int(self._pc[alive].min())
        together = (self._pc[alive] == first).all() and (self._waits[alive] == _FREE).all()
        if together:
            self._common, self._parked = first, _FREE
            self._alive = None if alive.all() else alive

    def _execute(self, block: PtxBlock, rows: np.ndarray | None, mask: np.ndarray | None) -> None:
        """Execute a block on some lanes, and send them on."""
        apart = self._common is None
        if not apart:
            values = self.values
        else:
            values = self.values.copy()
            if rows is not None:
                for slot in block.reads:
                    value = values[slot]
                    if np.ndim(value) and len(value) > 1:
                        values[slot] = value[rows]
        lanes = Execution(self, rows, mask, values)
        if block.wait is not None:
            self._wait(block, block.wait, lanes, values)
        else:
            for step in block.steps:
                self._do(step, lanes, values, mask)
            lanes.mask = mask
            self._leave(block, lanes, values)
        if apart:
            self._put_back(block, rows, mask, values)

    def _do(
        self, step: PtxStep, lanes: Execution, values: list[Value], mask: np.ndarray | None
    ) -> None:
        """One step."""
        guard = self._guard(step, values)
        arguments = [values[slot] for slot in step.sources]
        if step.on_lanes:
            if not self._choose(step, lanes, guard, mask):
                return
            result = step.function(lanes, *arguments)
        else:
            result = step.function(*arguments)
        if not step.targets:
            return
        results = (result,) if len(step.targets) == 1 else result
        for slot, value in zip(step.targets, results, strict=True):
            values[slot] = value if guard is None else np.where(guard, value, values[slot])

    def _guard(self, step: PtxStep, values: list[Value]) -> Value | None:
        """The predicate under which a step is executed; None: always."""
        if step.guard < 0:
            return None
        guard = values[step.guard]
        return ~np.asarray(guard) if step.guard_negated else guard

    def _choose(
        self, step: PtxStep, lanes: Execution, guard: Value | None, mask: np.ndarray | None
    ) -> bool:
        """Make ``lanes`` those that execute a step; whether there are any."""
        lanes.instruction, lanes.mask, lanes.targets = step.instruction, mask, step.targets
        if guard is not None:
            active = lanes.full(guard)
            lanes.mask = active if mask is None else mask & active
            if not lanes.mask.any():
                return False
        if step.whole_warp:
            self._check_whole(lanes)
        return True

    def _check_whole(self, lanes: Execution) -> None:
        """All lanes of a warp that have not ended must execute an aligned instruction together."""
        if lanes.mask is None:
            return
        alive = lanes.alive()
        missing = (alive & ~lanes.mask).any(axis=1) & lanes.mask.any(axis=1)
        if missing.any():
            lanes.found(INSTRUCTION, "not all lanes of the warp execute it", missing[:, None])

    def alive(self) -> np.ndarray:
        """Lanes that there are and that have not ended."""
        if self._common is None:
            return self._pc < EXIT
        return np.ones((self.size, WARP), bool) if self._alive is None else self._alive

    def _put_back(
        self, block: PtxBlock, rows: np.ndarray | None, mask: np.ndarray | None, values: list[Value]
    ) -> None:
        """Registers that later blocks read, into the register file."""
        for slot in block.writes:
            new = values[slot]
            if rows is None:
                old = self.values[slot]
                self.values[slot] = new if mask is None else np.where(mask, new, old)
                continue
            whole = np.array(np.broadcast_to(self.values[slot], (self.size, WARP)))
            whole[rows] = new if mask is None else np.where(mask, new, whole[rows])
            self.values[slot] = whole

    def _leave(self, block: PtxBlock, lanes: Execution, values: list[Value]) -> None:
        """Send the lanes that executed a block on."""
        if block.table:
            index = np.asarray(values[block.condition])
            table = np.array(block.table)
            self._send(lanes, table[np.minimum(index, len(table) - 1)])
            return
        if block.branch is None:
            self._send(lanes, block.following)
            return
        if block.condition < 0:
            self._send(lanes, block.branch)
            return
        taken = np.asarray(values[block.condition])
        if block.negated:
            taken = ~taken
        of_lanes = taken if lanes.mask is None or taken.ndim == 0 else taken | ~lanes.mask
        if of_lanes.all():
            self._send(lanes, block.branch)
        elif not (taken if lanes.mask is None or taken.ndim == 0 else taken & lanes.mask).any():
            self._send(lanes, block.following)
        else:
            self._send(lanes, np.where(taken, block.branch, block.following))

    def _send(self, lanes: Execution, to: Any) -> None:
        """Set where lanes are."""
        if self._common is not None and np.ndim(to) == 0:
            self._common = int(to)
            return
        self._scatter()
        self._set(self._pc, lanes, to)

    def _set(self, array: np.ndarray, lanes: Lanes, value: Any) -> None:
        mask = lanes.mask
        if lanes.rows is None:
            if mask is None:
                array[...] = value
            else:
                np.copyto(array, value, where=mask)
        elif mask is None:
            array[lanes.rows] = value
        else:
            array[lanes.rows] = np.where(mask, value, array[lanes.rows])

    def _scatter(self) -> None:
        """From one block for all to a block for each lane."""
        if self._common is None:
            return
        self._pc = np.full((self.size, WARP), self._common, np.int64)
        self._waits = np.full((self.size, WARP), self._parked, np.int64)
        if self._alive is not None:
            self._pc[~self._alive] = EXIT
            self._waits[~self._alive] = _FREE
        self._common, self._parked = None, _FREE

    def _wait(self, block: PtxBlock, step: PtxStep, lanes: Execution, values: list[Value]) -> None:
        """Execute an instruction at which lanes may wait: at a barrier, or for a phase's end."""
        mask = lanes.mask
        guard = self._guard(step, values)
        arguments = [values[slot] for slot in step.sources]
        if not self._choose(step, lanes, guard, mask):
            lanes.mask = mask
            self._send(lanes, block.following)
            return
        chosen = lanes.mask
        lanes.mask = mask
        if step.instruction.opcode == "mbarrier":
            lanes.mask = chosen
            passed = step.function(lanes, *arguments)
            lanes.mask = mask
            self._try(block, step, lanes, values, guard, passed)
            return
        self._send(lanes, block.following)
        lanes.mask = chosen
        step.function(lanes, *arguments)

    def _try(
        self,
        block: PtxBlock,
        step: PtxStep,
        lanes: Execution,
        values: list[Value],
        guard: Value | None,
        passed: Value,
    ) -> None:
        """Send those on whose phase has ended; the others wait where they are."""
        (target,) = step.targets
        values[target] = passed if guard is None else np.where(guard, passed, values[target])
        going = passed if guard is None else passed | ~np.asarray(guard)
        mask = lanes.mask
        if self.state.impatient:
            self.state.impatient = False  # one wait has ended without success
            self._send(lanes, block.following)
        elif (going if mask is None else going | ~mask).all():
            self._send(lanes, block.following)
        elif not (going if mask is None else going & mask).any() and self._common is not None:
            self._parked = AT_MBARRIER
        else:
            self._scatter()
            self._set(self._pc, lanes, np.where(going, block.following, block.number))
            self._set(self._waits, lanes, np.where(going, _FREE, AT_MBARRIER))

    def park(self, lanes: Lanes, number: int) -> None:
        """Lanes wait at a barrier."""
        if self._common is not None and lanes.mask is self._alive:
            self._parked = number
            return
        self._scatter()
        self._set(self._waits, lanes, number)

    def _release(self, number: int, groups: np.ndarray | None) -> None:
        """Lanes that wait for ``number`` go on: of all workgroups, or of those that are true."""
        if self._common is not None:
            if self._parked != number:
                return
            if groups is None:
                self._parked = _FREE
                return
            self._scatter()
        going = self._waits == number
        if groups is not None:
            going &= groups[self.groups][:, None]
        self._waits[going] = _FREE
        self._meet()

    def give_up(self) -> None:
        """Say what lanes wait for, which does not come."""
        if self.done:
            return
        self._scatter()
        waiting = self._waits != _FREE
        row, lane = np.argwhere(waiting)[0]
        place = int(self._pc[row, lane])
        block = self.program.blocks[place]
        if int(self._waits[row, lane]) != AT_MBARRIER:  # lanes at a barrier are behind it already
            block = next(one for one in self.program.blocks if one.wait and one.following == place)
        text = block.wait.instruction.text if block.wait else ""
        site = Site(text, self.where)
        self.faults.add_lanes(BARRIER, "lanes wait for ever", site, waiting)
