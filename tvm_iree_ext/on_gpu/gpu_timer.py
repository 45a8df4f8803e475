"""Times of work on a GPU, by the driver's events, with the L2 cache flushed before each run.

The clock is warm, since work goes before the first run that counts, and checked: where its
frequency moved meanwhile, or later runs took another time than earlier ones, all is timed again.
"""

import contextlib
import ctypes
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.on_gpu.gpu_clock import GpuClock
from tvm_iree_ext.runtime.launch.driver import Gpu, afterwards

_FLUSHED = 256 << 20  # bytes; the L2 of an H100 has 50 MiB, an MI300X's last level 256 MiB
_LEAST_RUNS, _MOST_RUNS = 9, 101
_WARM_RUNS = 3
_WARM_S = 0.1  # of work after a pause, in which a chip raises its clock
_PAUSE_S = 0.05  # after which it may have lowered it again
_TRIES = 3
_TICK_US = 1.0  # beneath which times differ by chance: events tick in halves
_STEADY = 0.03  # most that the clock, or the median of a third of the runs, may differ

_CUDA = {
    "stream": "cuStreamCreate",
    "event": "cuEventCreate",
    "record": "cuEventRecord",
    "wait": "cuEventSynchronize",
    "elapsed": "cuEventElapsedTime",
    "fill": "cuMemsetD8Async",
    "begin": "cuStreamBeginCapture_v2",
    "end": "cuStreamEndCapture",
    "make": "cuGraphInstantiateWithFlags",
    "launch": "cuGraphLaunch",
    "drop": "cuGraphExecDestroy",
    "drop_graph": "cuGraphDestroy",
    "drop_event": "cuEventDestroy_v2",
    "drop_stream": "cuStreamDestroy_v2",
}
_HIP = {
    "stream": "hipStreamCreateWithFlags",
    "event": "hipEventCreateWithFlags",
    "record": "hipEventRecord",
    "wait": "hipEventSynchronize",
    "elapsed": "hipEventElapsedTime",
    "fill": "hipMemsetD8Async",
    "begin": "hipStreamBeginCapture",
    "end": "hipStreamEndCapture",
    "make": "hipGraphInstantiateWithFlags",
    "launch": "hipGraphLaunch",
    "drop": "hipGraphExecDestroy",
    "drop_graph": "hipGraphDestroy",
    "drop_event": "hipEventDestroy",
    "drop_stream": "hipStreamDestroy",
}
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@dataclass(frozen=True)
class Timing:
    """Times of the runs of one kernel, in us.

    Attributes:
        times: of each run, in their order.
        mhz: the clock of the cores after them; None where nobody says.
        is_steady: whether clock and times stayed what they were.
    """

    times: Sequence[float]
    mhz: int | None = None
    is_steady: bool = True

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper one."""
        lower, _, upper = statistics.quantiles(self.times, n=4)
        return lower, upper


def described(timing: Timing) -> dict[str, Any]:
    """A timing as a line of results has it."""
    return {
        "us": timing.median,
        "quartiles": timing.quartiles,
        "runs": len(timing.times),
        "mhz": timing.mhz,
        "steady": timing.is_steady,
    }


class GpuTimer:
    """Times what is enqueued on its stream.  The GPU must be current.

    ``clock`` stands for the GPU's.
    """

    def __init__(self, gpu: Gpu, clock: Any = None) -> None:
        self._gpu, self._names = gpu, _CUDA if gpu.cuda else _HIP
        self._clock = GpuClock(gpu) if clock is None else clock
        self._worked = -math.inf  # when the GPU last had work
        self._undo: list[Callable[[], None]] = []
        undo = [self.close]  # where one of these calls fails, whose error is raised
        with afterwards(undo):
            stream = ctypes.c_void_p()
            self._call("stream", ctypes.byref(stream), _NON_BLOCKING)
            self._keep("drop_stream", stream)
            self.stream = stream.value or 0
            self._events = [ctypes.c_void_p() for _ in range(2 * _MOST_RUNS)]
            for event in self._events:
                self._call("event", ctypes.byref(event), 0)
                self._keep("drop_event", event)
            self._flushed = gpu.allocate(_FLUSHED)
            self._undo.append(lambda: gpu.free(self._flushed))
            undo.clear()

    def close(self) -> None:
        """Give all back."""
        undo, self._undo = self._undo[::-1], []
        with afterwards(undo):
            pass

    def recorded(self, enqueue: Callable[[int], None]) -> Callable[[int], None]:
        """What ``enqueue(stream)`` launches, as a graph that is launched at once."""
        stream, graph, made = ctypes.c_void_p(self.stream), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("begin", stream, _RELAXED)
        with afterwards([lambda: self._call("end", stream, ctypes.byref(graph))]):
            enqueue(self.stream)
        if graph.value:
            self._keep("drop_graph", graph)
        self._call("make", ctypes.byref(made), graph, ctypes.c_uint64(0))
        self._keep("drop", made)
        return lambda stream: self._call("launch", made, ctypes.c_void_p(stream))

    def time(self, enqueue: Callable[[int], None], limit_s: float = 0.5) -> Timing:
        """Times of ``enqueue(stream)``: of as many runs as the limit has room for."""
        self._warm(enqueue)
        start = time.monotonic()
        self._run(enqueue, 0)
        self._gpu.wait()
        each = max(time.monotonic() - start, 1e-6)
        count = int(min(max(limit_s / each, _LEAST_RUNS), _MOST_RUNS))
        for _ in range(_TRIES):
            before = self._clock.mhz()
            for place in range(count):
                self._run(enqueue, place)
            self._gpu.wait()
            self._worked = time.monotonic()
            after = self._clock.mhz()
            times = [self._elapsed(place) for place in range(count)]
            found = Timing(times, after, _is_steady(times, before, after))
            if found.is_steady:
                break
        return found

    def _warm(self, enqueue: Callable[[int], None]) -> None:
        """Keep the GPU at work until its clock is what it is under work."""
        start = time.monotonic()
        least = _WARM_S if start - self._worked > _PAUSE_S else 0.0
        for count in range(1 << 30):
            if count >= _WARM_RUNS and time.monotonic() - start >= least:
                break
            self._run(enqueue, 0)
            self._gpu.wait()

    def _elapsed(self, place: int) -> float:
        milliseconds = ctypes.c_float()
        pair = self._events[2 * place : 2 * place + 2]
        self._call("elapsed", ctypes.byref(milliseconds), *pair)
        return milliseconds.value * 1e3

    def _run(self, enqueue: Callable[[int], None], place: int) -> None:
        stream = ctypes.c_void_p(self.stream)
        self._call(
            "fill", ctypes.c_void_p(self._flushed), ctypes.c_ubyte(0), ctypes.c_size_t(_FLUSHED),
            stream,
        )  # fmt: skip
        self._call("record", self._events[2 * place], stream)
        enqueue(self.stream)
        self._call("record", self._events[2 * place + 1], stream)

    def _keep(self, drop: str, what: ctypes.c_void_p) -> None:
        self._undo.append(lambda: self._call(drop, what))

    def _call(self, what: str, *arguments: object) -> None:
        self._gpu.named(self._names[what], *arguments)


@contextlib.contextmanager
def gpu_timer(gpu: Gpu) -> Iterator[GpuTimer]:
    """A timer, whose memory and events go back at the end."""
    timer = GpuTimer(gpu)
    with afterwards([timer.close]):
        yield timer


def _is_steady(times: Sequence[float], before: int | None, after: int | None) -> bool:
    """Whether the clock and what runs took were the same all the while."""
    if before and after and abs(after - before) > _STEADY * before:
        return False
    third = len(times) // 3
    first, last = statistics.median(times[:third]), statistics.median(times[-third:])
    return abs(last - first) <= max(_STEADY * first, _TICK_US)
