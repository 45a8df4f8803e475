"""What JAX leaves to LAPACK, as loops and products in JAX: factors, and triangular systems.

Matrices are factored by panels of columns.  A step of a loop makes a column or a row, and products
do the rest.
"""

import jax.numpy as jnp
from jax import Array, lax

_PANEL = 64
"""Columns of a panel: of fewer, more products are small; of more, steps read more."""


def cholesky(matrix: Array) -> tuple[Array, Array]:
    """``potrf`` of the lower triangle: the factor, and whether there is none."""
    found = _factor(jnp.tril(matrix))
    is_factor = (jnp.diagonal(found).real > 0).all()
    return found, jnp.where(is_factor, 0, 1).astype(jnp.int32)


def _factor(matrix: Array) -> Array:
    """The factor, by that of the first panel's corner and of what is left without it."""
    size = matrix.shape[0]
    if size <= _PANEL:
        return _corner(matrix)
    corner = _corner(matrix[:_PANEL, :_PANEL])
    beside = matrix[_PANEL:, :_PANEL].conj().T
    below = solved_lower(corner, beside, is_unit=False).conj().T
    rest = _factor(matrix[_PANEL:, _PANEL:] - jnp.tril(below @ below.conj().T))
    above = jnp.zeros((_PANEL, size - _PANEL), matrix.dtype)
    return jnp.block([[corner, above], [below, rest]])


def upper_cholesky(matrix: Array) -> tuple[Array, Array]:
    """The same of the upper triangle."""
    found, has_none = cholesky(matrix.conj().T)
    return found.conj().T, has_none


def _corner(matrix: Array) -> Array:
    """The factor of one panel: in step j its row j of the upper factor."""
    places = jnp.arange(matrix.shape[0])
    symmetric = jnp.tril(matrix).conj().T

    def step(j: Array, upper: Array) -> Array:
        row = symmetric[j] - upper[:, j].conj() @ upper
        root = jnp.sqrt(row[j].real).astype(row.dtype)
        return upper.at[j].set(jnp.where(places >= j, row / root, 0))

    return lax.fori_loop(0, matrix.shape[0], step, jnp.zeros_like(matrix)).conj().T


def solved_lower(matrix: Array, right: Array, *, is_unit: bool) -> Array:
    """``right`` times the inverse of a lower triangle from the left."""
    size = matrix.shape[0]
    if size > _PANEL:
        middle = (size + 1) // 2
        first = solved_lower(matrix[:middle, :middle], right[:middle], is_unit=is_unit)
        rest = right[middle:] - matrix[middle:, :middle] @ first
        second = solved_lower(matrix[middle:, middle:], rest, is_unit=is_unit)
        return jnp.concatenate([first, second])
    below = jnp.tril(matrix, -1)
    diagonal = jnp.diagonal(matrix)

    def step(i: Array, found: Array) -> Array:
        row = right[i] - below[i] @ found
        return found.at[i].set(row if is_unit else row / diagonal[i])

    return lax.fori_loop(0, size, step, jnp.zeros_like(right))


def triangular(
    matrix: Array, right: Array, *, is_left: bool, is_lower: bool, turned: str, is_unit: bool
) -> Array:
    """``trsm``: all by the inverse of a lower triangle from the left.

    ``turned`` is ``N``, ``T`` or ``C``: the matrix, its transpose, or the conjugate of that.
    """
    if turned != "N":
        matrix, is_lower = (matrix.conj() if turned == "C" else matrix).T, not is_lower
    if not is_left:
        matrix, is_lower, right = matrix.T, not is_lower, right.T
    if not is_lower:
        matrix, right = matrix[::-1, ::-1], right[::-1]
    found = solved_lower(matrix, right, is_unit=is_unit)
    if not is_lower:
        found = found[::-1]
    return found if is_left else found.T


def lu(matrix: Array) -> tuple[Array, Array, Array]:
    """``getrf``: both factors in one matrix, the rows that were exchanged from 1, and 0."""
    rows, columns = matrix.shape
    found, pivots = matrix, []
    for start in range(0, min(rows, columns), _PANEL):
        end = min(start + _PANEL, rows, columns)
        panel, order, chosen = _panel(found[start:, start:end])
        left, right = found[start:, :start][order], found[start:, end:][order]
        height = end - start
        above = solved_lower(panel[:height], right[:height], is_unit=True)
        below = right[height:] - panel[height:] @ above
        lower = jnp.concatenate([left, panel, jnp.concatenate([above, below])], 1)
        found = jnp.concatenate([found[:start], lower])
        pivots.append(chosen + (start + 1))
    return found, jnp.concatenate(pivots).astype(jnp.int32), jnp.zeros((), jnp.int32)


def _panel(matrix: Array) -> tuple[Array, Array, Array]:
    """Factors of a panel, the order of its rows, and which row came to each column's place."""
    rows, columns = (jnp.arange(extent) for extent in matrix.shape)
    steps = min(matrix.shape)

    def step(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, order, pivots = state
        column = found[:, j]  # whose parts' magnitudes are added, as LAPACK does it
        pivot = jnp.argmax(jnp.where(rows < j, -1, jnp.abs(column.real) + jnp.abs(column.imag)))
        here, there = found[j], found[pivot]
        found = jnp.where((rows == pivot)[:, None], here, found)
        found = jnp.where((rows == j)[:, None], there, found)
        divisor = jnp.where(there[j] == 0, 1, there[j])
        factors = jnp.where(rows > j, found[:, j] / divisor, 0)
        cleared = found - factors[:, None] * jnp.where(columns > j, there, 0)
        is_factor = (rows > j)[:, None] & (columns == j)
        found = jnp.where(is_factor, factors[:, None], cleared)
        exchanged = jnp.where(rows == pivot, order[j], order)
        order = jnp.where(rows == j, order[pivot], exchanged)
        return found, order, pivots.at[j].set(pivot)

    start = matrix, rows, jnp.zeros(steps, rows.dtype)
    return lax.fori_loop(0, steps, step, start)
