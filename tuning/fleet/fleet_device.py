"""Servers of TVM's RPC on a machine of a fleet, each of which runs candidates.

A server serves one session at a time, in a process of its own, so that a kernel that crashes ends
its session; TVM's server ends with it, and is started again here.  What a session calls are the
functions below, which are those of a worker on the user's own machine.
"""

import contextlib
import ctypes
import json
import logging
import multiprocessing
import os
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.rpc import base, server

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.tuning.fleet import fleet_secret
from tvm_iree_ext.tuning.fleet.fleet_measurer import interrupt
from tvm_iree_ext.tuning.measuring.trial import RunOrder, check_candidate, time_candidate

HAS_TASK = "tvm_iree_ext.fleet.has_task"
KEEP_TASK = "tvm_iree_ext.fleet.keep_task"
RUN = "tvm_iree_ext.fleet.run"
_WORKPATH = "tvm.rpc.server.workpath"

_PORTS = range(9200, 9400)
_PR_SET_PDEATHSIG = 1
_RESTART_S = 0.2
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Device:
    """A server of a machine: its environment says which GPU it sees."""

    environment: Mapping[str, str] = field(default_factory=dict)


def gpu_devices(ordinals: Sequence[int]) -> list[Device]:
    """A server for each GPU of a machine."""
    return [Device(dict.fromkeys(_VISIBLE, str(number))) for number in ordinals]


def serve(
    tracker: tuple[str, int],
    key: str,
    devices: Sequence[Device],
    *,
    host: str = "127.0.0.1",
    advertise: str | None = None,
    said: Callable[[str], None] = print,
) -> None:
    """Keep a server for each device up, until this process is told to end.

    Args:
        tracker: where servers announce themselves.
        key: what a client must know.
        devices: one server each.
        host: the address to listen at.
        advertise: the address that clients are told, where it is another.
        said: takes a line whenever a server starts.
    """
    signal.signal(signal.SIGTERM, interrupt)
    context = multiprocessing.get_context("fork")  # of a process that has imported everything
    with scratch() as folder:
        processes: dict[int, Any] = {}
        try:
            while True:
                for number, device in enumerate(devices):
                    process = processes.get(number)
                    if process is not None and process.is_alive():
                        continue
                    arguments = (os.getpid(), tracker, key, device, host, advertise, folder)
                    process = context.Process(target=_serve_one, args=arguments)
                    process.start()
                    again = " again" if number in processes else ""
                    processes[number] = process
                    said(f"server {number} started{again}: process {process.pid}")
                time.sleep(_RESTART_S)
        except KeyboardInterrupt:
            pass
        finally:
            for process in processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.join()


def _serve_one(
    parent: int,
    tracker: tuple[str, int],
    key: str,
    device: Device,
    host: str,
    advertise: str | None,
    folder: Path,
) -> None:
    """One server, until its thread ends: as it does when a session's process has crashed."""
    os.setpgid(0, 0)
    end_with(parent)
    # A session is a process, too: it ends with this one, by whatever that is ended.
    os.register_at_fork(after_in_child=lambda: end_with(os.getppid()))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(device.environment)
    register(folder)
    server.logger.setLevel(logging.ERROR)
    base.connect_with_retry = fleet_secret.connector()  # by which TVM's server goes to the tracker
    listener, port = fleet_secret.listening(host, _PORTS)
    try:
        server._listen_loop(listener, port, key, tracker, None, advertise)
    finally:
        os._exit(1)


def end_with(parent: int) -> None:
    """Let the kernel end this process when ``parent`` has ended, were it by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)


def register(folder: Path) -> None:
    """Let sessions of this process call the functions of a device; tasks are kept in ``folder``."""

    @tvm_ffi.register_global_func(HAS_TASK, override=True)
    def has_task(name: str) -> bool:
        return (folder / name).exists()

    @tvm_ffi.register_global_func(KEEP_TASK, override=True)
    def keep_task(name: str) -> None:
        os.replace(_work_path(name), folder / name)

    @tvm_ffi.register_global_func(RUN, override=True)
    def run(task: str, artifact: str) -> str:
        return _in_a_thread(lambda: _run(folder / task, Path(_work_path(artifact))))


def _work_path(name: str) -> str:
    return str(tvm_ffi.get_global_func(_WORKPATH)(name))


def _in_a_thread(function: Callable[[], str]) -> str:
    """The function's result; a session is forked, and only its new threads have TVM's pool."""
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    if not results:
        raise TuningError("the candidate ended its thread")
    return results[0]


def _run(task: Path, artifact: Path) -> str:
    folder = artifact.with_suffix("")
    with tarfile.open(artifact) as packed:
        packed.extractall(folder, filter="data")
    outcome = check_candidate(RunOrder(task, folder))
    times = time_candidate(folder) if outcome[0] == "ok" else ()
    return json.dumps({"outcome": outcome, "times_us": times})
