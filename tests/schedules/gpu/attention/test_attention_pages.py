"""Pages of keys and values in the GPU kernels, on the simulator."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.attention_pages_random import forget_pages, random_table
from tvm_iree_ext.schedules.gpu.attention.attention_config import ALGORITHM
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import check_op

RULE = GpuAttention()
EXTENTS = {"pages": 9, "blocks": 6}


def operands(op, lengths):
    """Random operands of these lengths; what no sequence has of the pool is NaN."""
    rng, found = np.random.default_rng(8), {}
    for one in op.signature.arguments:
        shape = tuple(EXTENTS.get(extent, extent) for extent in one.shape)
        found[one.name] = rng.standard_normal(shape).astype(numpy_dtype(one.dtype))
    found["key_lengths"] = np.array(lengths, "int32")
    found["block_table"] = random_table(rng, op, found["block_table"].shape, found)
    forget_pages(op, found)
    return found


def attention(rows, pool, table, make=ops.attention, **options):
    kind = TensorType(pool, "float16")
    keywords = {"dtype": "float16", "key_lengths": (2,), "block_table": table, **options}
    return make((2, 2, rows, 16), kind, kind, **keywords)


CASES = {
    "pages smaller than a tile": lambda: attention(
        17, ("pages", 1, 16, 16), (2, "blocks"), causal="lower_right"
    ),
    "parts of keys, a running state": lambda: attention(
        1, (9, 64, 2, 16), (2, 10), ops.online_attention, pages="pshd"
    ),
    "pages of odd counts, a mask": lambda: attention(
        9, (9, 2, 7, 16), (2, 6), mask=(9, 42), log_sum_exp=True
    ),
}


@pytest.mark.parametrize(
    ("case", "target"),
    list(zip(CASES, ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"), strict=True)),
)
def test_tiles_are_copied_through_the_table(case, target):
    op = CASES[case]()
    if "parts" in case:
        assert RULE.heuristic(op, make_target(target)).splits > 1
    result = check_op(op, operands(op, [0, 39]), target, simulate=True)
    assert result.status == "passed", result.message


def test_warpgroups_copy_boxes_and_so_take_no_pages():
    pool = TensorType((64, 16, 64, 128), "float16")
    op = ops.attention((8, 16, 4096, 128), pool, pool, dtype="float16", block_table=(8, 64))
    assert RULE.heuristic(op, make_target("cuda:sm_90a")).algorithm == ALGORITHM
