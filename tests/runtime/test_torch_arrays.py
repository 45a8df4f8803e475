import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError


class OnlyDLPack:
    """An array of some library of which nothing but DLPack is known."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


X = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="no PyTorch: scripts/setup dev bench installs it")


def test_returns_torch_for_torch(toys, torch):
    y = toys.scale(torch.from_numpy(X), 2.0)
    assert type(y) is torch.Tensor
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    out = torch.empty(3, 4)
    assert toys.scale(torch.from_numpy(X), 2.0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), 2 * X)


def test_bfloat16_and_bool_of_torch(toys, torch):
    x, y = torch.arange(4).bfloat16(), torch.arange(4, 8).bfloat16()
    z = toys.choose(x, y, torch.tensor([True, False, True, False]))
    assert z.dtype == torch.bfloat16
    assert z.tolist() == [0, 5, 2, 7]


def test_takes_torch_tensors_of_any_layout(toys, torch):
    x = torch.from_numpy(X)
    off = torch.frombuffer(bytearray(b"\0" + X.tobytes()), dtype=torch.float32, offset=1)
    assert off.data_ptr() % 4
    for other in (x.T.contiguous().T, torch.stack([x, x], -1)[..., 0], off):
        np.testing.assert_array_equal(toys.scale(other.reshape(3, 4), 2.0).numpy(), 2 * X)
    negative = torch._neg_view(x)  # as the imaginary part of a conjugate has it
    np.testing.assert_array_equal(toys.scale(negative, 2.0).numpy(), -2 * X)


def test_a_tensor_that_requires_grad_is_taken_only_under_no_grad(toys, torch):
    x = torch.nn.Parameter(torch.from_numpy(X.copy()))
    with pytest.raises(CallError, match="x requires grad, and a kernel has no backward pass"):
        toys.scale(x, 2.0)
    with torch.no_grad():
        y = toys.scale(x, 2.0)
    assert not y.requires_grad
    np.testing.assert_array_equal(y.numpy(), 2 * X)


def test_refuses_torch_tensors_that_it_cannot_read(toys, torch):
    with pytest.raises(CallError, match="x is on meta, where tensors have no elements"):
        toys.scale(torch.empty(2, 4, device="meta"), 2.0)
    with pytest.raises(CallError, match=r"x is torch\.sparse_coo; expected a dense tensor"):
        toys.scale(torch.eye(4).to_sparse(), 2.0)
    with pytest.raises(CallError, match="x is float64; expected float32"):
        toys.scale(torch.ones(2, 4).double(), 2.0)
    with pytest.raises(CallError, match="y is not contiguous"):
        toys.scale(torch.ones(4, 4), 2.0, out=torch.empty(4, 4).T)
    x = torch.ones(2, 4)
    with pytest.raises(CallError, match="y shares memory with x"):
        toys.scale(x, 2.0, out=x.numpy())


def test_refuses_tensors_with_a_forward_mode_tangent(toys, torch):
    x = torch.from_numpy(X.copy())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(CallError, match="x carries a forward-mode tangent"):
            toys.scale(dual, 2.0)
        with pytest.raises(CallError, match="y carries a forward-mode tangent"):
            toys.scale(x, 2.0, out=dual)
        primal = torch.autograd.forward_ad.unpack_dual(dual).primal
        np.testing.assert_array_equal(toys.scale(primal, 2.0).numpy(), 2 * X)
    np.testing.assert_array_equal(toys.scale(dual, 2.0).numpy(), 2 * X)


def test_refuses_to_be_part_of_a_transform(toys, torch):
    x, func = torch.from_numpy(X.copy()), torch.func
    for transformed in (
        lambda: func.vmap(lambda row: toys.scale(row, 2.0))(x.expand(2, 3, 4)),
        lambda: func.vmap(lambda row: toys.scale(row.T.contiguous().T, 2.0))(x.expand(2, 3, 4)),
        lambda: func.vmap(lambda row: toys.scale(x, 2.0, out=row))(x.repeat(2, 1, 1)),
        lambda: func.functionalize(lambda one: toys.scale(one, 2.0))(x),
    ):
        with pytest.raises(CallError, match="is inside a transform of torch"):
            transformed()
    with pytest.raises(CallError, match="x carries a forward-mode tangent"):
        func.jvp(lambda one: toys.scale(one, 2.0), (x,), (x,))
    with pytest.raises(CallError, match="x requires grad"):
        func.grad(lambda one: toys.scale(one, 2.0).sum())(x)


@pytest.mark.filterwarnings("ignore:The PyTorch API of (nested tensors|MaskedTensors)")
def test_refuses_tensors_without_elements_in_memory(toys, torch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.from_numpy(X.copy())
    with FakeTensorMode():
        with pytest.raises(CallError, match="x is a FakeTensor, which has no elements in memory"):
            toys.scale(torch.empty(3, 4), 2.0)
        with pytest.raises(CallError, match="y is a FakeTensor, which has no elements in memory"):
            toys.scale(x, 2.0)
    with pytest.raises(CallError, match="x is a MaskedTensor, which has no elements"):
        toys.scale(torch.masked.masked_tensor(x, x > 2), 2.0)
    with pytest.raises(CallError, match="x is a nested tensor; expected a dense one"):
        toys.scale(torch.nested.nested_tensor([torch.ones(4)] * 3), 2.0)
    freed = torch.ones(3, 4)
    freed.untyped_storage().resize_(0)
    with pytest.raises(CallError, match="x has no elements in memory"):
        toys.scale(freed, 2.0)
    with pytest.raises(CallError, match="y has no elements in memory"):
        toys.scale(x, 2.0, out=freed)
    with pytest.raises(CallError, match="x has no elements in memory"):
        toys.scale(OnlyDLPack(freed), 2.0)


def test_results_are_where_the_first_array_is_whatever_the_default_device(toys, torch):
    x = torch.from_numpy(X)
    with torch.device("meta"):
        np.testing.assert_array_equal(toys.scale(x, 2.0).numpy(), 2 * X)
