"""Weights of PyTorch's modules go beside the program, as the memory that they are."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import frontends
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.from_file import import_program

torch = pytest.importorskip("torch")
builder = pytest.importorskip("torch._dynamo.variables.builder")
pytest.importorskip("iree.turbine")


def linear(inputs=64, outputs=48, **named):
    return torch.nn.Linear(inputs, outputs, bias=False, **named).eval()


def test_weights_are_constants_without_a_copy():
    module = linear()
    imported = frontends.import_torch(module, torch.randn(2, 64))
    (array,) = imported.parameters.values()
    assert np.shares_memory(array, module.weight.detach().numpy())
    assert not hasattr(module.weight, "_turbine_external_tensor_trait")


def test_tracing_copies_no_weights(monkeypatch):
    copied = []
    clone = builder.clone_input
    monkeypatch.setattr(builder, "clone_input", lambda x: copied.append(x.shape) or clone(x))
    module = linear()
    before = module.weight.detach().clone()
    frontends.import_torch(module, torch.randn(2, 64))
    assert torch.equal(module.weight, before)
    assert copied == [(2, 64)]


def test_arrays_of_numpy_are_traced_as_they_are(tmp_path):
    """Their memory is not PyTorch's own, which could be cloned lazily."""

    class Doubled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.from_numpy(np.ones((32, 32), "float32"))

        def forward(self, x):
            return x + x + self.held

    x = torch.from_numpy(np.random.default_rng(0).standard_normal((32, 32)).astype("float32"))
    program = ext.from_torch(Doubled(), x, folder=tmp_path / "p")
    torch.testing.assert_close(program(x), x + x + 1)


def test_a_weight_that_two_layers_share_is_one_constant(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = linear(64, 64), linear(64, 64)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    module, x = Tied().eval(), torch.randn(3, 64)
    program = ext.from_torch(module, x, folder=tmp_path / "p")
    assert len(program.manifest.parameters) == 1
    with torch.no_grad():
        torch.testing.assert_close(program(x), module(x))


@pytest.mark.costly
@pytest.mark.parametrize(
    "kind",
    ["bfloat16", "float16", "float64", "uint8", "int16", "bool", "complex64", "float8_e5m2"],
)
def test_weights_of_any_type_come_as_they_are(kind, tmp_path):
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            bits = torch.randint(0, 2 if kind == "bool" else 60, (40, 41), dtype=torch.uint8)
            self.register_buffer("held", bits.to(getattr(torch, kind)).t())

        def forward(self, x):
            if kind.startswith("float8"):
                return x * self.held.float()
            return x * self.held

    module, x = Held().eval(), torch.randn(41, 40)
    same = torch.testing.assert_close
    same(ext.from_torch(module, x, folder=tmp_path / "p")(x), module(x))


@pytest.mark.parametrize("key", ["a::b", "é" * 200])
def test_weights_may_have_any_name(key, tmp_path):
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.ParameterDict({key: torch.randn(32, 32)})

        def forward(self, x):
            return x + self.held[key]

    module, x = Held().eval(), torch.randn(32, 32)
    program = ext.from_torch(module, x, folder=tmp_path / "p", strict_export=False)
    with torch.no_grad():
        torch.testing.assert_close(program(x), module(x))


PARAMETER = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4x3xf32>
func.func @f(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %w = util.global.load @w : tensor<4x3xf32>
  %s = arith.addf %a, %w : tensor<4x3xf32>
  return %s : tensor<4x3xf32>
}
"""


def test_parameters_of_a_file_are_given_as_arrays(tmp_path):
    w = np.arange(12, dtype="float32").reshape(4, 3)
    imported = import_program(PARAMETER, parameters={"w": w})
    program = ext.build_program(imported, folder=tmp_path / "p")
    np.testing.assert_array_equal(program(w), w + w)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "the parameter 'w' is not given; pass it as one of parameters"),
        ({"w": np.zeros((3, 4), "float32")}, "'w' is tensor<3x4xf32>; expected tensor<4x3x"),
        ({"w": np.zeros((4, 3), "float16")}, "'w' is tensor<4x3xf16>; expected tensor<4x3x"),
        ({"w": np.zeros((4, 3), "int32")}, "'w' is tensor<4x3xi32>; expected tensor<4x3xf"),
    ],
)
def test_says_which_parameter_does_not_come_as_it_is_declared(parameters, said):
    with pytest.raises(MlirError, match=said):
        import_program(PARAMETER, parameters=parameters)
