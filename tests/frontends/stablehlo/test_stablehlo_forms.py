"""What JAX writes and IREE does not take, or takes for something else."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-iree-ext[jax]'")
lax, jnp = jax.lax, jax.numpy


def same(function, *arguments, tolerance=0.0):
    program = ext.from_jax(function, *arguments)
    wants = jax.tree.leaves(jax.jit(function)(*arguments))
    results = program(*map(np.asarray, arguments))
    for came, want in zip(results if len(wants) > 1 else [results], wants, strict=True):
        assert came.dtype == want.dtype
        np.testing.assert_allclose(
            np.asarray(came, "float64"), np.asarray(want, "float64"), tolerance, tolerance
        )


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_unsigned_integers_are_ordered_as_such(dtype):
    largest = np.iinfo(dtype).max
    x = np.array([[1, largest, 7, largest - 2], [largest // 2, 3, largest // 2 + 1, 0]], dtype)
    same(
        lambda x: (
            *lax.top_k(x, 2),
            *(jnp.cumsum(x, 1, dtype=x.dtype), jnp.cumprod(x, 0, dtype=x.dtype)),
            *(lax.cummax(x, 1), lax.cummin(x, 0), lax.cummax(x, 1, reverse=True)),
            *(jnp.sort(x, 1), x.max(1), x.argmin(0), x // 3, -x % 5, x > 4, x.astype("float32")),
        ),
        x,
    )


def test_the_largest_of_64_unsigned_bits_are_refused():
    with jax.enable_x64(True):
        shape = jax.ShapeDtypeStruct((4,), "uint64")
        with pytest.raises(MlirError, match="top_k of ui64: IREE takes it for signed; uint8, uint"):
            ext.from_jax(lambda x: lax.top_k(x, 2), shape)


def test_extremes_reversed_bytes_and_scatters_without_indices():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 9)).astype("float32")
    u = rng.integers(0, 256, (3, 9)).astype("uint8")
    same(
        lambda x, u: (
            *(*lax.approx_min_k(x, 2), *lax.approx_max_k(x, 1, reduction_dimension=0)),
            *(u[::-1], jnp.flip(u.astype("uint32"), 1), jnp.packbits(u, axis=0)),
            *(jnp.polyadd(x[0], x[1]), x.at[...].max(0.5), x[0, 0].at[()].set(x[1, 1])),
        ),
        x,
        u,
        tolerance=1e-6,
    )


def test_products_whose_algorithm_is_said():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 9, 3, 8)).astype("float32") for _ in range(3))

    def attended(q, k, v):
        q, k, v = (one.astype(jnp.bfloat16) for one in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).astype("float32")

    same(attended, q, k, v, tolerance=2e-2)
    x = rng.integers(-8, 8, (4, 6)).astype("float32")
    for preset in ("BF16_BF16_F32", "BF16_BF16_F32_X3", "F32_F32_F32"):
        same(lambda x, p=preset: lax.dot(x, x.T, precision=lax.DotAlgorithmPreset[p]), x)


def test_typed_keys_are_passed_as_their_data():
    key, unread = jax.random.key(3), jax.random.split(jax.random.key(1), 3)

    def drawn(unread, key):
        first, second = jax.random.split(key)
        return jax.random.bits(second, (4,)), first

    program = ext.from_jax(drawn, unread, key)
    bits, first = program(*(np.asarray(jax.random.key_data(one)) for one in (unread, key)))
    want = drawn(unread, key)
    np.testing.assert_array_equal(bits, want[0])
    np.testing.assert_array_equal(first, jax.random.key_data(want[1]))
