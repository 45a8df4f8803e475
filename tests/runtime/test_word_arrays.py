"""Callers' arrays of types that kernels have as words."""

import numpy as np
import pytest
import torch

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
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


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("float8_e4m3fn", -1.5), ("bfloat16", -1.5), ("int4", -3), ("uint4", 3), ("complex64", 2j)],
)
def test_numbers_are_passed_by_value_as_words(dtype, number):
    kind = numpy_dtype(dtype)
    tiling = {"inner_dims_pos": [0], "inner_tiles": [2]}
    source = np.ones(1, kind)
    run = ext.build(ops.pack(source, **tiling, padding_value="operand"))
    for given in (number, kind.type(number), np.array(number, kind)):
        assert run(source, given)[0, 1] == kind.type(number)
    with pytest.raises(CallError, match="expected a number for"):
        run(source, np.datetime64(1, "ns"))


def test_numbers_of_128_bits_are_read_from_memory():
    tiled = ops.pack(
        ops.TensorType((1,), "complex128"),
        inner_dims_pos=[0],
        inner_tiles=[2],
        padding_value="operand",
    )
    run, source = ext.build(tiled), np.array([1j])
    for given in (
        2,
        -0.5j,
        1 - 2j,
        np.complex128(1 - 2j),
        np.array(1 - 2j),
        torch.tensor(1 - 2j, dtype=torch.complex128),
    ):
        assert run(source, given).tolist() == [[1j, complex(given)]]
    with pytest.raises(CallError, match="padding_value is complex64; expected complex128"):
        run(source, np.complex64(1))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arrays_lie_where_numpy_puts_their_parts(dtype):
    """NumPy takes a complex array for aligned where its parts are."""
    item = np.dtype(dtype).itemsize
    memory = np.zeros(65 * item, np.uint8)
    first = (item // 2 - memory.ctypes.data) % item
    x = memory[first : first + 64 * item].view(dtype)
    x[:] = np.arange(64) + 1j
    assert x.flags.aligned
    assert x.ctypes.data % item == item // 2
    run = ext.build(ops.scan(ops.TensorType((64,), dtype), "add", dimension=0))
    np.testing.assert_array_equal(run(x)[0], np.cumsum(x))
    tensors = torch.from_numpy(x)
    assert torch.equal(run(tensors)[0], torch.cumsum(tensors, 0))
    out = np.empty((), dtype)
    if dtype == "complex64":
        with pytest.raises(CallError, match="output is misaligned; expected a multiple of 8"):
            run(x, out=(x, out))
    else:
        run(np.zeros(64, dtype), out=(x, out))
        assert not x.any()


def test_a_padding_of_128_bits_keeps_its_highest_bits():
    tiled = ops.pack(
        ops.TensorType((1,), "complex128"), inner_dims_pos=[0], inner_tiles=[2], padding_value=-4.0
    )
    assert ext.build(tiled)(np.array([1j])).tolist() == [[1j, -4.0]]
    small = ops.pack(
        ops.TensorType((1,), "complex128"), inner_dims_pos=[0], inner_tiles=[2], padding_value=4.0
    )
    assert ext.build(small)(np.array([1j])).tolist() == [[1j, 4.0]]
