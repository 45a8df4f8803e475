"""The second result of attention on GPUs, on the simulator."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.schedules.gpu.attention.attention_config import WARPGROUP_ALGORITHM
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import check_op

RULE = GpuAttention()
RNG = np.random.default_rng(6)


def attention(rows, keys, width=16, **options):
    query, key = (1, 2, rows, width), (1, 1, keys, width)
    return ops.attention(query, key, key, dtype="float16", log_sum_exp=True, **options)


CASES = {
    "rows that see no key": lambda: attention(20, 9, window=(3, 0)),
    "parts of keys": lambda: attention(1, 600),
    "an own region, in base 2": lambda: attention(
        17, 33, score_domain="log2", region="2 * tanh(arg0)"
    ),
    "columns of several workgroups": lambda: attention(9, 20, width=272),
}


def agrees(op, target):
    operands = {}
    for one in op.signature.arguments:
        operands[one.name] = RNG.standard_normal(one.shape).astype(numpy_dtype(one.dtype))
    result = check_op(op, operands, target, simulate=True)
    assert result.status == "passed", result.message


@pytest.mark.parametrize(
    ("case", "target"),
    list(zip(CASES, ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100", "rocm:gfx942"), strict=True)),
)
def test_agrees_with_the_reference(case, target):
    op = CASES[case]()
    config = RULE.heuristic(op, make_target(target))
    assert (config.splits > 1) == ("parts" in case)
    assert (config.workgroup_tile["n"] < op.count("n")) == ("columns" in case)
    agrees(op, target)


def test_warpgroups_have_it():
    op = attention(64, 64, width=64)
    assert RULE.heuristic(op, make_target("cuda:sm_90a")).algorithm == WARPGROUP_ALGORITHM
    agrees(op, "cuda:sm_90a")
