"""``tvm-iree-ext tune``: workers, display, log and curve, from end to end."""

import argparse
import json

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.cli.tune import duration

SCAN = ("scan", "8x256xf32", "--set", "dimension=1", "--set", "reassociate=true")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0)]
)
def test_times(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0s", "1d", "-3s"])
def test_what_is_no_time(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no time such as 90s"):
        duration(text)


def test_an_op_is_tuned_and_built_by_its_record(command, tmp_path, monkeypatch):
    monkeypatch.setenv(ext.records.record_files.VARIABLE, str(tmp_path / "records.jsonl"))
    log = tmp_path / "log.json"
    # Time enough for all trials, and the turns at the end, on a machine that is busy.
    how = ("--effort", "quick", "--trials", "3", "--model", "none", "--log", log)
    how += ("--time-limit", "2h")
    ran = command("tune", *SCAN, *how)
    assert ran.status == 0, ran.err
    assert ran.lines[0].startswith("measuring the heuristics; 0 trials")
    assert any("all trials done" in line for line in ran.lines)
    assert any(line.startswith(("curve: ", "no curve: a curve needs")) for line in ran.lines)
    (task,) = json.loads(log.read_text())["tasks"]
    assert task["trials"] >= 3
    assert task["failures"] == {}
    assert task["baseline_us"] > 0
    op = ext.ops.scan((8, 256), dimension=1, reassociate=True)
    faster = task["config"] != task["heuristic"]
    kernel = ext.build(op)
    assert kernel.provenance == ("record exact" if faster else "heuristic")
    assert kernel.config.to_json() == task["config"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name an op, a FILE.mlir or a --suite"),
        (("scan", "--suite", "readme"), "and one of them"),
        (("--suite", "all"), "no suite 'all'; there are readme, common"),
        (("model.mlir", "8xf32"), "is a program, which has no operands"),
    ],
)
def test_refusals(command, words, message, tmp_path):
    ran = command("tune", *words, "--records", tmp_path / "records.jsonl")
    assert ran.status == 1
    assert message in ran.err


def test_a_curve_is_drawn(tmp_path):
    """By hand, since no session of a test ends with one to look at."""
    pytest.importorskip("matplotlib")
    from types import SimpleNamespace

    tuner = SimpleNamespace(
        task=SimpleNamespace(name="scan"),
        baseline_us=10.0,
        best=(5.0, None),
        curve=[SimpleNamespace(trial=n, time_us=t) for n, t in ((1, 12.0), (2, None), (3, 5.0))],
        confirmed=(6.0, 9.0, None),
    )
    for name in ("curve.svg", "curve.png"):
        ext.tuning.report.draw_curve(SimpleNamespace(tuners=[tuner]), tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
