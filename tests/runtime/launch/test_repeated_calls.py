"""Calls with tensors on the GPU that are like earlier ones, and those that only look so."""

import ctypes
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import kernels_of_program
from places import DATA
from torch_on_gpu import STREAM, Torch, TorchParameter, TorchTensor

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime import repeated_calls
from tvm_iree_ext.runtime.calls import Caller
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.launcher import PreparedPlan
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("rocm:gfx942")


@pytest.fixture
def torch(gpu, built, monkeypatch):
    gpu.kernels = built[1]
    module = Torch(Gpu("rocm"))
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def kernel(built):
    return ext.load(built[0])


@pytest.fixture
def looked_at(monkeypatch):
    """A line for each call whose arguments are all looked at."""
    calls, inputs = [], Caller.inputs
    monkeypatch.setattr(
        Caller, "inputs", lambda self, given: (calls.append(self.op), inputs(self, given))[1]
    )
    return calls


def operands(torch, rows=16, seed=0):
    rng = np.random.default_rng(seed)
    lhs, rhs = (rng.integers(-3, 4, shape).astype("float32") for shape in ((rows, 64), (64, 16)))
    return (TorchTensor(torch.gpu, lhs), TorchTensor(torch.gpu, rhs)), lhs @ rhs


def test_a_call_like_an_earlier_one_is_launched_with_no_more_ado(gpu, torch, kernel, looked_at):
    for seed in range(3):
        given, expected = operands(torch, seed=seed)
        np.testing.assert_array_equal(kernel(*given).array, expected)
    assert len(looked_at) == 1
    assert gpu.streams == [STREAM] * 6
    assert gpu.calls == ["load", *["launch"] * 6]  # and waited for nothing
    assert [one.dtype for one in torch.made] == ["float32", "uint8"] * 3
    out = TorchTensor(torch.gpu, np.zeros((16, 16), "float32"))
    for seed in range(3):
        given, expected = operands(torch, seed=seed)
        assert kernel(*given, out=out) is out
        np.testing.assert_array_equal(out.array, expected)
    assert len(looked_at) == 2


def test_another_call_is_looked_at(torch, kernel, looked_at):
    given, _ = operands(torch)
    kernel(*given)
    looked_at.clear()
    for rows in (17, 16, 17):
        others, expected = operands(torch, rows)
        np.testing.assert_array_equal(kernel(*others).array, expected)
    assert len(looked_at) == 1
    lhs, rhs = given
    moved = TorchTensor(torch.gpu, lhs.array, skip=4)  # is copied to where it may lie
    np.testing.assert_array_equal(kernel(moved, rhs).array, lhs.array @ rhs.array)
    np.testing.assert_array_equal(kernel(lhs, rhs=rhs).array, lhs.array @ rhs.array)
    np.testing.assert_array_equal(kernel(lhs.array, rhs), lhs.array @ rhs.array)
    assert len(looked_at) == 4


def test_what_is_refused_is_refused_again(torch, kernel):
    given, _ = operands(torch)
    lhs, rhs = given
    out = TorchTensor(torch.gpu, np.zeros((16, 16), "float32"))
    kernel(*given)
    kernel(*given, out=out)
    out.held = lhs.held
    with pytest.raises(CallError, match="result shares memory with lhs"):
        kernel(*given, out=out)
    with pytest.raises(CallError, match="rhs missing; the arguments are lhs, rhs"):
        kernel(lhs)
    with pytest.raises(CallError, match="3 arguments came; expected 2"):
        kernel(lhs, rhs, rhs)
    with pytest.raises(CallError, match="lhs is float64; expected float32"):
        kernel(TorchTensor(torch.gpu, lhs.array.astype("float64")), rhs)
    weight = TorchParameter(torch.gpu, rhs.array)
    torch.grad = False
    for _ in range(2):
        kernel(lhs, weight)
    torch.grad = True
    with pytest.raises(CallError, match="rhs requires grad, and a kernel has no backward pass"):
        kernel(lhs, weight)
    torch.autograd.forward_ad._current_level = 0
    torch.autograd.forward_ad.unpack_dual = lambda one: SimpleNamespace(tangent=1)
    with pytest.raises(CallError, match="lhs carries a forward-mode tangent"):
        kernel(*given)


def test_the_driver_s_errors_are_named(gpu, torch, kernel):
    given, expected = operands(torch)
    kernel(*given)
    gpu.refuses = {"launch": [1]}
    with pytest.raises(ArtifactError, match="does not run: hipModuleLaunchKernel failed"):
        kernel(*given)
    gpu.refuses = {}
    np.testing.assert_array_equal(kernel(*given).array, expected)


def test_a_program_s_calls_are_repeated_as_well(gpu, torch, looked_at, tmp_path):
    imported = import_program(DATA / "ir" / "cumsum.mlir")
    build_program(imported, TARGET, folder=tmp_path / "cumsum", database=())
    gpu.kernels = kernels_of_program(imported, TARGET)
    program = ext.load(tmp_path / "cumsum")
    x = np.ones((16, 300), "float32")
    expected = np.cumsum(x, 1)
    for factor in (1, 2):
        given = TorchTensor(torch.gpu, factor * x)
        np.testing.assert_array_equal(program(given).array, factor * expected)
    assert len(looked_at) == 1
    assert set(gpu.streams) == {STREAM}
    np.testing.assert_array_equal(program(x), expected)  # is copied there and back
    with pytest.raises(CallError, match="arg0 axis 0 has extent 15; expected 16"):
        program(TorchTensor(torch.gpu, x[1:]))


def test_only_so_many_kinds_of_calls_are_known(torch, kernel, looked_at, monkeypatch):
    monkeypatch.setattr(repeated_calls, "_KEPT", 2)
    for rows in (1, 2, 3, 1, 3):
        given, expected = operands(torch, rows)
        np.testing.assert_array_equal(kernel(*given).array, expected)
    assert len(looked_at) == 4


def test_calls_at_once_have_arguments_of_their_own(gpu):
    """A call that begins while another one is about to launch does not change its arguments."""
    seen, threads = [], []

    def launch(_function, *rest):
        if not threads:
            threads.append(threading.Thread(target=plan, args=([2], 0)))
            threads[0].start()
            threads[0].join()
        places = rest[8]
        seen.append(ctypes.c_uint64.from_address(places[0]).value)
        return 0

    class Stub(Gpu):
        def launcher(self):
            return launch, None

    stub = Stub("rocm")
    step = {"launch": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0}
    one = stub.prepared(SimpleNamespace(value=1), {**step, "arguments": [{"array": "x"}]})
    plan = PreparedPlan(stub, [one], ["x"], dict)
    plan([1], 0)
    plan([3], 0)
    assert seen == [2, 1, 3]


@pytest.fixture
def real():
    return pytest.importorskip("torch", reason="no PyTorch: scripts/setup dev bench installs it")


@pytest.mark.filterwarnings("ignore:The PyTorch API of (nested tensors|MaskedTensors)")
def test_tensors_of_which_more_must_be_asked_have_no_key(real):
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch = real

    def key(given, out):
        return repeated_calls._torch().key(given, out, [])

    x = torch.zeros(64, 4)
    assert key((x,), ()) is not None
    assert key((x,), ()) == key((torch.zeros(64, 4),), ())
    different = [x[:32], x.double(), torch.zeros(4, 64)]
    assert len({key((one,), ()) for one in (x, *different)}) == 4
    assert len({key((x, number), ()) for number in (0.0, -0.0, 1, 1.0, True)}) == 5
    freed = torch.zeros(64, 4)
    freed.untyped_storage().resize_(0)
    for one in (
        x.T, x[:, :2], x.reshape(-1)[1:], torch.zeros(0, 4), torch._neg_view(x), freed,
        x.to_sparse(), x.to_sparse_csr(), torch.nested.nested_tensor([torch.ones(4)] * 3),
        torch.masked.masked_tensor(x, x > 2), torch.empty(64, 4, device="meta"), x.numpy(),
    ):  # fmt: skip
        assert key((one,), ()) is None
    with FakeTensorMode():
        assert key((torch.zeros(64, 4),), ()) is None
    weight = torch.nn.Parameter(x)
    assert key((weight,), ()) is None
    with torch.no_grad():
        assert key((weight,), ()) is not None
    with torch.autograd.forward_ad.dual_level():
        assert key((x,), ()) is None
    found = []
    for transform in (torch.func.vmap, torch.func.functionalize):
        transform(lambda one: found.append(key((one,), ())) or one)(torch.zeros(2, 64, 4))
    assert found == [None, None]
