"""Processes that run an archive's cases: one that hangs, crashes or loses its GPU ends alone.

A worker is this archive with ``--worker ROLE``: it reads folders of cases, a line each, and answers
each with rows, lines of JSON, and then an empty line.
"""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.runtime.launch.driver import lost

WORKER = "--worker"
_LOST = "lost"  # in place of the empty line, by a worker that can do no more
Row = dict[str, Any]


def work(archive: ArchiveFile, rows_of: Callable[[ArchiveFile, str], Iterable[Row]]) -> None:
    """Be a worker: until the input ends, or the GPU is lost."""
    for line in sys.stdin:
        for row in rows_of(archive, line.strip()):
            print(json.dumps(row), flush=True)
        if lost():
            print(_LOST, flush=True)
            return
        print(flush=True)


class ArchiveWorker:
    """A process that runs one case at a time, and is started anew after it ended."""

    def __init__(self, archive: ArchiveFile, role: str, limit_s: float) -> None:
        self._command = [sys.executable, str(archive.path), WORKER, role]
        self._limit_s = limit_s
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def rows(self, folder: str, limit_s: float | None = None) -> tuple[list[Row], str]:
        """The rows of a case; and how the process ended, if it did before it had answered."""
        limit_s = self._limit_s if limit_s is None else limit_s
        process = self._started()
        rows: list[Row] = []
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            for line in iter(process.stdout.readline, ""):
                if line.strip() in ("", _LOST):
                    if line.strip():
                        self._stop()
                    return rows, ""
                if line.startswith("{"):  # what else is printed is a library's
                    rows.append(json.loads(line))
        except (OSError, ValueError):  # it ended
            pass
        finally:
            timer.cancel()
        status = self._stop()
        if status == -signal.SIGKILL:
            return rows, f"took over {limit_s:.0f} s"
        return rows, f"the process ended with status {status}"

    def end(self) -> None:
        """End the process, and start no other."""
        self._is_ended = True
        if (process := self._process) is not None:
            process.kill()
            process.wait()

    def _stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(OSError):
            process.communicate()
        return process.wait()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            if self._is_ended:
                raise RuntimeError("the worker was ended")
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        return self._process


def each_case(
    archive: ArchiveFile, role: str, folders: Sequence[str], *, jobs: int, limit_s: float
) -> Generator[tuple[str, list[Row], str]]:
    """Folder, rows and problem of each case, as they end; close the iterator to end it early."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for folder in folders:
        waiting.put(folder)
    ended: queue.SimpleQueue[tuple[str, list[Row], str] | None] = queue.SimpleQueue()
    workers = [ArchiveWorker(archive, role, limit_s) for _ in range(min(jobs, len(folders)))]

    def run(worker: ArchiveWorker) -> None:
        with contextlib.suppress(queue.Empty, RuntimeError):
            while True:
                folder = waiting.get_nowait()
                ended.put((folder, *worker.rows(folder)))
        worker.end()
        ended.put(None)

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            outcome = ended.get()
            if outcome is None:
                running -= 1
            else:
                yield outcome
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        for worker in workers:
            worker.end()
