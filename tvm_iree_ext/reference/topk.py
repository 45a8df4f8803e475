"""What ``iree_linalg_ext.topk`` means: the dialect's two loops, for all lines at once."""

from collections.abc import Callable
from typing import Any

import numpy as np


def topk(
    values: np.ndarray,
    indices: np.ndarray | None,
    output_values: np.ndarray,
    output_indices: np.ndarray,
    *,
    dimension: int,
    region: Callable[..., Any],
) -> tuple[np.ndarray, np.ndarray]:
    """The outputs after each of the inputs was offered to each of the output elements in turn.

    ``region(candidate, element)`` says whether a candidate wins.
    """
    candidates = np.moveaxis(values, dimension, 0)
    best = np.moveaxis(output_values, dimension, 0).copy()
    where = np.moveaxis(output_indices, dimension, 0).copy()
    for n in range(len(candidates)):
        value = candidates[n]
        index = np.full_like(where[0], n)
        if indices is not None:
            index = np.moveaxis(indices, dimension, 0)[n]
        for k in range(len(best)):
            forward, reverse = region(value, best[k]), region(best[k], value)
            tie = np.logical_and(forward == reverse, index < where[k])
            moved = np.logical_or(forward, tie)
            best[k], value = np.where(forward, value, best[k]), np.where(forward, best[k], value)
            where[k], index = np.where(moved, index, where[k]), np.where(moved, where[k], index)
    return np.moveaxis(best, 0, dimension), np.moveaxis(where, 0, dimension)
