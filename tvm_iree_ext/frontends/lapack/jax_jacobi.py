"""Eigenvalues of Hermitian matrices and singular values, by Jacobi's rotations, in JAX.

A round rotates as many pairs of columns as there are, each pair on its own; after as many rounds
as make a sweep every column has met every other.  Sweeps end when nothing is left to rotate: some
five to ten.
"""

import jax.numpy as jnp
from jax import Array, lax

from tvm_iree_ext.frontends.lapack import jax_householder

_MOST_SWEEPS = 30


def _turned(size: int) -> Array:
    """Which column comes to each place for the next round; column i meets column ``i + size/2``.

    The first stays, and the others go around, as players of a tournament do.
    """
    half = size // 2
    top, bottom = [*range(half)], [*range(half, size)]
    if half > 1:
        top, bottom = [top[0], bottom[0], *top[1:-1]], [*bottom[1:], top[-1]]
    return jnp.array([*top, *bottom], jnp.int32)


def _rotation(first: Array, second: Array, between: Array) -> tuple[Array, Array, Array]:
    """Cosine, sine and phase that make 0 of the product of two columns.

    ``first`` and ``second`` are those of each with itself.
    """
    size = jnp.abs(between)
    is_done = size == 0
    ratio = (second - first) / jnp.where(is_done, 1, 2 * size)
    tangent = jnp.where(ratio < 0, -1, 1) / (jnp.abs(ratio) + jnp.sqrt(1 + ratio * ratio))
    tangent = jnp.where(is_done, 0, tangent)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    phase = jnp.where(is_done, 1, between / jnp.where(is_done, 1, size).astype(between.dtype))
    return cosine, tangent * cosine, phase.conj()


def _rotated(matrix: Array, cosine: Array, sine: Array, phase: Array) -> Array:
    """Columns in pairs, and then in the order of the next round."""
    half = cosine.shape[0]
    first, second = matrix[:, :half], matrix[:, half:] * phase
    found = jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], 1)
    return found[:, _turned(2 * half)]


def _even(matrix: Array, *, square: bool) -> Array:
    """The matrix with a column of zeros, and a row, where it has an odd number."""
    odd = matrix.shape[1] % 2
    return jnp.pad(matrix, ((0, odd if square else 0), (0, odd)))


def eigenvalues(matrix: Array, *, is_lower: bool, has_vectors: bool) -> tuple[Array, Array, Array]:
    """``syevd`` of a triangle: the vectors in columns, the values in order, whether there are none.

    Without vectors the first is the matrix itself.
    """
    size = matrix.shape[0]
    one = jnp.tril(matrix, -1) if is_lower else jnp.triu(matrix, 1)
    diagonal = jnp.diagonal(matrix).real
    whole = one + one.conj().T + jnp.diag(diagonal.astype(matrix.dtype))
    is_finite = jnp.isfinite(jnp.abs(whole)).all()
    largest = jnp.where(is_finite, jnp.abs(whole).max(initial=0), 1)
    scale = jnp.where(largest > 0, largest, 1)
    whole = _even(whole / scale.astype(matrix.dtype), square=True)
    width = whole.shape[0]
    half = width // 2
    is_diagonal = jnp.eye(width, dtype=bool)
    enough = jnp.finfo(matrix.dtype).eps * jnp.sqrt((jnp.abs(whole) ** 2).sum())

    def left(found: Array) -> Array:
        return jnp.sqrt((jnp.where(is_diagonal, 0, jnp.abs(found)) ** 2).sum())

    def round_of(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        found, *others = state
        values = jnp.diagonal(found).real
        rotation = _rotation(values[:half], values[half:], jnp.diagonal(found, half))
        found = _rotated(_rotated(found, *rotation).conj().T, *rotation).conj().T
        return found, *(_rotated(other, *rotation) for other in others)

    def sweep(state: tuple[Array, Array, tuple[Array, ...]]) -> tuple[Array, Array, tuple]:
        count, _, found = state
        found = lax.fori_loop(0, max(width - 1, 1), round_of, found)
        return count + 1, left(found[0]), found

    def goes_on(state: tuple[Array, Array, tuple[Array, ...]]) -> Array:
        return (state[0] < _MOST_SWEEPS) & (state[1] > enough)

    start = (whole, jnp.eye(width, dtype=matrix.dtype)) if has_vectors else (whole,)
    _, _, found = lax.while_loop(goes_on, sweep, (jnp.zeros((), jnp.int32), left(whole), start))
    values = jnp.diagonal(found[0]).real[:size] * scale
    order = jnp.argsort(values)
    vectors = found[1][:size, :size][:, order] if has_vectors else matrix
    return vectors, values[order], jnp.where(is_finite, 0, 1).astype(jnp.int32)


def singular_values(
    matrix: Array, *, has_vectors: bool, is_whole: bool
) -> tuple[Array, Array, Array, Array, Array]:
    """``gesdd``: a matrix, the values from the largest on, ``U``, ``V*``, whether there are none.

    Whole ones are square, others have as many columns and rows as there are values.
    """
    rows, columns = matrix.shape
    if rows < columns:
        same, values, vectors, left, none = singular_values(
            matrix.conj().T, has_vectors=has_vectors, is_whole=is_whole
        )
        return same.conj().T, values, left.conj().T, vectors.conj().T, none
    is_finite = jnp.isfinite(jnp.abs(matrix)).all()
    largest = jnp.where(is_finite, jnp.abs(matrix).max(initial=0), 1)
    scale = jnp.where(largest > 0, largest, 1)
    upper, taus = jax_householder.factors(matrix / scale.astype(matrix.dtype))
    # The rows of the upper factor are nearer to one another's right angles than its columns.
    found, vectors = _orthogonal(jnp.triu(upper[:columns]).conj().T, has_vectors=has_vectors)
    lengths = jnp.sqrt((jnp.abs(found) ** 2).sum(0))
    order = jnp.argsort(-lengths)
    values, none = lengths[order] * scale, jnp.where(is_finite, 0, 1).astype(jnp.int32)
    width = rows if is_whole else columns
    if not has_vectors:
        unread = (jnp.zeros(shape, matrix.dtype) for shape in ((rows, width), (columns, columns)))
        return matrix, values, *unread, none
    inner, other = found[:, order], vectors[:, order]
    right, signs = jax_householder.factors(inner)
    phases = jnp.where(jnp.diagonal(right).real < 0, -1, 1).astype(matrix.dtype)
    right = jax_householder.product(right, signs) * phases
    whole = jnp.eye(rows, width, dtype=matrix.dtype).at[:columns, :columns].set(other)
    left = jax_householder.applied(upper, taus, whole)
    return matrix, values, left, right.conj().T, none


def _orthogonal(matrix: Array, *, has_vectors: bool) -> tuple[Array, Array]:
    """A square matrix times a unitary one, so that its columns are at right angles; and that."""
    size = matrix.shape[1]
    start = _even(matrix, square=False)
    width = start.shape[1]
    half = width // 2
    enough = jnp.finfo(matrix.dtype).eps * max(size, 1) ** 0.5

    def round_of(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        most, *matrices = state
        first, second = matrices[0][:, :half], matrices[0][:, half:]
        own, others = ((jnp.abs(one) ** 2).sum(0) for one in (first, second))
        between = (first.conj() * second).sum(0)
        bound = jnp.sqrt(own) * jnp.sqrt(others)
        cosines = jnp.where(bound > 0, jnp.abs(between) / jnp.where(bound > 0, bound, 1), 0)
        rotation = _rotation(own, others, between)
        most = jnp.maximum(most, cosines.max(initial=0))
        return most, *(_rotated(one, *rotation) for one in matrices)

    def sweep(state: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        count, (most, *matrices) = state
        return count + 1, lax.fori_loop(
            0, max(width - 1, 1), round_of, (jnp.zeros_like(most), *matrices)
        )

    def goes_on(state: tuple[Array, tuple[Array, ...]]) -> Array:
        return (state[0] < _MOST_SWEEPS) & (state[1][0] > enough)

    others = (jnp.eye(width, dtype=matrix.dtype),) if has_vectors else ()
    most = jnp.full((), jnp.inf, matrix.real.dtype)
    _, found = lax.while_loop(goes_on, sweep, (jnp.zeros((), jnp.int32), (most, start, *others)))
    vectors = found[2][:size, :size] if has_vectors else matrix
    return found[1][:, :size], vectors
