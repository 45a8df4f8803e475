"""Sort on GPUs: networks and merges on the simulator, beside NumPy; configs that do not fit."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

MERGE = LoweringConfig(algorithm="merge", workgroup_tile={"elements": 16, "lanes": 64})
TARGETS = ("cuda:sm_80", "rocm:gfx942")


def check(op, target, operands, config=None):
    done = simulate_op(op, target, operands, config).check()
    want = ext.registry.find("sort").reference(op, operands)
    for name, array in want.items():
        np.testing.assert_array_equal(done.results[name], array)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dimension", [0, 1])
def test_lines_of_any_dim_are_sorted_stably(dimension, target):
    rng = np.random.default_rng(dimension)
    keys = rng.integers(0, 9, (5, 19)).astype(np.float16)
    payload = np.arange(95, dtype=np.int64).reshape(5, 19)
    op = ops.sort(keys, payload, dimension=dimension, region=">")
    check(op, target, {"operand0": keys, "operand1": payload})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("region", ["<", "abs(arg0) < abs(arg1)"])
def test_long_lines_are_merged(region, target):
    keys = np.random.default_rng(3).integers(-6, 6, (2, 75)).astype(np.int32)
    payload = np.arange(150, dtype=np.int8).reshape(2, 75)
    op = ops.sort(keys, payload, dimension=1, region=region)
    check(op, target, {"operand0": keys, "operand1": payload}, MERGE)


def test_lengths_may_be_known_at_the_call_only():
    op = ops.sort(TensorType(("n",), "int32"), dimension=0)
    for length in (1, 16, 17, 70):
        keys = np.random.default_rng(length).integers(-99, 99, length).astype(np.int32)
        check(op, "cuda:sm_80", {"operand0": keys}, MERGE)


@pytest.mark.parametrize("config", [None, MERGE])
def test_nan_goes_last_and_nothing_is_lost(config):
    keys = np.random.default_rng(5).standard_normal(37).astype(np.float32)
    keys[[3, 20, 36]] = np.nan
    op = ops.sort(keys, dimension=0, region=">=")
    done = simulate_op(op, "rocm:gfx1100", {"operand0": keys}, config).check()
    np.testing.assert_array_equal(done.results["result0"], -np.sort(-keys))


def test_a_comparator_that_is_no_order_gives_a_permutation():
    keys = np.arange(90, dtype=np.int32)
    op = ops.sort(keys, dimension=0, region=lambda a, b: (a * 7 + b * 3) % 5 < 2)
    done = simulate_op(op, "cuda:sm_80", {"operand0": keys}, MERGE).check()
    np.testing.assert_array_equal(np.sort(done.results["result0"]), keys)


def test_wide_comparators_have_smaller_tiles():
    keys = [TensorType((2, 3000), "int64")] * 3
    region = "arg0 < arg1 or (arg0 == arg1 and (arg2 < arg3 or (arg2 == arg3 and arg4 < arg5)))"
    op = ops.sort(*keys, dimension=1, region=region)
    for name in ("cuda:sm_80", "rocm:gfx942"):
        target = make_target(name)
        rule = choose(op, target)
        assert rule.lower(op, target, rule.heuristic(op, target))


def test_lines_whose_places_have_no_number_are_refused():
    with pytest.raises(ScheduleError, match="length is 2147483653"):
        ext.build(ops.sort(TensorType((2**31 + 5,), "int8"), dimension=0), "cuda:sm_80")


@pytest.mark.parametrize(
    ("tile", "algorithm", "match"),
    [
        ({"elements": 48, "lanes": 32}, "merge", "elements.*is 48"),
        ({"elements": 64, "lanes": 33}, "merge", "lanes.*is 33"),
        ({"elements": 64, "lanes": 32}, "network", "does not fit 64"),
        ({"elements": 1 << 20, "lanes": 32}, "merge", "bytes; there are"),
    ],
)
def test_configs_that_do_not_fit_are_refused(tile, algorithm, match):
    op = ops.sort(TensorType((300,), "float32"), dimension=0)
    config = LoweringConfig(algorithm=algorithm, workgroup_tile=tile)
    with pytest.raises(ScheduleError, match=match):
        ext.build(op, "cuda:sm_80", config)
