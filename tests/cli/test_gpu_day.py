"""The command gpu-day where the package is: what is packed is run, and the rest is for tuning."""

from types import SimpleNamespace

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.cli import gpu_day
from tvm_iree_ext.cli.main import main


@pytest.fixture
def day(monkeypatch):
    """What was packed, run and tuned; building takes 1 minute, the run 5."""
    found = SimpleNamespace(orders=[], commands=[], tuned=[], now=0.0)

    def pack(_path, order, _jobs):
        found.orders.append(order)
        found.now += 60
        return 0

    def run(command):
        found.commands.append(command)
        found.now += 300
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(gpu_day, "_pack", pack)
    monkeypatch.setattr(gpu_day.subprocess, "run", run)
    monkeypatch.setattr(gpu_day.time, "monotonic", lambda: found.now)
    monkeypatch.setattr(
        ext.tuning, "tune", lambda tasks, target, **how: found.tuned.append((target, how)) or tasks
    )
    monkeypatch.setattr(
        ext.tuning.report, "report_lines", lambda tasks: [f"{len(tasks)} tasks were tuned"]
    )
    return found


def test_the_rest_of_the_minutes_is_for_tuning(day, tmp_path, capsys):
    arguments = ["gpu-day", "--cases", "0", "--out", str(tmp_path)]
    assert main([*arguments, "--minutes", "9"]) == 0
    (command,) = day.commands
    assert command[command.index("--minutes") + 1] == "9.0"
    ((target, how),) = day.tuned
    assert (target, how["time_limit_s"]) == ("cuda:sm_90a", 240.0)
    assert how["database"] == tmp_path / "records.jsonl"
    assert "tasks were tuned" in capsys.readouterr().out
    (order,) = day.orders
    assert order.peaks == ["cuda:sm_90a"]
    assert main([*arguments, "--minutes", "5.9"]) == 0  # too little is left
    assert main([*arguments, "--minutes", "9", "--no-tune"]) == 0
    assert main([*arguments, "--minutes", "9", "--pack", str(tmp_path / "day.zip")]) == 0
    assert len(day.tuned) == 1
    assert len(day.commands) == 3


def test_without_kernels_to_be_timed_there_are_no_peaks(day, tmp_path):
    assert main(["gpu-day", "--time", "none of them", "--out", str(tmp_path), "--no-tune"]) == 0
    assert day.orders[0].peaks == []
