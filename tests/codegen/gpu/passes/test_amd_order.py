"""Loops of two tiles by turns: what they compute, and where their accesses stand."""

import re

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.codegen.gpu.instruction_counts import hot_loop_text
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.names import make_target

HALF = ("float16", "float16", "float32")
NUMPY = {"bfloat16": ml_dtypes.bfloat16}
CASES = [
    ("gfx950", "MFMA_F32_32x32x16_F16", HALF, (1, 0)),
    ("gfx950", "MFMA_F32_32x32x16_F16", HALF, (0, 1)),
    ("gfx950", "MFMA_F32_32x32x16_BF16", ("bfloat16", "bfloat16", "float32"), (1, 0)),
    ("gfx950", "MFMA_I32_32x32x32_I8", ("int8", "int8", "int32"), (0, 1)),
    ("gfx942", "VMFMA_F32_16x16x32_F16", HALF, (1, 0)),
]
TURNS = {"tiles": (2, 2), "k_tiles": 2, "stages": 3}


def multiplied(shape, target, config):
    """The simulator's result, which finds races, and what it should be."""
    (kernel,) = device_functions(lower_device(schedule_matmul(shape, target, config), target))
    random = np.random.default_rng(shape.k)
    arrays = {"result": np.zeros((shape.m, shape.n), shape.result_dtype)}
    for side, dtype in (("lhs", shape.lhs_dtype), ("rhs", shape.rhs_dtype)):
        numbers = random.integers(-3, 4, shape.extents(side))
        arrays[side] = numbers.astype(NUMPY.get(dtype, dtype))
    simulate(kernel, [arrays[one.name.removesuffix("_ptr")] for one in kernel.params]).check()
    lhs, rhs = (arrays[side].astype("float64") for side in ("lhs", "rhs"))
    return arrays["result"], lhs.transpose(shape.lhs_order) @ rhs.transpose(shape.rhs_order)


@pytest.mark.costly
@pytest.mark.parametrize(("chip", "kind", "dtypes", "rhs_order"), CASES)
def test_products_by_turns_are_right_and_race_with_nothing(chip, kind, dtypes, rhs_order):
    """Seven steps of K: turns of either tile, and those before and behind the loop."""
    target = make_target(f"rocm:{chip}")
    config = MatmulConfig(kind, **TURNS)
    depth = {"int8": 64}.get(dtypes[0], 64 if "16x16" in kind else 32)
    shape = MatmulShape(128, 128, 7 * depth, *dtypes, rhs_order=rhs_order)
    found, expected = multiplied(shape, target, config)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("m", "n", "k"), [(70, 100, 104), (1, 1, 1), (128, 130, 32)])
def test_so_are_those_of_any_extents(m, n, k):
    shape = MatmulShape(m, n, k, *HALF, rhs_order=(1, 0))
    config = MatmulConfig("VMFMA_F32_16x16x32_F16", **TURNS)
    np.testing.assert_array_equal(*multiplied(shape, make_target("rocm:gfx942"), config))


def loop(stages, kind="MFMA_F32_32x32x16_F16"):
    target = make_target("rocm:gfx950")
    shape = MatmulShape(1024, 1024, 1024, *HALF, rhs_order=(1, 0))
    config = MatmulConfig(kind, tiles=(4, 2), k_tiles=2, stages=stages)
    code = compile_device(schedule_matmul(shape, target, config), target)
    return hot_loop_text(code.assembly, "rocm", "matmul_kernel")


def test_a_turn_has_one_barrier_and_its_accesses_between_the_products():
    texts = loop(3)
    assert sum(text.startswith("s_barrier") for text in texts) == 1
    letters = {"v_mfma": "m", "ds_wri": "w", "ds_rea": "r", "buffer": "g", "global": "g"}
    order = "".join(letters.get(text[:6], "") for text in texts)
    assert order.count("m") == 16
    # No two writes, and no two loads, without a product between them; nor a read at once behind
    # the products that it is for.
    assert not re.search("ww|gg|wrw", order)
    assert order.index("w") > order.index("m")
    waits = [text for text in texts if "lgkmcnt(0)" in text]
    assert len(waits) <= 2


def test_two_stages_stay_as_they_were():
    assert sum(text.startswith("s_barrier") for text in loop(2)) == 2


def test_what_a_step_computes_beside_products_takes_no_turns():
    target = make_target("rocm:gfx942")
    shape = MatmulShape(128, 128, 128, *HALF, rhs_order=(1, 0))
    config = MatmulConfig("VMFMA_F32_16x16x32_F16", workgroups=8, **TURNS)
    with pytest.raises(
        ScheduleError, match="3 stages; expected 1 to 2, as the copies are not asyn"
    ):
        schedule_matmul(shape, target, config)
