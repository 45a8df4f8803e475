"""Attention in tensor memory: against the reference in the simulator, its instructions, limits."""

import re
from dataclasses import replace

import pytest

from tests.support.warpgroup_attention import simulated
from tests.support.warpgroup_products import BLACKWELL
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.codegen.gpu.device_code import compile_device, device_tools
from tvm_iree_ext.schedules.gpu.attention.attention_config import ALGORITHM, WARPGROUP_ALGORITHM
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    chosen_warpgroups,
    plan_warpgroups,
)
from tvm_iree_ext.targets.names import make_target

RULE = GpuAttention()
SHAPE = (8, 16, 4096, 128)

CASES = {
    "two tiles of rows, causal": lambda: ops.attention(
        (1, 1, 200, 64), (1, 1, 300, 64), (1, 1, 300, 64), dtype="float16", causal="lower_right"
    ),
    "grouped, heads in a row, a mask": lambda: ops.attention(
        (1, 66, 2, 40), (1, 140, 1, 40), (1, 140, 1, 72), dtype="float16", layout="bshd",
        mask=TensorType((66, 140), "bool"),
    ),
    "bfloat16, a window": lambda: ops.attention(
        (1, 1, 130, 64), (1, 1, 300, 64), (1, 1, 300, 64), dtype="bfloat16", window=(40, 9)
    ),
    "steep scores": lambda: ops.attention(
        (1, 1, 64, 64), (1, 1, 400, 64), (1, 1, 400, 64), dtype="float16", scale=3.0
    ),
    "running state, 256 columns": lambda: ops.online_attention(
        (1, 1, 64, 64), (1, 1, 200, 64), (1, 1, 200, 256), dtype="float16"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_reference(case):
    op = CASES[case]()
    simulated(RULE, op, BLACKWELL, chosen_warpgroups(op, BLACKWELL).lowering())


def test_extents_may_be_known_at_call_time():
    rows, keys = ("batch", 1, "rows", 64), ("batch", 1, "keys", 64)
    op = ops.attention(rows, keys, keys, dtype="float16")
    config = chosen_warpgroups(op, BLACKWELL).lowering()
    simulated(RULE, op, BLACKWELL, config, extents={"batch": 1, "rows": 5, "keys": 70})


@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
def test_large_attention_takes_two_tiles_of_128_rows(chip):
    target = make_target(f"cuda:{chip}")
    op = ops.attention(SHAPE, SHAPE, SHAPE, dtype="float16")
    config = chosen_warpgroups(op, target)
    assert RULE.heuristic(op, target).algorithm == WARPGROUP_ALGORITHM
    assert (config.rows, config.keys, config.columns) == (256, 128, 128)
    kernel = plan_warpgroups(op, target, config)
    assert (kernel.in_tensor_memory, kernel.sum_columns) == (True, 512)
    places = [kernel.scores_column(1), kernel.outputs_column(0), kernel.outputs_column(1)]
    assert places == [128, 256, 384]


def test_others_keep_the_kernel_that_they_had():
    few = ops.attention((1, 1, 1, 128), (1, 1, 4096, 128), (1, 1, 4096, 128), dtype="float16")
    mixed = ops.attention(SHAPE, SHAPE, TensorType(SHAPE, "bfloat16"), dtype="float16")
    single = ops.attention((1, 1, 256, 64), (1, 1, 256, 64), (1, 1, 256, 64))
    for op in (few, mixed, single):
        assert RULE.heuristic(op, BLACKWELL).algorithm == ALGORITHM
    op = ops.attention(SHAPE, SHAPE, SHAPE, dtype="float16")
    assert RULE.heuristic(op, make_target("cuda:sm_100")).algorithm == ALGORITHM


@pytest.mark.skipif("nvdisasm" not in device_tools(BLACKWELL), reason="no CUDA compilers")
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a"])
def test_it_compiles_to_its_instructions(chip):
    op = ops.attention(SHAPE, SHAPE, SHAPE, dtype="float16", causal=True)
    target = make_target(f"cuda:{chip}")
    code = compile_device(RULE.lower(op, target, RULE.heuristic(op, target)), target)
    (used,) = code.resources.values()
    assert (used.spills, used.scratch_bytes, used.advice) == (0, 0, ())
    text = code.assembly
    # Of 16 products of scores and 16 of outputs, the former twice: before the loop, and in it.
    assert text.count("UTCHMMA gdesc") == 2 * 16
    assert text.count("UTCHMMA tmem") == 16
    assert text.count("MUFU.EX2") == 128 + 1  # a lane's keys, and what outputs are rescaled by
    for name in ("USETMAXREG.TRY_ALLOC", "LDTM.x32", "STTM.x32", "UTMALDG.4D", "VOTE.ANY"):
        assert name in text, name
    assert "BRA.U.ANY" not in text  # one lane is elected: no loop over those that might be active


REFUSED = {
    "64 rows are not 128 for each of 1 or 2 warpgroups": {"workgroup_tile": {"m": 64, "n": 64}},
    "1 stages; expected 2 or more": {"stages": 1},
    "tiles take [0-9]+ bytes of shared memory": {"stages": 16},
    "256 keys and 64 columns of 2 warpgroups take 640 columns of tensor memory; there are 512": {
        "reduction_tile": {"k2": 256}, "mma_kind": "NV_TCGEN05_F32_128x256x16_F16",
    },
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_a_config_that_does_not_fit_is_refused(message):
    shape = (1, 1, 256, 64)
    op = ops.attention(shape, shape, shape, dtype="float16")
    config = replace(chosen_warpgroups(op, BLACKWELL).lowering(), **REFUSED[message])
    with pytest.raises(ScheduleError) as refused:
        RULE.lower(op, BLACKWELL, config)
    assert re.search(message, str(refused.value))
