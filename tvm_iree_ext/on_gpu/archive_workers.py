"""Processes that run an archive's cases: one that hangs, crashes or loses its GPU ends alone.

A worker is this archive with ``--worker ROLE``: it reads folders of cases, a line each, and answers
each with rows, lines of JSON, and then a line that says how it went.  After anything that a driver
refused a worker ends: what is left of its GPU is not known.
"""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.runtime.launch.driver import DriverError, lost

WORKER = "--worker"
_END = "--end "  # begins the line behind a case's rows
_GIVEN_UP_S = 5.0  # a process that a driver holds may not even end when it is killed
Row = dict[str, Any]
RowsOf = Callable[[ArchiveFile, str], Iterable[Row]]


def work(archive: ArchiveFile, rows_of: RowsOf) -> None:
    """Be a worker: until the input ends, or a driver has refused something."""
    for line in sys.stdin:
        for text in answer(archive, rows_of, line.strip()):
            print(text, flush=True)
        if not json.loads(text.removeprefix(_END))[1]:
            return


def answer(archive: ArchiveFile, rows_of: RowsOf, folder: str) -> Iterator[str]:
    """The lines for a case: its rows, and what became of it and of the worker."""
    try:
        for row in rows_of(archive, folder):
            yield json.dumps(row)
    except Exception as error:  # whatever it is, it is this case's
        yield _end(f"{type(error).__name__}: {error}", not isinstance(error, DriverError))
    else:
        yield _end("", not lost())


def _end(problem: str, goes_on: bool) -> str:
    return _END + json.dumps([problem, goes_on])


class ArchiveWorker:
    """A process that runs one case at a time, and is started anew after it ended.

    Args:
        archive: whose cases they are.
        role: what is done with them.
        limit_s: for a case.
        end: by the monotonic clock; then whatever runs is ended.
    """

    def __init__(self, archive: ArchiveFile, role: str, limit_s: float, end: float) -> None:
        self._command = [sys.executable, str(archive.path), WORKER, role]
        self._limit_s, self._end = limit_s, end
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def rows(self, folder: str) -> tuple[list[Row], str] | None:
        """The rows of a case, and what went wrong; None where its time ended with the day's."""
        left = self._end - time.monotonic()
        if left <= 0:
            return None
        process = self._started()
        rows: list[Row] = []
        timer = threading.Timer(min(self._limit_s, left), process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            for line in iter(process.stdout.readline, ""):
                if line.startswith(_END):
                    problem, goes_on = json.loads(line.removeprefix(_END))
                    if not goes_on:
                        self._stop()
                    return rows, problem
                if line.startswith("{"):  # what else is printed is a library's
                    rows.append(json.loads(line))
        except (OSError, ValueError):  # it ended
            pass
        finally:
            timer.cancel()
        status = self._stop()
        if status != -signal.SIGKILL:
            return rows, f"the process ended with status {status}"
        return (rows, f"took over {self._limit_s:.0f} s") if left > self._limit_s else None

    def end(self) -> None:
        """End the process, and start no other."""
        self._is_ended = True
        self._stop()

    def _stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            process.communicate(timeout=_GIVEN_UP_S)
        return process.returncode if process.returncode is not None else -signal.SIGKILL

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            if self._is_ended:
                raise RuntimeError("the worker was ended")
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        return self._process


def each_case(
    archive: ArchiveFile,
    role: str,
    folders: Sequence[str],
    *,
    jobs: int,
    limit_s: float,
    end: float,
    least_s: float = 0.0,
) -> Generator[tuple[str, list[Row], str]]:
    """Folder, rows and problem of each case, as they end; close the iterator to end it early.

    Args:
        archive: whose cases they are.
        role: what is done with them.
        folders: the cases.
        jobs: processes.
        limit_s: for a case.
        end: by the monotonic clock; cases that run then come to nothing.
        least_s: a case is not begun with less.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for folder in folders:
        waiting.put(folder)
    ended: queue.SimpleQueue[tuple[str, list[Row], str] | None] = queue.SimpleQueue()
    workers = [ArchiveWorker(archive, role, limit_s, end) for _ in range(min(jobs, len(folders)))]

    def run(worker: ArchiveWorker) -> None:
        try:
            while time.monotonic() + least_s < end:
                folder = waiting.get_nowait()
                if (answered := worker.rows(folder)) is not None:
                    ended.put((folder, *answered))
        except (queue.Empty, RuntimeError):
            pass
        finally:
            worker.end()
            ended.put(None)

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            # A thread whose process cannot even be killed is not waited for.
            outcome = ended.get(timeout=max(0.0, end - time.monotonic()) + 2 * _GIVEN_UP_S)
            if outcome is None:
                running -= 1
            else:
                yield outcome
    except queue.Empty:
        pass
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        for worker in workers:
            worker.end()
