"""Callers' arrays of types that kernels have as words."""

import ml_dtypes
import numpy as np
import pytest
import torch

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError

INDICES = np.array([3, 1], "int32")


@pytest.fixture(scope="module")
def gather():
    return ext.build(ops.gather(ops.TensorType((4, 3), "complex128"), (2,)))


def numbers():
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))


def test_tensors_of_pytorch_are_taken_as_they_are_meant(gather):
    x, at = torch.from_numpy(numbers()), torch.from_numpy(INDICES)
    want = x[at.long()]
    assert torch.equal(gather(x, at), want)
    assert torch.equal(gather(x.T.contiguous().T, at), want)
    assert torch.equal(gather(x.conj(), at), want.conj())  # whose memory is that of x


def test_results_are_written_into_arrays(gather):
    out = np.empty((2, 3), "complex128")
    assert gather(numbers(), INDICES, out=out) is out
    np.testing.assert_array_equal(out, numbers()[INDICES])


def test_refuses_other_types_and_shared_memory(gather):
    x = numbers()
    with pytest.raises(CallError, match="source is complex64; expected complex128"):
        gather(x.astype("complex64"), INDICES)
    with pytest.raises(CallError, match="output shares memory with source"):
        gather(x, INDICES, out=x[:2])


def test_numbers_are_passed_by_value_as_words():
    op = ops.pack(
        ops.TensorType((3,), "float8_e4m3fn"),
        inner_dims_pos=[0],
        inner_tiles=[4],
        padding_value="operand",
    )
    packed = ext.build(op)(np.ones(3, ml_dtypes.float8_e4m3fn), -1.5)
    assert packed.astype("float32").tolist() == [[1, 1, 1, -1.5]]
