"""Building, checking and timing cases beside their peers."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from tvm_iree_ext import builder, dtypes
from tvm_iree_ext.bench.case import OURS, Case, Library, Skipped, Values
from tvm_iree_ext.bench.peaks import Peaks
from tvm_iree_ext.bench.turns import Contender, Spread, speedup, take_turns

Status = Literal["timed", "skipped", "wrong"]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How long each case is timed, for each number of threads."""

    seconds: float
    min_rounds: int


FULL = Effort(seconds=3.0, min_rounds=5)
QUICK = Effort(seconds=0.3, min_rounds=2)


@dataclass(frozen=True)
class Outcome:
    """What became of one contender: times where ``status`` is ``timed``, else the reason."""

    name: str
    status: Status
    reason: str = ""
    seconds: Spread | None = None
    calls: int = 0
    speedup: Spread | None = None
    """How many times as long as ours it takes; None for ours."""


@dataclass(frozen=True)
class Row:
    """One case with one number of threads."""

    case: str
    threads: int
    flops: int
    bytes: int
    limited_by: Literal["compute", "memory"]
    limit_seconds: float
    """What the work takes at the measured peak, or the operands at the measured bandwidth."""
    ours: Outcome
    peers: list[Outcome] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """GFLOP/s where compute limits, GB/s where memory does; None where ours was not timed."""
        if self.ours.seconds is None:
            return None
        work = self.flops if self.limited_by == "compute" else self.bytes
        return work / self.ours.seconds.median / 1e9

    @property
    def unit(self) -> str:
        """That of ``rate``."""
        return "GFLOP/s" if self.limited_by == "compute" else "GB/s"

    @property
    def share_of_limit(self) -> float | None:
        """The time at the limit over ours."""
        return None if self.ours.seconds is None else self.limit_seconds / self.ours.seconds.median

    @property
    def outcomes(self) -> list[Outcome]:
        """Ours, and the peers'."""
        return [self.ours, *self.peers]


def compare(
    case: Case, peaks: Iterable[Peaks], effort: Effort, progress: Progress = lambda _: None
) -> list[Row]:
    """Time a case for each number of threads that has peaks.

    Who computes something wrong is told so, and is not timed.
    """
    progress("operands and reference")
    values = case.operands()
    check = case.check(values)
    progress("build")
    kernel = builder.build(case.op)
    arguments = [values[operand.name] for operand in case.op.signature.arguments]
    out = tuple(
        np.zeros(shape, dtypes.numpy_dtype(operand.dtype))
        for shape, operand in zip(
            case.op.signature.result_shapes({}), case.op.signature.results, strict=True
        )
    )
    given = out[0] if len(out) == 1 else out
    makers: list[tuple[Library, Callable[[Values], Callable[[], Any]]]]
    makers = [(OURS, lambda _: partial(kernel, *arguments, out=given))]
    makers += [(peer.library, peer.make) for peer in case.peers]

    settled: dict[str, Outcome] = {}  # what is decided for any number of threads
    calls: dict[str, tuple[Library, Callable[[], Any]]] = {}
    progress("check")
    for library, make in makers:
        try:
            library.version()
            call = make(values)
            if (complaint := check(call())) is None:
                calls[library.name] = library, call
            else:
                settled[library.name] = Outcome(library.name, "wrong", complaint)
        except Skipped as skipped:
            settled[library.name] = Outcome(library.name, "skipped", str(skipped))

    rows = []
    for peak in peaks:
        progress(f"time, {peak.threads} thread{'s'[: peak.threads - 1]}")
        timed = _timed(calls, peak.threads, effort)
        outcomes = [(settled | timed)[library.name] for library, _ in makers]
        rows.append(_row(case, peak, outcomes))
    return rows


def _timed(
    calls: dict[str, tuple[Library, Callable[[], Any]]], threads: int, effort: Effort
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    contenders: dict[str, Contender] = {}
    for name, (library, call) in calls.items():
        try:
            with library.limit(threads):
                call()  # what a library sets up for a number of threads takes no part
                contenders[name] = Contender(call, partial(library.limit, threads))
        except Skipped as skipped:
            outcomes[name] = Outcome(name, "skipped", str(skipped))
    if not contenders:
        return outcomes
    times = take_turns(contenders, seconds=effort.seconds, min_rounds=effort.min_rounds)
    for name, rounds in times.items():
        samples = [sample for one in rounds for sample in one]
        outcomes[name] = Outcome(
            name,
            "timed",
            seconds=Spread.of(samples),
            calls=len(samples),
            speedup=None
            if name == OURS.name or OURS.name not in times
            else speedup(times[OURS.name], rounds),
        )
    return outcomes


def _row(case: Case, peak: Peaks, outcomes: Sequence[Outcome]) -> Row:
    gflops = peak.gflops.get(case.compute_dtype, peak.gflops["float32"])
    compute = case.flops / gflops / 1e9
    memory = case.bytes / peak.read_gbps / 1e9
    return Row(
        case=case.name,
        threads=peak.threads,
        flops=case.flops,
        bytes=case.bytes,
        limited_by="compute" if compute >= memory else "memory",
        limit_seconds=max(compute, memory),
        ours=outcomes[0],
        peers=list(outcomes[1:]),
    )


class OtherLoad:
    """How much of the processors other processes take, since this was made; Linux only."""

    def __init__(self) -> None:
        self._start = self._now()

    def share(self) -> float | None:
        """Of all processors, 0 to 1; None where the system does not say."""
        now = self._now()
        if self._start is None or now is None:
            return None
        wall, busy = (b - a for a, b in zip(self._start, now, strict=True))
        share = busy / wall / (os.cpu_count() or 1) if wall > 0 else 0.0
        return min(max(0.0, share), 1.0)  # within some ticks it may be anything

    @staticmethod
    def _now() -> tuple[float, float] | None:
        """Wall seconds, and processor seconds that are not ours."""
        try:
            with open("/proc/stat", encoding="ascii") as lines:
                ticks = [int(number) for number in lines.readline().split()[1:9]]
        except OSError:
            return None
        idle, waiting = ticks[3], ticks[4]
        own = os.times()
        used = (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), used - sum(own[:4])
