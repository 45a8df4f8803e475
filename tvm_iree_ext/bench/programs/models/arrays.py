"""Arrays in JAX: Fourier transforms, solvers, running sums, graphs, int8 and bfloat16."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model, generator, integers, normal


def fft_conv() -> Model:
    """64 lines of 1024 convolved with as long ones, by Fourier transforms."""

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        length = 2 * x.shape[-1]
        product = jnp.fft.rfft(x, length) * jnp.fft.rfft(kernel, length)
        return jnp.fft.irfft(product, length)[..., : x.shape[-1]]

    rng = generator()
    return Model(convolved, (normal(rng, 64, 1024), normal(rng, 64, 1024, scale=0.03)))


def cumsum_cumprod() -> Model:
    """Running sums and products of 64 lines of 2048."""
    return Model(
        lambda x: (jnp.cumsum(x, 1), jnp.cumprod(1 + 0.01 * x, 1)),
        (normal(generator(), 64, 2048),),
    )


def cg_while_loop() -> Model:
    """Conjugate gradients, until the residual is small: 256 unknowns."""

    def solved(matrix: jax.Array, right: jax.Array) -> jax.Array:
        def goes_on(state: Any) -> jax.Array:
            return (state[3] > 1e-6) & (state[4] < 200)

        def step(state: Any) -> Any:
            x, residual, way, square, count = state
            ahead = matrix @ way
            length = square / (way @ ahead)
            x, residual = x + length * way, residual - length * ahead
            now = residual @ residual
            return x, residual, residual + (now / square) * way, now, count + 1

        start = (jnp.zeros_like(right), right, right, right @ right, 0)
        return jax.lax.while_loop(goes_on, step, start)[0]

    rng = generator()
    half = normal(rng, 256, 256, scale=0.05)
    return Model(solved, (half @ half.T + np.eye(256, dtype=np.float32), normal(rng, 256)))


def linalg_solve() -> Model:
    """64 equations, by LAPACK."""
    rng = generator()
    matrix = normal(rng, 64, 64) + 8 * np.eye(64, dtype=np.float32)
    return Model(lambda a, b: jnp.linalg.solve(a, b), (matrix, normal(rng, 64)))


def cholesky() -> Model:
    """The factor of a 64 x 64 matrix, by LAPACK."""
    half = normal(generator(), 64, 64)
    matrix = half @ half.T + 64 * np.eye(64, dtype=np.float32)
    return Model(lambda a: jnp.linalg.cholesky(a), (matrix,))


def segment_sum() -> Model:
    """10000 rows of 64 into 1000 sums."""
    rng = generator()
    return Model(
        lambda x, segments: jax.ops.segment_sum(x, segments, 1000),
        (normal(rng, 10000, 64), integers(rng, 1000, 10000)),
    )


def gnn_layer() -> Model:
    """Nodes gathered by edges, messages of an MLP, and their sums and maxima by node."""
    nodes, edges, width = 2000, 10000, 64

    def layer(x: jax.Array, source: jax.Array, goal: jax.Array, weight: jax.Array) -> jax.Array:
        messages = jax.nn.relu(jnp.concatenate([x[source], x[goal]], 1) @ weight)
        most = jax.ops.segment_max(messages, goal, nodes)
        sums = jax.ops.segment_sum(messages, goal, nodes)
        return sums + jnp.where(jnp.isfinite(most), most, 0)

    rng = generator()
    ends = integers(rng, nodes, edges), integers(rng, nodes, edges)
    x = normal(rng, nodes, width)
    return Model(layer, (x, *ends, normal(rng, 2 * width, width, scale=0.1)))


def int8_matmul_jax() -> Model:
    """Weights of int8, activations quantised as they come: 128 rows of 768 to 3072."""

    def product(x: jax.Array, weight: jax.Array, scale: jax.Array) -> jax.Array:
        of_rows = jnp.abs(x).max(-1, keepdims=True) / 127
        quantised = jnp.round(x / of_rows).astype(jnp.int8)
        sums = jax.lax.dot_general(
            quantised, weight, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32
        )
        return sums.astype(jnp.float32) * of_rows * scale

    rng = generator()
    weight = rng.integers(-127, 127, (768, 3072)).astype(np.int8)
    return Model(product, (normal(rng, 128, 768), weight, np.abs(normal(rng, 3072))))


def jax_attention_bf16() -> Model:
    """Causal attention of 8 heads of 64, 256 tokens, in bfloat16."""

    def attended(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        q, k, v = (one.astype(jnp.bfloat16) for one in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).astype(jnp.float32)

    rng = generator()
    return Model(attended, tuple(normal(rng, 1, 256, 8, 64) for _ in range(3)))
