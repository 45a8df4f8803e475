"""Whole programs from an archive, on a driver whose launches the simulator runs."""

import json
import subprocess
import sys

import numpy as np
import pytest
from fake_gpu import kernels_of_program

from tvm_iree_ext.bench.programs.listed_programs import PROGRAMS
from tvm_iree_ext.bench.programs.program_case import ProgramCase
from tvm_iree_ext.frontends.jax.jax_functions import import_jax
from tvm_iree_ext.frontends.torch.torch_modules import from_torch
from tvm_iree_ext.gpu_day.archive import write_archive
from tvm_iree_ext.gpu_day.packed_models import ModelTask, packed_model
from tvm_iree_ext.on_gpu import program_run
from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.runtime.launch.launcher import PARAMETERS
from tvm_iree_ext.targets.names import make_target

TARGET = "rocm:gfx942"


def packed_archive(case, place, monkeypatch):
    monkeypatch.setitem(PROGRAMS, case.name, case)
    done = packed_model(ModelTask(case.name, TARGET, str(place / "programs" / "0000")))
    assert (done.problem, done.count) == ("", 1)
    write_archive(place / "day.zip", place)
    return place / "day.zip"


def run_day(gpu, archive, out):
    command = [sys.executable, archive, "--kind", "rocm", "--out", out, "--stages", "programs"]
    return subprocess.run(
        [*map(str, command)], env=gpu.environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def archive(gpu, tmp_path, monkeypatch):
    """An archive with a program of JAX's, and a GPU that has its kernels."""
    pytest.importorskip("jax")
    case = ProgramCase("scaled_sums", "jax", "small_models")
    model = case.make()
    imported = import_jax(model.function, *model.arguments)
    gpu.kernels = kernels_of_program(imported, make_target(TARGET))
    gpu.room = 1 << 40  # for what flushes the cache, which is never touched
    return packed_archive(case, tmp_path, monkeypatch)


def row_of(out):
    (line,) = (out / "programs.jsonl").read_text().splitlines()
    return json.loads(line)


def test_a_program_is_checked_and_timed(gpu, archive, tmp_path):
    done = run_day(gpu, archive, tmp_path / "out")
    assert done.returncode == 0, done.stderr + done.stdout
    row = row_of(tmp_path / "out")
    assert (row["us"], row["status"], row["who"]) == (500.0, "passed", "")
    assert row["call_us"] > 0
    assert f"| {row['launches']} |" in (tmp_path / "out" / "report.md").read_text()


def test_one_that_does_nothing_fails(gpu, archive, tmp_path):
    gpu.refuses = {"launch": [0] * 9999}
    done = run_day(gpu, archive, tmp_path / "out")
    assert done.returncode == 1
    row = row_of(tmp_path / "out")
    assert row["status"] == "failed"
    assert "result 0 is off by" in row["message"]


def test_large_weights_are_drawn_again(tmp_path, monkeypatch):
    pytest.importorskip("iree.turbine")
    case = ProgramCase("wide_layer", "torch", "small_models")
    archive = ArchiveFile(packed_archive(case, tmp_path, monkeypatch))
    weights = archive.case("programs/0000")["weights"]
    assert [name for _, name, _ in weights["named"]] == ["weight"]
    extracted = archive.extract("programs/0000", tmp_path / "there")
    assert not (extracted / PARAMETERS).exists()
    program_run._draw(archive, "programs/0000", weights, case.make(), extracted)
    model = case.make()
    from_torch(model.function, *model.arguments, target=TARGET, folder=tmp_path / "whole")
    whole = np.fromfile(tmp_path / "whole" / PARAMETERS, np.uint8)
    drawn = np.fromfile(extracted / PARAMETERS, np.uint8)
    np.testing.assert_array_equal(drawn[: len(whole)], whole)


def test_without_pytorch_such_weights_are_an_error(tmp_path, monkeypatch):
    pytest.importorskip("iree.turbine")
    case = ProgramCase("wide_layer", "torch", "small_models")
    archive = ArchiveFile(packed_archive(case, tmp_path, monkeypatch))
    weights = archive.case("programs/0000")["weights"]
    with pytest.raises(RuntimeError, match="drawn by PyTorch"):
        program_run._draw(archive, "programs/0000", weights, None, tmp_path)
