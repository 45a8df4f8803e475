"""A core of AMD's that runs a loop: its subgroups issue in order, and wait for one another's units.

Every scheduler has some subgroups.  When its turn comes, each unit takes an instruction of at most
one of them: of the highest priority, then of the first.  A subgroup issues in order.  What is not
there: fetches of instructions, conflicts of banks, misses of caches beyond a load's usual time.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_iree_ext.inspection.loop_time.loop_steps import (
    BARRIER,
    BRANCH,
    LDS,
    MATRIX,
    MEMORY,
    PAUSE,
    PRIORITY,
    VECTOR,
    LoopStep,
    Register,
)
from tvm_iree_ext.inspection.loop_time.unit_timing import UnitTiming

RESULT, ISSUE = "result", "issue"
CAUSES = (LDS, MEMORY, BARRIER, RESULT, ISSUE)
"""Why a matrix unit idles: a subgroup waits for LDS or global memory, for the others at a barrier,
for a result of lanes, or issues something else."""

_LDS_QUEUE = 64  # cycles of turns that may wait at a port: a few accesses; a guess
_MEMORY_QUEUE = 256
_SPREAD = (0.75, 1.25)  # of answers of memory: without it workgroups stay in step for good
_NEVER = 1 << 60

_WARM_UP, _MEASURED = 6, 24  # passes of the first subgroup


@dataclass(frozen=True)
class LoopTime:
    """The steady state of a loop.

    Attributes:
        share: of the matrix units' time, for which they are occupied.
        cycles: of a scheduler for a pass of one of its subgroups.
        subgroups: of a scheduler.
        idle: shares of time for which matrix units idle, by cause.
        lds_bytes: to and from LDS of the core, a cycle.
        memory_bytes: to and from global memory of the core, a cycle.
    """

    share: float
    cycles: float
    subgroups: float
    idle: Mapping[str, float]
    lds_bytes: float
    memory_bytes: float


@dataclass
class _Wave:
    simd: int
    workgroup: int
    at: int = 0
    wakes: int = 0
    passes: int = 0
    level: int = 0
    arrived: bool = False
    cause: str = ISSUE
    # When the registers that are on their way are there: for other instructions, and to add to.
    there: dict[Register, int] = field(default_factory=dict)
    sums: dict[Register, int] = field(default_factory=dict)
    waiting: dict[str, deque[int]] = field(default_factory=dict)


def run_loop(
    steps: Sequence[LoopStep],
    timing: UnitTiming,
    *,
    subgroups: int,
    workgroups: int,
    simds: int,
) -> LoopTime:
    """The steady state of a core whose resident workgroups are in the same loop.

    Args:
        steps: of a pass, among them a matrix instruction.
        timing: of the chip.
        subgroups: of a workgroup.
        workgroups: resident.
        simds: schedulers of a core.
    """
    core = _Core(steps, timing, subgroups, workgroups, simds)
    core.run_until(_WARM_UP)
    core.start_counting()
    core.run_until(_WARM_UP + _MEASURED)
    return core.counted()


class _Core:
    def __init__(
        self,
        steps: Sequence[LoopStep],
        timing: UnitTiming,
        subgroups: int,
        workgroups: int,
        simds: int,
    ) -> None:
        self.steps, self.timing, self.simds, self.subgroups = steps, timing, simds, subgroups
        # Those of a workgroup side by side; the next one's go on where it ended.
        self.waves = [
            _Wave(number % simds, number // subgroups) for number in range(workgroups * subgroups)
        ]
        self.of_simd = [[one for one in self.waves if one.simd == simd] for simd in range(simds)]
        self.now = 0
        self.chance = random.Random(0)
        self.free: Counter[tuple[str, int]] = Counter()  # by unit and its number
        self.start_counting()

    def start_counting(self) -> None:
        """Forget what was counted."""
        self.since = self.now
        self.passed = sum(one.passes for one in self.waves)
        self.idle: defaultdict[str, float] = defaultdict(float)
        self.busy = 0
        self.bytes: Counter[str] = Counter()

    def counted(self) -> LoopTime:
        """What was counted since."""
        span = max(1, self.now - self.since)
        passes = max(1, sum(one.passes for one in self.waves) - self.passed)
        whole = span * self.simds
        return LoopTime(
            share=min(1.0, self.busy / whole),
            cycles=whole / passes,
            subgroups=len(self.waves) / self.simds,
            idle={cause: self.idle[cause] / whole for cause in CAUSES},
            lds_bytes=self.bytes[LDS] / span,
            memory_bytes=self.bytes[MEMORY] / span,
        )

    def run_until(self, passes: int) -> None:
        """Until some subgroup has done so many passes."""
        each = self.timing.issue_cycles
        while max(one.passes for one in self.waves) < passes:
            first = self.now // each  # another one each time: none is before the others for good
            for simd in range(self.simds):
                self._turn((first + simd) % self.simds)
            wakes = min((one.wakes for one in self.waves if not one.arrived), default=_NEVER)
            after = max(self.now + each, -(-wakes // each) * each)
            for simd in range(self.simds):
                self._count_idle(simd, after)
            self.now = after

    def _count_idle(self, simd: int, until: int) -> None:
        span = until - max(self.now, self.free[MATRIX, simd])
        waves = self.of_simd[simd]
        if span > 0:
            for one in waves:
                self.idle[one.cause] += span / len(waves)

    def _turn(self, simd: int) -> None:
        taken: set[str] = set()
        for one in sorted(self.of_simd[simd], key=lambda wave: -wave.level):
            if one.arrived or one.wakes > self.now:
                continue
            step = self.steps[one.at]
            port = VECTOR if step.unit == MATRIX else step.unit
            if port in taken:
                one.cause, one.wakes = ISSUE, self.now + self.timing.issue_cycles
                continue
            wakes, cause = self._obstacle(one, step)
            if wakes > self.now:
                one.wakes, one.cause = wakes, cause
                continue
            taken.add(port)
            one.cause, one.wakes = ISSUE, self.now + self.timing.issue_cycles
            self._issue(one, step)

    def _obstacle(self, one: _Wave, step: LoopStep) -> tuple[int, str]:
        """Until when a subgroup cannot issue its instruction, and why."""
        for counter, left in step.left:
            under_way = one.waiting.get(counter, ())
            if len(under_way) > left:
                last = under_way[len(under_way) - left - 1]
                if last > self.now:
                    return last, MEMORY if counter == "store" else counter
        there = max((one.there.get(register, 0) for register in step.reads), default=0)
        sums = max((one.sums.get(register, 0) for register in step.adds), default=0)
        if max(there, sums) > self.now:
            return max(there, sums), RESULT
        unit = self._unit(one, step.unit)
        free = self.free[unit]
        if step.unit == MATRIX and self.timing.on_vector_unit:
            free = max(free, self.free[VECTOR, one.simd])
        if step.unit in (LDS, MEMORY):
            free -= _LDS_QUEUE if step.unit == LDS else _MEMORY_QUEUE
            under_way = one.waiting.get(step.counter, deque())
            while under_way and under_way[0] <= self.now:
                under_way.popleft()
            most = self.timing.most_lds if step.unit == LDS else self.timing.most_memory
            if len(under_way) >= most:
                free = max(free, under_way[0])
        return free, step.unit if step.unit in (LDS, MEMORY) else ISSUE

    def _unit(self, one: _Wave, unit: str) -> tuple[str, int]:
        """A unit by its number: memory is the core's, a port of LDS some schedulers'."""
        if unit == LDS:
            return unit, one.simd * self.timing.lds_ports // self.simds
        return unit, 0 if unit == MEMORY else one.simd

    def _issue(self, one: _Wave, step: LoopStep) -> None:
        unit, done = self._unit(one, step.unit), self.now + step.cycles
        if step.unit in (MATRIX, VECTOR, LDS, MEMORY):
            done = max(self.now, self.free[unit]) + step.cycles
            self.free[unit] = done
            self.bytes[step.unit] += step.bytes
        if step.unit == MATRIX:
            self.busy += step.cycles
            if self.timing.on_vector_unit:
                self.free[VECTOR, one.simd] = done
            one.sums.update(dict.fromkeys(step.writes, done))
        if step.unit in (MATRIX, VECTOR):
            one.there.update(dict.fromkeys(step.writes, done + step.answer))
        if step.unit == VECTOR:
            one.sums.update(dict.fromkeys(step.writes, done + step.answer))
        if step.counter:
            under_way = one.waiting.setdefault(step.counter, deque())
            answer = step.answer
            if step.unit == MEMORY:
                answer = round(answer * self.chance.uniform(*_SPREAD))
            # Answers come in order.
            under_way.append(max(done + answer, under_way[-1] if under_way else 0))
        self._go_on(one, step)

    def _go_on(self, one: _Wave, step: LoopStep) -> None:
        if step.unit in (PAUSE, BRANCH):
            one.wakes = self.now + max(step.cycles, self.timing.issue_cycles)
        if step.unit == PRIORITY:
            one.level = step.level
        one.at += 1
        if one.at == len(self.steps):
            one.at, one.passes = 0, one.passes + 1
        if step.unit != BARRIER:
            return
        one.arrived, one.cause = True, BARRIER
        group = [other for other in self.waves if other.workgroup == one.workgroup]
        if all(other.arrived for other in group):
            for other in group:
                other.arrived, other.wakes = False, self.now + self.timing.issue_cycles
