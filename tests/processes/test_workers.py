"""Calls in other processes: with functions of the standard library, which those can import."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pickle import PicklingError

import pytest

from tvm_iree_ext.processes import workers
from tvm_iree_ext.processes.workers import Worker, WorkerDied, each


@pytest.fixture
def worker(tmp_path):
    worker = Worker(limit_s=300, folder=str(tmp_path))
    yield worker
    worker.stop()


def test_calls_elsewhere(worker):
    assert worker.call(abs, -3) == 3
    assert worker.call(eval, "__import__('os').getpid()") != os.getpid()


def test_a_crash_is_an_error_and_the_next_call_works(worker):
    with pytest.raises(WorkerDied, match="ended the process by SIGSEGV"):
        worker.call(signal.raise_signal, signal.SIGSEGV)
    with pytest.raises(WorkerDied, match="ended the process with status 3"):
        worker.call(os._exit, 3)
    assert worker.call(abs, -3) == 3


def test_a_hang_is_ended(tmp_path):
    worker = Worker(limit_s=0.3, folder=str(tmp_path))
    start = time.monotonic()
    with pytest.raises(WorkerDied, match=r"took more than 0\.3 s"):
        worker.call(time.sleep, 3600)
    assert time.monotonic() - start < 600  # a busy machine takes its time to start a process


def test_a_call_that_another_thread_ends_says_so(worker):
    """Also where that thread has ended the process while this one is between two looks at it."""
    worker.start()
    process, pipe = worker._running

    class Late:
        send, recv, close = pipe.send, pipe.recv, pipe.close

        def poll(self, limit_s):
            waiting.set()
            ended = pipe.poll(limit_s)
            time.sleep(0.3)
            return ended

    worker._running, waiting = (process, Late()), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(worker.call, time.sleep, 60)
        waiting.wait(300)
        worker.stop()
        with pytest.raises(WorkerDied, match="was ended"):
            call.result(300)
    assert worker.call(abs, -3) == 3


@pytest.fixture
def begun(monkeypatch):
    """``begun(then)``: processes that start from now on; ``then()`` is done before one is known."""
    found = []

    def install(then):
        start = workers._CONTEXT.Process.start

        def starting(process):
            start(process)
            found.append(process)
            then()

        monkeypatch.setattr(workers._CONTEXT.Process, "start", starting)
        return found

    return install


def test_a_process_that_is_being_started_is_stopped(worker, begun):
    starting, go_on = threading.Event(), threading.Event()
    processes = begun(lambda: starting.set() or go_on.wait(300))
    with ThreadPoolExecutor(2) as threads:
        call = threads.submit(worker.call, time.sleep, 60)
        starting.wait(300)
        stop = threads.submit(worker.stop)
        time.sleep(0.1)  # it looks, and finds one that starts
        go_on.set()
        stop.result(300)
        with pytest.raises(WorkerDied, match="was ended"):
            call.result(300)
    assert not processes[0].is_alive()


def test_an_interrupted_start_leaves_no_process(worker, begun):
    def interrupt():
        raise KeyboardInterrupt

    processes = begun(interrupt)
    with pytest.raises(KeyboardInterrupt):
        worker.start()
    processes[0].join(300)
    assert processes[0].exitcode == 0
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_was_ended_starts_no_process(worker, begun):
    processes = begun(lambda: None)
    worker.call(abs, -3)
    worker.end()
    with pytest.raises(WorkerDied, match="was ended"):
        worker.call(abs, -3)
    assert [process.is_alive() for process in processes] == [False]


def test_its_temporary_files_are_in_the_folder(worker, tmp_path):
    assert worker.call(eval, "__import__('tempfile').gettempdir()") == str(tmp_path)


def test_results_come_in_order_whatever_dies():
    def died(item, error):
        return f"{item}: {error}"

    items = ["1", "__import__('os')._exit(2)", "3", "4"]
    results = list(each(eval, died, items, jobs=2, limit_s=300))
    assert results == [1, f"{items[1]}: ended the process with status 2", 3, 4]


def test_an_error_of_the_function_ends_the_process_and_not_the_run():
    """Its traceback goes to the standard error of the process."""
    results = each(eval, lambda item, error: str(error), ["1", "1 / 0", "3"], jobs=1, limit_s=300)
    assert list(results) == [1, "ended the process with status 1", 3]


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_an_error_of_what_is_told_of_the_death_comes_in_its_turn(kind, begun):
    def died(item, error):
        raise kind(f"{item} {error}")

    items = ["__import__('time').sleep(0.2)", "__import__('os')._exit(2)", "3"]
    processes = begun(lambda: None)
    results = each(eval, died, items, jobs=2, limit_s=300)
    assert next(results) is None
    with pytest.raises(kind, match="ended the process with status 2"):
        next(results)
    assert list(results) == []
    assert not any(process.is_alive() for process in processes)


def test_what_cannot_be_sent_is_an_error_in_its_turn():
    results = each(len, lambda item, error: str(error), [[1, 2], lambda: 0], jobs=1, limit_s=300)
    assert next(results) == 2
    with pytest.raises((AttributeError, TypeError, PicklingError)):
        next(results)


def test_no_items_start_no_process(begun):
    processes = begun(lambda: None)
    assert list(each(eval, lambda item, error: None, [], jobs=2, limit_s=300)) == []
    assert processes == []


def test_stopping_early_ends_the_processes_and_leaves_no_files():
    pid = "__import__('os').getpid()"
    made = "__import__('tempfile').mkdtemp()"
    results = each(
        eval, lambda item, error: None, [made, pid, "__import__('time').sleep(60)"], 1, 90
    )
    folder, process = next(results), next(results)
    assert os.path.exists(folder)
    results.close()
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert not folder.startswith(tempfile.gettempdir() + "/tmp")


def test_stopping_early_starts_no_process_afterwards(monkeypatch, begun):
    waiting, go_on, ended = threading.Event(), threading.Event(), []
    call = Worker.call

    def late(self, function, item):
        if item == "late":
            waiting.set()
            go_on.wait(300)
        return call(self, function, item)

    monkeypatch.setattr(Worker, "call", late)
    processes = begun(lambda: None)
    results = each(eval, lambda *how: ended.append(how), ["1", "late"], 2, 30)
    assert next(results) == 1
    waiting.wait(300)
    threading.Timer(0.2, go_on.set).start()
    results.close()
    assert [(item, str(error)) for item, error in ended] == [("late", "was ended")]
    assert len(processes) == 1


def test_ctrl_c_waits_for_the_first_process_of_a_program_too():
    code = """
import signal
from multiprocessing import util
from tvm_iree_ext.processes import workers
spawn = util.spawnv_passfds
def looked_at(*args):
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
    return spawn(*args)
util.spawnv_passfds = looked_at
worker = workers.Worker(limit_s=300, folder=".")
worker.start()
worker.end()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # Python's own process, and ours.
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


LOSES = """(__import__('tvm_iree_ext.runtime.launch.driver'),
    __import__('sys').modules['tvm_iree_ext.runtime.launch.driver']._losses.append('by a fault'),
    __import__('os').getpid())[-1]"""


def test_a_process_that_lost_its_gpu_answers_and_is_replaced(worker):
    first = worker.call(eval, "__import__('os').getpid()")
    assert worker.call(eval, LOSES) == first
    assert worker._running is None
    assert worker.call(eval, "__import__('os').getpid()") != first


def test_the_case_after_a_fault_has_another_process(tmp_path):
    items = [LOSES, "__import__('os').getpid()", "__import__('os').getpid()"]
    first, second, third = each(eval, lambda item, error: str(error), items, jobs=1, limit_s=300)
    assert first != second == third
