"""The archive's checks, with a driver whose launches are run by the simulator."""

import json
import subprocess
import sys
import time

import pytest
from day_kernels import asked_for, kernels_of

from tvm_iree_ext import ops
from tvm_iree_ext.gpu_day.archive import PackOrder, pack, write_archive
from tvm_iree_ext.gpu_day.packed_probes import packed_probe, probe_tasks
from tvm_iree_ext.gpu_day.packed_speed import SpeedTask, packed_speed
from tvm_iree_ext.gpu_day.speed_cases import CASES, SpeedCase
from tvm_iree_ext.on_gpu.day import ResultFile
from tvm_iree_ext.verify.kernel_checks import RandomCase

TARGET = "rocm:gfx942"


@pytest.fixture(scope="module")
def cases():
    return [RandomCase("iree_linalg_ext.pack", 0, 0), RandomCase("iree_linalg_ext.map_load", 0, 0)]


@pytest.fixture(scope="module")
def archive(cases, tmp_path_factory):
    path = tmp_path_factory.mktemp("day") / "day.zip"
    done = list(pack(path, PackOrder([(TARGET, cases, False)])))
    assert [(one.problem, one.count) for one in done] == [("", 1), ("", 1)]
    return path


def kernels_of_all(cases):
    return {
        name: kernel
        for case in cases
        for name, kernel in kernels_of(asked_for(case), TARGET).items()
    }


def run_day(gpu, archive, out, *arguments):
    command = [sys.executable, archive, "--kind", "rocm", "--out", out, *arguments]
    return subprocess.run(
        [*map(str, command)], env=gpu.environment, capture_output=True, text=True, timeout=120
    )


def rows(out, name="checks"):
    return [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]


def test_right_kernels_pass(gpu, archive, cases, tmp_path):
    gpu.kernels = kernels_of_all(cases)
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    assert [row["status"] for row in rows(tmp_path)] == ["passed", "passed"]
    assert "2 passed" in (tmp_path / "report.md").read_text()
    launches = gpu.calls.count("launch")
    again = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert again.returncode == 0
    assert gpu.calls.count("launch") == launches  # nothing is done twice


def test_a_fault_ends_its_process_and_not_the_others(gpu, archive, cases, tmp_path):
    gpu.kernels = kernels_of_all(cases)
    gpu.refuses = {"launch": [700]}
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 1
    first, second = rows(tmp_path)
    assert first["status"] == "broke"
    assert "status 700" in first["message"]
    assert second["status"] == "failed"  # the driver launches nothing any more; the case ran


def test_a_line_that_was_cut_off_is_no_row_and_takes_none_along(tmp_path):
    path = tmp_path / "checks.jsonl"
    path.write_text('{"case": "first"}\n{"case": "sec')
    results = ResultFile(path)
    assert results.rows == [{"case": "first"}]
    results.add({"case": "third"})
    assert ResultFile(path).rows == [{"case": "first"}, {"case": "third"}]


def test_without_a_gpu_nothing_is_run_and_nothing_is_written(gpu, archive, tmp_path):
    (tmp_path / "report.md").write_text("of an earlier day")
    (gpu.place / "libamdhip64.so").unlink()
    done = run_day(gpu, archive, tmp_path)
    assert done.returncode == 1
    assert "nothing is run: DriverError: no GPU driver: looked for" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md").read_text() == "of an earlier day"


def test_a_day_without_minutes_ends(gpu, archive, cases, tmp_path):
    """The case that runs when it ends is left for another day."""
    gpu.kernels = kernels_of_all(cases)
    gpu.delay_s = 60  # of a launch
    start = time.monotonic()
    done = run_day(gpu, archive, tmp_path, "--minutes", "0.05", "--jobs", "1")
    assert time.monotonic() - start < 20
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path) == []
    assert (tmp_path / "report.md").exists()


def test_a_kernel_that_does_nothing_fails(gpu, archive, cases, tmp_path):
    gpu.kernels = kernels_of_all(cases)
    gpu.refuses = {"launch": [0] * 99}
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 1
    assert {row["status"] for row in rows(tmp_path)} == {"failed"}


def test_kernels_are_timed(gpu, tmp_path, monkeypatch):
    small = SpeedCase(lambda: ops.pack((16, 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2]), "pack")
    monkeypatch.setitem(CASES, "small", small)
    gpu.kernels = kernels_of(small.make(), TARGET)
    task = SpeedTask("small", TARGET, str(tmp_path / "speed" / "0000"))
    assert packed_speed(task).problem == ""
    (probe,) = probe_tasks([TARGET], tmp_path / "peaks")
    assert packed_probe(probe).problem == ""
    write_archive(tmp_path / "day.zip", tmp_path)
    gpu.room = 1 << 40  # for what flushes the cache, which is never touched
    done = run_day(gpu, tmp_path / "day.zip", tmp_path / "out", "--stages", "peaks,speed")
    assert done.returncode == 0, done.stderr + done.stdout
    (row,) = rows(tmp_path / "out", "speed")
    assert (row["us"], row["status"]) == (500.0, "passed")
    (peak,) = rows(tmp_path / "out", "peaks")
    assert (peak["us"], peak["bytes"]) == (500.0, 2 << 30)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| copy | 4.295 |  |" in report  # TB/s
    assert "| small | ours | 500.0 | 0.0 | 0 | 0% | 1.00 |  |" in report
    assert (tmp_path / "out" / "roofline.svg").read_text().startswith("<svg")
