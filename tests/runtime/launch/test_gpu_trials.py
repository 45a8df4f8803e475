"""Trials of kernels on a GPU: operands are copied there once, and memory is given back."""

import numpy as np

import tvm_iree_ext as ext
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tuning.measuring import trial

TARGET = make_target("rocm:gfx942")


def test_a_candidate_is_checked_and_timed(gpu, tmp_path):
    op = ext.ops.pack((16, 8), inner_dims_pos=[0, 1], inner_tiles=[4, 2])
    rule = choose(op, TARGET)
    config = rule.heuristic(op, TARGET)
    code = compile_device(rule.lower(op, TARGET, config), TARGET)
    gpu.kernels = {str(name.name_hint): func for name, func in code.module.functions.items()}
    task = tmp_path / "task"
    x = np.arange(16 * 8, dtype="float32").reshape(16, 8)
    trial.TrialTask(op, {"input": x}).write(task)
    assert trial.prepare_task(task) == ""
    ext.build(op, TARGET, config, folder=tmp_path / "kernel")
    order = trial.RunOrder(task, tmp_path / "kernel")
    before = dict(gpu.held)
    assert trial.check_candidate(order) == ("ok", "")
    held, copies = dict(gpu.held), len(gpu.writes)
    gpu.room = 1 << 40  # for what flushes the cache, which is never touched
    times = trial.time_candidate(tmp_path / "kernel")
    assert len(times) >= 9
    assert set(times) == {500.0}  # what the driver's events say
    assert (gpu.held, len(gpu.writes)) == (held, copies)
    gpu.refuses = {"launch": [1]}
    status, message = trial.check_candidate(order)
    assert (status, message[:12]) == ("run_failed", "DriverError:")
    assert gpu.held == before
    gpu.refuses = {"launch": [1], "free": [2, 2]}  # the memory that is not given back, too
    status, message = trial.check_candidate(order)
    assert (status, "hipModuleLaunchKernel" in message) == ("run_failed", True)
