"""Arrays of CuPy's, used where they are and launched on its stream."""

import sys

import numpy as np
import pytest
from cupy_on_gpu import STREAM, Cupy, CupyNdarray
from torch_on_gpu import Torch, TorchTensor, on_gpu

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.runtime.calls import Caller
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("rocm:gfx942")


@pytest.fixture
def cupy(gpu, built, monkeypatch):
    gpu.kernels = built[1]
    module = Cupy(Gpu("rocm"))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def operands():
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-3, 4, shape).astype("float32") for shape in ((16, 64), (64, 16)))
    return lhs, rhs, lhs @ rhs


def test_they_are_launched_on_its_stream_and_not_waited_for(gpu, cupy, built):
    kernel, (lhs, rhs, expected) = ext.load(built[0]), operands()
    given = CupyNdarray(cupy.gpu, lhs), CupyNdarray(cupy.gpu, rhs)
    result = kernel(*given)
    assert result is cupy.made[0]
    np.testing.assert_array_equal(result.array, expected)
    assert (gpu.streams, gpu.calls) == ([STREAM, STREAM], ["load", "launch", "launch"])
    assert len(cupy.taken) == 1
    out = CupyNdarray(cupy.gpu, np.zeros_like(expected))
    assert kernel(*given, out=out) is out
    np.testing.assert_array_equal(out.array, expected)
    assert len(cupy.made) == 1


def test_a_call_like_an_earlier_one_is_launched_with_no_more_ado(gpu, cupy, built, monkeypatch):
    kernel, (lhs, rhs, expected) = ext.load(built[0]), operands()
    x, y = CupyNdarray(cupy.gpu, lhs), CupyNdarray(cupy.gpu, rhs)
    out = CupyNdarray(cupy.gpu, np.zeros_like(expected))
    kernel(x, y)
    kernel(x, y, out=out)
    looked_at, inputs = [], Caller.inputs
    monkeypatch.setattr(
        Caller, "inputs", lambda self, given: (looked_at.append(given), inputs(self, given))[1]
    )
    other = CupyNdarray(cupy.gpu, rhs + 1)
    np.testing.assert_array_equal(kernel(x, other).array, lhs @ (rhs + 1))
    assert kernel(x, other, out=out) is out
    np.testing.assert_array_equal(out.array, lhs @ (rhs + 1))
    assert looked_at == []
    assert (gpu.streams, gpu.calls) == ([STREAM] * 8, ["load", *["launch"] * 8])
    out.data = x.data
    with pytest.raises(CallError, match="result shares memory with lhs"):
        kernel(x, y, out=out)
    turned, moved = CupyNdarray(cupy.gpu, lhs.T).T, CupyNdarray(cupy.gpu, rhs, skip=4)
    np.testing.assert_array_equal(kernel(turned, y).array, expected)
    np.testing.assert_array_equal(kernel(x, moved).array, expected)
    assert len(looked_at) == 3
    monkeypatch.setattr(Gpu, "is_current", lambda self: False)
    np.testing.assert_array_equal(kernel(x, y).array, expected)  # in a thread of another GPU
    assert len(looked_at) == 4


def test_those_that_lie_otherwise_are_copied(cupy, built):
    kernel, (lhs, rhs, expected) = ext.load(built[0]), operands()
    turned, moved = CupyNdarray(cupy.gpu, lhs.T).T, CupyNdarray(cupy.gpu, rhs, skip=4)
    assert not turned.flags.c_contiguous
    np.testing.assert_array_equal(kernel(turned, moved).array, expected)


def test_what_does_not_fit_is_refused(cupy, built, tmp_path):
    kernel, (lhs, rhs, expected) = ext.load(built[0]), operands()
    x, y = CupyNdarray(cupy.gpu, lhs), CupyNdarray(cupy.gpu, rhs)
    with pytest.raises(CallError, match="lhs is float64; expected float32"):
        kernel(CupyNdarray(cupy.gpu, lhs.astype("float64")), y)
    with pytest.raises(CallError, match="result is not contiguous"):
        kernel(x, y, out=CupyNdarray(cupy.gpu, expected).T)
    with pytest.raises(CallError, match="result is misaligned; expected a multiple of 16 bytes"):
        kernel(x, y, out=CupyNdarray(cupy.gpu, expected, skip=4))
    square = CupyNdarray(cupy.gpu, np.zeros((16, 64), "float32"))
    with pytest.raises(CallError, match="result has shape"):
        kernel(x, y, out=square)
    cpu = ext.build(ops.matmul((4, 4), (4, 4)), "llvm", folder=tmp_path / "cpu")
    with pytest.raises(CallError, match=r"lhs is on GPU 0, CuPy's; this kernel runs on the CPU"):
        cpu(x, y)


def test_beside_pytorch_s_the_gpu_is_waited_for(gpu, cupy, built, monkeypatch):
    """Each has a stream of its own."""
    torch = Torch(cupy.gpu)
    monkeypatch.setitem(sys.modules, "torch", torch)
    kernel, (lhs, rhs, expected) = ext.load(built[0]), operands()
    result = kernel(CupyNdarray(cupy.gpu, lhs), TorchTensor(cupy.gpu, rhs))
    np.testing.assert_array_equal(result.array, expected)
    assert gpu.calls == ["load", "wait", "launch", "launch", "wait"]


def test_an_init_that_is_the_result_is_copied_there(gpu, cupy, tmp_path):
    """A scatter without updates runs no kernel."""
    kernel = ext.build(ops.scatter(("n", 3), ("n", 1), (4, 3)), TARGET, folder=tmp_path / "scatter")
    updates, places = np.zeros((0, 3), "float32"), np.zeros((0, 1), "int32")
    init = np.arange(12, dtype="float32").reshape(4, 3)
    there, _ = on_gpu(cupy.gpu, init)
    out, result = np.zeros_like(init), CupyNdarray(cupy.gpu, np.zeros_like(init))
    kernel(updates, places, there, out=out)
    np.testing.assert_array_equal(out, init)
    np.testing.assert_array_equal(kernel(updates, places, there), init)
    kernel(updates, places, init, out=result)
    np.testing.assert_array_equal(result.array, init)
    assert "launch" not in gpu.calls
