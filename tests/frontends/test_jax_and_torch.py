"""Live JAX functions and PyTorch modules, in one call each."""

import doctest
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.frontends import jax_and_torch
from tvm_iree_ext.mlir.reading import reader


def needs(module, extra):
    reason = f"{module} is not installed: pip install 'tvm-iree-ext[{extra}]'"
    return pytest.importorskip(module, reason=reason, exc_type=ImportError)


def test_a_jax_function(tmp_path):
    jax = needs("jax", "jax")

    def router(x, w):
        return jax.lax.top_k(jax.nn.softmax(jax.numpy.tanh(x @ w / 16)), 3)

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
    drawn = ext.from_jax(lambda key: jax.random.normal(key, (4, 3)), key)(key)
    want = jax.random.normal(jax.random.PRNGKey(5), (4, 3))
    np.testing.assert_allclose(drawn, want, rtol=1e-4, atol=1e-5)


def test_results_have_the_types_of_jax():
    jax = needs("jax", "jax")
    x = np.array([1, 200, 255], "u1")

    def counted(x):
        return jax.numpy.bitwise_count(x), x + x, x.astype("uint32"), x > 1

    for came, want in zip(ext.from_jax(counted, x)(x), counted(x), strict=True):
        assert came.dtype == want.dtype
        np.testing.assert_array_equal(came, want)


def test_arguments_that_a_jax_function_does_not_read_keep_their_places():
    jax = needs("jax", "jax")
    x, y = np.ones(3, "f4"), np.ones(2, "i4")
    program = ext.from_jax(lambda a, named, b: a + b, x, {"unread": y}, x)
    assert program(x, y, x).tolist() == [2, 2, 2]
    static = ext.from_jax(jax.jit(lambda n, a, b: b * n, static_argnums=0), 3, y, x)
    assert static(y, x).tolist() == [3, 3, 3]
    with pytest.raises(CallError, match="arg1 is float32; expected int32"):
        program(x, x, x)


@pytest.mark.costly
@pytest.mark.parametrize("length", [13, 33])
def test_associative_scans_of_jax(length, tmp_path):
    """Slices that are padded and meet again, of which each level holds what the next one reads."""
    jax = needs("jax", "jax")
    x = np.random.default_rng(0).integers(-3, 4, length).astype("float32")
    program = ext.from_jax(
        lambda x: jax.lax.associative_scan(jax.lax.add, x), x, folder=tmp_path / "p"
    )
    np.testing.assert_array_equal(program(x), np.cumsum(x))


def test_products_of_unsigned_factors_are_refused_where_iree_takes_them_for_signed(tmp_path):
    jax = needs("jax", "jax")
    x = np.array([[200, 131], [193, 243]], "uint8")

    def product(x, dtype):
        return jax.lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=dtype)

    def convolved(x):
        image = x.reshape(1, 1, 2, 2)
        options = {"preferred_element_type": "int32"}
        return jax.lax.conv_general_dilated(image, image, (1, 1), "VALID", **options)

    for dtype, result in (("int32", "i32"), ("float32", "f32")):
        with pytest.raises(MlirError, match=f"dot_general of ui8 to {result}: IREE takes the fac"):
            ext.from_jax(lambda x, dtype=dtype: product(x, dtype), x)
    with pytest.raises(MlirError, match="convolution of ui8 to i32"):
        ext.from_jax(convolved, x)
    text = jax.jit(lambda x: product(x, "int32")).lower(x).as_text("stablehlo")
    with pytest.raises(MlirError, match="dot_general of ui8 to i32"):
        jax_and_torch.import_lowered(text, "stablehlo")
    program = ext.from_jax(lambda x: product(x, "uint8"), x, folder=tmp_path / "p")
    np.testing.assert_array_equal(np.asarray(program(x)).view("uint8"), x @ x.T)


def test_factors_that_jax_widens_before_a_product_keep_their_sign(tmp_path):
    """IREE takes the conversion into the product, and there a bool of 1 for -1."""
    jax = needs("jax", "jax")
    factors = []
    for narrow in ("bool", "uint8", "uint16"):
        largest = 1 if narrow == "bool" else np.iinfo(narrow).max
        factors.append(np.array([[largest, 0, largest], [1, largest, 0]]).astype(narrow))
    weights = [np.array([[1], [2], [-3]]).astype(wide) for wide in ("float32", "int32")]

    def products(factors, weights):
        return [jax.numpy.dot(x.astype(w.dtype), w) for w in weights for x in factors]

    wants = [x.astype(w.dtype) @ w for w in weights for x in factors]
    got = ext.from_jax(products, factors, weights, folder=tmp_path / "p")(*factors, *weights)
    text = jax.jit(products).lower(factors, weights).as_text("stablehlo")
    program = ext.build_program(
        jax_and_torch.import_lowered(text, "stablehlo"), folder=tmp_path / "q"
    )
    words = [x.view(x.dtype.name.removeprefix("u")) for x in factors]  # IREE's text has no unsigned
    for came in (got, program(*words, *weights)):
        for one, want in zip(came, wants, strict=True):
            np.testing.assert_array_equal(np.asarray(one), want)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_products_of_bytes_and_halves_are_summed_as_exactly_as_by_jax(tmp_path, kind):
    jax = needs("jax", "jax")
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (4, 4096)).astype("int8")
    y = jax.numpy.asarray(rng.standard_normal((4096, 4)), kind)
    exact = x.astype("float64") @ np.asarray(y, "float64")
    ours = ext.from_jax(jax.numpy.matmul, x, y, folder=tmp_path / "p")(x, np.asarray(y))
    theirs = jax.jit(jax.numpy.matmul)(x, y)
    errors = [np.abs(np.asarray(one, "float64") - exact).max() for one in (ours, theirs)]
    assert ours.dtype == theirs.dtype
    assert errors[0] <= 1.01 * errors[1]


def test_what_jax_has_lowered_already():
    jax = needs("jax", "jax")
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    program = ext.from_jax(jax.jit(lambda x: x + 1).lower(shape))
    assert program(np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]
    with pytest.raises(MlirError, match="takes no arguments to trace with"):
        ext.from_jax(jax.jit(lambda x: x + 1).lower(shape), shape)


def test_what_is_not_supported_is_named_by_the_line_of_the_program():
    jax = needs("jax", "jax")

    def called_back(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_jax_and_torch\.py:\d+"):
        ext.from_jax(called_back, jax.ShapeDtypeStruct((4, 4), np.float32))


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

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_jax_and_torch\.py:\d+"):
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


def test_a_bool_that_is_widened_before_a_product_in_generic_form_keeps_its_sign(tmp_path):
    text = """
module {
  func.func @main(%x: tensor<2xf32>, %y: tensor<1x2xi1>) -> tensor<1xf32> {
    %0 = "stablehlo.convert"(%y) : (tensor<1x2xi1>) -> tensor<1x2xf32>
    %1 = "stablehlo.dot_general"(%x, %0) <{dot_dimension_numbers = #stablehlo.dot<
        lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>}>
        : (tensor<2xf32>, tensor<1x2xf32>) -> tensor<1xf32>
    return %1 : tensor<1xf32>
  }
}
"""
    imported = jax_and_torch.import_lowered(text, "stablehlo")
    program = ext.build_program(imported, folder=tmp_path / "p")
    x, y = np.array([1.25, 1.75], "float32"), np.array([[False, True]])
    np.testing.assert_array_equal(program(x, y), [1.75])


def test_text_of_stablehlo():
    imported = jax_and_torch.import_lowered(
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
        jax_and_torch.import_lowered("module { oops }", "stablehlo")


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("COMPILER_MEMORY", 1 << 20, r"^IREE's compiler takes more than the 1 MB that it may$"),
        ("COMPILER_LIMIT_S", 0.001, r"^IREE's compiler takes more than 0\.001 s$"),
    ],
)
def test_says_which_limit_the_compiler_is_beyond(monkeypatch, limit, value, said):
    monkeypatch.setattr(reader, limit, value)
    with pytest.raises(MlirError, match=said):
        jax_and_torch.import_lowered("module {}", "stablehlo")


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


@pytest.mark.costly
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


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_example_goes_from_pytorch_to_cpp(root, tmp_path, monkeypatch):
    """docs/examples/torch_to_cpp: its files, and what the tutorial quotes of them."""
    needs("iree.turbine.aot", "pytorch")
    example = root / "docs" / "examples" / "torch_to_cpp"
    place = shutil.copytree(example, tmp_path / "place")
    monkeypatch.chdir(place)
    runpy.run_path("export.py")
    compiled = re.sub("-O1", "-O0", (place / "compile.sh").read_text("utf-8"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", compiled], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("5 x 4 results; largest difference from PyTorch ")
    page = (root / "docs" / "tutorials" / "torch_to_cpp.md").read_text("utf-8")
    for line in ("executable->ImportModule(", "dynamic_shapes=({0: batch},))", "./main\n"):
        assert line in page
        assert line in "".join(file.read_text("utf-8") for file in example.iterdir())


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


def test_donated_arguments_of_jax_are_updated(tmp_path):
    jax = needs("jax", "jax")

    def step(x, cache, place):
        place = jax.numpy.asarray(place, "int32")
        cache = jax.lax.dynamic_update_slice(cache, x[None] * 2, (place, 0 * place))
        return cache.sum(0), cache, cache.at[0].add(1)[:2]

    rng = np.random.default_rng(0)
    x, cache = rng.random(5, "float32"), rng.random((7, 5), "float32")
    program = ext.from_jax(step, x, cache, np.int32(3), donate_argnums=(1,), folder=tmp_path / "p")
    jitted = ext.from_jax(jax.jit(step, donate_argnums=1), x, cache, np.int32(3))
    lowered = ext.from_jax(jax.jit(step, donate_argnums=1).lower(x, cache, np.int32(3)))
    for own in (program, jitted, lowered):
        for place in (0, 6, 30, -2):
            given = cache.copy()
            got = own(x, given, np.array(place, "int32"))
            assert got[1] is given
            for one, other in zip(got, step(x, cache, place), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(MlirError, match=r"donate_argnums is an option of jax\.jit; give it there"):
        ext.from_jax(jax.jit(step), x, cache, np.int32(3), donate_argnums=1)
