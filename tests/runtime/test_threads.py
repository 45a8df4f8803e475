import contextlib
import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.kernel import load


def test_a_parallel_kernel_is_right_when_called_from_many_threads(toys):
    rows = [np.full((64, 100), number, "float32") for number in range(8)]
    results: list = [None] * 8

    def call(number: int) -> None:
        for _ in range(20):
            results[number] = toys.row_sums(rows[number])

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [set(result.tolist()) for result in results] == [{100.0 * n} for n in range(8)]


needs_two = pytest.mark.skipif(
    tvm_runtime.available_processors() < 2, reason="needs two processors"
)


def worker_seconds() -> float:
    """Processor time of all threads of this process but this one, in seconds."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != threading.get_native_id():
            # Threads of earlier tests may end between the listing and the reading.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                ticks += int((task / "stat").read_text().rpartition(")")[2].split()[11])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_until_idle() -> None:
    """Wait until the workers, which look out for more work for a while, have fallen asleep."""
    for _ in range(50):
        before = worker_seconds()
        time.sleep(0.2)
        if worker_seconds() == before:
            return


@needs_two
@pytest.mark.parametrize("count", [1, 2])
def test_a_kernel_uses_as_many_threads_as_it_is_told(toys, count):
    x = np.ones((64, 100_000), "float32")

    def workers_share():
        wait_until_idle()
        caller, workers = time.thread_time(), worker_seconds()
        for _ in range(20):
            toys.row_sums(x)
        return (worker_seconds() - workers) / (time.thread_time() - caller)

    with tvm_runtime.threads(count):
        assert tvm_runtime.num_threads() == count
        toys.row_sums(x)
        # On a busy machine a worker may get no time for a while, or spin from before.
        assert any((workers_share() > 1 / 3) == (count == 2) for _ in range(10))


FORK = """
import os, signal, sys, threading, time
import numpy as np
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.kernel import load
kernel, x = load(sys.argv[1]), np.ones((64, 64), "float32")
kernel(x)
time.sleep(float(sys.argv[2]))
child = os.fork()
if child == 0:
    signal.alarm(30)
    print(kernel(x).sum(), tvm_runtime.num_threads(), flush=True)
    try:
        tvm_runtime.set_num_threads(2)
    except ValueError as error:
        print(error, flush=True)
    call = lambda: print(kernel(x).sum(), tvm_runtime.num_threads(), flush=True)
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    os._exit(0)
print(os.waitpid(child, 0)[1], kernel(x).sum(), tvm_runtime.num_threads())
"""


@pytest.mark.parametrize("pause_s", [0, 1], ids=["workers awake", "workers asleep"])
def test_a_forked_process_calls_without_workers(artifacts, python, pause_s):
    assert python(FORK, artifacts.row_sums, pause_s, TVM_NUM_THREADS="2").splitlines() == [
        "4096.0 1",
        "the number of threads is 2; this thread was forked, and the workers were not: call from a"
        " new thread, or start the process by 'spawn'",
        "4096.0 2",
        "0 4096.0 2",
    ]


def test_a_pickled_kernel_is_called_in_another_process(toys):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        y = processes.submit(toys.row_sums, np.ones((2, 3), "float32")).result(timeout=120)
    assert y.tolist() == [3, 3]


def test_a_pickled_lazy_kernel_stays_lazy(artifacts):
    kernel = pickle.loads(pickle.dumps(load(artifacts.scale, lazy=True)))
    assert kernel._function is None
    assert pickle.loads(pickle.dumps(load(artifacts.scale)))._function is not None


def test_refuses_thread_counts_that_it_cannot_give(toys):
    before = tvm_runtime.num_threads()
    with pytest.raises(ValueError, match="the number of threads is 0; it starts at 1"):
        tvm_runtime.set_num_threads(0)
    with pytest.raises(ValueError, match="this thread's pool has fewer: set TVM_NUM_THREADS to"):
        tvm_runtime.set_num_threads(100_000)
    assert tvm_runtime.num_threads() == before


THREADS = """
import os, sys, numpy as np
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.kernel import load
before = os.sched_getaffinity(0)
kernel = load(sys.argv[1])
kernel(np.ones((64, 64), "float32"))
assert os.sched_getaffinity(0) == before, "the caller was pinned to a processor"
print(tvm_runtime.num_threads())
"""


@needs_two
def test_a_fresh_process_uses_every_processor_and_pins_no_thread(artifacts, python):
    unset = {"TVM_NUM_THREADS": "", "OMP_NUM_THREADS": ""}
    code = "import os\nfor name in " + repr(list(unset)) + ": os.environ.pop(name)\n" + THREADS
    count = int(python(code, artifacts.row_sums, **unset))
    assert count == tvm_runtime.available_processors()


ENDING_THREADS = """
import os, resource, sys, threading, time
import numpy as np
from tvm_iree_ext.runtime.kernel import load
kernel, x = load(sys.argv[1]), np.ones((64, 64), "float32")
threads = lambda: len(os.listdir("/proc/self/task"))
alive = threads()
usage = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
before = usage()
for _ in range(10):
    thread = threading.Thread(target=kernel, args=(x,))
    thread.start()
    thread.join()
end = time.monotonic() + 60
while threads() > alive and time.monotonic() < end:
    time.sleep(0.1)
print(threads() - alive, usage() - before)
"""


@needs_two
def test_a_thread_that_ends_takes_its_workers_along(artifacts, python):
    forget = "import os\nos.environ.pop('TVM_THREAD_POOL_SPIN_COUNT', None)\n"
    left, seconds = python(forget + ENDING_THREADS, artifacts.row_sums, TVM_NUM_THREADS="2").split()
    assert int(left) == 0
    assert float(seconds) < 1  # 0.03, where workers that spin on take 2 to 4


@needs_two
def test_the_number_of_threads_that_the_user_set_is_kept(artifacts, python):
    assert int(python(THREADS, artifacts.row_sums, TVM_NUM_THREADS="1")) == 1
