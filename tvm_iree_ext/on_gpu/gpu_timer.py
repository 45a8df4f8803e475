"""Times of work on a GPU, by the driver's events, with the L2 cache flushed before each run."""

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from tvm_iree_ext.runtime.launch.driver import Gpu

_FLUSHED = 256 << 20  # bytes; the L2 of an H100 has 50 MiB, an MI300X's last level 256 MiB
_LEAST_RUNS, _MOST_RUNS = 9, 101
_WARM_RUNS = 3

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
}
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@dataclass(frozen=True)
class Timing:
    """Times of the runs of one kernel, in us: median and quartiles."""

    median: float
    lower: float
    upper: float
    runs: int


class GpuTimer:
    """Times what is enqueued on its stream.  The GPU must be current."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self._names = gpu, _CUDA if gpu.cuda else _HIP
        stream = ctypes.c_void_p()
        self._call("stream", ctypes.byref(stream), _NON_BLOCKING)
        self.stream = stream.value or 0
        self._events = [ctypes.c_void_p() for _ in range(2 * _MOST_RUNS)]
        for event in self._events:
            self._call("event", ctypes.byref(event), 0)
        self._flushed = gpu.allocate(_FLUSHED)

    def recorded(self, enqueue: Callable[[int], None]) -> Callable[[int], None]:
        """What ``enqueue(stream)`` launches, as a graph that is launched at once."""
        stream, graph, made = ctypes.c_void_p(self.stream), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("begin", stream, _RELAXED)
        try:
            enqueue(self.stream)
        finally:
            self._call("end", stream, ctypes.byref(graph))
        self._call("make", ctypes.byref(made), graph, ctypes.c_uint64(0))
        return lambda stream: self._call("launch", made, ctypes.c_void_p(stream))

    def time(self, enqueue: Callable[[int], None], limit_s: float = 0.5) -> Timing:
        """Times of ``enqueue(stream)``: of as many runs as the limit has room for."""
        for _ in range(_WARM_RUNS):
            enqueue(self.stream)
        self._gpu.wait()
        start = time.monotonic()
        self._run(enqueue, 0)
        self._gpu.wait()
        each = max(time.monotonic() - start, 1e-6)
        count = int(min(max(limit_s / each, _LEAST_RUNS), _MOST_RUNS))
        for place in range(count):
            self._run(enqueue, place)
        self._gpu.wait()
        found = []
        for place in range(count):
            milliseconds = ctypes.c_float()
            pair = self._events[2 * place : 2 * place + 2]
            self._call("elapsed", ctypes.byref(milliseconds), *pair)
            found.append(milliseconds.value * 1e3)
        lower, median, upper = statistics.quantiles(found, n=4)
        return Timing(median, lower, upper, count)

    def _run(self, enqueue: Callable[[int], None], place: int) -> None:
        stream = ctypes.c_void_p(self.stream)
        self._call(
            "fill", ctypes.c_void_p(self._flushed), ctypes.c_ubyte(0), ctypes.c_size_t(_FLUSHED),
            stream,
        )  # fmt: skip
        self._call("record", self._events[2 * place], stream)
        enqueue(self.stream)
        self._call("record", self._events[2 * place + 1], stream)

    def _call(self, what: str, *arguments: object) -> None:
        self._gpu.named(self._names[what], *arguments)
