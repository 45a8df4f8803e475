"""Scatter on GPUs: unique indices, atomic updates, updates in order."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.slices.scatter_rule import GpuScatter
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

TARGETS = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")


def repeated(rng, region, dtype, count=300, rows=90, columns=5):
    """Updates of which many hit the same rows, and some none."""
    op = ops.scatter(
        ("n", columns), ("n",), (rows, columns), dtype=dtype, region=region, unique_indices=False
    )
    operands = {
        "updates": rng.integers(0, 5, (count, columns)).astype(dtype),
        "indices": rng.integers(-2, 20, count).astype("int32"),
        "original": rng.integers(0, 9, (rows, columns)).astype(dtype),
    }
    return op, operands


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_random_scatters_agree_with_the_reference(target):
    report = kernel_checks.check_random(
        ["iree_linalg_ext.scatter"], target, count=2, seed=4, simulate=True
    )
    assert [result for result in report.results if result.status != "passed"] == []


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("region", "dtype", "algorithm"),
    [
        ("add", "int32", "atomic"),
        ("max", "int64", "atomic"),
        ("arg0", "float16", "ordered"),  # the last update stays
        ("arg1 - 2 * arg0", "float32", "ordered"),
    ],
)
def test_repeated_indices_are_applied_in_batch_order(target, region, dtype, algorithm):
    op, operands = repeated(np.random.default_rng(0), region, dtype)
    resolved = make_target(target)
    config = GpuScatter().heuristic(op, resolved)
    assert config.algorithm == algorithm
    lanes = 2 * config.workgroup_tile["lanes"] // 4
    small = replace(config, workgroup_tile={"lanes": lanes, "batch": 2 * lanes}, splits=3)
    done = simulate_op(op, target, operands, small).check()
    want = find(op.name).reference(op, operands)["result"]
    np.testing.assert_array_equal(done.results["result"], want)


def test_sums_of_floats_are_atomic_where_that_is_asked_for():
    op, operands = repeated(np.random.default_rng(1), "add", "float32")
    rule, target = GpuScatter(), make_target("rocm:gfx942")
    config = rule.heuristic(op, target)
    assert config.algorithm == "ordered"
    config = replace(config, algorithm="atomic")
    done = simulate_op(op, target, operands, config).check()
    want = find(op.name).reference(op, operands)["result"]
    np.testing.assert_array_equal(done.results["result"], want)  # small whole numbers
    assembly = compile_device(rule.lower(op, target, config), target).assembly
    assert "global_atomic_add_f32" in assembly
    assert "cmpswap" not in assembly


def test_a_config_that_does_not_fit_is_refused():
    rule, target = GpuScatter(), make_target("cuda:sm_80")
    op, _ = repeated(np.random.default_rng(0), "arg0 - arg1", "float32")
    config = rule.heuristic(op, target)
    for change, message in (
        ({"algorithm": "unique"}, "'unique' loses updates unless indices are unique"),
        ({"algorithm": "atomic"}, "'atomic' needs a region that is one update of float32"),
        ({"workgroup_tile": {"lanes": 96, "batch": 96}}, "is 96; expected a power of two"),
        ({"workgroup_tile": {"lanes": 64, "batch": 96}}, "is 96; expected a multiple of 64"),
    ):
        with pytest.raises(ScheduleError, match=message):
            rule.lower(op, target, replace(config, **change))
