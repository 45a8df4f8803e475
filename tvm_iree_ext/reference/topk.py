"""Reference of ``iree_linalg_ext.topk`` and ``topk_v2``, for all lines at once."""

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
    """The dialect's two loops: each of the inputs is offered to each output element in turn.

    ``region(candidate, element)`` says whether a candidate wins; both ways, they are a tie.
    """
    candidates = np.moveaxis(values, dimension, 0)
    best = np.moveaxis(output_values, dimension, 0).copy()
    where = np.moveaxis(output_indices, dimension, 0).copy()
    for n in range(len(candidates)):
        value = candidates[n]
        index = np.full(value.shape, n).astype(where.dtype)  # wraps, as a position does
        if indices is not None:
            index = np.moveaxis(indices, dimension, 0)[n]
        for k in range(len(best)):
            wins, loses = region(value, best[k]), region(best[k], value)
            forward = np.logical_and(wins, np.logical_not(loses))
            tie = np.logical_and(np.equal(wins, loses), index < where[k])
            moved = np.logical_or(forward, tie)
            best[k], value = np.where(forward, value, best[k]), np.where(forward, best[k], value)
            where[k], index = np.where(moved, index, where[k]), np.where(moved, where[k], index)
    return np.moveaxis(best, 0, dimension), np.moveaxis(where, 0, dimension)


def topk_v2(
    values: np.ndarray,
    indices: np.ndarray | None,
    output_values: np.ndarray,
    output_indices: np.ndarray | None,
    *,
    dimension: int,
    is_sorted: bool,
    region: Callable[..., Any],
) -> tuple[np.ndarray, np.ndarray | None]:
    """The first of inits and inputs together, by value and then by index.

    ``region(one, other)`` says whether ``one`` goes first; both ways, they are a tie.  Where
    ``is_sorted`` is false, the order is that in which they were found.
    """
    candidates = np.moveaxis(values, dimension, 0)
    best = np.moveaxis(output_values, dimension, 0).copy()
    ones = np.ones(candidates.shape[1:], np.int64)
    if output_indices is None:
        where = np.arange(-len(best), 0).reshape(-1, *[1] * ones.ndim) * ones
    else:
        where = np.moveaxis(output_indices, dimension, 0).copy()

    def goes_first(one: Any, index: Any, other: Any, other_index: Any) -> np.ndarray:
        forward, reverse = region(one, other), region(other, one)
        comparable = ~(_is_nan(one) | _is_nan(other))
        tie = (forward == reverse) & (index < other_index)
        return (forward & ~reverse) | (tie & comparable)

    for n in range(len(candidates)):
        value, index = candidates[n], (n * ones).astype(where.dtype)
        if indices is not None:
            index = np.moveaxis(indices, dimension, 0)[n]
        for k in range(len(best)):
            moved = goes_first(value, index, best[k], where[k])
            best[k], value = np.where(moved, value, best[k]), np.where(moved, best[k], value)
            where[k], index = np.where(moved, index, where[k]), np.where(moved, where[k], index)
    for k in list(range(len(best) - 1)) * (len(best) if is_sorted else 0):
        moved = goes_first(best[k + 1], where[k + 1], best[k], where[k])
        for part in (best, where):
            part[k], part[k + 1] = (
                np.where(moved, part[k + 1], part[k]),
                np.where(moved, part[k], part[k + 1]),
            )
    ordered = np.moveaxis(best, 0, dimension)
    return ordered, None if output_indices is None else np.moveaxis(where, 0, dimension)


def _is_nan(values: np.ndarray) -> np.ndarray:
    return values != values
