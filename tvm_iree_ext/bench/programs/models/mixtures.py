"""Mixtures of experts in JAX, with all experts computed and with those that are chosen."""

import jax
import jax.numpy as jnp
import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model, generator, normal

_WIDTH, _INNER, _EXPERTS, _TOKENS, _CHOSEN = 512, 1024, 8, 64, 2


def _arguments() -> tuple[np.ndarray, ...]:
    rng = generator()
    return (
        normal(rng, _TOKENS, _WIDTH),
        normal(rng, _WIDTH, _EXPERTS, scale=0.05),
        normal(rng, _EXPERTS, _WIDTH, _INNER, scale=0.04),
        normal(rng, _EXPERTS, _INNER, _WIDTH, scale=0.03),
    )


def moe() -> Model:
    """All of 8 experts, weighted by those that are chosen."""

    def mixed(x: jax.Array, router: jax.Array, widen: jax.Array, narrow: jax.Array) -> jax.Array:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), _CHOSEN)
        weights = weights / weights.sum(-1, keepdims=True)
        gates = jnp.zeros((_TOKENS, _EXPERTS), x.dtype)
        gates = gates.at[jnp.arange(_TOKENS)[:, None], chosen].set(weights)
        inner = jax.nn.gelu(jnp.einsum("nd,edf->enf", x, widen))
        each = jnp.einsum("enf,efd->end", inner, narrow)
        return jnp.einsum("end,ne->nd", each, gates)

    return Model(mixed, _arguments())


def moe_ragged() -> Model:
    """Tokens sorted by expert, grouped products, and the results scattered back."""

    def mixed(x: jax.Array, router: jax.Array, widen: jax.Array, narrow: jax.Array) -> jax.Array:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), _CHOSEN)
        experts = chosen.reshape(-1)
        order = jnp.argsort(experts)
        sizes = jnp.bincount(experts, length=_EXPERTS)
        inner = jax.nn.gelu(jax.lax.ragged_dot(x[order // _CHOSEN], widen, sizes))
        each = jax.lax.ragged_dot(inner, narrow, sizes)
        weighted = each * weights.reshape(-1)[order][:, None]
        return jnp.zeros_like(x).at[order // _CHOSEN].add(weighted)

    return Model(mixed, _arguments())
