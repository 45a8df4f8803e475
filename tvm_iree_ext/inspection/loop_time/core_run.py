"""A core that runs a loop: its subgroups issue in order, and wait for one another's units.

Every scheduler has some subgroups.  On AMD's chips each unit takes an instruction of at most one of
them when its turn comes: of the highest priority, then of the first.  NVIDIA's issue one in all, of
the subgroup that had the last turn if it can, else of the youngest (Huerta et al., "Analyzing
Modern NVIDIA GPU cores", 2025).  A subgroup issues in order.  What is not there: fetches of
instructions, conflicts of banks, misses of caches beyond a load's usual time.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_iree_ext.inspection.loop_time.core_timing import CoreTiming
from tvm_iree_ext.inspection.loop_time.loop_steps import (
    BARRIER,
    LDS,
    MATRIX,
    MEMORY,
    PRIORITY,
    VECTOR,
    LoopStep,
    Register,
)

RESULT, ISSUE = "result", "issue"
CAUSES = (LDS, MEMORY, BARRIER, RESULT, ISSUE)
"""Why a matrix unit idles: a subgroup waits for LDS or global memory, for the others at a barrier,
for a result of lanes or products, or issues something else."""

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
    number: int
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
    # By counter, when what is under way is done, and why a subgroup waits that waits for it.
    waiting: dict[str, deque[tuple[int, str]]] = field(default_factory=dict)

    def under_way(self, counter: str, now: int) -> deque[tuple[int, str]]:
        """What a counter counts."""
        found = self.waiting.setdefault(counter, deque())
        while found and found[0][0] <= now:
            found.popleft()
        return found


def run_loop(
    steps: Sequence[LoopStep],
    timing: CoreTiming,
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
        timing: CoreTiming,
        subgroups: int,
        workgroups: int,
        simds: int,
    ) -> None:
        self.steps, self.timing, self.simds, self.subgroups = steps, timing, simds, subgroups
        # Those of a workgroup side by side; the next one's go on where it ended.
        self.waves = [
            _Wave(number, number % simds, number // subgroups)
            for number in range(workgroups * subgroups)
        ]
        self.of_simd = [[one for one in self.waves if one.simd == simd] for simd in range(simds)]
        self.now = 0
        self.chance = random.Random(0)
        self.last: list[_Wave | None] = [None] * simds
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

    def _order(self, simd: int) -> list[_Wave]:
        """The subgroups of a scheduler, those that are asked first in front."""
        last = self.last[simd]
        if not self.timing.one_issue:
            return sorted(self.of_simd[simd], key=lambda wave: -wave.level)
        return sorted(self.of_simd[simd], key=lambda wave: (wave is not last, -wave.number))

    def _turn(self, simd: int) -> None:
        taken: set[str] = set()
        for one in self._order(simd):
            if one.arrived or one.wakes > self.now:
                continue
            step = self.steps[one.at]
            port = self._port(step)
            if port in taken:
                one.cause, one.wakes = ISSUE, self.now + self.timing.issue_cycles
                continue
            wakes, cause = self._obstacle(one, step)
            if wakes > self.now:
                one.wakes, one.cause = wakes, cause
                continue
            taken.add(port)
            one.cause, one.wakes = ISSUE, self.now + self.timing.issue_cycles
            self.last[simd] = one
            self._issue(one, step)

    def _port(self, step: LoopStep) -> str:
        """What of a scheduler issues one instruction in a turn."""
        if self.timing.one_issue:
            return ISSUE
        return VECTOR if step.unit == MATRIX else step.unit

    def _obstacle(self, one: _Wave, step: LoopStep) -> tuple[int, str]:
        """Until when a subgroup cannot issue its instruction, and why."""
        for counter, left in step.left:
            under_way = one.under_way(counter, self.now)
            if len(under_way) > left:
                return under_way[len(under_way) - left - 1]
        there = max((one.there.get(register, 0) for register in step.reads), default=0)
        sums = max((one.sums.get(register, 0) for register in step.adds), default=0)
        if max(there, sums) > self.now:
            return max(there, sums), RESULT
        free = max(self.free[self._unit(one, unit)] for unit, _ in step.units) - step.ahead
        for counter, _ in step.counters:
            under_way = one.under_way(counter, self.now)
            if len(under_way) >= self.timing.most.get(counter, _NEVER):
                free = max(free, under_way[0][0])
        return free, step.unit if step.unit in (LDS, MEMORY) else ISSUE

    def _unit(self, one: _Wave, unit: str) -> tuple[str, int]:
        """A unit by its number: memory is the core's, a port of LDS some schedulers'."""
        if unit == LDS:
            return unit, one.simd * self.timing.lds_ports // self.simds
        return unit, 0 if unit == MEMORY else one.simd

    def _issue(self, one: _Wave, step: LoopStep) -> None:
        done = self.now
        for name, cycles in step.units:
            unit = self._unit(one, name)
            self.free[unit] = max(self.now, self.free[unit]) + cycles
            done = max(done, self.free[unit])
        self.bytes[LDS if step.unit == MATRIX else step.unit] += step.bytes
        if step.unit == MATRIX:
            self.busy += step.cycles
            self.idle[LDS] += step.kept
            one.sums.update(dict.fromkeys(step.writes, done))
        if step.unit in (MATRIX, VECTOR):
            one.there.update(dict.fromkeys(step.writes, done + step.answer))
        if step.unit == VECTOR:
            one.sums.update(dict.fromkeys(step.writes, done + step.answer))
        self._count(one, step, done)
        self._go_on(one, step)

    def _count(self, one: _Wave, step: LoopStep, done: int) -> None:
        """Count an instruction in what it is waited for by; its turn is done then."""
        spread = self.chance.uniform(*_SPREAD) if step.unit == MEMORY else 1.0
        cause = step.unit if step.unit in (LDS, MEMORY) else RESULT
        ends = [(counter, self.now + cycles) for counter, cycles in step.held]
        ends += [(counter, done + round(answer * spread)) for counter, answer in step.counters]
        for counter, end in ends:
            under_way = one.waiting.setdefault(counter, deque())
            # Answers come in order.
            under_way.append((max(end, under_way[-1][0] if under_way else 0), cause))

    def _go_on(self, one: _Wave, step: LoopStep) -> None:
        one.wakes = self.now + max(step.stall, self.timing.issue_cycles)
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
