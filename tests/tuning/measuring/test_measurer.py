"""Candidates that do all that a candidate can do, and sessions that are ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from places import SUPPORT

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import TargetError, TuningError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.tuning.measuring.measurer import Measurer


def algorithm(name):
    return LoweringConfig(algorithm=name)


def test_every_candidate_has_a_result_whatever_it_does(faulty, tmp_path):
    expected = {
        "right": ("ok", ""),
        "crash": ("crashed", "ended the process by SIGSEGV"),
        "wrong": ("wrong", "y[0] is "),
        "hang": ("timed_out", "took more than 10 s"),
        "build crash": ("crashed", "ended the process by SIGABRT"),
        "build without memory": ("out_of_memory", "the compiler ran out of memory"),
        "other": ("build_failed", "test.doubled: algorithm is 'other'"),
    }
    with Measurer(workers=1, time_limit_s=10, memory_limit_bytes=1 << 32) as measurer:
        for name in (*expected, "right"):
            measurer.submit(name, faulty.Doubled(), algorithm(name))
        assert measurer.outstanding == 8
        found = list(measurer.results())
        assert measurer.outstanding == 0
    assert [one.candidate_id for one in found].count("right") == 2
    for one in found:
        status, message = expected[one.candidate_id]
        assert (one.status, one.message[: len(message)]) == (status, message), one
        assert bool(one.times_us) == (status == "ok")
    # Nothing is left of it.
    assert list((tmp_path / "cache" / "trials").iterdir()) == []


SESSION = """
if __name__ == "__main__":
    from faulty_ops import Doubled, LoweringConfig
    from tvm_iree_ext.tuning.measuring.measurer import Measurer
    with Measurer(workers=1, time_limit_s=600) as measurer:
        for name in ("right", "hang"):
            measurer.submit(name, Doubled(), LoweringConfig(algorithm=name))
        for one in measurer.results():
            print(*(w._running[0].pid for w in (*measurer._builders, measurer._runners[0]._worker)),
                  flush=True)
"""


def test_a_killed_session_leaves_no_process(faulty, tmp_path):
    (tmp_path / "session.py").write_text(SESSION)
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, str(tmp_path / "session.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as session:
        workers = [int(pid) for pid in session.stdout.readline().split()]
        assert len(workers) == 2
        time.sleep(0.5)  # the runner is in the kernel that hangs
        session.send_signal(signal.SIGKILL)
        session.wait(120)
    end = time.monotonic() + 120
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_operands_may_be_given_and_leaving_drops_the_rest():
    op = ops.scan(("n", 8), dimension=0)
    config = LoweringConfig(algorithm="none such")
    operands = {"input": np.ones((5, 8), "float32"), "accumulator_init": np.ones(8, "float32")}
    with Measurer(workers=1) as measurer:
        with pytest.raises(TuningError, match="n are known when the kernel is called; give op"):
            measurer.submit(0, op, config)
        with pytest.raises(TuningError, match="accumulator_init is missing or strange"):
            measurer.submit(0, op, config, {"input": operands["input"]})
        measurer.submit(0, op, config, operands)
        assert next(measurer.results()).status == "build_failed"
        for number in range(20):
            measurer.submit(number, op, config, operands)


def test_a_device_that_is_not_here_is_refused():
    with pytest.raises(TargetError, match="measure there, by a fleet, or tune without the device"):
        Measurer("rocm:gfx942")
