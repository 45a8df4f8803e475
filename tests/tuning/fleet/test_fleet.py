"""A tracker and three servers on loopback, one of which is killed on the way."""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from places import SUPPORT

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.tuning.fleet import fleet_address, fleet_measurer, fleet_secret

TRACKER = """
from tvm_iree_ext.tuning.fleet.fleet_measurer import serve_tracker
serve_tracker(port=19190, said=lambda line: print(line, flush=True))
"""
SERVERS = """
import sys
import faulty_ops
from tvm_iree_ext.tuning.fleet.fleet_device import Device, serve
tracker = "127.0.0.1", int(sys.argv[1])
serve(tracker, "three", [Device()] * 3, said=lambda line: print(line, flush=True))
"""


@pytest.fixture
def tracker():
    """Its port."""
    pytest.importorskip("tornado")
    with subprocess.Popen(
        [sys.executable, "-c", TRACKER], stdout=subprocess.PIPE, text=True
    ) as process:
        yield int(process.stdout.readline().rpartition(":")[2])
        process.terminate()
        process.communicate(timeout=120)
        assert process.returncode == 0


@pytest.fixture
def servers(tracker):
    """The process that keeps them up."""
    command = [sys.executable, "-c", SERVERS, str(tracker)]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.terminate()
        process.communicate(timeout=120)
        assert process.returncode == 0


def devices(port):
    return len(fleet_measurer.status(("127.0.0.1", port)).get("three", {}).get("servers", ()))


def test_a_device_that_disappears_costs_its_trial(faulty, tracker, servers, tmp_path):
    where = f"127.0.0.1:{tracker}"
    with pytest.raises(TuningError, match="has no device 'none'; it has"):
        fleet_measurer.FleetMeasurer("llvm", where, "none")
    lines = [servers.stdout.readline() for _ in range(3)]
    pids = [int(re.fullmatch(r"server \d started: process (\d+)\n", line)[1]) for line in lines]
    end = time.monotonic() + 300
    while devices(tracker) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    algorithms = [*["right"] * 8, "crash", "wrong", "hang"]
    with fleet_measurer.FleetMeasurer(
        "llvm", where, "three", workers=1, time_limit_s=10
    ) as measurer:
        for number, algorithm in enumerate(algorithms):
            measurer.submit(number, faulty.Doubled(), LoweringConfig(algorithm=algorithm))
        results = measurer.results()
        found = [next(results) for _ in range(3)]
        os.killpg(pids[1], signal.SIGKILL)
        found += results
    status = {one.candidate_id: one.status for one in found}
    assert len(found) == len(algorithms)
    assert [status[number] for number in (8, 9, 10)] == ["crashed", "wrong", "timed_out"]
    lost = [one for one in found if one.candidate_id < 8 and one.status != "ok"]
    assert len(lost) <= 1, lost  # the trial under way, if there was one
    assert all(one.times_us for one in found if one.status == "ok")
    assert re.fullmatch(r"server \d started again: process \d+\n", servers.stdout.readline())


@pytest.fixture
def secret(monkeypatch, tmp_path):
    """The name of the secret's file, which this process and those that it starts know."""
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o600)
    monkeypatch.setenv(fleet_secret.VARIABLE, str(path))
    return path


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_only_who_proves_the_secret_is_heard_and_no_server_outlives_its_keeper(
    secret, tracker, servers, monkeypatch, tmp_path
):
    pids = [int(servers.stdout.readline().rpartition(" ")[2]) for _ in range(3)]
    order = fleet_measurer.Order(("127.0.0.1", tracker), "three", 600.0, tmp_path, tmp_path)
    session = fleet_measurer._device(order)
    assert not session.get_function("tvm_iree_ext.fleet.has_task")("none")
    sessions = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # a server that was started again meanwhile
            for task in Path(f"/proc/{pid}/task").iterdir():
                sessions += map(int, (task / "children").read_text().split())
    assert sessions

    # Strangers: one who says what TVM's client does, and one who has another secret.
    with socket.create_connection(("127.0.0.1", tracker), 60) as stranger:
        stranger.sendall(struct.pack("<i", 0x2F271) + b"\0" * 60)
        assert b"\x71\xf2\x02\x00" not in b"".join(iter(lambda: received(stranger), b""))
    other = tmp_path / "other"
    other.write_text("f" * 32)
    other.chmod(0o600)
    monkeypatch.setenv(fleet_secret.VARIABLE, str(other))
    with pytest.raises(
        TuningError, match=r"no tracker at 127\.0\.0\.1:\d+: the other end has another secret"
    ):
        fleet_measurer.status(("127.0.0.1", tracker))
    monkeypatch.setenv(fleet_secret.VARIABLE, str(secret))
    assert devices(tracker) > 0

    servers.kill()
    servers.wait()
    end = time.monotonic() + 300
    while any(map(is_running, [*pids, *sessions])) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, [*pids, *sessions]))
    servers.returncode = 0  # for the fixture


def received(stranger):
    try:
        return stranger.recv(4096)
    except ConnectionResetError:
        return b""


def proven(known, others):
    """How the two ends of a connection fare that know these secrets."""
    ends = socket.socketpair()

    def end(number):
        with ends[number] as connection:
            fleet_secret.prove(connection, (known, others)[number], listens=bool(number))

    with ThreadPoolExecutor(2) as threads:
        return [type(one.exception()) for one in [threads.submit(end, n) for n in range(2)]]


def test_both_ends_prove_the_secret():
    assert proven(b"a" * 16, b"a" * 16) == [type(None)] * 2
    assert proven(b"a" * 16, b"b" * 16) == [ConnectionRefusedError] * 2


def test_a_proof_that_is_sent_back_is_none():
    ours, mirror = socket.socketpair()

    def reflect():
        with mirror:
            while piece := mirror.recv(4096):
                mirror.sendall(piece)

    thread = threading.Thread(target=reflect)
    thread.start()
    with ours, pytest.raises(ConnectionRefusedError):
        fleet_secret.prove(ours, b"a" * 16, listens=True)
    thread.join()


def test_what_others_reach_needs_a_secret(secret, monkeypatch):
    fleet_address.check_host("0.0.0.0")
    monkeypatch.delenv(fleet_secret.VARIABLE)
    with pytest.raises(
        TuningError, match=r"a fleet at 0\.0\.0\.0 runs what anybody sends: let TVM_"
    ):
        fleet_address.check_host("0.0.0.0")
    fleet_address.check_host("localhost")


def test_a_secret_is_in_a_file_that_nobody_else_reads(secret):
    secret.chmod(0o640)
    with pytest.raises(TuningError, match=r"others may read .*; give it mode 600"):
        fleet_secret.secret()
    secret.chmod(0o600)
    secret.write_text("short")
    with pytest.raises(TuningError, match="holds 5 bytes; expected at least 16"):
        fleet_secret.secret()
    secret.unlink()
    with pytest.raises(TuningError, match=r"cannot read .*: No such file"):
        fleet_secret.secret()


@pytest.mark.parametrize("text", [":1", "host:x", "host:0", "host:99999"])
def test_refuses_addresses(text):
    with pytest.raises(TuningError, match="is no address of a tracker; expected HOST:PORT"):
        fleet_address.address(text)


def test_where_no_tracker_is(tmp_path):
    with pytest.raises(TuningError, match=r"no tracker at 127\.0\.0\.1:1"):
        fleet_measurer.status(fleet_address.address("127.0.0.1:1"))
