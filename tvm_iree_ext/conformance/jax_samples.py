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
        self.dtype, self._rng = np.dtype(dtype), np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        """One of a shape."""
        kind, rng = self.dtype.kind, self._rng
        if kind == "b":
            return rng.integers(0, 2, shape).astype(self.dtype)
        if kind in "iu":
            return rng.integers(0 if kind == "u" else -4, 5, shape).astype(self.dtype)
        array = rng.uniform(-2, 2, shape)
        if kind == "c":
            array = array + 1j * rng.uniform(-2, 2, shape)
        return array.astype(self.dtype)

    def positive(self, *shape: int) -> np.ndarray:
        """One of numbers from 0 to 1; of integers from 1 on."""
        array = np.abs(self(*shape).astype("f8" if self.dtype.kind != "c" else "c16"))
        array = array / 3 if self.dtype.kind not in "iub" else array + 1
        return array.astype(self.dtype)

    def definite(self, size: int) -> np.ndarray:
        """A matrix that is symmetric and definite."""
        array = self(size, size)
        return (array @ array.conj().T + size * np.eye(size)).astype(self.dtype)

    def indices(self, *shape: int, most: int = 3) -> np.ndarray:
        """Numbers from 0 to below ``most``, int32."""
        return self._rng.integers(0, most, shape).astype("int32")


_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
"""The type of the bits of elements of so many bytes."""


def _rows(name: str) -> Any:
    """The dims of indices of whole rows of a matrix; of a class of ``jax.lax``."""
    from jax import lax

    return getattr(lax, name)((1,), (0,), (0,))


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
    "jax.nn.dot_product_attention": lambda a: (a(2, 5, 3, 4), a(2, 6, 3, 4), a(2, 6, 3, 4)),
    "jax.nn.one_hot": lambda a: (a.indices(5), 4),
    "jax.numpy.arange": lambda a: (7,),
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
    "jax.lax.argmax": lambda a: (a(3, 5), 1, "int32"),
    "jax.lax.argmin": lambda a: (a(3, 5), 0, "int32"),
    "jax.lax.bitcast_convert_type": lambda a: (a(3, 4), _BITS[a.dtype.itemsize]),
    "jax.lax.convert_element_type": lambda a: (a(3, 4), "float16"),
    "jax.lax.conv_general_dilated_local": lambda a: (
        a(1, 2, 5, 5), a(3, 18, 3, 3), (1, 1), "VALID", (3, 3),
    ),
    "jax.lax.conv_general_dilated_patches": lambda a: (a(1, 2, 5, 6), (3, 2), (1, 2), "SAME"),
    "jax.lax.full": lambda a: ((3, 4), a()),
    "jax.lax.gather": lambda a: (
        a(5, 4), a.indices(3, 1, most=5), _rows("GatherDimensionNumbers"), (1, 4),
    ),
    "jax.lax.index_take": lambda a: (a(5, 4), (a.indices(3), a.indices(3)), (0, 1)),
    "jax.lax.iota": lambda a: (a.dtype, 7),
    "jax.lax.ragged_dot": lambda a: (a(6, 4), a(3, 4, 5), np.array([2, 1, 3], "int32")),
    "jax.lax.reduce_and": lambda a: (a(3, 4), (1,)),
    "jax.lax.reduce_or": lambda a: (a(3, 4), (0,)),
    "jax.lax.reduce_precision": lambda a: (a(3, 4), 5, 10),
    "jax.lax.reduce_xor": lambda a: (a(3, 4), (0, 1)),
    **{
        f"jax.lax.scatter{name}": lambda a: (
            a(5, 4), a.indices(3, 1, most=5), a(3, 4), _rows("ScatterDimensionNumbers"),
        )
        for name in ("_add", "_max", "_min", "_mul", "_sub")
    },
    "jax.lax.scatter": lambda a: (
        a(5, 4), np.array([[3], [0]], "int32"), a(2, 4), _rows("ScatterDimensionNumbers"),
    ),
    "jax.lax.tile": lambda a: (a(3, 4), (2, 3)),
    "jax.lax.linalg.cholesky_update": lambda a: (np.triu(a.definite(4)), a(4)),
    "jax.lax.linalg.householder_product": lambda a: (a(5, 3), a.positive(3)),
    "jax.lax.linalg.lu_pivots_to_permutation": lambda a: (a.indices(4, most=4), 4),
    "jax.lax.linalg.ormqr": lambda a: (a(5, 3), a.positive(3), a(5, 2)),
    "jax.lax.linalg.triangular_solve": lambda a: (a.definite(4), a(3, 4)),
    "jax.lax.linalg.tridiagonal_solve": lambda a: (a(5), a(5) + 3, a(5), a(5, 2)),
    "jax.numpy.argwhere": lambda a: (a(3, 4), {"size": 5}),
    "jax.numpy.astype": lambda a: (a(3, 4), "float32"),
    "jax.numpy.bincount": lambda a: (a.indices(20), {"length": 4}),
    "jax.numpy.choose": lambda a: (a.indices(5), [a(5), a(5), a(5)], {"mode": "clip"}),
    "jax.numpy.compress": lambda a: (np.arange(5) % 2 > 0, a(5, 4), 0, {"size": 2}),
    "jax.numpy.dsplit": lambda a: (a(2, 3, 4), 2),
    "jax.numpy.extract": lambda a: (a.indices(3, 4, most=2) > 0, a(3, 4), {"size": 5}),
    "jax.numpy.fill_diagonal": lambda a: (a(4, 4), a(), {"inplace": False}),
    "jax.numpy.flatnonzero": lambda a: (a(3, 4), {"size": 5}),
    "jax.numpy.indices": lambda a: ((3, 4), a.dtype),
    "jax.numpy.insert": lambda a: (a(5, 4), 2, a(4), 0),
    "jax.numpy.intersect1d": lambda a: (a(7), a(5), {"size": 4}),
    "jax.numpy.kaiser": lambda a: (7, a.positive()),
    "jax.numpy.lexsort": lambda a: ((a(9), a(9)),),
    "jax.numpy.linalg.tensorsolve": lambda a: (a.definite(6).reshape(2, 3, 6), a(2, 3)),
    "jax.numpy.nonzero": lambda a: (a(3, 4), {"size": 5}),
    "jax.numpy.permute_dims": lambda a: (a(3, 4, 5), (2, 0, 1)),
    "jax.numpy.place": lambda a: (a(3, 4), a.indices(3, 4, most=2) > 0, a(3), {"inplace": False}),
    "jax.numpy.polyfit": lambda a: (np.arange(7, dtype="f4"), a(7), 2),
    "jax.numpy.put": lambda a: (a(3, 4), np.array([5, 0], "int32"), a(2), {"inplace": False}),
    "jax.numpy.put_along_axis": lambda a: (
        a(5, 4), a.indices(1, 4), a(1, 4), 0, {"inplace": False},
    ),
    "jax.numpy.ravel_multi_index": lambda a: ((a.indices(5), a.indices(5)), (3, 3), "clip"),
    "jax.numpy.setdiff1d": lambda a: (a(7), a(5), {"size": 4}),
    "jax.numpy.setxor1d": lambda a: (a(7), a(5), {"size": 4}),
    "jax.numpy.union1d": lambda a: (a(7), a(5), {"size": 4}),
    **{
        f"jax.numpy.unique{name}": lambda a: (a(9), {"size": 5})
        for name in ("", "_all", "_counts", "_inverse", "_values")
    },
    "jax.numpy.unpackbits": lambda a: (a.indices(5, most=256).astype("uint8"),),
    "jax.scipy.linalg.cho_solve": lambda a: ((np.tril(a.definite(4)), True), a(4, 3)),
    "jax.scipy.linalg.eigh_tridiagonal": lambda a: (a(5), a(4), {"eigvals_only": True}),
}  # fmt: skip
"""Functions that the forms below do not suit, by what they want; a last dict: by keyword."""

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
