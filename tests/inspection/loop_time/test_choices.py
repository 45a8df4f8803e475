"""Heuristics' choices beside others of the tuning space, by the model of time."""

from dataclasses import replace

import pytest

from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.inspection.loop_time.hot_loop_time import hot_loop_time
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.targets.names import make_target

NEAR = 0.95  # of the best rate
BAR = 0.9  # of the matrix units' time


def timed(shape, target, config):
    """The model's time, and floating point operations of a scheduler in a cycle."""
    code = compile_device(schedule_matmul(shape, target, config).mod, target)
    time = hot_loop_time(code, "matmul_kernel")
    assert code.resources["matmul_kernel"].spills == 0
    return time, code.instructions("matmul_kernel").hot_loop.flops / time.cycles


@pytest.mark.parametrize(
    ("chip", "dtype", "order"),
    [("gfx942", "float16", (1, 0)), ("gfx942", "int8", (1, 0)), ("gfx90a", "bfloat16", (0, 1))],
)
def test_the_heuristic_is_near_the_best(chip, dtype, order):
    """Twice the rows, twice the depth, and both, which was the choice before there was a model."""
    target = make_target(f"rocm:{chip}")
    result = "int32" if dtype == "int8" else "float32"
    shape = MatmulShape(4096, 4096, 4096, dtype, dtype, result, rhs_order=order)
    config = matmul_config(shape, target)
    time, rate = timed(shape, target, config)
    assert time.share >= BAR
    taller = (2 * config.tiles[0], config.tiles[1])
    deeper = replace(config, k_tiles=2 * config.k_tiles)
    others = [replace(config, tiles=taller), deeper, replace(deeper, tiles=taller)]
    assert rate >= NEAR * max(timed(shape, target, other)[1] for other in others)
