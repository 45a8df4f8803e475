"""Kernels with JAX's arrays, called and compiled by JAX."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError

jax = pytest.importorskip("jax", reason="pip install 'tvm-iree-ext[jax]'")
pytest.importorskip("jax_tvm_ffi", reason="pip install 'tvm-iree-ext[jax]'")
jnp = jax.numpy

X = np.arange(12, dtype="float32").reshape(3, 4)


def test_jax_for_jax(toys):
    y = toys.scale(jnp.asarray(X), 2.0)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, 2 * X)
    x, mask = jnp.arange(4, dtype="bfloat16"), jnp.asarray([True, False, True, False])
    assert toys.choose(x, -x, mask).tolist() == [0, -1, 2, -3]
    low, high = toys.shift(jnp.asarray([1, 2, 3]), 5, True)
    assert (low.tolist(), high.tolist()) == ([4, 3, 2], [6, 7, 8])
    assert toys.scale(jnp.zeros((0, 4)), 2.0).shape == (0, 4)


def test_is_part_of_what_jax_compiles(toys):
    scale = toys.scale.jax_fn()
    jitted = jax.jit(lambda x: scale(x + 1, factor=2.0) - 1)
    for rows in (3, 2):
        x = jnp.asarray(X[:rows])
        np.testing.assert_array_equal(jitted(x), 2 * (X[:rows] + 1) - 1)
    np.testing.assert_array_equal(scale(X, 3.0), 3 * X)
    assert jax.eval_shape(jitted, jax.ShapeDtypeStruct((7, 4), "float32")).shape == (7, 4)
    assert "custom-call" in jitted.lower(x).compile().as_text()


def test_types_and_several_results(toys):
    x, mask = jnp.arange(4, dtype="bfloat16"), jnp.asarray([True, False, True, False])
    choose = jax.jit(toys.choose.jax_fn())
    assert choose(x, -x, mask).tolist() == [0, -1, 2, -3]
    low, high = jax.jit(lambda x: toys.shift.jax_fn()(x, 5, True))(jnp.asarray([1, 2, 3]))
    assert (low.tolist(), high.tolist()) == ([4, 3, 2], [6, 7, 8])
    sums = jax.jit(toys.row_sums.jax_fn())(jnp.asarray(X))
    assert sums.tolist() == X.sum(1).tolist()


def test_what_is_combined_with_nothing_is_its_init():
    scatter = ext.build(ext.ops.scatter(("n", 4), ("n", 1), (16, 4)))
    function, original = jax.jit(scatter.jax_fn()), jnp.ones((16, 4))
    for count in (0, 2):
        indices = jnp.arange(count, dtype="int32")[:, None]
        came = function(jnp.zeros((count, 4)), indices, original)
        assert came.sum() == 64 - 4 * count
    assert original.sum() == 64


def test_vmap_goes_one_by_one_and_gradients_are_refused(toys):
    scale = toys.scale.jax_fn()
    x = jnp.asarray(X)
    many = jax.jit(jax.vmap(lambda x: scale(x, 2.0)))(jnp.stack([x, x + 1]))
    np.testing.assert_array_equal(many[1], 2 * (X + 1))
    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        with pytest.raises(CallError, match="a kernel has no derivative"):
            transform(lambda x: scale(x, 2.0).sum())(x)


def test_refuses_when_it_is_traced(toys):
    scale, x = toys.scale.jax_fn(), jnp.asarray(X)
    with pytest.raises(CallError, match="x axis 1 has extent 3; expected 4"):
        jax.jit(lambda x: scale(x[:, :3], 2.0))(x)
    with pytest.raises(CallError, match="x is int32; expected float32"):
        jax.jit(lambda x: scale(x.astype("int32"), 2.0))(x)
    with pytest.raises(CallError, match="factor is traced by JAX; expected a number"):
        jax.jit(scale)(x, 2.0)
    with pytest.raises(CallError, match=r"x is traced by JAX .* the function that jax_fn gives"):
        jax.jit(lambda x: toys.scale(x, 2.0))(x)
