"""Factors of JAX that are known but for signs and phases, as what is known of them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def comparable(op: str, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a function as arrays that have one right value.

    Of eigenvalues or singular values and their vectors: the values, the matrix that all are factors
    of, and the vectors' products with one another.  Results of other functions stay.
    """
    function = _FACTORS.get(op.rpartition(".")[2])
    fits = function is not None and len(results) > 1
    return function(results) if function is not None and fits else list(results)


def _hermitian(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    values, vectors = sorted(results, key=np.ndim)
    turned = vectors.conj().swapaxes(-1, -2)
    return [values, vectors * values[..., None, :] @ turned, turned @ vectors]


def _singular(results: Sequence[np.ndarray]) -> list[np.ndarray]:
    left, values, right = results
    count = values.shape[-1]
    return [
        values,
        left[..., :count] * values[..., None, :] @ right[..., :count, :],
        left.conj().swapaxes(-1, -2) @ left,
        right @ right.conj().swapaxes(-1, -2),
    ]


_FACTORS: Mapping[str, Callable[[Sequence[np.ndarray]], list[np.ndarray]]] = {
    "eigh": _hermitian,
    "svd": _singular,
}
