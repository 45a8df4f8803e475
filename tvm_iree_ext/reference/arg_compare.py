"""NumPy reference of ``iree_linalg_ext.arg_compare``: one candidate after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def arg_compare(
    input_value: Array,
    init_value: Array,
    init_index: Array,
    *,
    dimension: int,
    region: Callable[[Any, Any], Any],
    input_index: Array | None = None,
    index_base: int = 0,
    compute_dtype: np.dtype | None = None,
) -> tuple[Array, Array]:
    """Value and index; elements are compared in ``compute_dtype`` (by default their own)."""
    wide = compute_dtype or input_value.dtype
    x = np.moveaxis(input_value, dimension, 0)
    value, index = np.array(init_value), np.array(init_index)
    with np.errstate(all="ignore"):
        for j in range(len(x)):
            wins = np.asarray(region(np.asarray(x[j], wide), value.astype(wide)))
            if input_index is None:
                where = np.array(index_base + j, np.int64).astype(index.dtype)
            else:
                where = np.moveaxis(input_index, dimension, 0)[j]
            value = np.where(wins, x[j], value)
            index = np.where(wins, where, index)
    return np.asarray(value, input_value.dtype), np.asarray(index, init_index.dtype)
