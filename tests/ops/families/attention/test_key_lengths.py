"""Key lengths as an operand: where they stand, and what they may be."""

import re

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.catalog.attention import run_reference
from tvm_iree_ext.ops import TensorType

QUERY, KEYS = (2, 4, 3, 8), (2, 2, 5, 8)
MAPS = [
    "(b, m, n, k1, k2) -> (b, m, k1)",
    "(b, m, n, k1, k2) -> (b, k2, k1)",
    "(b, m, n, k1, k2) -> (b, k2, n)",
    "(b, m, n, k1, k2) -> ()",
    "(b, m, n, k1, k2) -> (b)",
    "(b, m, n, k1, k2) -> (b, m, n)",
]


def test_lengths_follow_the_mask_and_are_of_the_batch():
    op = ops.attention(QUERY, KEYS, KEYS, mask=(5,), key_lengths=(2,))
    assert [str(one) for one in op.signature.arguments][3:] == [
        "mask: bool[5]",
        "key_lengths: int32[2]",
    ]
    assert str(op.maps["key_lengths"]) == "(d0, d1, d2, d3, d4, d5, d6) -> (d0)"


def test_an_op_with_lengths_is_another_op_and_counts_all_keys():
    plain = ops.attention(QUERY, KEYS, KEYS)
    op = ops.attention(QUERY, KEYS, KEYS, key_lengths=TensorType((2,), "int64"))
    assert op != plain
    assert op.flops() == plain.flops()


def test_maps_say_which_batch_dims_have_lengths():
    op = ops.attention((2, 3, 4), (2, 5, 4), (2, 5, 6), key_lengths=("batch",), indexing_maps=MAPS)
    assert str(op.signature.arguments[-1]) == "key_lengths: int32[2]"


def by_maps(of_lengths, shape):
    maps = [*MAPS[:4], f"(b, m, n, k1, k2) -> {of_lengths}", MAPS[5]]
    return ops.attention((2, 3, 4), (2, 5, 4), (2, 5, 6), key_lengths=shape, indexing_maps=maps)


REFUSED = {
    "key_lengths has dtype int8; supported are int32, int64": (
        lambda: ops.attention(QUERY, KEYS, KEYS, key_lengths=TensorType((2,), "int8"))
    ),
    "key_lengths [2, 1] has rank 2; expected 1, the batch, for layout 'bhsd'": (
        lambda: ops.attention(QUERY, KEYS, KEYS, key_lengths=(2, 1))
    ),
    "key_lengths axis 0 (d0) has extent 3; expected 2 as in query axis 0": (
        lambda: ops.attention(QUERY, KEYS, KEYS, key_lengths=(3,))
    ),
    "the indexing map of key_lengths uses {d1}; expected a part of {d0}": (
        lambda: by_maps("(m)", (3,))
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses(message):
    with pytest.raises(OpError, match=re.escape(message)):
        REFUSED[message]()


def test_the_canonical_function_looks_at_no_value_behind_a_length():
    rng = np.random.default_rng(0)
    query, keys = rng.standard_normal(QUERY), rng.standard_normal(KEYS)
    lengths = np.array([2, 9], "int32")
    keys[0, :, 2:] = np.nan
    kinds = (TensorType(shape, "float64") for shape in (QUERY, KEYS, KEYS))
    op = ops.attention(*kinds, key_lengths=(2,), causal="lower_right")
    operands = {"query": query, "key": keys, "value": keys, "key_lengths": lengths}
    got = tvm.runtime.tensor(np.zeros(QUERY))
    tvm.compile(op.prim_func(), target="llvm")(*map(tvm.runtime.tensor, operands.values()), got)
    np.testing.assert_allclose(got.numpy(), run_reference(op, operands)["output"], atol=1e-12)
