"""Race detection by vector clocks, for kernels whose lanes wait at barriers in memory.

Between barriers of the workgroup nothing orders its subgroups; barriers in shared memory order some
of them.  Every subgroup has a clock for each party whose doings it knows to be done: the subgroups
themselves, what their ``wgmma`` read, the products in tensor memory, and the copies that arrive at
each barrier.  An arrival hands over the clocks, whoever waits takes them.  For each unit of shared
memory it is known who wrote it last, and when who read it since: an access to what its subgroup
does not know to be done races.

Lanes of one subgroup count as one.

Each of two workgroups that run together has clocks for the other's parties, too, behind its own.
"""

import numpy as np

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.findings import RACE, UNWAITED
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.simulator.races import touches

_BARRIERS = 64
_NOBODY = -1
_NEVER = np.iinfo(np.int32).max  # the clock of what nobody may use yet
_WARPGROUP = 4  # subgroups


class HappensBefore:
    """Vector clocks of a workgroup: the happens-before order of its subgroups and copies."""

    def __init__(self, state: WorkgroupState, *, paired: bool = False) -> None:
        self._state = state
        self.subgroups = state.subgroups
        self._warpgroups = -(-state.subgroups // _WARPGROUP)
        self.products = self.subgroups + self._warpgroups  # the party of those in tensor memory
        self.readers = self.products + 1
        self._parties = self.readers
        self._own = self.readers + _BARRIERS
        self.clocks = np.zeros((self.subgroups, self._own * (1 + paired)), np.int32)
        self.reading = np.arange(self.readers)  # parties that may read shared memory
        if paired:
            self.reading = np.append(self.reading, self.others(self.products))
        self._copying = np.arange(self.clocks.shape[1]) % self._own >= self.readers
        mine = np.arange(self.subgroups)
        self.clocks[mine, mine] = 1
        self.arriving: tuple[int, int] | None = None  # the party of copies that end now, its clock

    def party(self) -> int:
        """A new one, of the copies of a barrier."""
        if self._parties == self._own:
            raise SimulationError(f"the simulator takes {_BARRIERS} barriers in shared memory")
        self._parties += 1
        return self._parties - 1

    def others(self, party: int) -> int:
        """A party of the other workgroup, by its number there."""
        return self._own + party

    def seen(self, clocks: np.ndarray) -> np.ndarray:
        """Clocks as the other workgroup has them, or has given them: its own parties first."""
        return np.roll(clocks, self._own)

    def subgroups_in(self, active: np.ndarray) -> np.ndarray:
        """Subgroups with active lanes."""
        return np.unique(np.flatnonzero(active) // self._state.subgroup_size)

    def join(self, active: np.ndarray) -> None:
        """A barrier of these lanes: each knows what all know."""
        who = self.subgroups_in(active)
        self.clocks[who] = self.clocks[who].max(axis=0)
        self._tick(who)

    def release(self, active: np.ndarray, into: np.ndarray) -> None:
        """Hand over what the lanes' subgroups know and did."""
        who = self.subgroups_in(active)
        np.maximum(into, self.clocks[who].max(axis=0), out=into)
        self._tick(who)

    def acquire(self, active: np.ndarray, known: np.ndarray) -> None:
        """Take over clocks."""
        who = self.subgroups_in(active)
        self.clocks[who] = np.maximum(self.clocks[who], known)

    def _tick(self, who: np.ndarray) -> None:
        self.clocks[who, who] += 1

    def release_products(self, active: np.ndarray, clock: int, into: np.ndarray) -> None:
        """Hand over that products in tensor memory are done up to a clock, and so are the copies
        that their lane waited for.
        """
        known = self.clocks[self.subgroups_in(active)].max(axis=0)
        np.maximum(into, np.where(self._copying, known, 0), out=into)
        into[self.products] = max(into[self.products], clock)

    def products_done(self, active: np.ndarray, clock: int) -> None:
        """The lanes waited for their ``wgmma`` up to a group."""
        for subgroup in self.subgroups_in(active):
            self.clocks[subgroup, self.subgroups + subgroup // _WARPGROUP] = clock


class OrderedLog:
    """Log of a memory whose accesses are checked as they happen, against the vector clocks."""

    def __init__(
        self, order: HappensBefore, memory: SimulatedMemory, state: WorkgroupState
    ) -> None:
        self._order, self._memory, self._state = order, memory, state
        units = memory.units
        self.writer = np.full(units, _NOBODY, np.int32)
        self.written = np.zeros(units, np.int32)
        self.statement = np.full(units, -1, np.int32)  # that wrote it
        self.read = np.zeros((len(order.reading), units), np.int32)
        self.read_at = np.full(units, -1, np.int32)

    def __bool__(self) -> bool:
        return False  # nothing is left to look at when a barrier comes

    def append(self, touch: touches.Touch) -> None:
        """An access by lanes."""
        unit, lane = touches.units_and_lanes(touch, self._state.lanes)
        unit = np.broadcast_to(unit, lane.shape)
        subgroup = lane // self._state.subgroup_size
        for one in np.unique(subgroup):
            here = unit[subgroup == one]
            first = int(lane[subgroup == one][0])
            if touch.kind == touches.READ:
                self._check_writer(here, self._order.clocks[one], first, touch)
                self.read[one, here] = self._order.clocks[one, one]
                self.read_at[here] = touch.statement
            elif touch.phase == touches.ENDED:
                party, clock = self._order.arriving or (one, self._order.clocks[one, one])
                self.writer[here], self.written[here] = party, clock
            else:
                self._check_writer(here, self._order.clocks[one], first, touch)
                self._check_readers(here, one, first, touch.statement)
                clock = _NEVER if touch.phase == touches.UNDER_WAY else self._order.clocks[one, one]
                self._wrote(here, one, clock, touch.statement)

    def clear(self) -> None:
        """Nothing to forget."""

    def read_by_tensor_products(
        self, units: np.ndarray, lane: int, clock: int, statement: int
    ) -> None:
        """A product in tensor memory that a lane starts reads, until ``clock`` is waited for."""
        touch = touches.Touch(touches.READ, statement, units, 1, None)
        self._check_writer(
            units, self._order.clocks[lane // self._state.subgroup_size], lane, touch
        )
        self.read[self._order.products, units] = clock
        self.read_at[units] = statement

    def read_by_others_products(
        self, units: np.ndarray, known: np.ndarray, lane: int, clock: int, statement: int
    ) -> None:
        """The same of the other workgroup, whose lane knows these clocks, as they are seen here."""
        touch = touches.Touch(touches.READ, statement, units, 1, None)
        self._check_writer(units, known, lane, touch)
        self.read[-1, units] = clock
        self.read_at[units] = statement

    def read_by_other(self, known: np.ndarray) -> bool:
        """Whether its products read what is here, of whose end these clocks know nothing."""
        return bool((self.read[-1] > known[self._order.others(self._order.products)]).any())

    def read_by_products(
        self, units: np.ndarray, subgroup: int, clock: int, statement: int
    ) -> None:
        """The four subgroups from ``subgroup`` on read for ``wgmma``, until ``clock`` is waited."""
        lane = subgroup * self._state.subgroup_size
        touch = touches.Touch(touches.READ, statement, units, 1, None)
        for one in range(subgroup, subgroup + _WARPGROUP):
            self._check_writer(units, self._order.clocks[one], lane, touch)
        self.read[self._order.subgroups + subgroup // _WARPGROUP, units] = clock
        self.read_at[units] = statement

    def written_by_copy(
        self, units: np.ndarray, lane: int, party: int, clock: int, statement: int
    ) -> None:
        """A copy that a lane starts writes, until the party's ``clock`` is waited for."""
        subgroup = lane // self._state.subgroup_size
        touch = touches.Touch(touches.ATOMIC, statement, units, 1, None)
        self._check_writer(units, self._order.clocks[subgroup], lane, touch)
        self._check_readers(units, subgroup, lane, statement)
        self._wrote(units, party, clock, statement)

    def _wrote(self, units: np.ndarray, party: int, clock: int, statement: int) -> None:
        self.writer[units], self.written[units] = party, clock
        self.statement[units] = statement
        self.read[:, units] = 0

    def _check_writer(
        self, units: np.ndarray, known: np.ndarray, lane: int, touch: touches.Touch
    ) -> None:
        writer, when = self.writer[units], self.written[units]
        wrong = (writer != _NOBODY) & (when > known[np.maximum(writer, 0)])
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        unit = int(units[at])
        copied = writer[at] >= self._order.readers or when[at] == _NEVER
        action = "read" if touch.kind == touches.READ else "written"
        earlier = (
            "a copy into it is under way, which its subgroup did not wait for"
            if copied
            else f"a lane of subgroup {int(writer[at])} writes it, with nothing to order the two"
        )
        self._report(UNWAITED if copied else RACE, unit, lane, touch.statement, action, earlier,
                    int(self.statement[unit]))  # fmt: skip

    def _check_readers(self, units: np.ndarray, subgroup: int, lane: int, statement: int) -> None:
        known = self._order.clocks[subgroup, self._order.reading, None]
        read = self.read[:, units]
        wrong = read > known
        wrong[subgroup] = False
        if not wrong.any():
            return
        reader, at = (int(axis[0]) for axis in np.nonzero(wrong))
        unit = int(units[at])
        earlier = f"subgroup {reader} reads it, with nothing to order the two"
        kind = RACE
        if reader >= self._order.subgroups:
            kind = UNWAITED
            number = reader - self._order.subgroups
            who = f"wgmma of warpgroup {number}" if reader < self._order.products else "tcgen05.mma"
            earlier = f"{who} reads it, of whose end nothing is known"
        self._report(kind, unit, lane, statement, "written", earlier, int(self.read_at[unit]))

    def _report(
        self, kind: str, unit: int, lane: int, statement: int, action: str, earlier: str, first: int
    ) -> None:
        memory, state = self._memory, self._state
        where = f"{memory.unit}-byte element {unit} of {memory.name}"
        text = state.findings.statement_text(first)
        state.report(
            kind, statement, (lane,),
            f"{where} is {action} by lane {lane} while {earlier}; at {text}", memory.name, unit,
        )  # fmt: skip
