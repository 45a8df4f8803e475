"""Winograd transforms on GPUs, on the simulator, beside the reference; without spills."""

import itertools

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

CASES = {
    "input_edges": ops.winograd_input_transform((1, 9, 12, 3)),
    "input_nchw": ops.winograd_input_transform((2, 5, 8, 8), image_dimensions=(2, 3)),
    "input_dynamic": ops.winograd_input_transform(("n", "h", 8, 2), output_tile_size=4),
    "filter_fchw": ops.winograd_filter_transform((5, 3, 3, 3), kernel_dimensions=(2, 3)),
    "filter_tile": ops.winograd_filter_transform((3, 3), output_tile_size=2),
    "output_nchw": ops.winograd_output_transform((8, 8, 1, 2, 1, 3), image_dimensions=(2, 3)),
}
CASES |= {
    "input_5x5": ops.winograd_input_transform((1, 9, 8, 2), output_tile_size=4, kernel_size=5),
    "filter_7x7": ops.winograd_filter_transform((7, 7, 2, 3), output_tile_size=2, kernel_size=7),
}
LINES = {
    "input_of_one_dim": ops.winograd_input_transform((2, 9, 3), image_dimensions=(1,)),
    "filter_of_one_dim": ops.winograd_filter_transform((5, 2, 3), kernel_dimensions=(2,)),
    "output_of_one_dim": ops.winograd_output_transform((8, 1, "n", 3), image_dimensions=(2,)),
}
SIZES = {"n": 2, "h": 7}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "target"), list(zip(CASES, itertools.cycle(["cuda:sm_80", "rocm:gfx942"])))
)
def test_tiles_are_the_references(name, target):
    check(CASES[name], target)


@pytest.mark.parametrize(
    ("name", "target"), list(zip(LINES, ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"], strict=True))
)
def test_tiles_of_one_dim_are_the_references(name, target):
    check(LINES[name], target)


def check(op, target):
    """Simulate and compare."""
    shape = [SIZES.get(extent, extent) for extent in op.input.shape]
    operands = {"input": np.random.default_rng(1).standard_normal(shape, np.float32)}
    done = simulate_op(op, target, operands).check()
    want = ext.registry.find(op.name).reference(op, operands)["result"]
    np.testing.assert_allclose(done.results["result"], want, rtol=1e-4, atol=1e-4)


def test_a_tile_fits_the_registers():
    target = make_target("rocm:gfx942")
    op = ops.winograd_input_transform((4, 58, 58, 64), dtype="float64")
    rule = choose(op, target)
    code = compile_device(rule.lower(op, target, rule.heuristic(op, target)), target)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes) == (0, 0)
