"""Steps of training in JAX: loss, gradients and new weights."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model, generator, integers, normal

_RATE = 0.1


def _step(loss: Callable[..., jax.Array], weights: Any, *batch: jax.Array) -> Any:
    """The loss, and weights that went down its gradient."""
    value, gradient = jax.value_and_grad(loss)(weights, *batch)
    return value, jax.tree.map(lambda old, slope: old - _RATE * slope, weights, gradient)


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def mlp_train_step() -> Model:
    """784, 512, 512 and 10 units, a batch of 64."""

    def loss(weights: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        for weight, bias in weights[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = weights[-1]
        return _cross_entropy(x @ weight + bias, labels)

    rng = generator()
    sizes = ((784, 512), (512, 512), (512, 10))
    weights = [(normal(rng, a, b, scale=a**-0.5), np.zeros(b, np.float32)) for a, b in sizes]
    return Model(partial(_step, loss), (weights, normal(rng, 64, 784), integers(rng, 10, 64)))


def _convolved(x: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    layouts = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), "SAME", dimension_numbers=layouts
    )


def _pooled(x: jax.Array) -> jax.Array:
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def _cnn(features: Callable[[Any, jax.Array], jax.Array]) -> Model:
    def loss(weights: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        x = features(weights, x)
        logits = x.reshape(x.shape[0], -1) @ weights["out"] + weights["bias"]
        return _cross_entropy(logits, labels)

    rng = generator()
    weights = {
        "first": normal(rng, 3, 3, 1, 16, scale=0.3),
        "second": normal(rng, 3, 3, 16, 32, scale=0.1),
        "out": normal(rng, 7 * 7 * 32, 10, scale=0.03),
        "bias": np.zeros(10, np.float32),
    }
    batch = normal(rng, 32, 28, 28, 1), integers(rng, 10, 32)
    return Model(partial(_step, loss), (weights, *batch))


def cnn_train_step() -> Model:
    """Two convolutions with max pools, whose gradient is a select and a scatter; batch 32."""

    def features(weights: Any, x: jax.Array) -> jax.Array:
        x = _pooled(jax.nn.relu(_convolved(x, weights["first"])))
        return _pooled(jax.nn.relu(_convolved(x, weights["second"])))

    return _cnn(features)


def cnn_train_step_strided() -> Model:
    """The same with strides in place of the pools."""

    def features(weights: Any, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(_convolved(x, weights["first"], 2))
        return jax.nn.relu(_convolved(x, weights["second"], 2))

    return _cnn(features)


_WIDTH, _HEADS, _TOKENS, _BATCH = 256, 4, 64, 4


def _layer_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    off = x - x.mean(-1, keepdims=True)
    return off * jax.lax.rsqrt((off**2).mean(-1, keepdims=True) + 1e-5) * weight


def transformer_train_step() -> Model:
    """A causal block of 256, 4 x 64 tokens, to the mean square of what is off."""

    def block(weights: Any, x: jax.Array) -> jax.Array:
        qkv = jnp.split(_layer_norm(x, weights["norm1"]) @ weights["qkv"], 3, -1)
        q, k, v = (one.reshape(_BATCH, _TOKENS, _HEADS, _WIDTH // _HEADS) for one in qkv)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + y.reshape(_BATCH, _TOKENS, _WIDTH) @ weights["project"]
        inner = jax.nn.gelu(_layer_norm(x, weights["norm2"]) @ weights["widen"])
        return x + inner @ weights["narrow"]

    def loss(weights: Any, x: jax.Array, wanted: jax.Array) -> jax.Array:
        return ((block(weights, x) - wanted) ** 2).mean()

    rng = generator()
    weights = {
        "norm1": np.ones(_WIDTH, np.float32),
        "norm2": np.ones(_WIDTH, np.float32),
        "qkv": normal(rng, _WIDTH, 3 * _WIDTH, scale=0.05),
        "project": normal(rng, _WIDTH, _WIDTH, scale=0.05),
        "widen": normal(rng, _WIDTH, 4 * _WIDTH, scale=0.05),
        "narrow": normal(rng, 4 * _WIDTH, _WIDTH, scale=0.03),
    }
    batch = (normal(rng, _BATCH, _TOKENS, _WIDTH) for _ in range(2))
    return Model(partial(_step, loss), (weights, *batch))


def embedding_bag_grad() -> Model:
    """The gradient of a table of 20000 rows, of which 256 bags of 20 are read."""

    def gradient(table: jax.Array, rows: jax.Array, wanted: jax.Array) -> jax.Array:
        return jax.grad(lambda here: ((here[rows].mean(1) - wanted) ** 2).sum())(table)

    rng = generator()
    rows = integers(rng, 20000, 256, 20)
    return Model(gradient, (normal(rng, 20000, 64), rows, normal(rng, 256, 64)))
