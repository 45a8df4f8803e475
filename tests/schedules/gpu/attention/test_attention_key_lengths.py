"""Key lengths in the GPU kernels, on the simulator: what lies behind one is NaN here."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.gpu.attention.attention_config import ALGORITHM
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import check_op

RULE = GpuAttention()
RNG = np.random.default_rng(5)
TRANSPOSED_VALUE = [
    "(b, m, n, k1, k2) -> (b, m, k1)",
    "(b, m, n, k1, k2) -> (b, k2, k1)",
    "(b, m, n, k1, k2) -> (b, n, k2)",
    "(b, m, n, k1, k2) -> ()",
    "(b, m, n, k1, k2) -> (b)",
    "(b, m, n, k1, k2) -> (b, m, n)",
]


def operands(op, lengths):
    """Random operands; key and value are NaN from the lengths of the first dim on."""
    found = {}
    for one in op.signature.arguments:
        found[one.name] = RNG.standard_normal(one.shape).astype(numpy_dtype(one.dtype))
    found["key_lengths"] = np.array(lengths, "int32")
    for name in ("key", "value"):
        axis = op.maps[name].dims.index(op.dims["k2"][0])
        for point, length in enumerate(lengths):
            np.moveaxis(found[name], axis, 1)[point, max(0, length) :] = np.nan
    return found


CASES = {
    "rows of a causal corner": lambda: ops.attention(
        (3, 2, 17, 16), (3, 1, 70, 16), (3, 1, 70, 16), dtype="float16", causal="lower_right",
        key_lengths=(3,),
    ),
    "parts of keys, a running state": lambda: ops.online_attention(
        (3, 2, 1, 16), (3, 1, 600, 16), (3, 1, 600, 16), dtype="float16", key_lengths=(3,),
    ),
    "keys side by side": lambda: ops.attention(
        (3, 9, 16), (3, 40, 16), (3, 24, 40), dtype="bfloat16", key_lengths=(3,),
        indexing_maps=TRANSPOSED_VALUE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "target"),
    list(zip(CASES, ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"), strict=True)),
)
def test_keys_end_at_the_lengths(case, target):
    op = CASES[case]()
    if "parts" in case:
        assert RULE.heuristic(op, make_target(target)).splits > 1
    result = check_op(op, operands(op, [0, 33, 1000]), target, simulate=True)
    assert result.status == "passed", result.message


def test_warpgroups_copy_whole_tiles_and_so_take_no_lengths():
    shape, target = (8, 16, 4096, 128), make_target("cuda:sm_90a")
    keywords = {"dtype": "float16", "key_lengths": TensorType((8,), "int32")}
    op = ops.attention(shape, shape, shape, **keywords)
    assert RULE.heuristic(op, target).algorithm == ALGORITHM
