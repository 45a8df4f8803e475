"""A day on an emulated GPU: an archive's binaries themselves are loaded, checked and executed."""

import json
import subprocess
import sys

import pytest
from emulated_gpu import emulated_gpu

from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.emulator.runs.emulated_targets import emulated_obstacle
from tvm_iree_ext.gpu_day.archive import write_archive
from tvm_iree_ext.gpu_day.packed_checks import packed, tasks
from tvm_iree_ext.on_gpu.archive_file import CHECKS
from tvm_iree_ext.verify.kernel_checks import RandomCase

__all__ = ["emulated_gpu"]

CASES = [
    RandomCase(f"iree_linalg_ext.{op}", 0, index)
    for op, index in (("pack", 0), ("map_load", 0), ("scan", 0))
]
CHIPS = [
    pytest.param("rocm", "gfx942"),
    pytest.param(
        "cuda", "sm_80", marks=pytest.mark.skipif(bool(nvrtc_obstacle()), reason="no NVRTC")
    ),
]


def archive_for(kind, chip, cases, place):
    """The archive that ``gpu-day --pack`` writes, made in this process; and how many checks."""
    work = list(tasks(cases, f"{kind}:{chip}", place / CHECKS, ptx=kind == "cuda"))
    done = [packed(task) for task in work]
    assert [one.problem for one in done] == [""] * len(cases)
    write_archive(place / "day.zip", place)
    return place / "day.zip", sum(one.count for one in done)


def run_day(gpu, kind, archive, out):
    command = [sys.executable, archive, "--kind", kind, "--out", out]
    command += ["--minutes", "2", "--jobs", "2"]
    return subprocess.run(
        [*map(str, command)], env=gpu.environment, capture_output=True, text=True, timeout=150
    )


@pytest.mark.costly
@pytest.mark.parametrize(("kind", "chip"), CHIPS)
def test_checks_pass_and_are_reported(emulated_gpu, tmp_path, kind, chip):
    pytest.importorskip("tinygrad")
    assert emulated_obstacle(kind, chip) == ""
    path, count = archive_for(kind, chip, CASES, tmp_path)
    gpu = emulated_gpu(kind, chip)
    ended = run_day(gpu, kind, path, tmp_path / "out")
    assert ended.returncode == 0, ended.stdout + ended.stderr + str(gpu.calls)
    lines = (tmp_path / "out" / "checks.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["passed"] * count
    assert gpu.launched >= 2 * count  # each kernel runs twice
    report = (tmp_path / "out" / "report.md").read_text()
    assert f"{count} passed" in report
    assert chip in report


def test_an_archive_for_another_chip_says_so(emulated_gpu, tmp_path):
    pytest.importorskip("tinygrad")
    path, _ = archive_for("rocm", "gfx942", CASES[:1], tmp_path)
    ended = run_day(emulated_gpu("rocm", "gfx90a"), "rocm", path, tmp_path / "out")
    assert ended.returncode == 1
    (row,) = map(json.loads, (tmp_path / "out" / "checks.jsonl").read_text().splitlines())
    assert row["status"] == "broke"
    assert "kernel.hsaco is for gfx942; the GPU is gfx90a:sramecc+:xnack-" in row["message"]
