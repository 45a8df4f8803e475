"""Schur's form and eigenvalues of any matrix, by shifted QR steps in complex numbers, in JAX.

A step is rotations of neighbouring rows and columns of a Hessenberg matrix, from the first row of
the part that is not done to its last.
"""

import jax.numpy as jnp
from jax import Array, lax

from tvm_iree_ext.frontends.lapack import jax_householder

MOST_STEPS = 30
"""For each eigenvalue; three are usual."""


def schur(matrix: Array) -> tuple[Array, Array, Array, Array, Array]:
    """``gees`` of complex numbers: the triangle, the unitary matrix, the values, 0, and whether
    there are none.  Values are in no order."""
    triangle, unitary, none = _schur(matrix)
    return triangle, unitary, jnp.diagonal(triangle), jnp.zeros((), jnp.int32), none


def eigenvalues(matrix: Array, *, has_left: bool, has_right: bool) -> tuple[Array, ...]:
    """``geev``: the values, in two parts of a real matrix, left and right vectors, and whether
    there are none.  Vectors are of length 1, and their largest elements are real."""
    is_real = not jnp.iscomplexobj(matrix)
    triangle, unitary, none = _schur(matrix + 0j if is_real else matrix)
    values = jnp.diagonal(triangle)
    left, right = (
        _vectors(triangle, unitary, is_left=is_left) if is_wanted else jnp.zeros_like(unitary)
        for is_left, is_wanted in ((True, has_left), (False, has_right))
    )
    if not is_real:
        return values, left, right, none
    size = jnp.sqrt((jnp.abs(triangle) ** 2).sum())
    enough = 4 * jnp.finfo(matrix.dtype).eps * size
    imaginary = jnp.where(jnp.abs(values.imag) <= enough, 0, values.imag)
    return values.real, imaginary, left, right, none


def _schur(matrix: Array) -> tuple[Array, Array, Array]:
    size = matrix.shape[0]
    if size < 2:
        return matrix, jnp.ones_like(matrix), jnp.zeros((), jnp.int32)
    places = jnp.arange(size)
    is_finite = jnp.isfinite(jnp.abs(matrix)).all()
    matrix, scale = scaled(matrix)
    form, unitary = hessenberg_form(matrix)
    norm = jnp.abs(matrix).max(initial=0)

    def last(one: Array) -> Array:
        return jnp.where(below_diagonal(one) != 0, places, 0).max(initial=0)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, one, unitary = state
        high = last(one)
        low = jnp.where((below_diagonal(one) == 0) & (places <= high), places, 0).max()
        shift = _shift(one, high, count)

        def rotated(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            one, unitary = state
            is_first, is_active = k == low, (k >= low) & (k < high)
            before = jnp.maximum(k - 1, 0)
            x = jnp.where(is_first, one[k, k] - shift, one[k, before])
            y = jnp.where(is_first, one[k + 1, k], one[k + 1, before])
            cosine, sine = _rotation(x, jnp.where(is_active, y, 0))
            top, bottom = one[k], one[k + 1]
            one = one.at[k].set(cosine * top + sine * bottom)
            one = one.at[k + 1].set(cosine * bottom - sine.conj() * top)
            return _turned(one, k, cosine, sine), _turned(unitary, k, cosine, sine)

        one, unitary = lax.fori_loop(0, size - 1, rotated, (one, unitary))
        return count + 1, deflated(one, norm), unitary

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        count, one, _ = state
        return (count < MOST_STEPS * size) & (last(one) > 0) & is_finite

    start = (jnp.zeros((), jnp.int32), deflated(form, norm), unitary)
    _, form, unitary = lax.while_loop(goes_on, step, start)
    none = jnp.where(is_finite & (last(form) == 0), 0, 1).astype(jnp.int32)
    return jnp.triu(form) * scale, unitary, none


def scaled(matrix: Array) -> tuple[Array, Array]:
    """The matrix over a number, 1 but where products of elements would leave the type."""
    norm = jnp.abs(matrix).max(initial=0)
    info = jnp.finfo(matrix.dtype)
    least = jnp.sqrt(info.tiny) / info.eps
    is_off = (norm > 0) & ((norm < least) | (norm > 1 / least)) & jnp.isfinite(norm)
    scale = jnp.where(is_off, norm, 1)
    return matrix / scale.astype(matrix.dtype), scale


def hessenberg_form(matrix: Array) -> tuple[Array, Array]:
    """A matrix with 0 below its first subdiagonal, and the unitary matrix that it is seen in."""
    size = matrix.shape[0]
    form, taus, _ = jax_householder.hessenberg(matrix)
    inner = jax_householder.product(form[1:, :-1], taus)
    return jnp.triu(form, -1), jnp.eye(size, dtype=matrix.dtype).at[1:, 1:].set(inner)


def below_diagonal(form: Array) -> Array:
    """What stands before the diagonal in each row."""
    return jnp.concatenate([jnp.zeros(1, form.dtype), jnp.diagonal(form, -1)])


def deflated(form: Array, norm: Array) -> Array:
    """A Hessenberg matrix without elements below the diagonal that no longer count."""
    places = jnp.arange(form.shape[0])
    diagonal = jnp.abs(jnp.diagonal(form))
    beside = diagonal + jnp.concatenate([diagonal[:1], diagonal[:-1]])
    bound = jnp.finfo(form.dtype).eps * jnp.where(beside > 0, beside, norm)
    is_small = jnp.abs(below_diagonal(form)) <= bound
    is_below = places[:, None] == places + 1
    return jnp.where(is_below & is_small[:, None], 0, form)


def _shift(one: Array, high: Array, count: Array) -> Array:
    """The eigenvalue of the last two rows that is nearer to the last element; now and then not."""
    before = jnp.maximum(high - 1, 0)
    a, b, c, d = one[before, before], one[before, high], one[high, before], one[high, high]
    half = (a - d) / 2
    root = jnp.sqrt(half * half + b * c)
    root = jnp.where((half.conj() * root).real < 0, -root, root)
    sum_of = half + root
    nearer = d - jnp.where(sum_of == 0, 0, b * c / jnp.where(sum_of == 0, 1, sum_of))
    return jnp.where(count % 11 == 10, d + jnp.abs(c), nearer)


def _rotation(x: Array, y: Array) -> tuple[Array, Array]:
    """A real cosine and a sine that make 0 of y."""
    size = jnp.maximum(jnp.abs(x), jnp.abs(y))
    scale = jnp.where(size > 0, size, 1).astype(x.dtype)
    x, y = x / scale, y / scale
    large = jnp.abs(x)
    length = jnp.sqrt(large**2 + jnp.abs(y) ** 2)
    unit = jnp.where(large > 0, x / jnp.where(large > 0, large, 1).astype(x.dtype), 1)
    divisor = jnp.where(length > 0, length, 1)
    is_done = jnp.abs(y) == 0
    return jnp.where(is_done, 1, large / divisor), jnp.where(is_done, 0, unit * y.conj() / divisor)


def _turned(one: Array, k: Array, cosine: Array, sine: Array) -> Array:
    """Two columns by the inverse of what turned two rows."""
    left, right = one[:, k], one[:, k + 1]
    one = one.at[:, k].set(cosine * left + sine.conj() * right)
    return one.at[:, k + 1].set(cosine * right - sine * left)


def _vectors(triangle: Array, unitary: Array, *, is_left: bool) -> Array:
    """Vectors in columns, one row after another."""
    size = triangle.shape[0]
    places = jnp.arange(size)
    whole = triangle.conj().T if is_left else triangle
    values = jnp.diagonal(whole)
    least = jnp.finfo(triangle.dtype).eps * jnp.abs(triangle).max(initial=0)
    least = jnp.where(least > 0, least, 1)

    def row(step: Array, found: Array) -> Array:
        i = step if is_left else size - 1 - step
        gaps = values[i] - values
        gaps = jnp.where(jnp.abs(gaps) < least, least.astype(gaps.dtype), gaps)
        others = jnp.where(places == i, 0, whole[i])
        here = jnp.where(places == i, 1, -(others @ found) / gaps)
        is_known = places < i if is_left else places > i
        return found.at[i].set(jnp.where(is_known | (places == i), here, 0))

    found = unitary @ lax.fori_loop(0, size, row, jnp.zeros_like(triangle))
    found = found / jnp.sqrt((jnp.abs(found) ** 2).sum(0)).astype(found.dtype)
    largest = jnp.take_along_axis(found, jnp.argmax(jnp.abs(found), 0)[None], 0)
    return found * (largest.conj() / jnp.abs(largest).astype(found.dtype))
