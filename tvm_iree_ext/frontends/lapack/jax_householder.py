"""What JAX leaves to LAPACK, by Householder's reflections, as loops and products in JAX.

A reflection is ``H = 1 - tau v v*`` with 1 for the first element of v, as in LAPACK: of a column
``H* x`` has one element that is not 0, and that is real.  The vectors stand in the columns below
it.  Reflections of a panel of columns are one ``1 - V T V*``, whose products do the rest.
"""

import jax.numpy as jnp
from jax import Array, lax

_PANEL = 32
"""Columns of a panel."""


def _reflection(column: Array, place: Array) -> tuple[Array, Array, Array]:
    """``v``, ``tau`` and what is left of a column whose elements before a place are not touched."""
    rows = jnp.arange(column.shape[0])
    below = jnp.where(rows > place, column, 0)
    largest = jnp.abs(column * (rows >= place)).max()
    scale = jnp.where(largest > 0, largest, 1).astype(column.dtype)
    first, rest = column[place] / scale, below / scale
    size = jnp.sqrt((jnp.abs(rest) ** 2).sum() + jnp.abs(first) ** 2)
    beta = jnp.where(first.real >= 0, -size, size).astype(column.dtype)
    is_done = ((jnp.abs(rest) == 0).all()) & (first.imag == 0)
    tau = jnp.where(is_done, 0, (beta - first) / jnp.where(is_done, 1, beta))
    v = jnp.where(rows == place, 1, rest / jnp.where(is_done, 1, first - beta))
    v = jnp.where(rows >= place, jnp.where(is_done & (rows > place), 0, v), 0)
    return v, tau, jnp.where(is_done, first, beta) * scale


def _with_column(matrix: Array, place: Array, v: Array, left: Array, at: Array) -> Array:
    """A matrix whose column holds what is left at a row, and the vector below."""
    rows = jnp.arange(matrix.shape[0])
    column = jnp.where(rows > at, v, jnp.where(rows == at, left, matrix[:, place]))
    return jnp.where(jnp.arange(matrix.shape[1]) == place, column[:, None], matrix)


def _panel(matrix: Array) -> tuple[Array, Array]:
    """``geqrf`` of a few columns, a step for each."""
    steps = min(matrix.shape)

    def step(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        found, taus = state
        v, tau, left = _reflection(found[:, j], j)
        right = jnp.where(jnp.arange(matrix.shape[1]) > j, found, 0)
        found = found - jnp.outer(v, tau.conj() * (v.conj() @ right))
        return _with_column(found, j, v, left, j), taus.at[j].set(tau)

    return lax.fori_loop(0, steps, step, (matrix, jnp.zeros(steps, matrix.dtype)))


def _vectors(found: Array, count: int) -> Array:
    """The vectors of the first reflections, in columns."""
    return jnp.tril(found[:, :count], -1) + jnp.eye(found.shape[0], count, dtype=found.dtype)


def _joined(vectors: Array, taus: Array) -> Array:
    """The upper triangle ``T`` of reflections one after another."""
    count = taus.shape[0]
    inner = vectors.conj().T @ vectors
    places = jnp.arange(count)

    def step(j: Array, found: Array) -> Array:
        column = -taus[j] * (found @ jnp.where(places < j, inner[:, j], 0))
        return found.at[:, j].set(jnp.where(places == j, taus[j], column))

    return lax.fori_loop(0, count, step, jnp.zeros((count, count), vectors.dtype))


def factors(matrix: Array) -> tuple[Array, Array]:
    """``geqrf``: the upper factor, the vectors below its diagonal, and ``tau`` of each."""
    rows, columns = matrix.shape
    found, taus = matrix, []
    for start in range(0, min(rows, columns), _PANEL):
        end = min(start + _PANEL, rows, columns)
        panel, own = _panel(found[start:, start:end])
        vectors = _vectors(panel, end - start)
        right = found[start:, end:]
        joined = _joined(vectors, own).conj().T
        right = right - vectors @ (joined @ (vectors.conj().T @ right))
        lower = jnp.concatenate([found[start:, :start], panel, right], 1)
        found = jnp.concatenate([found[:start], lower])
        taus.append(own)
    return found, jnp.concatenate(taus) if taus else jnp.zeros(0, matrix.dtype)


def applied(found: Array, taus: Array, matrix: Array, *, is_turned: bool = False) -> Array:
    """``Q`` times a matrix, or ``Q*`` times it."""
    count = taus.shape[0]
    starts = range(0, count, _PANEL)
    for start in starts if is_turned else reversed(starts):
        end = min(start + _PANEL, count)
        vectors = _vectors(found[start:, start:end], end - start)
        joined = _joined(vectors, taus[start:end])
        joined = joined.conj().T if is_turned else joined
        lower = matrix[start:]
        lower = lower - vectors @ (joined @ (vectors.conj().T @ lower))
        matrix = jnp.concatenate([matrix[:start], lower])
    return matrix


def product(found: Array, taus: Array) -> Array:
    """``orgqr``: the first columns of the product of all reflections."""
    rows, columns = found.shape
    return applied(found, taus, jnp.eye(rows, columns, dtype=found.dtype))


def multiplied(
    found: Array, taus: Array, matrix: Array, *, is_left: bool, is_turned: bool
) -> Array:
    """``ormqr``: that product times a matrix, from a side."""
    if is_left:
        return applied(found, taus, matrix, is_turned=is_turned)
    return applied(found, taus, matrix.conj().T, is_turned=not is_turned).conj().T


def pivoted(matrix: Array, _: Array) -> tuple[Array, Array, Array]:
    """``geqp3`` with all columns free: the longest that is left is next; their order from 1."""
    rows, columns = matrix.shape
    steps, places = min(rows, columns), jnp.arange(columns)

    def step(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, order, taus = state
        lengths = (jnp.abs(jnp.where(jnp.arange(rows)[:, None] >= j, found, 0)) ** 2).sum(0)
        chosen = jnp.argmax(jnp.where(places < j, -1, lengths))
        taken = jnp.where(places == j, chosen, jnp.where(places == chosen, j, places))
        found, order = found[:, taken], order[taken]
        v, tau, left = _reflection(found[:, j], j)
        right = jnp.where(places > j, found, 0)
        found = found - jnp.outer(v, tau.conj() * (v.conj() @ right))
        return _with_column(found, j, v, left, j), order, taus.at[j].set(tau)

    found, order, taus = lax.fori_loop(
        0, steps, step, (matrix, places, jnp.zeros(steps, matrix.dtype))
    )
    return found, (order + 1).astype(jnp.int32), taus


def hessenberg(matrix: Array) -> tuple[Array, Array, Array]:
    """``gehrd`` of all rows: Hessenberg's form, the vectors below it, ``tau`` of each, and 0."""
    size, none = matrix.shape[0], jnp.zeros((), jnp.int32)
    if size < 2:
        return matrix, jnp.zeros(0, matrix.dtype), none

    def step(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        found, taus = state
        v, tau, left = _reflection(found[:, j], j + 1)
        right = jnp.where(jnp.arange(size) > j, found, 0)
        found = found - jnp.outer(right @ v, tau * v.conj())
        right = jnp.where(jnp.arange(size) > j, found, 0)
        found = found - jnp.outer(v, tau.conj() * (v.conj() @ right))
        return _with_column(found, j, v, left, j + 1), taus.at[j].set(tau)

    start = matrix, jnp.zeros(size - 1, matrix.dtype)
    return *lax.fori_loop(0, size - 1, step, start), none


def tridiagonal(matrix: Array) -> tuple[Array, Array, Array, Array, Array]:
    """``sytrd`` of the lower triangle: the vectors, the diagonal, the one below, ``tau``, and 0."""
    size = matrix.shape[0]
    lower = jnp.tril(matrix, -1)
    whole = lower + lower.conj().T + jnp.diag(jnp.diagonal(matrix).real.astype(matrix.dtype))
    found, taus, none = hessenberg(whole)
    diagonal, below = jnp.diagonal(found).real, jnp.diagonal(found, -1).real
    is_upper = jnp.arange(size)[:, None] < jnp.arange(size)
    return jnp.where(is_upper, matrix, found), diagonal, below, taus, none


def tridiagonal_system(
    below: Array, diagonal: Array, above: Array, right: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """``gtsv``: what solves it is the fourth; the first of ``below``, the last of ``above`` unread.

    Of two rows the one with the larger first element is the next.
    """
    size = diagonal.shape[0]
    places = jnp.arange(size)
    state = (
        diagonal,
        jnp.where(places == size - 1, 0, above),
        jnp.zeros_like(above),
        right,
    )
    below = jnp.where(places == 0, 0, below)

    def magnitude(one: Array) -> Array:
        return jnp.abs(one.real) + jnp.abs(one.imag)

    def step(i: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        middle, first, second, right = state
        here, under = (middle[i], first[i]), (below[i + 1], middle[i + 1], first[i + 1])
        keeps = magnitude(here[0]) >= magnitude(under[0])
        pivot = jnp.where(keeps, here[0], under[0])
        factor = jnp.where(keeps, under[0], here[0]) / pivot
        top = jnp.where(keeps, here[1], under[1])
        low = jnp.where(keeps, under[1], here[1])
        further = jnp.where(keeps, 0, under[2])
        beside = jnp.where(keeps, under[2], 0)
        above, down = right[i], right[i + 1]
        one, other = jnp.where(keeps, above, down), jnp.where(keeps, down, above)
        return (
            middle.at[i].set(pivot).at[i + 1].set(low - factor * top),
            first.at[i].set(top).at[i + 1].set(beside - factor * further),
            second.at[i].set(further),
            right.at[i].set(one).at[i + 1].set(other - factor * one),
        )

    middle, first, second, right = lax.fori_loop(0, size - 1, step, state)
    padded = jnp.concatenate([right, jnp.zeros((2, right.shape[1]), right.dtype)])

    def back(step: Array, found: Array) -> Array:
        i = size - 1 - step
        row = found[i] - first[i] * found[i + 1] - second[i] * found[i + 2]
        return found.at[i].set(row / middle[i])

    found = lax.fori_loop(0, size, back, padded)[:size]
    return below, middle, first, found, jnp.zeros((), jnp.int32)
