"""Choices in JAX: sampling, beam search, sorting, and boxes that hide others."""

import jax
import jax.numpy as jnp
import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model, generator, integers, normal


def sample_token() -> Model:
    """Temperature, top-k, top-p and a random draw: what serving does after the logits."""

    def drawn(logits: jax.Array, chance: jax.Array) -> jax.Array:
        values, tokens = jax.lax.top_k(logits / 0.8, 50)
        shares = jax.nn.softmax(values)
        is_kept = (jnp.cumsum(shares, -1) - shares) < 0.9
        shares = jnp.where(is_kept, shares, 0)
        sums = jnp.cumsum(shares / shares.sum(-1, keepdims=True), -1)
        place = (sums < chance[:, None]).sum(-1, keepdims=True)
        return jnp.take_along_axis(tokens, place, 1)

    rng = generator()
    return Model(drawn, (normal(rng, 8, 32000), rng.random(8).astype(np.float32)))


def beam_search_step() -> Model:
    """The best 4 of 4 x 32000, their tokens, and the caches that go with them."""
    beams, vocabulary = 4, 32000

    def step(
        logits: jax.Array, scores: jax.Array, tokens: jax.Array, cache: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        totals = scores[:, None] + jax.nn.log_softmax(logits)
        best, place = jax.lax.top_k(totals.reshape(-1), beams)
        source, token = place // vocabulary, place % vocabulary
        longer = [tokens[source], token[:, None].astype(tokens.dtype)]
        return best, jnp.concatenate(longer, 1), cache[source]

    rng = generator()
    return Model(
        step,
        (
            normal(rng, beams, vocabulary),
            normal(rng, beams),
            integers(rng, vocabulary, beams, 20),
            normal(rng, beams, 8, 128, 64),
        ),
    )


def argsort() -> Model:
    """32 rows of 4096."""
    return Model(lambda x: jnp.argsort(x, axis=-1), (normal(generator(), 32, 4096),))


def nms() -> Model:
    """The order of 300 boxes, and which of them no better one hides."""
    count = 300

    def kept(boxes: jax.Array, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
        order = jnp.argsort(-scores)
        b = boxes[order]
        area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
        low = jnp.maximum(b[:, None, :2], b[None, :, :2])
        high = jnp.minimum(b[:, None, 2:], b[None, :, 2:])
        sides = jnp.clip(high - low, 0)
        shared = sides[..., 0] * sides[..., 1]
        share = shared / (area[:, None] + area[None] - shared)

        def without(box: jax.Array, keep: jax.Array) -> jax.Array:
            return keep & ~((share[box] > 0.5) & (jnp.arange(count) > box) & keep[box])

        return order, jax.lax.fori_loop(0, count, without, jnp.ones(count, bool))

    rng = generator()
    corner = rng.random((count, 2)) * 100
    boxes = np.concatenate([corner, corner + 5 + rng.random((count, 2)) * 20], 1)
    return Model(kept, (boxes.astype(np.float32), rng.random(count).astype(np.float32)))
