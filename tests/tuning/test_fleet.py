"""A tracker and three servers on loopback, one of which is killed on the way."""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.tuning import fleet, fleet_address

from tvm_iree_ext import cache
from tvm_iree_ext.errors import TuningError

HERE = Path(__file__).parent
TRACKER = """
from tvm_iree_ext.lean import import_tvm
import_tvm()
from tvm_iree_ext.tuning.fleet import serve_tracker
serve_tracker(port=19190, said=lambda line: print(line, flush=True))
"""
SERVERS = """
import sys
from tvm_iree_ext.lean import import_tvm
import_tvm()
import faulty_ops
from tvm_iree_ext.tuning.fleet_device import Device, serve
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
        process.communicate(timeout=20)
        assert process.returncode == 0


@pytest.fixture
def faulty(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("faulty_ops")


@pytest.fixture
def servers(tracker):
    """The process that keeps them up."""
    command = [sys.executable, "-c", SERVERS, str(tracker)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0


def devices(port):
    return len(fleet.status(("127.0.0.1", port)).get("three", {}).get("servers", ()))


def test_a_device_that_disappears_costs_its_trial(faulty, tracker, servers, tmp_path):
    where = f"127.0.0.1:{tracker}"
    with pytest.raises(TuningError, match="has no device 'none'; it has"):
        fleet.FleetMeasurer("llvm", where, "none")
    lines = [servers.stdout.readline() for _ in range(3)]
    pids = [int(re.fullmatch(r"server \d started: process (\d+)\n", line)[1]) for line in lines]
    end = time.monotonic() + 60
    while devices(tracker) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    algorithms = [*["right"] * 8, "crash", "wrong", "hang"]
    with fleet.FleetMeasurer("llvm", where, "three", workers=1, time_limit_s=6) as measurer:
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


def test_a_server_that_others_reach_needs_a_key():
    with pytest.raises(TuningError, match=r"a server at 0\.0\.0\.0 runs what anybody sends"):
        fleet_address.check_key("0.0.0.0", fleet_address.DEFAULT_KEY)
    fleet_address.check_key("0.0.0.0", "secret")
    fleet_address.check_key("localhost", fleet_address.DEFAULT_KEY)


@pytest.mark.parametrize("text", [":1", "host:x", "host:0", "host:99999"])
def test_refuses_addresses(text):
    with pytest.raises(TuningError, match="is no address of a tracker; expected HOST:PORT"):
        fleet_address.address(text)


def test_where_no_tracker_is(tmp_path):
    with pytest.raises(TuningError, match=r"no tracker at 127\.0\.0\.1:1"):
        fleet.status(fleet_address.address("127.0.0.1:1"))
