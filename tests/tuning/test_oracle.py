"""Long sorts by NumPy are what the reference says."""

import numpy as np
import pytest
from tvm_iree_ext.tuning import oracle

from tvm_iree_ext import ops
from tvm_iree_ext.dtypes import numpy_dtype
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.signature import TensorType


@pytest.mark.parametrize("region", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint32"])
def test_long_sorts_are_those_of_the_reference(monkeypatch, region, dtype):
    monkeypatch.setattr(oracle, "LONG", 8)
    kinds = (TensorType((3, 40), dtype), TensorType((3, 40), "int32"))
    op = ops.sort(*kinds, dimension=1, region=region)
    values = np.random.default_rng(1).integers(0, 6, (3, 40)).astype(numpy_dtype(dtype))
    operands = {"operand0": values, "operand1": np.arange(120, dtype="int32").reshape(3, 40)}
    got, want = oracle.wanted(op, operands), ENTRIES[op.name].reference(op, operands)
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


def test_a_line_of_a_million_elements_ends():
    op = ops.sort((1 << 20,), dimension=0)
    values = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)
    (got,) = oracle.wanted(op, {"operand0": values}).values()
    np.testing.assert_array_equal(got, np.sort(values))
