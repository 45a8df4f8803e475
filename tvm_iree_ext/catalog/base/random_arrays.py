"""Random shapes, and operands of any element type."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent

# 1, primes, and one below and above vectors and blocks of them.
_LENGTHS = (1, 2, 3, 5, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 129, 200)
_COUNTS = (1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 40)


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def some_dynamic(
    rng: np.random.Generator, shape: Sequence[int], share: float, static: Collection[int] = ()
) -> tuple[Extent, ...]:
    """A shape of which a share of the extents, but for those of ``static`` axes, has names."""
    return tuple(
        f"n{axis}" if axis not in static and rng.random() < share else extent
        for axis, extent in enumerate(shape)
    )


def lines_of_sizes(rng: np.random.Generator, longest: int) -> tuple[list[int], int]:
    """A shape and the dimension of its lines; where these are long, they are few."""
    rank = int(rng.integers(1, 5))
    dimension = int(rng.integers(rank))
    sizes = [pick(rng, _COUNTS) if rank < 4 else int(rng.integers(1, 6)) for _ in range(rank)]
    sizes[dimension] = (
        pick(rng, _LENGTHS) if rng.random() < 0.95 else int(rng.integers(1000, longest))
    )
    if sizes[dimension] >= 1000:
        sizes = [size if axis == dimension else 1 + size % 3 for axis, size in enumerate(sizes)]
    return sizes, dimension


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """All kinds of values that the type has; of floats also NaN, infinities and -0."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)  # not a number where the rank is 0
    if dtype in dtypes.COMPLEX:
        part = dtypes.COMPLEX_PARTS[dtype]
        return np.asarray(random_array(rng, (*shape, 2), part)).view(kind)[..., 0]
    if dtype in (*dtypes.INTEGERS, *dtypes.INTEGERS4):
        least, most = map(int, dtypes.limits(dtype))
        number = dtypes.numpy_dtype(dtypes.number_dtype(dtype))
        return np.asarray(rng.integers(least, most, shape, number, endpoint=True)).astype(kind)
    if dtype == dtypes.EXPONENTS:
        return np.asarray(rng.integers(0, 256, shape, np.uint8)).view(kind)
    values = rng.standard_normal(shape)
    odd = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0]), shape)
    return np.where(rng.random(shape) < 0.05, odd, values).astype(kind)


def small_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of which a few can be summed and multiplied, of any type but bool."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype in dtypes.COMPLEX:
        parts = rng.integers(-8, 9, (2, *shape)) / 4
        return np.asarray(parts[0] + 1j * parts[1]).astype(kind)
    if dtype in dtypes.FLOATS8:
        return np.asarray(rng.integers(-12, 13, shape) / 4).astype(kind)
    if dtype == dtypes.EXPONENTS:
        return _powers(rng, shape)
    if dtype in dtypes.FLOATS:
        return np.asarray(rng.standard_normal(shape)).astype(kind)
    return np.asarray(rng.integers(0, 8, shape)).astype(kind)


def finite_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers to sum products of: normal floats, any of few bits, others with room for sums."""
    if dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype == "int32":
        return rng.integers(-(1 << 20), 1 << 20, shape, np.int32)
    if dtype in dtypes.INTEGERS4:
        return random_array(rng, shape, dtype)
    if dtype == dtypes.EXPONENTS:
        return _powers(rng, shape)
    return np.asarray(rng.standard_normal(shape)).astype(dtypes.numpy_dtype(dtype))


def _powers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Scales near 1."""
    exponents = rng.integers(-4, 5, shape).astype(np.float64)
    return np.asarray(np.exp2(exponents)).astype(dtypes.numpy_dtype(dtypes.EXPONENTS))
