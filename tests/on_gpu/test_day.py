"""The archive's checks, with a driver whose launches are run by the simulator."""

import json
import subprocess
import sys

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.gpu_day.archive import PackOrder, pack, write_archive
from tvm_iree_ext.gpu_day.packed_speed import SpeedTask, packed_speed
from tvm_iree_ext.gpu_day.speed_cases import CASES, SpeedCase
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify.kernel_checks import RandomCase

TARGET = "rocm:gfx942"


def asked_for(case):
    """The op of a random case."""
    ops_of_it = []

    def run(op, operands):
        ops_of_it.append(op)
        return ENTRIES[op.name].reference(op, operands)

    case.check(run)
    return ops_of_it[0]


def kernels_of(case):
    op = asked_for(case)
    target = make_target(TARGET)
    rule = choose(op, target)
    code = compile_device(rule.lower(op, target, rule.heuristic(op, target)), target)
    return {str(name.name_hint): func for name, func in code.module.functions.items()}


@pytest.fixture(scope="module")
def cases():
    return [RandomCase("iree_linalg_ext.pack", 0, 0), RandomCase("iree_linalg_ext.map_load", 0, 0)]


@pytest.fixture(scope="module")
def archive(cases, tmp_path_factory):
    path = tmp_path_factory.mktemp("day") / "day.zip"
    done = list(pack(path, PackOrder([(TARGET, cases, False)])))
    assert [(one.problem, one.count) for one in done] == [("", 1), ("", 1)]
    return path


def run_day(gpu, archive, out, *arguments):
    command = [sys.executable, archive, "--kind", "rocm", "--out", out, *arguments]
    return subprocess.run(
        [*map(str, command)], env=gpu.environment, capture_output=True, text=True, timeout=120
    )


def rows(out, name="checks"):
    return [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]


def test_right_kernels_pass(gpu, archive, cases, tmp_path):
    gpu.kernels = {**kernels_of(cases[0]), **kernels_of(cases[1])}
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    assert [row["status"] for row in rows(tmp_path)] == ["passed", "passed"]
    assert "2 passed" in (tmp_path / "report.md").read_text()
    launches = gpu.calls.count("launch")
    again = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert again.returncode == 0
    assert gpu.calls.count("launch") == launches  # nothing is done twice


def test_a_fault_ends_its_process_and_not_the_others(gpu, archive, cases, tmp_path):
    gpu.kernels = {**kernels_of(cases[0]), **kernels_of(cases[1])}
    gpu.refuses = {"launch": [700]}
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 1
    first, second = rows(tmp_path)
    assert first["status"] == "broke"
    assert "status 700" in first["message"]
    assert second["status"] == "failed"  # the driver launches nothing any more; the case ran


def test_a_kernel_that_does_nothing_fails(gpu, archive, cases, tmp_path):
    gpu.kernels = {**kernels_of(cases[0]), **kernels_of(cases[1])}
    gpu.refuses = {"launch": [0] * 99}
    done = run_day(gpu, archive, tmp_path, "--jobs", "1")
    assert done.returncode == 1
    assert {row["status"] for row in rows(tmp_path)} == {"failed"}


def test_kernels_are_timed(gpu, tmp_path, monkeypatch):
    small = SpeedCase(lambda: ops.pack((16, 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2]), "pack")
    monkeypatch.setitem(CASES, "small", small)
    target = make_target(TARGET)
    rule = choose(small.make(), target)
    config = rule.heuristic(small.make(), target)
    code = compile_device(rule.lower(small.make(), target, config), target)
    gpu.kernels = {str(name.name_hint): func for name, func in code.module.functions.items()}
    task = SpeedTask("small", TARGET, str(tmp_path / "speed" / "0000"))
    assert packed_speed(task).problem == ""
    write_archive(tmp_path / "day.zip", tmp_path)
    gpu.room = 1 << 40  # for what flushes the cache, which is never touched
    done = run_day(gpu, tmp_path / "day.zip", tmp_path / "out", "--stages", "speed")
    assert done.returncode == 0, done.stderr + done.stdout
    (row,) = rows(tmp_path / "out", "speed")
    assert (row["us"], row["status"]) == (500.0, "passed")
    assert "| small | ours | 500.0 |" in (tmp_path / "out" / "report.md").read_text()
