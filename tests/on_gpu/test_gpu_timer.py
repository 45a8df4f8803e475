"""Times by events: warm, flushed, checked; and all is given back."""

import ctypes

import pytest

from tvm_iree_ext.on_gpu import gpu_timer as timers
from tvm_iree_ext.on_gpu.gpu_clock import GpuClock
from tvm_iree_ext.on_gpu.gpu_timer import GpuTimer, gpu_timer
from tvm_iree_ext.runtime.launch.driver import DriverError


class StubGpu:
    """A driver that says of each run how long it took, from ``runs``, and 100 us after these."""

    cuda, ordinal = True, 0

    def __init__(self, runs=(), refuses=None):
        self.calls, self.held = [], []
        self.runs, self.refuses = list(runs), refuses
        self.now = 0.0

    def named(self, name, *arguments):
        self.calls.append(name)
        if name == self.refuses and self.calls.count(name) == 3:
            raise DriverError(name)
        if name in ("cuStreamCreate", "cuEventCreate", "cuGraphInstantiateWithFlags"):
            self.held.append(name)
        elif name.startswith(("cuStreamDestroy", "cuEventDestroy", "cuGraphExecDestroy")):
            self.held.pop()
        elif name == "cuEventElapsedTime":
            arguments[0]._obj.value = (self.runs.pop(0) if self.runs else 100.0) / 1e3
        elif name == "cuDeviceGetPCIBusId":
            arguments[0].value = b"0000:17:00.0"

    def allocate(self, size):
        self.held.append(size)
        return 4096

    def free(self, address):
        assert address == 4096
        self.held.remove(timers._FLUSHED)

    def wait(self):
        self.calls.append("wait")


class StubClock:
    """A clock that says its frequencies one after another, and the last one from then on."""

    def __init__(self, *mhz):
        self.frequencies = list(mhz)

    def mhz(self):
        return self.frequencies.pop(0) if len(self.frequencies) > 1 else self.frequencies[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Time that goes by with what the host does, a millisecond each time that it looks."""
    now = iter(range(10**9))
    monkeypatch.setattr(timers.time, "monotonic", lambda: next(now) / 1e3)


def timed(gpu, clock, **how):
    timer = GpuTimer(gpu, clock)
    gpu.calls.clear()
    return timer.time(lambda stream: gpu.calls.append("launch"), **how)


def test_the_cache_is_flushed_before_each_run_and_not_timed():
    gpu = StubGpu()
    timing = timed(gpu, StubClock(1980), limit_s=0.0)
    runs = len(timing.times)
    assert runs == timers._LEAST_RUNS
    run = ["cuMemsetD8Async", "cuEventRecord", "launch", "cuEventRecord"]
    assert gpu.calls[-5 * runs - 1 :] == [*run * runs, "wait", *["cuEventElapsedTime"] * runs]
    assert (timing.median, *timing.quartiles) == pytest.approx((100.0, 100.0, 100.0))
    assert timing.mhz == 1980
    assert timing.is_steady


def test_the_gpu_is_at_work_before_the_first_run_that_counts():
    gpu = StubGpu()
    timer = GpuTimer(gpu, StubClock(1980))
    counts = []
    for _ in range(2):
        gpu.calls.clear()
        timer.time(lambda stream: gpu.calls.append("launch"), limit_s=0.0)
        counts.append(gpu.calls.count("launch") - timers._LEAST_RUNS - 1)
    assert counts[0] >= 100  # 0.1 s
    assert counts[1] == timers._WARM_RUNS  # there was no pause


@pytest.mark.parametrize(
    ("runs", "mhz", "steady", "tries"),
    [
        ([100.0] * 9, (1980,), True, 1),
        ([100.0] * 9, (1200, 1980), True, 2),  # it had not been raised yet
        ([100.0] * 9, (1980, 1900, 1980, 1900, 1980, 1900), False, 3),
        ([100.0] * 9, (None,), True, 1),
        ([100.0, 101.0, 102.0, *[103.0] * 3, 104.0, 105.0, 106.0], (None,), True, 2),
        ([10.0] * 6 + [10.9] * 3, (None,), True, 1),  # a tick of the events
        ([100.0] * 3 + [200.0] + [100.0] * 5, (None,), True, 1),  # one run that was disturbed
        (([100.0] * 6 + [110.0] * 3) * 3, (None,), False, 3),
    ],
)
def test_what_was_not_steady_is_timed_again(runs, mhz, steady, tries):
    gpu = StubGpu(runs)
    timing = timed(gpu, StubClock(*mhz), limit_s=0.0)
    assert timing.is_steady == steady
    assert gpu.calls.count("cuEventElapsedTime") == tries * timers._LEAST_RUNS


def test_all_is_given_back():
    gpu = StubGpu()
    with gpu_timer(gpu) as timer:
        timer.recorded(lambda stream: None)
        assert len(gpu.held) == 2 * timers._MOST_RUNS + 3
    assert gpu.held == []
    gpu = StubGpu(refuses="cuEventCreate")
    with pytest.raises(DriverError, match="cuEventCreate"):
        GpuTimer(gpu)
    assert gpu.held == []


class StubManagement:
    """NVML, of a machine whose GPU is the second one."""

    def __init__(self, refuses=""):
        self.refuses = refuses

    def __getattr__(self, name):
        return lambda *arguments: 1 if name == self.refuses else self._done(name, arguments)

    def _done(self, name, arguments):
        if name == "nvmlDeviceGetHandleByPciBusId_v2":
            assert arguments[0].value == b"0000:17:00.0"
            arguments[1]._obj.value = 2
        elif name.startswith("nvmlDeviceGet"):
            device, kind, found = arguments
            assert (device.value, kind, type(found._obj)) == (2, 1, ctypes.c_uint)
            found._obj.value = 1980 if "Max" in name else 1755
        return 0


def test_the_clock_is_that_of_the_gpu_on_this_bus():
    clock = GpuClock(StubGpu(), StubManagement())
    assert (clock.mhz(), clock.most_mhz()) == (1755, 1980)
    for refuses in (
        "nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetClockInfo",
    ):  # fmt: skip
        assert GpuClock(StubGpu(), StubManagement(refuses)).mhz() is None
    hip = StubGpu()
    hip.cuda = False
    assert GpuClock(hip, StubManagement()).mhz() is None
