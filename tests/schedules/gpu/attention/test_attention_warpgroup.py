"""Attention by warpgroups: against the reference in the simulator, lean code, refusals."""

import re
from dataclasses import replace

import pytest

from tests.support.warpgroup_attention import simulated
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.codegen.gpu.device_code import compile_device, device_tools
from tvm_iree_ext.schedules.gpu.attention.attention_config import WARPGROUP_ALGORITHM
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import chosen_warpgroups
from tvm_iree_ext.targets.names import make_target

RULE, HOPPER = GpuAttention(), make_target("cuda:sm_90a")


CASES = {
    "odd extents, causal": lambda: ops.attention(
        (1, 1, 130, 64), (1, 1, 200, 64), (1, 1, 200, 64), dtype="float16", causal="lower_right"
    ),
    "padded heads, grouped, heads in a row, a mask": lambda: ops.attention(
        (1, 66, 2, 40), (1, 140, 1, 40), (1, 140, 1, 72), dtype="float16", layout="bshd",
        mask=TensorType((66, 140), "bool"),
    ),
    "bfloat16, a window": lambda: ops.attention(
        (1, 1, 70, 64), (1, 1, 300, 64), (1, 1, 300, 64), dtype="bfloat16", window=(40, 9)
    ),
    "running state": lambda: ops.online_attention(
        (1, 1, 64, 64), (1, 1, 64, 64), (1, 1, 64, 64), dtype="float16"
    ),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_reference(case):
    op = CASES[case]()
    simulated(RULE, op, HOPPER, chosen_warpgroups(op, HOPPER).lowering())


def test_extents_may_be_known_at_call_time():
    rows, keys = ("batch", 1, "rows", 64), ("batch", 1, "keys", 64)
    op = ops.attention(rows, keys, keys, dtype="float16")
    config = chosen_warpgroups(op, HOPPER).lowering()
    simulated(RULE, op, HOPPER, config, extents={"batch": 1, "rows": 5, "keys": 70})


def test_large_attention_takes_warpgroups():
    shape = (8, 16, 4096, 128)
    op = ops.attention(shape, shape, shape, dtype="float16")
    assert RULE.heuristic(op, HOPPER).algorithm == WARPGROUP_ALGORITHM
    assert chosen_warpgroups(op, make_target("cuda:sm_90")) is None
    decode = ops.attention((1, 1, 1, 128), (1, 1, 4096, 128), (1, 1, 4096, 128), dtype="float16")
    assert RULE.heuristic(decode, HOPPER).splits > 1
    mixed = ops.attention(shape, shape, TensorType(shape, "bfloat16"), dtype="float16")
    assert chosen_warpgroups(mixed, HOPPER) is None


@pytest.mark.skipif("nvdisasm" not in device_tools(HOPPER), reason="no CUDA compilers")
def test_the_hot_loop_is_lean():
    shape = (8, 16, 4096, 128)
    op = ops.attention(shape, shape, shape, dtype="float16", causal=True)
    code = compile_device(RULE.lower(op, HOPPER, RULE.heuristic(op, HOPPER)), HOPPER)
    (used,) = code.resources.values()
    assert (used.spills, used.scratch_bytes, used.advice) == (0, 0, ())
    assert code.instructions("attention_kernel").hot_loop.flops_per_instruction > 6000


REFUSED = {
    "64 rows are not 64 for each of 1 or 2 warpgroups": {"workgroup_tile": {"m": 64, "n": 64}},
    "1 stages; expected 2 or more": {"stages": 1},
    "tiles take [0-9]+ bytes of shared memory": {"stages": 16},
    "no warpgroup instruction of 48 and of 64 columns": {"reduction_tile": {"k2": 48}},
    "the instruction of 128 keys is NV_WGMMA_F32_64x128x16_F16": {
        "mma_kind": "NV_WGMMA_F32_64x64x16_F16"
    },
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_a_config_that_does_not_fit_is_refused(message):
    shape = (1, 1, 256, 64)
    op = ops.attention(shape, shape, shape, dtype="float16")
    config = replace(chosen_warpgroups(op, HOPPER).lowering(), **REFUSED[message])
    with pytest.raises(ScheduleError) as refused:
        RULE.lower(op, HOPPER, config)
    assert re.search(message, str(refused.value))
