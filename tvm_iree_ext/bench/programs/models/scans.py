"""Sequences in JAX: a recurrent layer, and Mamba's scan step by step and as an associative one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model, generator, normal

_LENGTH, _WIDTH, _STATE = 128, 512, 16


def jax_rnn_scan() -> Model:
    """100 steps of a recurrent layer of 128, batch 8."""

    def layer(x: jax.Array, w: jax.Array, u: jax.Array) -> jax.Array:
        def step(state: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = jnp.tanh(now @ w + state @ u)
            return state, state

        return jax.lax.scan(step, jnp.zeros((8, 128), x.dtype), x)[1]

    rng = generator()
    weights = normal(rng, 64, 128, scale=0.1), normal(rng, 128, 128, scale=0.05)
    return Model(layer, (normal(rng, 100, 8, 64), *weights))


def _arguments() -> tuple[np.ndarray, ...]:
    rng = generator()
    return (
        normal(rng, _LENGTH, _WIDTH),
        normal(rng, _LENGTH, _WIDTH),
        -np.abs(normal(rng, _WIDTH, _STATE)),
        normal(rng, _LENGTH, _STATE),
        normal(rng, _LENGTH, _STATE),
        normal(rng, _WIDTH),
    )


def _discrete(x: jax.Array, dt: jax.Array, a: jax.Array, b: jax.Array) -> Any:
    """The state's factors and what is added to it, at every step."""
    dt = jax.nn.softplus(dt)
    return jnp.exp(dt[:, :, None] * a), (dt * x)[:, :, None] * b[:, None, :]


def mamba_scan() -> Model:
    """128 steps of 512 channels with 16 states, one by one."""

    def scanned(
        x: jax.Array, dt: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array
    ) -> jax.Array:
        def step(state: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
            factor, added, read = now
            state = factor * state + added
            return state, (state * read[None]).sum(-1)

        start = jnp.zeros((_WIDTH, _STATE), x.dtype)
        return jax.lax.scan(step, start, (*_discrete(x, dt, a, b), c))[1] + x * d

    return Model(scanned, _arguments())


def mamba_assoc_scan() -> Model:
    """The same by an associative scan."""

    def scanned(
        x: jax.Array, dt: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array
    ) -> jax.Array:
        def joined(first: Any, second: Any) -> Any:
            return second[0] * first[0], second[0] * first[1] + second[1]

        states = jax.lax.associative_scan(joined, _discrete(x, dt, a, b))[1]
        return jnp.einsum("ldn,ln->ld", states, c) + x * d

    return Model(scanned, _arguments())
