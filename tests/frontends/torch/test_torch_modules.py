"""Live PyTorch modules, in one call each."""

import warnings

import numpy as np
import pytest
from optional_packages import needs

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError


def same(program, module, *arguments, rtol=0.0):
    """Have a program give what a module gives, types and shapes included."""
    torch = needs("torch", "pytorch")
    with torch.no_grad():
        came, want = program(*arguments), module(*arguments)
    if isinstance(want, torch.Tensor):
        came, want = (came,), (want,)
    assert len(came) == len(want)
    for one, other in zip(came, want, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=rtol, equal_nan=True)


def test_a_torch_module(tmp_path):
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).eval()
    x = torch.randn(5, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a user would ask what is wrong with the model
        program = ext.from_torch(model, x, folder=tmp_path / "model")
    with torch.no_grad():
        want = model(x)
        assert isinstance(program(x), torch.Tensor)
        torch.testing.assert_close(program(x), want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ext.load(tmp_path / "model")(x), want, rtol=1e-4, atol=1e-5)


def test_torch_operators_that_iree_lowers_by_simpler_ones():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    torch.manual_seed(0)
    recurrent, x = torch.nn.LSTM(6, 8).eval(), torch.randn(4, 2, 6)
    with torch.no_grad():
        want, (state, cell) = recurrent(x)
    for came, expected in zip(ext.from_torch(recurrent, x)(x), (want, state, cell), strict=True):
        torch.testing.assert_close(came, expected, rtol=1e-4, atol=1e-5)

    from opaque_operator import opaque

    class Opaque(torch.nn.Module):
        def forward(self, x):
            return opaque(x)

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_torch_modules\.py:\d+"):
        ext.from_torch(Opaque(), torch.randn(4, 5))


def test_a_torch_module_in_float64_is_computed_so():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")

    class Small(torch.nn.Module):
        def forward(self, x, n):
            return x * (1 + 1e-12), x.double() + 1e-9, n * 3 + (1 << 40)

    x = torch.arange(3, dtype=torch.float64) + 1
    n = torch.tensor([1 << 50, -5])
    same(ext.from_torch(Small(), x, n), Small(), x, n)


def test_what_a_torch_module_takes_and_gives_keeps_its_type():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")

    class Moves(torch.nn.Module):
        def forward(self, a, b, c, d):
            return a, a[1:], b[1:], c[1:] > 1.0, d, (a + 2)

    a = torch.tensor([1, 200, 255], dtype=torch.uint8)
    arguments = a, a.to(torch.uint16), a.float(), a.to(torch.uint64)
    same(ext.from_torch(Moves(), *arguments), Moves(), *arguments)


def test_torch_arguments_that_are_not_read_or_only_given_back():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")

    class Some(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(3))

        def forward(self, a, b, c):
            return a + self.weight, b

    module, x = Some(), torch.arange(3.0)
    arguments = x, torch.tensor([200], dtype=torch.uint8), torch.zeros(2, 2)
    program = ext.from_torch(module, *arguments)
    same(program, module, *arguments)
    with pytest.raises(CallError, match=r"arg2 axis 0 has extent 3; expected 2"):
        program(*arguments[:2], torch.zeros(3, 2))


def test_one_tensor_as_several_torch_examples_stands_for_several_arguments():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")

    class Weighted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(3))

        def forward(self, a, b, named):
            return a - 2 * b + 4 * named + 8 * self.weight

    module, x = Weighted(), torch.arange(3.0)
    program = ext.from_torch(module, x, x, kwargs={"named": module.weight})
    same(program, module, x, x + 1, x + 2)


def test_a_torch_module_of_any_batch():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    model = torch.nn.Linear(16, 4).eval()
    batch = torch.export.Dim("batch")
    program = ext.from_torch(model, torch.randn(5, 16), dynamic_shapes=({0: batch},))
    for rows in (1, 3, 64):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_transformer_layer_of_any_batch_and_number_of_tokens():
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    program = ext.from_torch(layer, torch.randn(4, 6, 16), dynamic_shapes=(free,))
    for batch, tokens in ((1, 1), (1, 7), (5, 1), (3, 10)):
        same(program, layer, torch.randn(batch, tokens, 16), rtol=1e-5)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_torch_module_of_halves(dtype):
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = layer.to(getattr(torch, dtype)).eval()
    x = torch.randn(2, 10, 32, dtype=getattr(torch, dtype))
    program = ext.from_torch(model, x)
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), rtol=3e-2, atol=3e-2)
    if dtype == "float16":
        return  # what follows is the same of either
    again = torch.export.export(model, (x,))
    assert program(x).equal(ext.from_torch(again)(x))
    assert type(again.state_dict["linear1.weight"]) is torch.nn.Parameter
    with pytest.raises(MlirError, match="takes no arguments to trace with"):
        ext.from_torch(again, x)


def test_a_transformer_layer_without_gradients():
    """PyTorch has one operator for all of it then, which IREE does not lower."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(1, 5, 16)
    with torch.no_grad():
        program = ext.from_torch(layer, x)
        want = layer(x).numpy()
    assert torch.backends.mha.get_fastpath_enabled()
    np.testing.assert_allclose(program(x), want, rtol=1e-4, atol=1e-5)
