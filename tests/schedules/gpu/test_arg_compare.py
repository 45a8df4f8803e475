"""arg_compare on both vendors' GPUs: ties and NaNs as the loop has them."""

import numpy as np
import pytest
from cut_lines import TARGETS, cut_small, random_lines

from tvm_iree_ext import ops
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.arg_compare_rule import GpuArgCompare
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target


def compared(op, target, x, init, config=None, **operands):
    """The simulations; results are the reference's."""
    line = tuple(n for axis, n in enumerate(x.shape) if axis != op.dimension)
    operands = {
        "input_value": x,
        **operands,
        "init_value": np.full(line, init).astype(x.dtype),
        "init_index": np.full(line, -7, "int32"),
    }
    done = simulate_op(op, target, operands, config=config).check()
    for name, want in find(op.name).reference(op, operands).items():
        np.testing.assert_array_equal(done.results[name], want)
    return done.simulations


def few_numbers(*shape, dtype="float32"):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


@pytest.mark.costly
@pytest.mark.parametrize("region", [">", ">=", "<", "<="])
@pytest.mark.parametrize(
    ("target", "shape", "dimension"),
    [
        ("cuda:sm_80", (9, 61), 1),
        ("rocm:gfx942", (2, 1500), 1),
        ("rocm:gfx1100", (3, 40, 20), 1),
    ],
)
def test_equal_elements_are_told_apart_by_position(target, shape, dimension, region):
    op = ops.arg_compare(shape, region, dimension=dimension)
    compared(op, target, few_numbers(*shape), init=3 if ">" in region else -3)


@pytest.mark.parametrize("init", [0.0, np.nan])
def test_what_is_no_number_is_never_taken(init):
    x = np.full((4, 70), np.nan, "float32")
    x[1, 37], x[2, :2] = 5, (np.inf, -np.inf)
    compared(ops.arg_compare(x.shape, dimension=1), "cuda:sm_80", x, init)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_the_parts_of_a_long_line_are_merged(target):
    x = few_numbers(40_001, dtype="float16")
    first, merged = compared(ops.arg_compare(x.shape, dtype="float16"), target, x, init=-3)
    assert first.grid > (1, 1, 1)
    assert merged.grid == (1, 1, 1)
    assert first.uncoalesced == 0


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(2))
def test_parts_of_lines_of_any_shape(target, seed):
    """Parts of the config's length or, where so many workgroups are wanted, of the call's."""
    rng = np.random.default_rng(seed)
    shape, extents, dimension = random_lines(rng)
    region = str(rng.choice([">", ">=", "<", "<="]))
    x = few_numbers(*extents)
    x[rng.random(x.shape) < 0.2] = np.nan
    op, (along, tiles) = (
        ops.arg_compare(shape, region, dimension=dimension), rng.integers(1, 3, 2).tolist()
    )  # fmt: skip
    heuristic = GpuArgCompare().heuristic(op, make_target(target))
    for workgroups in (0, int(rng.integers(2, 9))):
        config = cut_small(heuristic, target, along, tiles, workgroups)
        compared(op, target, x, -2 if ">" in region else 2, config)


def test_a_region_that_is_no_comparison_goes_in_order():
    x = few_numbers(40, 33)
    op = ops.arg_compare(("n", 33), "abs(arg0) > abs(arg1)", dimension=1)
    compared(op, "rocm:gfx1100", x, init=0)


def test_explicit_indices():
    x = few_numbers(5, 40, dtype="int8")
    index = np.random.default_rng(1).integers(0, 1000, x.shape).astype("int32")
    op = ops.arg_compare(x.shape, dimension=0, dtype="int8", input_index=x.shape)
    compared(op, "cuda:sm_80", x, init=-9, input_index=index)
