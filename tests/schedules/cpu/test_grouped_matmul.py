"""Grouped products on the CPU: offsets of any size."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.catalog.grouped_matmul import GROUPED_MATMUL


@pytest.fixture(scope="module", params=["int32", "int64"])
def products(request):
    """``products(offsets)``: the result, amid canaries that are still there."""
    op = ops.grouped_matmul((9, 3), (4, 3, 16), ops.TensorType((4,), request.param))
    kernel, rng = ext.build(op, database=()), np.random.default_rng(0)
    lhs, rhs = (rng.integers(-3, 4, shape).astype("float32") for shape in ((9, 3), (4, 3, 16)))

    def run(offsets):
        around = np.full((4096, 16), 77, "float32")
        given = np.array(offsets, request.param)
        result = kernel(lhs, rhs, given, out=around[2048:2057])
        assert (np.delete(around, np.s_[2048:2057], axis=0) == 77).all()
        want = GROUPED_MATMUL.reference(op, {"lhs": lhs, "rhs": rhs, "offsets": given})
        return result, want["result"]

    return run, np.iinfo(request.param)


def test_offsets_beyond_the_rows_are_as_good_as_their_ends(products):
    run, limits = products
    least, most = limits.min, limits.max
    for offsets in (
        [least, least + 5, -1, most],
        [-3, 4, 10, most // 2],
        [least // 2, 9, most - 5, most],
        [2, 2, 2**31 - 1, 2**31 - 1],
    ):
        np.testing.assert_array_equal(*run(offsets))


def test_offsets_in_no_order_reach_no_memory_beyond_the_rows(products):
    run, limits = products
    rng = np.random.default_rng(1)
    ends = [limits.min, limits.min + 5, -3, 0, 4, 9, 10, limits.max - 5, limits.max]
    for _ in range(200):
        run(rng.choice(np.array(ends), 4))
