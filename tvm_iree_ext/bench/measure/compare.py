"""Building, checking and timing cases beside their peers."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.bench.base.bench_case import HEURISTIC, OURS, Call, Case, Library, Skipped, Values
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.bench.measure.turns import Contender, Spread, speedup, take_turns
from tvm_iree_ext.building import kernel_build
from tvm_iree_ext.runtime.kernel import Kernel

Status = Literal["timed", "skipped", "wrong"]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class TimingEffort:
    """How long each case is timed, for each number of threads."""

    seconds: float
    min_rounds: int


FULL = TimingEffort(seconds=3.0, min_rounds=5)
QUICK = TimingEffort(seconds=0.3, min_rounds=2)


@dataclass(frozen=True)
class ContenderOutcome:
    """What became of one contender: times where ``status`` is ``timed``, else the reason."""

    name: str
    status: Status
    reason: str = ""
    seconds: Spread | None = None
    calls: int = 0
    speedup: Spread | None = None
    """How many times as long as ours it takes; None for ours."""


MEMORY_BAR = 0.8
COMPUTE_BAR = 0.85
_CONTRACTING = ("contraction", "conv_2d", "attention", "online_attention")


@dataclass(frozen=True)
class Row:
    """One case with one number of threads.

    ``ours`` is the kernel that ``build`` gives: by a record of tuning, where there is one.
    """

    case: str
    op: str
    threads: int
    flops: int
    bytes: int
    limited_by: Literal["compute", "memory"]
    limit_seconds: float
    """What the work takes at the measured peak, or the operands at the measured bandwidth."""
    ours: ContenderOutcome
    provenance: str = "heuristic"
    """Where the lowering config of ours comes from."""
    heuristic: ContenderOutcome | None = None
    """The kernel of the heuristic's config, where ours has another."""
    peers: list[ContenderOutcome] = field(default_factory=list)

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
    def bar(self) -> float | None:
        """The share of the limit to be reached; None where the limit means little.

        A sort reads and writes many times; other computations than contractions have no bar.
        """
        name = self.op.rsplit(".", 1)[-1]
        if self.limited_by == "memory":
            return None if name == "sort" else MEMORY_BAR
        return COMPUTE_BAR if name in _CONTRACTING else None

    @property
    def fastest(self) -> ContenderOutcome | None:
        """The peer that comes nearest to us, or is ahead; None where none was timed beside us."""
        ratios = {peer: peer.speedup.median for peer in self.peers if peer.speedup is not None}
        return min(ratios, key=ratios.__getitem__, default=None)

    @property
    def outcomes(self) -> list[ContenderOutcome]:
        """Ours, and the peers'."""
        return [self.ours, *([self.heuristic] if self.heuristic else []), *self.peers]


def compare(
    case: Case, peaks: Iterable[Peaks], effort: TimingEffort, progress: Progress = lambda _: None
) -> list[Row]:
    """Time a case for each number of threads that has peaks.

    Who computes something wrong is told so, and is not timed.
    """
    progress("operands and reference")
    values = case.operands()
    check = case.check(values)
    progress("build")
    kernel = kernel_build.build(case.op)
    makers: list[tuple[Library, Callable[[Values], Call]]]
    makers = [(OURS, lambda values: call_of(kernel, values))]
    if kernel.provenance != "heuristic":
        plain = kernel_build.build(case.op, database=())
        makers.append((HEURISTIC, lambda values: call_of(plain, values)))
    makers += [(peer.library, peer.make) for peer in case.peers]

    settled: dict[str, ContenderOutcome] = {}  # what is decided for any number of threads
    calls: dict[str, tuple[Library, Call]] = {}
    progress("check")
    for library, make in makers:
        try:
            library.version()
            call = make(values)
            if (complaint := check(call())) is None:
                calls[library.name] = library, call
            else:
                settled[library.name] = ContenderOutcome(library.name, "wrong", complaint)
        except Skipped as skipped:
            settled[library.name] = ContenderOutcome(library.name, "skipped", str(skipped))

    rows = []
    for peak in peaks:
        progress(f"time, {peak.threads} thread{'s'[: peak.threads - 1]}")
        timed = _timed(calls, peak.threads, effort)
        outcomes = [(settled | timed)[library.name] for library, _ in makers]
        rows.append(_row(case, peak, kernel.provenance, outcomes))
    return rows


def call_of(kernel: Kernel, values: Values) -> Call:
    """A kernel's call with results that stay.

    A result that may be in place of an operand is: in a copy, which the calls go on from.
    """
    signature = kernel.signature
    given = dict(values)
    out = []
    for shape, operand in zip(signature.result_shapes({}), signature.results, strict=True):
        if home := operand.in_place_of:
            given[home] = values[home].copy()
            out.append(given[home])
        else:
            out.append(np.zeros(shape, dtypes.numpy_dtype(operand.dtype)))
    arguments = [given[operand.name] for operand in signature.arguments]
    return partial(kernel, *arguments, out=out[0] if len(out) == 1 else tuple(out))


def _timed(
    calls: dict[str, tuple[Library, Call]], threads: int, effort: TimingEffort
) -> dict[str, ContenderOutcome]:
    outcomes: dict[str, ContenderOutcome] = {}
    contenders: dict[str, Contender] = {}
    for name, (library, call) in calls.items():
        try:
            with library.limit(threads):
                call()  # what a library sets up for a number of threads takes no part
                contenders[name] = Contender(call, partial(library.limit, threads))
        except Skipped as skipped:
            outcomes[name] = ContenderOutcome(name, "skipped", str(skipped))
    if not contenders:
        return outcomes
    times = take_turns(contenders, seconds=effort.seconds, min_rounds=effort.min_rounds)
    for name, rounds in times.items():
        samples = [sample for one in rounds for sample in one]
        outcomes[name] = ContenderOutcome(
            name,
            "timed",
            seconds=Spread.of(samples),
            calls=len(samples),
            speedup=None
            if name == OURS.name or OURS.name not in times
            else speedup(times[OURS.name], rounds),
        )
    return outcomes


def _row(case: Case, peak: Peaks, provenance: str, outcomes: Sequence[ContenderOutcome]) -> Row:
    limited_by, limit_seconds = limiting(case, peak)
    peers = {peer.name for peer in case.peers}
    by_name = {outcome.name: outcome for outcome in outcomes}
    return Row(
        case=case.name,
        op=case.op.name,
        threads=peak.threads,
        flops=case.flops,
        bytes=case.bytes,
        limited_by=limited_by,
        limit_seconds=limit_seconds,
        ours=by_name[OURS.name],
        provenance=provenance,
        heuristic=by_name.get(HEURISTIC.name),
        peers=[outcome for outcome in outcomes if outcome.name in peers],
    )


def limiting(case: Case, peak: Peaks) -> tuple[Literal["compute", "memory"], float]:
    """What limits a case, and the seconds that it takes there."""
    compute = case.flops / peak.multiply_adds(case.compute_dtype) / 1e9
    memory = case.bytes / peak.gbps(case.op.bytes()) / 1e9
    return ("compute", compute) if compute >= memory else ("memory", memory)


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
