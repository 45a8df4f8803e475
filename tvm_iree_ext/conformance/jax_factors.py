"""Factors of JAX that are known but for signs and phases, as what is known of them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def comparable(op: str, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a function as arrays that have one right value.

    Of values and their vectors, and of Schur's form: the values, where they have an order, the
    matrix that all are factors of, and the vectors' products with one another.  Results of other
    functions stay.
    """
    function = _FACTORS.get(op.rpartition(".")[2])
    return list(results) if function is None else function(results)


def _hermitian(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    if len(results) == 1:
        return list(results)
    values, vectors = sorted(results, key=np.ndim)
    turned = vectors.conj().swapaxes(-1, -2)
    return [values, vectors * values[..., None, :] @ turned, turned @ vectors]


def _any(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Left vectors stand before right ones."""
    values, *vectors = results
    turned = [one.conj().swapaxes(-1, -2) for one in vectors]
    kept = [np.linalg.inv(one) for one in turned[:-1]] + vectors[-1:]
    inner = values[..., None, :]
    found = [(one * inner @ np.linalg.inv(one)).astype(values.dtype) for one in kept]
    return [*found, *(np.linalg.norm(one, axis=-2) for one in vectors)]


def _values(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """By real parts, and imaginary ones where those are alike."""
    (values,) = results
    order = np.lexsort((values.imag, np.round(values.real, 3)), axis=-1)
    return [np.take_along_axis(values, order, -1)]


def _triangle(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    form, unitary = results
    turned = unitary.conj().swapaxes(-1, -2)
    below = -1 if np.iscomplexobj(form) else -2  # real forms have pairs of rows
    return [unitary @ form @ turned, unitary @ turned, np.tril(form, below)]


def _singular(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    if len(results) == 1:
        return list(results)
    left, values, right = results
    count = values.shape[-1]
    return [
        values,
        left[..., :count] * values[..., None, :] @ right[..., :count, :],
        left.conj().swapaxes(-1, -2) @ left,
        right @ right.conj().swapaxes(-1, -2),
    ]


_FACTORS: Mapping[str, Callable[[Sequence[np.ndarray]], list[np.ndarray]]] = {
    "eig": _any,
    "eigh": _hermitian,
    "eigvals": _values,
    "rsf2csf": _triangle,
    "schur": _triangle,
    "svd": _singular,
}
