"""exp_reduction on both vendors' GPUs."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.exp_reduction.exp_reduction_rule import GpuExpReduction
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

ROWS = {
    "indexing_maps": ["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"],
    "iterator_types": ["parallel", "reduction"],
    "exp_reduced_operands": [1],
}


@pytest.mark.parametrize(
    ("target", "shape", "region"),
    [
        ("cuda:sm_80", (3, 700), "arg1, arg0 + arg2"),  # subgroups share the keys
        ("rocm:gfx942", (40, 50), "arg1, arg0 + arg2"),
        ("rocm:gfx1100", (5, 33), "arg1, max(arg0, arg2)"),  # in order
    ],
)
def test_rows(target, shape, region):
    scores = np.random.default_rng(0).standard_normal(shape).astype("float32")
    op = ops.exp_reduction([shape], [shape[:1], shape[:1]], region=region, **ROWS)
    inits = {"init0": np.full(shape[0], -np.inf, "f4"), "init1": np.zeros(shape[0], "f4")}
    operands = {"input0": scores, **inits}
    done = simulate_op(op, target, operands).check()
    for name, want in find(op.name).reference(op, operands).items():
        np.testing.assert_allclose(done.results[name], want, rtol=1e-5)


def test_weighted_values_of_any_shape():
    report = kernel_checks.check_random(["exp_reduction"], "cuda:sm_80", count=3, simulate=True)
    assert [one for one in report.results if one.status != "passed"] == []


def test_a_config_that_does_not_fit_is_refused():
    rule, target = GpuExpReduction(), make_target("cuda:sm_80")
    op = ops.exp_reduction([(8, 64)], [(8,), (8,)], region="arg1, arg0 + arg2", **ROWS)
    config = rule.heuristic(op, target)
    with pytest.raises(ScheduleError, match="vector_lanes is 64; expected a power of two up to 32"):
        rule.lower(op, target, replace(config, vector_lanes=64))
    with pytest.raises(ScheduleError, match="subgroups is 64; expected at most 32"):
        rule.lower(op, target, replace(config, subgroups={"elements": 64, "keys": 1}))
