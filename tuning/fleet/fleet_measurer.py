"""Candidates built here and measured on other machines, by TVM's RPC: its tracker, its servers.

A tracker knows the servers; each server stands for a device and is given to one client at a time.
Every candidate has a session of its own, which the server ends after its time.  A device that
disappears costs the trial under way.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import secrets
import signal
import struct
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.processes.workers import Worker
from tvm_iree_ext.targets.names import TargetLike
from tvm_iree_ext.tuning.fleet import fleet_secret
from tvm_iree_ext.tuning.fleet.fleet_address import DEFAULT_KEY, HOST, PORT, address
from tvm_iree_ext.tuning.measuring.measurer import Candidate, Measurer, Runner
from tvm_iree_ext.tuning.measuring.trial import Outcome
from tvm_iree_ext.tuning.measuring.worker_setup import Conditions

_PORTS_TRIED = 10
_ANSWER_S = 10.0
_TRIES = 3
_DEVICE_S = 60.0  # to wait for a device: one whose kernel crashed is back after seconds


def serve_tracker(host: str = HOST, port: int = PORT, said: Callable[[str], None] = print) -> None:
    """Be TVM's tracker, until this process is told to end.

    Args:
        host: the address to listen at.
        port: the first to try.
        said: takes the line that says where it is.

    Raises:
        TuningError: where tornado is not installed, which TVM's tracker needs, or no port is free.
    """
    if importlib.util.find_spec("tornado") is None:
        raise TuningError("TVM's tracker needs tornado: pip install 'tvm-iree-ext[fleet]'")
    from tvm.rpc import base, tracker

    signal.signal(signal.SIGTERM, interrupt)
    tracker.logger.setLevel(logging.WARNING)
    try:
        listener, at = fleet_secret.listening(host, range(port, port + _PORTS_TRIED))
    except OSError as error:
        raise TuningError(f"no tracker at {host}:{port}: {error}") from None
    stop_key = secrets.token_hex()
    thread = threading.Thread(target=tracker._tracker_server, args=(listener, stop_key))
    thread.start()
    said(f"tracker at {host}:{at}")
    try:
        thread.join()
    except KeyboardInterrupt:
        session = _connect((host, at))
        base.sendjson(session._sock, [tracker.TrackerCode.STOP, stop_key])
        base.recvjson(session._sock)
        session.close()


def interrupt(*_: object) -> None:
    """Take a signal for Ctrl-C."""
    raise KeyboardInterrupt


def status(tracker: tuple[str, int]) -> dict[str, dict[str, Any]]:
    """By key, the servers' addresses, how many are free, and how many requests wait.

    Raises:
        TuningError: where no tracker answers.
    """
    session = _connect(tracker)
    try:
        summary = session.summary()
    except (RuntimeError, OSError) as error:
        raise TuningError(f"the tracker at {_text(tracker)} does not answer: {error}") from None
    finally:
        session.close()
    found: dict[str, dict[str, Any]] = {}
    for server in summary["server_info"]:
        key = server["key"].partition(":")[2]
        known = found.setdefault(key, {"servers": [], "free": 0, "pending": 0})
        known["servers"].append(_text(server["addr"]))
    for key, queue in summary["queue_info"].items():
        if key in found:
            found[key] |= {"free": queue["free"], "pending": queue["pending"]}
    return found


def _connect(tracker: tuple[str, int]) -> Any:
    from tvm.rpc import base
    from tvm.rpc.client import TrackerSession

    class AuthenticatedSession(TrackerSession):
        """One that proves the secret."""

        def _connect(self) -> None:
            self._sock = fleet_secret.connector()(self._addr, timeout=1, retry_period=0.2)
            self._sock.settimeout(_ANSWER_S)  # who wants a secret waits for it, and says nothing
            self._sock.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            (magic,) = struct.unpack("<i", base.recvall(self._sock, 4))
            if magic != base.RPC_TRACKER_MAGIC:
                raise RuntimeError(f"it does not speak as one; it may want {fleet_secret.VARIABLE}")
            self._sock.settimeout(None)

    try:
        return AuthenticatedSession(tracker)
    except (RuntimeError, OSError) as error:
        raise TuningError(f"no tracker at {_text(tracker)}: {error}") from None


def _text(where: Any) -> str:
    return ":".join(map(str, where))


@dataclass(frozen=True)
class Order:
    """A built candidate to be run on a device of a fleet."""

    tracker: tuple[str, int]
    key: str
    limit_s: float
    task: Path
    folder: Path


Result = tuple[Outcome, tuple[float, ...]]


def run_there(order: Order) -> Result:
    """Take a device, send what it lacks, and let it check and time the candidate."""
    try:
        session = _device(order)
    except (TuningError, RuntimeError, OSError) as error:
        return ("run_failed", f"no device {order.key!r}: {error}"), ()
    start = time.monotonic()
    try:
        return _run(session, order)
    except (RuntimeError, OSError) as error:  # RPC's own, and what the device raised
        what = str(error).strip().partition("\n")[0]
        if "SessionTimeout" in what or time.monotonic() - start > order.limit_s:
            return ("timed_out", f"took more than {order.limit_s:g} s"), ()
        return ("crashed", f"the device was lost: {what}"), ()


def _device(order: Order) -> Any:
    """A session with a device; there may be none for a moment."""
    end = time.monotonic() + _DEVICE_S
    while order.key not in status(order.tracker):
        if time.monotonic() > end:
            raise TuningError(f"the tracker at {_text(order.tracker)} knows none")
        time.sleep(0.2)
    for attempt in range(_TRIES):
        tracker = _connect(order.tracker)
        try:
            return _requested(tracker, order)
        except (RuntimeError, OSError):
            if attempt == _TRIES - 1:
                raise
        finally:
            tracker.close()


def _requested(tracker: Any, order: Order) -> Any:
    """A session with the device that the tracker gives."""
    from tvm import rpc
    from tvm.rpc import base

    # Where the last device ends while this waits for it, nobody would answer.
    tracker._sock.settimeout(_DEVICE_S)
    base.sendjson(tracker._sock, [base.TrackerCode.REQUEST, order.key, "", 1])
    status, *given = base.recvjson(tracker._sock)
    if status != base.TrackerCode.SUCCESS:
        raise RuntimeError(f"the tracker gives none: {status}")
    host, port, match_key = given[0]
    host, port = fleet_secret.relayed((host, port))
    return rpc.connect(host, port, match_key, session_timeout=order.limit_s)


def _run(session: Any, order: Order) -> Result:
    name = f"{hashlib.sha256(order.task.read_bytes()).hexdigest()}.task"
    if not session.get_function("tvm_iree_ext.fleet.has_task")(name):
        session.upload(str(order.task), name)
        session.get_function("tvm_iree_ext.fleet.keep_task")(name)
    packed = order.folder.with_suffix(".tar")
    with tarfile.open(packed, "w") as tar:
        tar.add(order.folder, arcname=".")
    try:
        session.upload(str(packed), packed.name)
    finally:
        packed.unlink()
    answer = json.loads(session.get_function("tvm_iree_ext.fleet.run")(name, packed.name))
    status, message = answer["outcome"]
    return (status, message), tuple(answer["times_us"])


class FleetRunner(Runner):
    """Runs candidates on one device of a fleet after the other, by a process of its own."""

    def __init__(self, folder: Path, limit_s: float, tracker: tuple[str, int], key: str) -> None:
        self._worker = Worker(3 * _DEVICE_S + limit_s, str(folder), Conditions(os.getpid()))
        self._tracker, self._key, self._limit_s = tracker, key, limit_s

    def run(
        self, candidate: Candidate, quiet: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> Result:
        """How the candidate ends, and its times; the device has no builders to be quiet."""
        order = Order(self._tracker, self._key, self._limit_s, candidate.task, candidate.folder)
        return self._worker.call(run_there, order)


class FleetMeasurer(Measurer):
    """Measures candidates on the devices that a tracker knows by a key, all at once.

    Args:
        target: of the devices.
        tracker: ``HOST:PORT``.
        key: that of the servers.
        others: as :class:`Measurer` takes them.

    Raises:
        TuningError: where no tracker answers, or it has no such device.
    """

    def __init__(
        self,
        target: TargetLike,
        tracker: str = f"{HOST}:{PORT}",
        key: str = DEFAULT_KEY,
        **others: Any,
    ) -> None:
        self._tracker, self._key = address(tracker), key
        known = status(self._tracker)
        if key not in known:
            some = ", ".join(map(repr, known)) or "none"
            raise TuningError(f"the tracker at {tracker} has no device {key!r}; it has {some}")
        self._devices = len(known[key]["servers"])
        super().__init__(target, **others)

    def _check_is_here(self) -> None:
        """Whether it runs is for the device to say."""

    def _make_runners(self) -> list[Runner]:
        return [
            FleetRunner(self._folder, self._limit_s, self._tracker, self._key)
            for _ in range(self._devices)
        ]
