"""Random operands of any element type."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """All kinds of values that the type has; of floats also NaN, infinities and -0."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)  # not a number where the rank is 0
    if dtype in dtypes.INTEGERS:
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    values = rng.standard_normal(shape)
    odd = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0]), shape)
    return np.where(rng.random(shape) < 0.05, odd, values).astype(kind)


def finite_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers to sum products of: normal floats, any bytes, words that leave room for sums."""
    if dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype == "int32":
        return rng.integers(-(1 << 20), 1 << 20, shape, np.int32)
    return np.asarray(rng.standard_normal(shape)).astype(dtypes.numpy_dtype(dtype))
