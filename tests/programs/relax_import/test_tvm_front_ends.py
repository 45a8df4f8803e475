"""Models that TVM's own front ends read from PyTorch and ONNX are programs as any Relax module."""

import numpy as np
import pytest

import tvm_iree_ext as ext

SEED = np.random.default_rng(0)


def ops_of(program):
    named = (kernel.computes.rpartition(".")[2] for kernel in program.manifest.kernels)
    return {name for name in named if name != "plain loops"}


def test_a_model_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x):
            h = self.linear(x)
            h = torch.nn.functional.scaled_dot_product_attention(h, h, h)
            return (*h.topk(3, -1), h.sort(-1)[0], h.cumsum(1), h.argmax(-1))

    model, x = Model().eval(), torch.randn(2, 2, 8, 16, generator=torch.manual_seed(0))
    with torch.no_grad():
        wanted = model(x)
        module = from_exported_program(torch.export.export(model, (x,)))
    program = ext.build(module, folder=tmp_path / "p")
    assert {"contraction", "sort", "scan", "arg_compare"} <= ops_of(program)
    for result, want in zip(program(x.numpy()), wanted, strict=True):
        np.testing.assert_allclose(result, want.numpy(), rtol=1e-5, atol=1e-5)
        assert result.dtype == want.numpy().dtype


def test_a_model_of_onnx(tmp_path):
    """Its places are int64, and computed of constants: they keep their type when folded."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from tvm.relax.frontend.onnx import from_onnx

    def node(name, inputs, outputs, **attributes):
        return onnx.helper.make_node(name, inputs.split(), outputs.split(), **attributes)

    nodes = [
        node("MatMul", "x weight", "product"),
        node("Relu", "product", "h"),
        node("TopK", "h k", "values places", axis=-1),
        node("CumSum", "h axis", "sums"),
        node("ArgMax", "h", "largest", axis=1, keepdims=0),
        node("ScatterND", "h rows updates", "scattered"),
        node("GatherElements", "h places", "gathered", axis=1),
    ]
    arrays = {
        "weight": SEED.standard_normal((16, 32)).astype("float32"),
        "k": np.array([5]),
        "axis": np.array(1),
        "rows": np.array([[2], [-4]]),
        "updates": np.ones((2, 32), "float32"),
    }
    names = ["values", "places", "sums", "largest", "scattered", "gathered"]
    int64 = {"places", "largest"}
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 16])],
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.TensorProto.INT64 if name in int64 else onnx.TensorProto.FLOAT, None
            )
            for name in names
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    x = SEED.standard_normal((4, 16)).astype("float32")
    wanted = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    program = ext.build(from_onnx(model), folder=tmp_path / "p")
    assert {"contraction", "topk", "scan", "arg_compare", "scatter"} <= ops_of(program)
    for result, want in zip(program(x), wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
        assert result.dtype == want.dtype
