"""Calls in processes of their own, so that a crash or a hang ends one call and not the run."""

import contextlib
import functools
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from tvm_iree_ext.base.atomic_folder import scratch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# A fresh interpreter: threads and locks of TVM's do not survive a fork.
_CONTEXT = multiprocessing.get_context("spawn")


_STARTING_S = 300.0  # for a process to import what it needs, on a machine that is busy


class WorkerDied(Exception):
    """The process ended, or was ended, in the middle of a call; the message says how.

    ``timed_out`` says that it took too long; ``code`` is the process's own exit status otherwise.
    """

    def __init__(self, message: str, *, timed_out: bool = False, code: int = 0) -> None:
        super().__init__(message)
        self.timed_out, self.code = timed_out, code


class Worker:
    """A process that takes one call at a time; a new one is started after a crash.

    And after an answer by a process that has lost its GPU to a fault: nothing runs there any more.

    Its temporary files are in ``folder``, since a process that crashes does not remove them.
    With ``first``, a function of a module without arguments, a process begins by that, and takes
    no time of a call for it.  What a process starts ends with it.
    """

    def __init__(
        self, limit_s: float, folder: str, first: Callable[[], object] | None = None
    ) -> None:
        self._limit_s = limit_s
        self._folder = folder
        self._first = first
        self._running: tuple[Any, Connection] | None = None  # the process and the pipe to it
        self._ended = False
        self._changing = threading.Lock()  # of these two: a process that starts is not overlooked
        self._speaking = threading.RLock()  # the pipe is closed by none while another uses it

    def call(
        self,
        function: Callable[[_Item], _Result],
        item: _Item,
        limit_s: float | None = None,
    ) -> _Result:
        """``function(item)``, computed there; the function must be one of a module.

        ``limit_s`` is that of this call instead of the worker's.

        Raises:
            WorkerDied: when the process ended, or took longer than the limit and was ended.
        """
        self.start()
        return self._exchange((function, item), self._limit_s if limit_s is None else limit_s)

    def start(self) -> None:
        """Start the process unless it is there.

        Raises:
            WorkerDied: when it ended in its first function.
        """
        if self._running is None:
            self._start()
            if self._first is not None:
                self._exchange((_without_arguments, self._first), _STARTING_S)

    def _exchange(self, message: object, limit_s: float) -> Any:
        """The answer to a message."""
        with self._speaking:
            if (running := self._running) is None:  # another thread has ended it
                raise WorkerDied("was ended")
            process, pipe = running
            try:
                pipe.send(message)
                if not pipe.poll(limit_s):
                    self.stop()
                    raise WorkerDied(f"took more than {limit_s:g} s", timed_out=True)
                answer, is_spoilt = pipe.recv()
            except (EOFError, BrokenPipeError, ConnectionResetError):
                if self._running is None:  # another thread ends it
                    raise WorkerDied("was ended") from None
                process.join()
                self.stop()
                raise WorkerDied(_how_it_ended(process.exitcode), code=process.exitcode) from None
            if is_spoilt:
                self.stop()
            return answer

    def stop(self) -> None:
        """End the process, if there is one; a thread waiting for it may do so, too."""
        with self._changing:
            running, self._running = self._running, None
        if running is not None:
            process, pipe = running
            _signal_group(process, signal.SIGKILL)
            process.kill()  # also before it has a group
            process.join()
            with self._speaking:  # who waits for it sees the end of the pipe
                pipe.close()

    def end(self) -> None:
        """End the process, and start no other: calls raise WorkerDied from now on."""
        with self._changing:
            self._ended = True
        self.stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block the process, if there is one, and what it has started stand still."""
        if (running := self._running) is None:
            yield
            return
        process, _ = running
        _signal_group(process, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal_group(process, signal.SIGCONT)

    def _start(self) -> None:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(theirs, self._folder), daemon=True)
        try:
            with theirs, self._changing, _interrupts_wait():
                if self._ended:
                    raise WorkerDied("was ended")
                process.start()
                self._running = process, ours
        except BaseException:  # Ctrl-C, too: what has started so far ends where its pipe does
            self.stop()
            ours.close()
            raise


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Within the block Ctrl-C waits, also for the processes that start in it."""
    # The process that Python starts along with the first of ours lets Ctrl-C through from then on.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_group(process: Any, number: int) -> None:
    """Send a signal to a process that leads a group, and to what it has started."""
    with contextlib.suppress(ProcessLookupError):  # it has ended, or has no group yet
        os.killpg(process.pid, number)


def _without_arguments(function: Callable[[], object]) -> None:
    function()


def _serve(pipe: Connection, folder: str) -> None:
    os.setpgid(0, 0)
    tempfile.tempdir = folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the parent, which ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent has gone
        while True:
            function, item = pipe.recv()
            pipe.send((function(item), _is_spoilt()))


def _is_spoilt() -> bool:
    """Whether this process has lost its GPU, if it used one: another must take the next call."""
    driver = sys.modules.get("tvm_iree_ext.runtime.launch.driver")
    return driver is not None and bool(driver.lost())


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"ended the process by {signal.Signals(-code).name}"
    return f"ended the process with status {code}"


def each(
    function: Callable[[_Item], _Result],
    died: Callable[[_Item, WorkerDied], _Result],
    items: Iterable[_Item],
    jobs: int,
    limit_s: float,
    *,
    first: Callable[[], object] | None = None,
    in_order: bool = True,
) -> Generator[_Result, None, None]:
    """``function`` of each item in order, by ``jobs`` processes; ``died`` where one ended early.

    The processes begin by ``first`` (:class:`Worker`), and end when the generator is closed.
    Without ``in_order`` results come as they are done.
    """
    # Nothing here holds a lock of Python's own: Ctrl-C may come within its methods, and keep it.
    waiting: queue.SimpleQueue[tuple[int, _Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Callable[[], _Result]]] = queue.SimpleQueue()
    count = 0
    for number, item in enumerate(items):
        waiting.put((number, item))
        count += 1

    def take(worker: Worker) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                number, item = waiting.get_nowait()
                done.put((number, _outcome(worker, function, died, item)))

    with scratch() as folder:
        workers = [Worker(limit_s, str(folder), first) for _ in range(jobs)]
        threads = [threading.Thread(target=take, args=(one,), daemon=True) for one in workers]
        try:
            for thread in threads:
                thread.start()
            early: dict[int, Callable[[], _Result]] = {}
            for number in range(count):
                while number not in early:
                    place, outcome = done.get()
                    early[place if in_order else number] = outcome
                yield early.pop(number)()
        finally:
            with contextlib.suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            for worker in workers:
                worker.end()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()


def _outcome(
    worker: Worker,
    function: Callable[[_Item], _Result],
    died: Callable[[_Item, WorkerDied], _Result],
    item: _Item,
) -> Callable[[], _Result]:
    """What gives the result of a call, or raises the error that it raised."""

    def failed(error: BaseException) -> _Result:
        raise error

    try:
        result = worker.call(function, item)
    except WorkerDied as error:
        try:
            result = died(item, error)
        except BaseException as other:  # of any kind: who waits for it would wait for ever
            return functools.partial(failed, other)
    except BaseException as error:
        return functools.partial(failed, error)
    return lambda: result
