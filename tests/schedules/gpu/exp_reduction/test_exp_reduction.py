"""exp_reduction on both vendors' GPUs."""

from dataclasses import replace

import numpy as np
import pytest
from cut_lines import TARGETS

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


@pytest.mark.costly
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


WEIGHTED = {
    "indexing_maps": ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", *["(m, n, k) -> (m)"] * 2,
                      "(m, n, k) -> (m, n)"],
    "iterator_types": ["parallel", "parallel", "reduction"],
    "exp_reduced_operands": [1, 2],
    "region": "arg2, arg0 + arg3, arg0 * arg1 + arg4",
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extents", [(3, 5, 300), ("m", "n", "k"), (2, "n", "k"), ("m", 8, 700)])
def test_workgroups_share_the_keys_of_few_rows(target, extents):
    """So many as the config wants at most, none where elements are enough."""
    rng = np.random.default_rng(len(target))
    m, n, k = (
        extent if isinstance(extent, int) else int(rng.integers(*many))
        for extent, many in zip(extents, ((1, 8), (1, 9), (1, 500)), strict=True)
    )
    a, b, c = extents
    op = ops.exp_reduction([(a, c), (c, b)], [(a,), (a,), (a, b)], **WEIGHTED)
    operands = {
        "input0": rng.standard_normal((m, k)).astype("float32"),
        "input1": rng.standard_normal((k, n)).astype("float32"),
        "init0": rng.standard_normal(m).astype("float32"),
        "init1": rng.random(m).astype("float32"),
        "init2": rng.standard_normal((m, n)).astype("float32"),
    }
    heuristic = GpuExpReduction().heuristic(op, make_target(target))
    for keys in (1, 2):
        config = replace(
            heuristic, subgroups={"elements": 2 // keys, "keys": keys}, vector_lanes=4 * keys,
            reduction_tile={"keys": 3}, workgroups=int(rng.integers(4, 30)),
        )  # fmt: skip
        done = simulate_op(op, target, operands, config=config).check()
        for name, want in find(op.name).reference(op, operands).items():
            np.testing.assert_allclose(done.results[name], want, rtol=1e-4, atol=1e-5)


def test_long_rows_take_two_kernels_for_each_output():
    op = ops.exp_reduction(
        [(1, 40_000)], [(1,), (1,)], region="arg1, arg0 + arg2", **ROWS
    )  # fmt: skip
    scores = np.random.default_rng(0).standard_normal((1, 40_000)).astype("float32")
    inits = {"init0": np.full(1, -np.inf, "f4"), "init1": np.zeros(1, "f4")}
    done = simulate_op(op, "cuda:sm_90a", {"input0": scores, **inits}).check()
    # 40000 keys by 128 lanes are 313 steps, of which 16 are worth a workgroup.
    assert [one.grid[0] for one in done.simulations] == [20, 1, 20, 1]
    np.testing.assert_allclose(
        done.results["result1"], np.exp2(scores - scores.max()).sum(1), rtol=1e-5
    )


@pytest.mark.costly
@pytest.mark.parametrize("index", range(3))
def test_weighted_values_of_any_shape(index):
    cases = kernel_checks.random_cases(["exp_reduction"], index=index)
    report = kernel_checks.check(cases, "cuda:sm_80", simulate=True)
    assert [one for one in report if one.status != "passed"] == []


def test_a_config_that_does_not_fit_is_refused():
    rule, target = GpuExpReduction(), make_target("cuda:sm_80")
    op = ops.exp_reduction([(8, 64)], [(8,), (8,)], region="arg1, arg0 + arg2", **ROWS)
    config = rule.heuristic(op, target)
    with pytest.raises(ScheduleError, match="vector_lanes is 64; expected a power of two up to 32"):
        rule.lower(op, target, replace(config, vector_lanes=64))
    with pytest.raises(ScheduleError, match="subgroups is 64; expected at most 32"):
        rule.lower(op, target, replace(config, subgroups={"elements": 64, "keys": 1}))
