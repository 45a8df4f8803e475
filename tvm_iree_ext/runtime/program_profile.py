"""Where the time of a program's call goes: its kernels, each with its rates and its sources.

The virtual machine tells of each call before it makes it.  The profiler then makes the call of a
kernel itself, between two looks at the clock, and has the machine pass over it.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import tvm_ffi

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.text_tables import table_lines
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.manifest import ProgramKernel

_PASS_ON, _PASS_OVER = 0, 1  # the virtual machine's VMInstrumentReturnKind
_LONGEST_NAME = 32  # of a kernel in the table, with "..." in place of the rest
_MOST_SOURCES = 3  # of a kernel in the table; a trace has all
_COLUMNS = ("kernel", "calls", "us", "share", "GFLOP/s", "GB/s", "of peak", "computes")


class MachinePeaks(Protocol):
    """What a machine can do at most; :func:`tvm_iree_ext.bench.measure_peaks` measures it."""

    def multiply_adds(self, dtype: str) -> float:
        """The rate for a type, in GFLOP/s."""

    def gbps(self, footprint: int) -> float:
        """The rate at which memory is read, of so many bytes, in 10^9 bytes per second."""


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel: seconds since the program's was made, its length, bytes touched."""

    kernel: ProgramKernel
    start: float
    seconds: float
    bytes: int


@dataclass(frozen=True)
class KernelTotal:
    """All calls of one kernel in a call of the program.

    Attributes:
        kernel: what it computes, and of what it came.
        calls: how many.
        seconds: of all of them.
        bytes: of operands and results of all of them, each touched once.
    """

    kernel: ProgramKernel
    calls: int
    seconds: float
    bytes: int

    @property
    def gflops(self) -> float | None:
        """The rate of an op that computes; None where nothing is counted."""
        flops = self.kernel.flops
        return flops * self.calls / self.seconds / 1e9 if flops else None

    @property
    def gbps(self) -> float:
        """The rate at which memory is touched."""
        return self.bytes / self.seconds / 1e9

    def share_of_peak(self, peaks: MachinePeaks) -> float:
        """How much of the nearer limit is reached: multiply-adds, or memory of that footprint."""
        memory = self.gbps / peaks.gbps(self.bytes // self.calls)
        return max(memory, (self.gflops or 0.0) / peaks.multiply_adds(self.kernel.dtype))


@dataclass(frozen=True)
class Profile:
    """Where the time of a call of a program's function went.

    Attributes:
        function: its name.
        threads: how many its kernels used.
        seconds: of a call without the profiler, the median of several.
        kernels: the longest first; seconds are the medians of the same number of calls.
        calls: those of the shortest call, in order.
    """

    function: str
    threads: int
    seconds: float
    kernels: tuple[KernelTotal, ...]
    calls: tuple[KernelCall, ...]

    @property
    def kernel_seconds(self) -> float:
        """The time of all kernels; the rest is checks, memory and the virtual machine."""
        return sum(one.seconds for one in self.kernels)

    @property
    def headline(self) -> str:
        """A line for the call: its time, its kernels, and what passes outside of them."""
        calls = sum(one.calls for one in self.kernels)
        rest = max(self.seconds - self.kernel_seconds, 0.0)
        return (
            f"{self.function}: {self.seconds * 1e6:.1f} us a call with"
            f" {_number(self.threads, 'thread')}; {_number(calls, 'call')} of"
            f" {_number(len(self.kernels), 'kernel')}, and {rest * 1e6:.1f} us outside of them"
        )

    def rows(self, peaks: MachinePeaks | None = None) -> list[list[str]]:
        """The cells of the table, below the names of its columns."""
        table = [list(_COLUMNS)]
        for one in self.kernels:
            of_peak = "" if peaks is None else f"{one.share_of_peak(peaks):.0%}"
            table.append(
                [
                    _cut(one.kernel.name),
                    str(one.calls),
                    f"{one.seconds * 1e6:.1f}",
                    f"{one.seconds / self.seconds:.1%}",
                    "" if one.gflops is None else f"{one.gflops:.1f}",
                    f"{one.gbps:.1f}",
                    of_peak,
                    f"{one.kernel.computes}: {_listed(one.kernel.sources)}",
                ]
            )
        return table

    def table(self, peaks: MachinePeaks | None = None, width: int | None = None) -> str:
        """A line for each kernel, the longest first, under a line for the call.

        Args:
            peaks: of this machine, for the share of them that a kernel reaches.
            width: columns of the terminal, in which each kernel takes several lines where it has
                to; by default any number.
        """
        lines = [self.headline]
        cells = self.rows(peaks)
        if peaks is None:
            cells = [[*row[:6], *row[7:]] for row in cells]
        header, *body = cells
        lines += table_lines(header, body, width, left=(0, len(header) - 1))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from tvm_iree_ext.runtime.artifact_html import profile_html

        return profile_html(
            self.headline,
            (
                (one.kernel, one.calls, one.seconds, one.seconds / self.seconds, one.gflops)
                for one in self.kernels
            ),
        )

    def trace(self) -> dict[str, Any]:
        """The shortest call as a trace that Chrome and Perfetto show, in microseconds."""
        common = {"ph": "X", "pid": 1, "tid": 1}
        events = [
            {
                **common,
                "name": one.kernel.name,
                "cat": one.kernel.computes,
                "ts": one.start * 1e6,
                "dur": one.seconds * 1e6,
                "args": {
                    "sources": list(one.kernel.sources),
                    "bytes": one.bytes,
                    "flops": one.kernel.flops,
                },
            }
            for one in self.calls
        ]
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def write_trace(self, path: Path | str) -> None:
        """Write :meth:`trace` as JSON."""
        Path(path).write_text(json.dumps(self.trace()) + "\n")


class _Recorder:
    """What the virtual machine tells of its calls: makes and times those of kernels."""

    def __init__(self, kernels: Mapping[str, ProgramKernel]) -> None:
        self._kernels = kernels
        self.calls: list[KernelCall] = []
        self.start = 0.0

    def __call__(
        self, function: Any, name: str, is_before: bool, _result: Any, *arguments: Any
    ) -> int:
        kernel = self._kernels.get(name)
        if kernel is None or not is_before:
            return _PASS_ON
        start = time.perf_counter()
        function(*arguments)
        seconds = time.perf_counter() - start
        touched = kernel.bytes if kernel.bytes is not None else _touched(arguments)
        self.calls.append(KernelCall(kernel, start - self.start, seconds, touched))
        return _PASS_OVER


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _cut(name: str) -> str:
    """A name as the table has it: TVM's of what is fused name all of it."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _listed(sources: Sequence[str]) -> str:
    """The first of the sources, and how many more there are."""
    more = len(sources) - _MOST_SOURCES
    return "; ".join(sources[:_MOST_SOURCES]) + (f"; {more} more" if more > 0 else "")


def _touched(arguments: Sequence[Any]) -> int:
    return sum(
        prod(one.shape) * item_bytes(str(one.dtype))
        for one in arguments
        if isinstance(one, tvm_ffi.Tensor)
    )


def profile(
    name: str,
    kernels: Sequence[ProgramKernel],
    call: Callable[[], Any],
    instrument: Callable[[Callable[..., int] | None], None],
    runs: int,
) -> Profile:
    """Time ``runs`` calls as they are, and then as many kernel by kernel.

    Args:
        name: of the function.
        kernels: all of the program's.
        call: makes a call.
        instrument: has the virtual machine tell of its calls, or of none.
        runs: how many calls, at least 1.

    Raises:
        CallError: for a number of runs below 1, and as the call does.
    """
    if runs < 1:
        raise CallError(f"{name}: runs is {runs}; expected 1 or more")
    call()
    whole = [_seconds(call) for _ in range(runs)]
    recorder = _Recorder({one.name: one for one in kernels})
    recorded: list[list[KernelCall]] = []
    lengths: list[float] = []
    instrument(recorder)
    try:
        for _ in range(runs):
            recorder.calls, recorder.start = [], time.perf_counter()
            call()
            lengths.append(time.perf_counter() - recorder.start)
            recorded.append(recorder.calls)
    finally:
        instrument(None)
    return Profile(
        name,
        tvm_runtime.num_threads(),
        statistics.median(whole),
        _totals(recorded),
        tuple(recorded[lengths.index(min(lengths))]),
    )


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _totals(recorded: Sequence[Sequence[KernelCall]]) -> tuple[KernelTotal, ...]:
    """The calls of each kernel together, the longest first."""
    totals = []
    for kernel in dict.fromkeys(one.kernel for calls in recorded for one in calls):
        own = [[one for one in calls if one.kernel == kernel] for calls in recorded]
        seconds = statistics.median(sum(one.seconds for one in calls) for calls in own)
        longest = max(own, key=len)
        touched = sum(one.bytes for one in longest)
        totals.append(KernelTotal(kernel, len(longest), seconds, touched))
    return tuple(sorted(totals, key=lambda one: -one.seconds))
