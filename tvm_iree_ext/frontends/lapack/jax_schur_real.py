"""Schur's form of a real matrix, by Francis's double steps, in JAX.

A step is reflections of three neighbouring rows and columns, of two at the end of the part that is
not done; its two shifts are conjugated, so that all stays real.  What is left on the diagonal are
single eigenvalues, and blocks of two rows for pairs of conjugated ones, whose diagonals are equal.
(Golub and Van Loan, Matrix Computations, 7.5; the blocks are as LAPACK's lanv2 leaves them.)
"""

import jax.numpy as jnp
from jax import Array, lax

from tvm_iree_ext.frontends.lapack.jax_schur import (
    MOST_STEPS,
    below_diagonal,
    deflated,
    hessenberg_form,
    scaled,
)


def schur(matrix: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """``gees`` of real numbers: the form, the orthogonal matrix, the real and the imaginary parts
    of the values, 0, and whether there are none.  Values are in no order."""
    size = matrix.shape[0]
    nothing = jnp.zeros((), jnp.int32)
    if size < 2:
        values = jnp.diagonal(matrix)
        return matrix, jnp.ones_like(matrix), values, jnp.zeros_like(values), nothing, nothing
    is_finite = jnp.isfinite(matrix).all()
    matrix, scale = scaled(matrix)
    norm = jnp.abs(matrix).max()

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, form, orthogonal = state
        form, orthogonal = _double_step(form, orthogonal, count)
        return count + 1, deflated(form, norm), orthogonal

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        count, form, _ = state
        return (count < MOST_STEPS * size) & (_last_of_three(form) > 0) & is_finite

    form, orthogonal = hessenberg_form(matrix)
    start = nothing, deflated(form, norm), orthogonal
    _, form, orthogonal = lax.while_loop(goes_on, step, start)
    is_done = is_finite & (_last_of_three(form) == 0)
    form, orthogonal = lax.fori_loop(0, size - 1, _standard_block, (form, orthogonal))
    form = jnp.triu(form, -1) * scale
    none = jnp.where(is_done, 0, 1).astype(jnp.int32)
    part = jnp.sqrt(jnp.abs(below_diagonal(form))) * jnp.sqrt(jnp.abs(below_diagonal(form.T)))
    imaginary = jnp.concatenate([part[1:], part[:1]]) - part  # the first is 0
    return form, orthogonal, jnp.diagonal(form), imaginary, nothing, none


def _last_of_three(form: Array) -> Array:
    """The last row of the last part of three rows or more that is not done, or 0."""
    below = below_diagonal(form)
    before = jnp.concatenate([jnp.zeros(1, form.dtype), below[:-1]])
    places = jnp.arange(form.shape[0])
    return jnp.where((below != 0) & (before != 0), places, 0).max(initial=0)


def _double_step(form: Array, orthogonal: Array, count: Array) -> tuple[Array, Array]:
    size = form.shape[0]
    places = jnp.arange(size)
    high = _last_of_three(form)
    low = jnp.where((below_diagonal(form) == 0) & (places <= high), places, 0).max()
    before = jnp.maximum(high - 1, 0)
    a, b, c, d = form[before, before], form[before, high], form[high, before], form[high, high]
    # Now and then other shifts, so that nothing turns in a circle (LAPACK's lahqr).
    other = jnp.abs(c) + jnp.abs(form[before, jnp.maximum(high - 2, 0)])
    is_other = count % 11 == 10
    a, d = (jnp.where(is_other, 0.75 * other + d, one) for one in (a, d))
    b, c = jnp.where(is_other, -0.4375 * other, b), jnp.where(is_other, other, c)
    h00, h01, h10, h11 = (form[low + i, low + k] for i in (0, 1) for k in (0, 1))
    h21 = form[low + 2, low + 1]
    # The first column of the product of both shifted matrices, over h10.
    first = jnp.stack([
        ((a - h00) * (d - h00) - b * c) / h10 + h01,
        (h00 - a) + (h11 - d),
        h21,
    ])  # fmt: skip

    def reflected(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        form, orthogonal = state  # padded: three rows begin at each
        column = lax.dynamic_slice(form, (k, jnp.maximum(k - 1, 0)), (3, 1))[:, 0]
        column = jnp.where(k == low, first, column)
        v, tau = _reflection(jnp.where(k + jnp.arange(3) <= high, column, 0))
        rows = lax.dynamic_slice(form, (k, 0), (3, size + 1))
        rows = rows - tau * jnp.outer(v, v @ rows)
        form = lax.dynamic_update_slice(form, rows, (k, 0))
        return _right(form, k, v, tau), _right(orthogonal, k, v, tau)

    padded = jnp.pad(form, ((0, 1), (0, 1))), jnp.pad(orthogonal, ((0, 0), (0, 1)))
    form, orthogonal = lax.fori_loop(low, high, reflected, padded)
    return jnp.triu(form[:size, :size], -1), orthogonal[:, :size]


def _right(matrix: Array, k: Array, v: Array, tau: Array) -> Array:
    columns = lax.dynamic_slice(matrix, (0, k), (matrix.shape[0], 3))
    columns = columns - tau * jnp.outer(columns @ v, v)
    return lax.dynamic_update_slice(matrix, columns, (0, k))


def _reflection(column: Array) -> tuple[Array, Array]:
    """``v`` and ``tau`` with ``(1 - tau v v') column`` 0 behind its first element."""
    largest = jnp.abs(column).max()
    column = column / jnp.where(largest > 0, largest, 1)
    length = jnp.sqrt((column * column).sum())
    first = column[0] + jnp.where(column[0] < 0, -length, length)
    is_done = (column[1:] == 0).all()
    v = jnp.concatenate([jnp.ones(1, column.dtype), column[1:] / jnp.where(is_done, 1, first)])
    return v, jnp.where(is_done, 0, 2 / (v @ v))


def _standard_block(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two rows with real eigenvalues become a triangle; others get one number on the diagonal."""
    form, orthogonal = state
    a, b, c, d = (form[k + i, k + j] for i in (0, 1) for j in (0, 1))
    half = (a - d) / 2
    large, small = jnp.maximum(jnp.abs(b), jnp.abs(c)), jnp.minimum(jnp.abs(b), jnp.abs(c))
    scale = jnp.maximum(jnp.maximum(jnp.abs(half), large), jnp.finfo(form.dtype).tiny)
    inner = half / scale * half + large / scale * small * jnp.sign(b) * jnp.sign(c)
    is_real = inner >= 0
    root = half + jnp.where(half < 0, -1, 1) * jnp.sqrt(scale) * jnp.sqrt(
        jnp.where(is_real, inner, 0)
    )
    # A rotation to an eigenvector; else one that makes the diagonal's elements equal.
    total = b + c
    length = jnp.hypot(total, 2 * half)
    is_turn = length > 0
    length = jnp.where(is_turn, length, 1)  # that of a pair already as it should be
    even = jnp.sqrt((1 + jnp.where(is_turn, jnp.abs(total) / length, 1)) / 2)
    odd = -half / (length * even) * jnp.where(total < 0, -1, 1)
    distance = jnp.hypot(root, c)
    cosine = jnp.where(is_real, root / jnp.where(distance > 0, distance, 1), even)
    sine = jnp.where(is_real, c / jnp.where(distance > 0, distance, 1), odd)
    is_done = c == 0
    cosine, sine = jnp.where(is_done, 1, cosine), jnp.where(is_done, 0, sine)
    turn = jnp.stack([jnp.stack([cosine, sine]), jnp.stack([-sine, cosine])])
    rows = turn @ lax.dynamic_slice(form, (k, 0), (2, form.shape[1]))
    form = _turned(lax.dynamic_update_slice(form, rows, (k, 0)), k, turn)
    mean = (form[k, k] + form[k + 1, k + 1]) / 2
    below = jnp.where(is_done | is_real, 0, form[k + 1, k])
    form = form.at[k + 1, k].set(below)
    is_pair = ~is_done & ~is_real
    form = form.at[k, k].set(jnp.where(is_pair, mean, form[k, k]))
    form = form.at[k + 1, k + 1].set(jnp.where(is_pair, mean, form[k + 1, k + 1]))
    return form, _turned(orthogonal, k, turn)


def _turned(matrix: Array, k: Array, turn: Array) -> Array:
    columns = lax.dynamic_slice(matrix, (0, k), (matrix.shape[0], 2))
    return lax.dynamic_update_slice(matrix, columns @ turn.T, (0, k))
