"""Large constants of JAX functions go beside the text."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.frontends.jax import jax_constants
from tvm_iree_ext.frontends.jax.jax_functions import import_jax

jax = pytest.importorskip("jax")
pytest.importorskip("iree.compiler")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(jax_constants, "_LARGE", 20)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int32"])
def test_a_constant_passes_as_it_lies(kind, tmp_path):
    held = jax.numpy.asarray(np.arange(30).reshape(6, 5).astype(kind))
    x = np.random.default_rng(0).random((6, 5)).astype("float32")

    def function(x):
        inner = jax.jit(lambda y: y + held.astype("float32"))
        return inner(x * 2) * held.astype("float32")

    lowered = jax.jit(function).lower(x)
    text, arrays = jax_constants.text_beside_constants(lowered)
    assert "__elided__" not in text
    assert arrays
    assert all(np.array_equal(one, held) for one in arrays.values())
    got = ext.from_jax(function, x, folder=tmp_path / "p")(x)
    np.testing.assert_allclose(got, function(x), rtol=1e-6)


@pytest.mark.parametrize("kind", ["bfloat16", "uint8", "bool"])
def test_others_stay_in_the_text(kind, tmp_path):
    held = jax.numpy.asarray(np.arange(30).reshape(6, 5) % 2).astype(kind)
    x = np.random.default_rng(0).random((6, 5)).astype("float32")

    def function(x):
        return x * held.astype("float32")

    _, arrays = jax_constants.text_beside_constants(jax.jit(function).lower(x))
    assert not arrays
    got = ext.from_jax(function, x, folder=tmp_path / "p")(x)
    np.testing.assert_allclose(got, function(x), rtol=1e-6)


def test_splats_and_small_ones_stay_in_the_text():
    def function(x):
        return x + jax.numpy.zeros((50, 5)) + np.arange(5.0, dtype="float32")

    x = np.zeros((50, 5), "float32")
    assert not jax_constants.text_beside_constants(jax.jit(function).lower(x))[1]
    assert all(one.size < 50 for one in import_jax(function, x).parameters.values())
