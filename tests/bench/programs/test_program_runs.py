"""Runs of programs in processes, their log, tables and picture."""

import dataclasses
import math

import pytest
import tiny_programs

from tvm_iree_ext import bench
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.bench.measure.compare import ContenderOutcome
from tvm_iree_ext.bench.measure.turns import Spread
from tvm_iree_ext.bench.programs import program_runs
from tvm_iree_ext.bench.programs.program_rows import (
    ProgramRow,
    ProgramSetting,
    logged_line,
    logged_rows,
)
from tvm_iree_ext.bench.programs.program_tables import program_header
from tvm_iree_ext.processes.workers import WorkerDied


def spread(number):
    return Spread(number, number, number)


def row_with(name, ratio, threads=1, **named):
    """A row of a program whose one peer takes ``ratio`` times as long as ours."""
    ours = ContenderOutcome("tvm_iree_ext", "timed", seconds=spread(0.002), calls=9)
    peer = ContenderOutcome(
        "PyTorch", "timed", seconds=spread(0.002 * ratio), calls=9, speedup=spread(ratio)
    )
    other = ContenderOutcome("ONNX Runtime", "skipped", "no kernel")
    errors = {"tvm_iree_ext": 1e-7, "PyTorch": 2e-7}
    return ProgramRow(name, "torch", threads, ours, [peer, other], errors=errors, **named)


ROWS = [
    row_with(
        "ahead",
        2.0,
        build_seconds={"tvm_iree_ext": 1.25},
        kernels=7,
        notes={"IREE": "core operators"},
    ),
    row_with("behind", 0.5, peak_bytes={"tvm_iree_ext": 3 << 20, "PyTorch": 1 << 20}),
    dataclasses.replace(
        row_with("wrong", 1.0),
        ours=ContenderOutcome("tvm_iree_ext", "wrong", "off by 1"),
        peers=[ContenderOutcome("PyTorch", "timed", seconds=spread(0.004))],
    ),
]


def test_the_table_begins_with_what_is_slowest():
    text = bench.program_markdown(ROWS)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == program_header(ROWS)
    assert [one[0] for one in cells[2:]] == ["behind", "ahead", "wrong"]
    named = [dict(zip(cells[0], one, strict=True)) for one in cells[2:]]
    assert named[0]["fastest peer"] == "0.50x PyTorch"
    assert named[0]["memory MiB"] == "3.0"
    assert named[0]["its memory"] == "1.0"
    assert named[1]["ms"] == "2"
    assert named[1]["build s"] == "1.2"
    assert named[1]["ONNX Runtime"] == "skipped"
    assert named[2]["ms"] == "wrong"
    assert named[2]["PyTorch"] == "4 ms"


def test_below_the_table_stand_the_mean_and_the_reasons():
    lines = bench.program_summary(ROWS)
    assert (
        "takes 1.00 times as long as ours, the geometric mean of 2 programs; it is ahead by more"
        " than 5 % in 1" in lines[0]
    )
    assert "ONNX Runtime, ahead, behind: skipped: no kernel." in lines
    assert "IREE runs ahead otherwise: core operators." in lines
    assert bench.program_complaints(ROWS) == ["wrong: tvm_iree_ext: off by 1"]


def test_a_row_is_a_line_with_its_reason():
    assert "behind, 1 thread: 2  PyTorch 0.50  fastest 0.50x PyTorch" in bench.program_text(ROWS[1])
    assert "wrong, 1 thread: wrong: off by 1" in bench.program_text(ROWS[2])


def test_a_line_of_the_log_is_the_row(tmp_path):
    setting = ProgramSetting(("PyTorch",), True)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(logged_line(setting, row) + "\n" for row in ROWS))
    assert list(logged_rows(log, setting).values()) == ROWS
    assert logged_rows(log, ProgramSetting(("PyTorch",), False)) == {}
    log.write_text("{}\n")
    with pytest.raises(ExtError, match=r"log.jsonl is no log of programs that were timed"):
        logged_rows(log, setting)


def test_a_crash_costs_a_row_and_a_log_is_gone_on_with(tmp_path):
    log = tmp_path / "runs" / "log.jsonl"
    cases = [
        tiny_programs.case("ends_the_process"),
        tiny_programs.case("sums", left_out="too small"),
    ]
    told = []
    rows = list(bench.run_programs(cases, peers=["JAX"], quick=True, log=log, progress=told.append))
    assert told == ["1/2 ends_the_process", "2/2 sums"]
    assert rows[0].ours.reason == "reference: ended the process with status 3"
    assert rows[1].ours.reason == "not run: too small"
    assert len(log.read_text().splitlines()) == 2
    again = list(
        bench.run_programs(cases, peers=["JAX"], quick=True, log=log, progress=told.append)
    )
    assert again == rows
    assert len(told) == 2


def test_who_ends_the_process_is_left_out_of_the_next_try(monkeypatch):
    tries = []

    class Dying:
        def __init__(self, *_):
            pass

        def call(self, function, trial):
            tries.append(dict(trial.skipped))
            if "JAX" not in trial.skipped:
                trial.enter("JAX")
                raise WorkerDied("ended the process by SIGSEGV")
            return [row_with("sums", 1.0)]

        def end(self):
            pass

    monkeypatch.setattr(program_runs.workers, "Worker", Dying)
    rows = list(bench.run_programs([tiny_programs.case("sums")], peers=["JAX", "IREE"]))
    assert tries == [{}, {"JAX": "ended the process by SIGSEGV"}]
    assert rows == [row_with("sums", 1.0)]


def test_refuses_what_there_is_not():
    with pytest.raises(ValueError, match="no peer 'Caffe'; there are PyTorch, "):
        list(bench.run_programs([], peers=["Caffe"]))
    with pytest.raises(ValueError, match="the number of threads is 99"):
        list(bench.run_programs([], threads=[99]))


def test_bars_are_drawn_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib", reason="draws the picture: scripts/setup dev bench")
    rows = [*ROWS, row_with("ahead", 3.0, threads=2)]
    places = tmp_path / "a.svg", tmp_path / "new" / "b.svg"
    for place in places:
        bench.save_bars(rows, place)
    assert places[0].read_bytes() == places[1].read_bytes()
    assert places[0].read_text().startswith("<?xml")
    bench.save_bars([], tmp_path / "none.svg")
    assert math.isnan(ROWS[2].ratio)
