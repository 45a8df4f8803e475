"""Top-k on GPUs: every form on the simulator, beside the dialect's loops."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.topk.topk_rule import GpuTopk
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip
from tvm_iree_ext.targets.names import make_target

TILE = {"elements": 16, "lanes": 64}
CONFIGS = {
    "network": LoweringConfig(algorithm="network", workgroup_tile=TILE),
    "filter": LoweringConfig(
        algorithm="filter", workgroup_tile={"elements": 128, "lanes": 64}, splits=3
    ),
    "merge": LoweringConfig(algorithm="merge", workgroup_tile=TILE),
}
LENGTHS = {"network": 13, "filter": 700, "merge": 70}


def operands(rng, lines, length, k, dtype="float32", ordered=True):
    values = rng.integers(-9, 9, (lines, length)).astype(dtype)
    inits = rng.integers(-12, -5, (lines, k)).astype(dtype)
    inits = -np.sort(-inits, axis=1) if ordered else inits
    places = np.sort(rng.integers(0, 1000, (lines, k)), axis=1).astype(np.int32)
    return {"values": values, "output_values_init": inits, "output_indices_init": places}


def check(op, target, given, config=None):
    done = simulate_op(op, target, given, config).check()
    want = ext.registry.find(op.name).reference(op, given)
    for name, array in want.items():
        np.testing.assert_array_equal(done.results[name], array)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("algorithm", CONFIGS)
def test_forms_agree_with_the_loops(algorithm, target):
    given = operands(np.random.default_rng(1), 3, LENGTHS[algorithm], 3)
    op = ops.topk(*(given[n] for n in ("values", "output_values_init")), dimension=1)
    check(op, target, given, CONFIGS[algorithm])


@pytest.mark.parametrize("region", [">", ">=", "abs(arg0) > abs(arg1)"])
def test_inits_in_any_order_and_comparators_of_any_kind_follow_the_loops(region):
    given = operands(np.random.default_rng(2), 5, 20, 4, ordered=False)
    op = ops.topk(given["values"], given["output_values_init"], dimension=1, region=region)
    check(op, "rocm:gfx1100", given)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("algorithm", CONFIGS)
def test_of_equal_values_the_first_is_selected_by_a_comparator_that_is_not_strict(
    algorithm, target
):
    given = operands(np.random.default_rng(6), 3, LENGTHS[algorithm], 3, "int32")
    given["output_values_init"][:], given["output_indices_init"][:] = -100, 2**31 - 1
    op = ops.topk(given["values"], given["output_values_init"], dimension=1, region=">=")
    done = simulate_op(op, target, given, CONFIGS[algorithm]).check()
    order = np.argsort(-given["values"], axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(done.results["output_indices"], order)


def test_a_nan_among_the_inputs_is_never_selected():
    given = operands(np.random.default_rng(3), 2, 50, 5)
    given["values"][:, ::3] = np.nan
    op = ops.topk(given["values"], given["output_values_init"], dimension=1)
    check(op, "cuda:sm_80", given, CONFIGS["filter"])
    check(op, "cuda:sm_80", given)


def test_k_may_be_known_at_the_call_only_and_lines_lie_side_by_side():
    given = operands(np.random.default_rng(4), 6, 9, 4, dtype="int16")
    given = {name: np.ascontiguousarray(array.T) for name, array in given.items()}
    op = ops.topk(
        TensorType(("n", 6), "int16"), TensorType(("k", 6), "int16"), dimension=0, region="<"
    )
    given["output_values_init"] = np.sort(-given["output_values_init"], axis=0)
    config = LoweringConfig(algorithm="merge", workgroup_tile=TILE)
    check(op, "rocm:gfx942", given, config)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx1100"])
@pytest.mark.parametrize("splits", [1, 2, 40])
def test_a_filter_sorts_its_list_as_often_as_it_is_filled(splits, target):
    """Elements that come worst first all go before the threshold."""
    rng = np.random.default_rng(7)
    given = operands(rng, 1, 1500, 9, "int32")
    given["values"].sort(axis=1)
    op = ops.topk(given["values"], given["output_values_init"], dimension=1)
    tile = {"elements": 128, "lanes": 64}
    check(op, target, given, LoweringConfig("filter", workgroup_tile=tile, splits=splits))


@pytest.mark.costly
@pytest.mark.parametrize("length", [0, 1, 100, 900])
def test_a_filter_takes_lines_whose_length_is_known_at_the_call_only(length):
    given = operands(np.random.default_rng(8), 2, length, 7, "float16")
    values = TensorType((2, "n"), "float16")
    op = ops.topk(values, given["output_values_init"], dimension=1)
    target = make_target("cuda:sm_80")
    assert choose(op, target).heuristic(op, target).algorithm == "filter"
    check(op, "cuda:sm_80", given, CONFIGS["filter"])


@pytest.mark.parametrize("chip", chip_names())
def test_lists_fit_every_chip(chip):
    target = make_target(f"{gpu_chip(chip).kind}:{chip}")
    for k in (1, 8, 100, 500):
        op = ops.topk((64, 131072), dimension=1, k=k)
        config = GpuTopk().heuristic(op, target)
        assert config.algorithm == "filter"
        GpuTopk().shape(op, target, GpuTopk().check(config))


def test_a_filter_that_keeps_too_many_is_refused():
    op = ops.topk((300,), k=65, dimension=0)
    with pytest.raises(ScheduleError, match="lists of 128 for 64 lanes keep up to 64"):
        ext.build(op, "cuda:sm_80", CONFIGS["filter"])


def test_a_filter_needs_a_known_number_of_those_that_are_kept():
    op = ops.topk((300,), k="k", dimension=0)
    with pytest.raises(ScheduleError, match="'filter' needs extents that are known"):
        ext.build(op, "cuda:sm_80", CONFIGS["filter"])
