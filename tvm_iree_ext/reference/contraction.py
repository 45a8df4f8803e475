"""Contractions, by their definition: every product, summed in float64 or int64."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Axes = Sequence[int | None]
"""The dim of each axis of an operand; None for an axis of extent 1 that has none."""


def contraction(
    lhs: np.ndarray,
    rhs: np.ndarray,
    operands: Sequence[np.ndarray],
    *,
    lhs_axes: Axes,
    rhs_axes: Axes,
    operand_axes: Sequence[Axes],
    result_axes: Sequence[int],
    init: np.ndarray | None = None,
    epilogue: Callable[..., Any] | None = None,
) -> np.ndarray:
    """Sum products over the dims that the result has not; ``epilogue(sums, *operands)`` of that."""
    count = 1 + max(dim for axes in (lhs_axes, rhs_axes) for dim in axes if dim is not None)
    summed = tuple(dim for dim in range(count) if dim not in result_axes)
    whole = lhs.dtype.kind == rhs.dtype.kind == "i"
    wide = np.int64 if whole else np.float64

    def over_all_dims(array: np.ndarray, axes: Axes) -> np.ndarray:
        return _over_dims(array, axes, count)

    kept = [dim for dim in range(count) if dim in result_axes]
    factors = (*_named(lhs.astype(wide), lhs_axes), *_named(rhs.astype(wide), rhs_axes))
    total = np.expand_dims(np.einsum(*factors, kept, optimize=True), summed)
    if init is not None:
        total = total + over_all_dims(init.astype(wide), result_axes)
    if epilogue is not None:
        floats = [
            one.astype(np.float64) if one.dtype.kind not in "biu" else one for one in operands
        ]
        rest = [over_all_dims(o, axes) for o, axes in zip(floats, operand_axes, strict=True)]
        total = np.broadcast_arrays(epilogue(total, *rest), total)[0]
    total = total.reshape([total.shape[dim] for dim in kept])
    return total.transpose([kept.index(dim) for dim in result_axes]).copy()


def prologue_factors(
    rhs: np.ndarray,
    operands: Sequence[np.ndarray],
    *,
    rhs_axes: Axes,
    operand_axes: Sequence[Axes],
    prologue: Callable[..., Any],
) -> np.ndarray:
    """``prologue(rhs, *operands)`` of all elements, in float64 and with the axes of ``rhs``."""
    count = 1 + max((dim for dim in rhs_axes if dim is not None), default=0)
    arrays = [rhs, *operands]
    over_dims = [
        _over_dims(array.astype(np.float64), axes, count)
        for array, axes in zip(arrays, (rhs_axes, *operand_axes), strict=True)
    ]
    made = np.broadcast_to(prologue(*over_dims), over_dims[0].shape)
    dims = sorted(dim for dim in rhs_axes if dim is not None)
    made = made.reshape([made.shape[dim] for dim in dims])
    made = made.transpose([dims.index(dim) for dim in rhs_axes if dim is not None])
    return made.reshape(rhs.shape)


def _named(array: np.ndarray, axes: Axes) -> tuple[np.ndarray, list[int]]:
    """Without the axes that have no dim; and the dims of the others."""
    dims = [dim for dim in axes if dim is not None]
    extents = zip(array.shape, axes, strict=True)
    return array.reshape([extent for extent, dim in extents if dim is not None]), dims


def _over_dims(array: np.ndarray, axes: Axes, count: int) -> np.ndarray:
    """With an axis for each of so many dims, in their order."""
    array, dims = _named(array, axes)
    order = [dims.index(dim) for dim in range(count) if dim in dims]
    array = array.transpose(order)
    return np.expand_dims(array, [dim for dim in range(count) if dim not in dims])
