"""Grouped products, by their definition: group after group, summed in float64 or int64."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def grouped_matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    offsets: np.ndarray,
    operands: Sequence[np.ndarray],
    *,
    transpose_rhs: bool = False,
    epilogue: Callable[..., Any] | None = None,
) -> np.ndarray:
    """``epilogue(lhs[rows] @ rhs[group], *operands)`` for the rows of each group; else 0.

    Args:
        lhs: (rows, k).
        rhs: (groups, k, n), or (groups, n, k).
        offsets: (groups,), the row before which each ends; below 0 the first, beyond the rows none.
        operands: of the epilogue, as they broadcast to (groups, rows, n).
        transpose_rhs: whether rhs is (groups, n, k).
        epilogue: of arrays.
    """
    whole = lhs.dtype.kind == rhs.dtype.kind == "i"
    wide = np.int64 if whole else np.float64
    weights = rhs.astype(wide).swapaxes(1, 2) if transpose_rhs else rhs.astype(wide)
    shape = len(offsets), len(lhs), weights.shape[2]
    floats = [one.astype(np.float64) if one.dtype.kind not in "biu" else one for one in operands]
    others = [np.broadcast_to(one, shape) for one in floats]
    result = np.zeros(shape[1:], np.float64 if epilogue is not None else wide)
    start = 0
    for group, offset in enumerate(offsets):
        end = min(max(int(offset), 0), len(lhs))
        rows = slice(start, end)
        sums = lhs[rows].astype(wide) @ weights[group]
        if epilogue is not None:
            sums = epilogue(sums, *(one[group, rows] for one in others))
        result[rows] = sums
        start = end
    return result
