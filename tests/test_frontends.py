"""Live JAX functions and PyTorch modules, in one call each."""

import doctest

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import frontends
from tvm_iree_ext.errors import MlirError


def needs(module, extra):
    reason = f"{module} is not installed: pip install 'tvm-iree-ext[{extra}]'"
    return pytest.importorskip(module, reason=reason, exc_type=ImportError)


def test_a_jax_function(tmp_path):
    jax = needs("jax", "jax")

    def router(x, w):
        return jax.lax.top_k(jax.nn.softmax(jax.numpy.tanh(x @ w)), 3)

    rng = np.random.default_rng(0)
    x, w = rng.random((8, 16), np.float32), rng.random((16, 32), np.float32)
    program = ext.from_jax(router, x, w, folder=tmp_path / "router")
    values, places = program(x, w)
    want_values, want_places = router(x, w)
    np.testing.assert_allclose(values, want_values, rtol=1e-5)
    np.testing.assert_array_equal(places, want_places)
    again = ext.load(tmp_path / "router")
    np.testing.assert_array_equal(again(x, w)[0], values)


def test_loops_and_branches_of_jax():
    jax = needs("jax", "jax")
    lax, jnp = jax.lax, jax.numpy

    def recurrent(weights, x):
        def step(state, row):
            state = jnp.tanh(row + state @ weights)
            return lax.cond(state.sum() > 0, lambda s: s, lambda s: -s, state), state.sum()

        last, sums = lax.scan(step, jnp.zeros(8), x)
        return lax.while_loop(lambda s: jnp.abs(s).max() > 0.1, lambda s: s / 3, last), sums

    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((8, 8), "f4"), rng.standard_normal((6, 8), "f4")
    for came, want in zip(
        ext.from_jax(recurrent, *arguments)(*arguments), jax.jit(recurrent)(*arguments), strict=True
    ):
        np.testing.assert_allclose(came, want, rtol=1e-4, atol=1e-5)
    key = np.asarray(jax.random.PRNGKey(5))
    drawn = ext.from_jax(lambda key: jax.random.normal(key, (4, 3)), key)(key.view("int32"))
    want = jax.random.normal(jax.random.PRNGKey(5), (4, 3))
    np.testing.assert_allclose(drawn, want, rtol=1e-4, atol=1e-5)


def test_what_jax_has_lowered_already():
    jax = needs("jax", "jax")
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    program = ext.from_jax(jax.jit(lambda x: x + 1).lower(shape))
    assert program(np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]
    with pytest.raises(MlirError, match="takes no arguments to trace with"):
        ext.from_jax(jax.jit(lambda x: x + 1).lower(shape), shape)


def test_what_is_not_supported_is_named_by_the_line_of_the_program():
    jax = needs("jax", "jax")

    def factor(x):
        return jax.numpy.linalg.cholesky(x)

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_frontends\.py:\d+"):
        ext.from_jax(factor, jax.ShapeDtypeStruct((4, 4), np.float32))


def test_a_torch_module(tmp_path):
    torch = needs("torch", "pytorch")
    needs("iree.turbine.aot", "pytorch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).eval()
    x = torch.randn(5, 16)
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

    class Median(torch.nn.Module):
        def forward(self, x):
            return x.median(1)

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_frontends\.py:\d+"):
        ext.from_torch(Median(), torch.randn(4, 5))


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
    again = torch.export.export(model, (x,))
    assert program(x).equal(ext.from_torch(again)(x))
    assert type(again.state_dict["linear1.weight"]) is torch.nn.Parameter
    with pytest.raises(MlirError, match="takes no arguments to trace with"):
        ext.from_torch(again, x)


def test_text_of_stablehlo():
    imported = frontends.import_lowered(
        """
module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
""",
        "stablehlo",
    )
    assert ext.build_program(imported)(np.ones(4, np.float32)).tolist() == [2, 2, 2, 2]


def test_says_what_iree_does_not_lower():
    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it:.*'oops' is unknown"):
        frontends.import_lowered("module { oops }", "stablehlo")


@pytest.mark.parametrize(
    ("build", "missing", "said"),
    [
        (ext.from_jax, "jax", r"JAX is not installed.*tvm-iree-ext\[jax\]"),
        (ext.from_torch, "iree.turbine", r"iree-turbine is not installed.*tvm-iree-ext\[pytorch\]"),
    ],
)
def test_says_what_is_not_installed(monkeypatch, build, missing, said):
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(MlirError, match=said):
        build(lambda x: x, np.zeros(3))


@pytest.mark.parametrize(
    ("page", "module", "extra"),
    [("jax.md", "jax", "jax"), ("pytorch.md", "iree.turbine.aot", "pytorch")],
)
def test_the_snippets_of_its_page_run(root, tmp_path, monkeypatch, page, module, extra):
    needs(module, extra)
    monkeypatch.chdir(tmp_path)
    path = str(root / "docs" / page)
    result = doctest.testfile(path, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 5
