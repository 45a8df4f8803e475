"""Every call of the driver fails in turn: who met it says so and ends, and the others go on."""

import itertools
import json
import shutil
import subprocess
import sys

import pytest
from day_kernels import asked_for, kernels_of
from failing_driver import FAULT, REFUSED, SAID, failing_driver, failing_library
from faulty_driver import (
    HANGS,
    ILLEGAL_ADDRESS,
    LAUNCH_FAILED,
    LOST_DEVICE,
    OUT_OF_MEMORY,
    Fault,
    faulty,
    faulty_library,
    message_of,
)

from tvm_iree_ext import ops
from tvm_iree_ext.gpu_day.archive import write_archive
from tvm_iree_ext.gpu_day.packed_checks import PackTask, packed
from tvm_iree_ext.gpu_day.packed_speed import SpeedTask, packed_speed
from tvm_iree_ext.gpu_day.speed_cases import CASES, SpeedCase
from tvm_iree_ext.on_gpu import gpu_timer
from tvm_iree_ext.on_gpu.archive_file import CHECKS, PROGRAMS, SPEED, ArchiveFile
from tvm_iree_ext.on_gpu.archive_workers import answer
from tvm_iree_ext.on_gpu.chip_facts import chip_facts
from tvm_iree_ext.on_gpu.kernel_check import checked
from tvm_iree_ext.on_gpu.speed_run import timed
from tvm_iree_ext.runtime.launch import driver as gpu_driver
from tvm_iree_ext.verify.kernel_checks import RandomCase

__all__ = ["failing_driver", "failing_library", "faulty", "faulty_library"]

TARGET = "rocm:gfx942"
COUNT = 24  # checks of the archive, of which each process but the last gets one
LIMIT_S = 5.0  # for a check: what a hang takes, and more than a check does on a busy machine
CASE = RandomCase("iree_linalg_ext.pack", 0, 0)


def small():
    return ops.pack((16, 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2])


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Copies of a check, and a kernel to be timed; the first for CUDA, too, by its manifest."""
    place = tmp_path_factory.mktemp("faults")
    assert packed(PackTask(CASE, TARGET, str(place / CHECKS / "c"))).problem == ""
    first = place / CHECKS / "c-0"
    for number in range(COUNT):
        copy = shutil.copytree(first, place / CHECKS / f"{number:02}")
        case = json.loads((copy / "case.json").read_text())
        (copy / "case.json").write_text(json.dumps({**case, "id": f"check {number:02}"}))
    shutil.rmtree(first)
    for folder in (CHECKS, SPEED, PROGRAMS):
        (place / folder).mkdir(exist_ok=True)
    CASES["small"] = SpeedCase(small, "pack")
    assert packed_speed(SpeedTask("small", TARGET, str(place / SPEED / "rocm"))).problem == ""
    del CASES["small"]
    write_archive(place / "day.zip", place)
    for folder in (place / CHECKS / "cuda", place / SPEED / "cuda"):
        shutil.copytree(place / folder.parent.name / ("00" if CHECKS in str(folder) else "rocm"),
                        folder)  # fmt: skip
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["target"] = {"kind": "cuda", "arch": "sm_80"}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "kernel.hsaco").unlink()
        (folder / "kernel.ptx").write_text(".version 8.0\n.target sm_80\n")
    write_archive(place / "both.zip", place)
    return place / "day.zip"


@pytest.mark.costly
@pytest.mark.parametrize("status", [REFUSED, LOST_DEVICE, ILLEGAL_ADDRESS, FAULT])
@pytest.mark.parametrize(
    ("rows_of", "folder"),
    [
        (checked, f"{CHECKS}/00"),
        (checked, f"{CHECKS}/cuda"),
        (timed, f"{SPEED}/rocm"),
        (timed, f"{SPEED}/cuda"),
        (chip_facts, "rocm"),
        (chip_facts, "cuda"),
    ],
)
def test_each_call_of_a_case_that_fails_is_named(
    failing_driver, archive, monkeypatch, rows_of, folder, status
):
    for name, count in (
        ("_LEAST_RUNS", 3), ("_MOST_RUNS", 3), ("_WARM_RUNS", 1), ("_WARM_S", 0.0), ("_TRIES", 1),
    ):  # fmt: skip
        monkeypatch.setattr(gpu_timer, name, count)
    file = ArchiveFile(archive.with_name("both.zip"))

    def run():
        *rows, end = answer(file, rows_of, folder)
        return rows, json.loads(end.partition(" ")[2])

    failing_driver.driver_reset(-1, 0)
    rows, end = run()
    assert len(rows) == 1
    assert end == ["", True]
    count = failing_driver.driver_calls()
    assert count > (20 if "/" in folder else 3)
    for at in range(count):
        gpu_driver._losses.clear()
        failing_driver.driver_reset(at, status)
        rows, (problem, goes_on) = run()
        name = failing_driver.driver_failed().decode()
        assert problem == f"DriverError: {name} failed with status {SAID[status]}"
        assert not goes_on


def run_day(gpu, archive, out, *arguments):
    command = [sys.executable, archive, "--kind", "rocm", "--out", out, "--jobs", "1"]
    command += ["--stages", "checks", "--check-seconds", LIMIT_S, *arguments]
    return subprocess.run(
        [*map(str, command)], env=gpu.environment, capture_output=True, text=True, timeout=120
    )


def rows_of_day(out):
    return [json.loads(line) for line in (out / "checks.jsonl").read_text().splitlines()]


@pytest.fixture
def device(gpu):
    """A GPU that has the kernel of the checks."""
    gpu.kernels = kernels_of(asked_for(CASE), TARGET)
    return gpu


def test_a_day_goes_on_after_a_fault_at_any_call(faulty, device, archive, tmp_path):
    assert run_day(device, archive, tmp_path, "--only", "check 00").returncode == 0
    before = (tmp_path / "checks.jsonl").read_text()
    _facts, called = faulty.called
    names = list(dict.fromkeys(called))
    assert {"hipInit", "hipMalloc", "hipModuleLaunchKernel", "hipFree"} < set(names)
    statuses = itertools.cycle([OUT_OF_MEMORY, ILLEGAL_ADDRESS, LAUNCH_FAILED, LOST_DEVICE])
    hanging = ("hipModuleLoadData", "hipDeviceSynchronize")
    faults = [
        Fault(name, HANGS if name in hanging else status)
        for name, status in zip(names, statuses, strict=False)
    ]
    faulty.called.clear()
    faulty.faults = [None, *faults]  # none for the process that asks what the GPU is
    done = run_day(device, archive, tmp_path)
    assert done.returncode == 1, done.stderr
    assert faulty.met == faults
    assert len(faulty.called) == 1 + len(faults) + 1  # each fault ends one process
    assert (tmp_path / "checks.jsonl").read_text().startswith(before)
    rows = rows_of_day(tmp_path)
    assert len({row["case"] for row in rows}) == len(rows) == COUNT
    messages = [row["message"] for row in rows if row["status"] == "broke"]
    hung = f"took over {LIMIT_S:.0f} s"
    assert messages == [hung if one.status == HANGS else message_of(one) for one in faults]
    assert [row["status"] for row in rows].count("passed") == COUNT - len(faults)
    report = (tmp_path / "report.md").read_text()
    assert all(message in report for message in messages)


def test_a_fault_of_the_process_that_asks_first_is_said_and_tried_again(
    faulty, device, archive, tmp_path
):
    fault = Fault("hipGetDeviceCount", OUT_OF_MEMORY)
    faulty.faults = [fault]
    done = run_day(device, archive, tmp_path, "--only", "check 00")
    assert done.returncode == 0
    assert f"gpu-day: {message_of(fault)}" in done.stderr
    assert [row["status"] for row in rows_of_day(tmp_path)] == ["passed"]
