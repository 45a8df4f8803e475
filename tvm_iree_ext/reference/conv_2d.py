"""Convolution as sums over the window."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def conv_2d(
    image: np.ndarray,
    kernels: np.ndarray,
    *,
    channels_last: bool,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    groups: int,
    operands: Sequence[np.ndarray] = (),
    epilogue: Callable[..., Any] | None = None,
) -> np.ndarray:
    """(N, H, W, C) and (KH, KW, C / groups, F) to (N, H', W', F), or NCHW and FCHW to NCHW.

    In float64, or int64 for integers.  ``epilogue(sums, *operands)`` is taken of that, each operand
    broadcast to the result.
    """
    dtype = np.int64 if np.issubdtype(image.dtype, np.integer) else np.float64
    image, kernels = image.astype(dtype), kernels.astype(dtype)
    if not channels_last:
        image, kernels = image.transpose(0, 2, 3, 1), kernels.transpose(2, 3, 1, 0)
    padded = np.pad(image, ((0, 0), *padding, (0, 0)))
    height, width, seen, filters = kernels.shape
    rows, columns = (
        (padded.shape[1 + d] - ((height, width)[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(2)
    )
    result = np.zeros((image.shape[0], rows, columns, filters), dtype)
    for y, x, f in np.ndindex(rows, columns, filters):
        first = f // (filters // groups) * seen
        for kh, kw in np.ndindex(height, width):
            row, column = y * strides[0] + kh * dilations[0], x * strides[1] + kw * dilations[1]
            part = padded[:, row, column, first : first + seen]
            result[:, y, x, f] += part @ kernels[kh, kw, :, f]
    result = result if channels_last else result.transpose(0, 3, 1, 2)
    if epilogue is None:
        return result
    wide = [one.astype(np.float64) if one.dtype.kind not in "biu" else one for one in operands]
    return np.broadcast_arrays(epilogue(result, *wide), result)[0].copy()
