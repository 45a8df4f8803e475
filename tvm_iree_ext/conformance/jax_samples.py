"""Arguments for functions of JAX by name: of a list, or the first forms that a function takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

Maker: TypeAlias = "Callable[[Arrays], tuple[Any, ...]]"
"""Arguments of arrays: NumPy's are traced, all else is as it stands."""


class Arrays:
    """Arrays of a type, drawn: of floats from -2 to 2, of integers from -4 to 4."""

    def __init__(self, dtype: Any, seed: int) -> None:
        self._dtype, self._rng = np.dtype(dtype), np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        """One of a shape."""
        kind, rng = self._dtype.kind, self._rng
        if kind == "b":
            return rng.integers(0, 2, shape).astype(self._dtype)
        if kind in "iu":
            return rng.integers(0 if kind == "u" else -4, 5, shape).astype(self._dtype)
        array = rng.uniform(-2, 2, shape)
        if kind == "c":
            array = array + 1j * rng.uniform(-2, 2, shape)
        return array.astype(self._dtype)

    def positive(self, *shape: int) -> np.ndarray:
        """One of numbers from 0 to 1; of integers from 1 on."""
        array = np.abs(self(*shape).astype("f8" if self._dtype.kind != "c" else "c16"))
        array = array / 3 if self._dtype.kind not in "iub" else array + 1
        return array.astype(self._dtype)

    def definite(self, size: int) -> np.ndarray:
        """A matrix that is symmetric and definite."""
        array = self(size, size)
        return (array @ array.conj().T + size * np.eye(size)).astype(self._dtype)

    def indices(self, *shape: int, most: int = 3) -> np.ndarray:
        """Numbers from 0 to below ``most``, int32."""
        return self._rng.integers(0, most, shape).astype("int32")


LISTED: Mapping[str, Maker] = {
    "jax.lax.broadcast": lambda a: (a(3, 4), (2,)),
    "jax.lax.broadcast_in_dim": lambda a: (a(3), (2, 3), (1,)),
    "jax.lax.clamp": lambda a: (a(3, 4) * 0, a(3, 4), a(3, 4) * 0 + a.positive(1)),
    "jax.lax.concatenate": lambda a: ([a(3, 4), a(2, 4)], 0),
    "jax.lax.conv": lambda a: (a(1, 2, 8, 8), a(3, 2, 3, 3), (1, 1), "SAME"),
    "jax.lax.conv_general_dilated": lambda a: (a(1, 2, 8, 8), a(3, 2, 3, 3), (2, 1), "VALID"),
    "jax.lax.conv_transpose": lambda a: (a(1, 8, 8, 2), a(3, 3, 2, 3), (2, 2), "SAME"),
    "jax.lax.conv_with_general_padding": lambda a: (
        a(1, 2, 8, 8), a(3, 2, 3, 3), (1, 1), ((1, 0), (0, 1)), (1, 1), (1, 2),
    ),
    "jax.lax.dot": lambda a: (a(3, 4), a(4, 5)),
    "jax.lax.dot_general": lambda a: (a(2, 3, 4), a(2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "jax.lax.dynamic_index_in_dim": lambda a: (a(3, 4), np.int32(1), 0),
    "jax.lax.dynamic_slice": lambda a: (a(3, 4), (np.int32(1), np.int32(2)), (2, 2)),
    "jax.lax.dynamic_slice_in_dim": lambda a: (a(3, 4), np.int32(1), 2, 1),
    "jax.lax.dynamic_update_index_in_dim": lambda a: (a(3, 4), a(4), np.int32(1), 0),
    "jax.lax.dynamic_update_slice": lambda a: (a(3, 4), a(2, 2), (np.int32(1), np.int32(2))),
    "jax.lax.dynamic_update_slice_in_dim": lambda a: (a(3, 4), a(3, 2), np.int32(1), 1),
    "jax.lax.expand_dims": lambda a: (a(3, 4), (1,)),
    "jax.lax.fft": lambda a: (a(3, 8), "fft", (8,)),
    "jax.lax.full_like": lambda a: (a(3, 4), 2),
    "jax.lax.index_in_dim": lambda a: (a(3, 4), 1, 1),
    "jax.lax.pad": lambda a: (a(3, 4), a(), ((1, 0, 1), (-1, 2, 0))),
    "jax.lax.rem": lambda a: (a(3, 4), a.positive(3, 4)),
    "jax.lax.reshape": lambda a: (a(3, 4), (2, 6)),
    "jax.lax.rev": lambda a: (a(3, 4), (1,)),
    "jax.lax.select": lambda a: (a.indices(3, 4, most=2) > 0, a(3, 4), a(3, 4)),
    "jax.lax.select_n": lambda a: (a.indices(3, 4), a(3, 4), a(3, 4), a(3, 4)),
    "jax.lax.slice": lambda a: (a(5, 6), (1, 2), (5, 6), (2, 3)),
    "jax.lax.slice_in_dim": lambda a: (a(5, 6), 1, 4),
    "jax.lax.sort_key_val": lambda a: (a(9), a.indices(9)),
    "jax.lax.squeeze": lambda a: (a(3, 1, 4), (1,)),
    "jax.lax.top_k": lambda a: (a(3, 9), 4),
    "jax.lax.transpose": lambda a: (a(3, 4, 5), (2, 0, 1)),
    "jax.lax.split": lambda a: (a(5, 4), (2, 3)),
    "jax.lax.linalg.cholesky": lambda a: (a.definite(4),),
    "jax.lax.linalg.triangular_solve": lambda a: (a.definite(4), a(4, 3)),
    "jax.nn.dot_product_attention": lambda a: (a(2, 5, 3, 4), a(2, 6, 3, 4), a(2, 6, 3, 4)),
    "jax.nn.one_hot": lambda a: (a.indices(5), 4),
    "jax.numpy.arange": lambda a: (7,),
    "jax.numpy.bincount": lambda a: (a.indices(20),),
    "jax.numpy.block": lambda a: ([[a(2, 3), a(2, 1)], [a(1, 3), a(1, 1)]],),
    "jax.numpy.broadcast_to": lambda a: (a(4), (3, 4)),
    "jax.numpy.clip": lambda a: (a(3, 4), -1, 1),
    "jax.numpy.divmod": lambda a: (a(3, 4), a.positive(3, 4)),
    "jax.numpy.einsum": lambda a: ("ij,jk->ki", a(3, 4), a(4, 5)),
    "jax.numpy.eye": lambda a: (4,),
    "jax.numpy.fmod": lambda a: (a(3, 4), a.positive(3, 4)),
    "jax.numpy.full": lambda a: ((3, 4), a()),
    "jax.numpy.identity": lambda a: (4,),
    "jax.numpy.interp": lambda a: (a(7), np.arange(5, dtype="f4") - 2, a(5)),
    "jax.numpy.linspace": lambda a: (a(), a(), 7),
    "jax.numpy.mod": lambda a: (a(3, 4), a.positive(3, 4)),
    "jax.numpy.moveaxis": lambda a: (a(3, 4, 5), 0, 2),
    "jax.numpy.ones": lambda a: ((3, 4),),
    "jax.numpy.pad": lambda a: (a(3, 4), ((1, 0), (2, 1))),
    "jax.numpy.percentile": lambda a: (a(3, 9), 30.0),
    "jax.numpy.quantile": lambda a: (a(3, 9), 0.3),
    "jax.numpy.nanpercentile": lambda a: (a(3, 9), 30.0),
    "jax.numpy.nanquantile": lambda a: (a(3, 9), 0.3),
    "jax.numpy.remainder": lambda a: (a(3, 4), a.positive(3, 4)),
    "jax.numpy.repeat": lambda a: (a(3, 4), 2, 1),
    "jax.numpy.reshape": lambda a: (a(3, 4), (2, 6)),
    "jax.numpy.roll": lambda a: (a(3, 4), 1, 1),
    "jax.numpy.searchsorted": lambda a: (np.sort(a(9)), a(4)),
    "jax.numpy.swapaxes": lambda a: (a(3, 4, 5), 0, 2),
    "jax.numpy.take": lambda a: (a(5, 4), a.indices(3), 0),
    "jax.numpy.take_along_axis": lambda a: (a(5, 4), a.indices(2, 4), 0),
    "jax.numpy.tensordot": lambda a: (a(3, 4, 5), a(4, 5, 2)),
    "jax.numpy.tile": lambda a: (a(3, 4), (2, 3)),
    "jax.numpy.tri": lambda a: (4,),
    "jax.numpy.where": lambda a: (a.indices(3, 4, most=2) > 0, a(3, 4), a(3, 4)),
    "jax.numpy.zeros": lambda a: ((3, 4),),
    "jax.numpy.linalg.cholesky": lambda a: (a.definite(4),),
    "jax.numpy.linalg.lstsq": lambda a: (a(5, 3), a(5, 2)),  # that leaves something
    "jax.numpy.linalg.matrix_power": lambda a: (a(4, 4), 3),
    "jax.numpy.linalg.multi_dot": lambda a: ([a(3, 4), a(4, 5), a(5, 2)],),
    "jax.numpy.linalg.solve": lambda a: (a.definite(4), a(4, 3)),
    "jax.scipy.linalg.cho_factor": lambda a: (a.definite(4),),
    "jax.scipy.linalg.cholesky": lambda a: (a.definite(4),),
    "jax.scipy.linalg.solve": lambda a: (a.definite(4), a(4, 3)),
    "jax.scipy.linalg.solve_triangular": lambda a: (a.definite(4), a(4, 3)),
    "jax.scipy.special.betainc": lambda a: (a.positive(5), a.positive(5), a.positive(5)),
    "jax.scipy.special.logit": lambda a: (a.positive(3, 4),),
    "jax.scipy.special.ndtri": lambda a: (a.positive(3, 4),),
}  # fmt: skip
"""Functions that the forms below do not suit, by what they want."""

_FORMS: tuple[Maker, ...] = (
    lambda a: (a(3, 4),),
    lambda a: (a(3, 4), a(3, 4)),
    lambda a: (a(4, 4),),
    lambda a: (a(7),),
    lambda a: (a(7), a(7)),
    lambda a: (a(4, 4), a(4, 4)),
    lambda a: (a(2, 3, 4, 4),),
    lambda a: (a(3, 4), a.indices(3, 4)),
    lambda a: (a.indices(3, 4), a(3, 4)),
    lambda a: (a(3, 4), 1),
    lambda a: (a(3, 4), (0,)),
    lambda a: ([a(3, 4), a(3, 4)],),
    lambda a: (a(3, 4), a(3, 4), a(3, 4)),
    lambda a: (a.positive(5), a.positive(5), a.positive(5), a.positive(5)),
    lambda a: (a(3),),
    lambda a: (a(3), a(3)),
    lambda a: ("float32", (3, 4), 0),
    lambda a: (5,),
)


def samples(name: str, dtype: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    """Arguments to try a function with, the first that it takes are its own."""
    makers = (LISTED[name],) if name in LISTED else _FORMS
    for maker in makers:
        yield maker(Arrays(dtype, seed))
