"""The Winograd transforms as matrix products, in float64."""

import numpy as np

# By r, for kernels of 3 x 3: B transposed, G, A transposed.
_B: dict[int, list[list[float]]] = {
    2: [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    4: [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    6: [
        [1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0],
        [0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0],
        [0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0],
        [0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0],
        [0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0],
        [0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0],
        [0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0],
        [0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1],
    ],
}
_G: dict[int, list[list[float]]] = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
    6: [
        [1, 0, 0],
        [-2 / 9, -2 / 9, -2 / 9],
        [-2 / 9, 2 / 9, -2 / 9],
        [1 / 90, 1 / 45, 2 / 45],
        [1 / 90, -1 / 45, 2 / 45],
        [32 / 45, 16 / 45, 8 / 45],
        [32 / 45, -16 / 45, 8 / 45],
        [0, 0, 1],
    ],
}
_A: dict[int, list[list[float]]] = {
    2: [[1, 1, 1, 0], [0, 1, -1, -1]],
    4: [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    6: [
        [1, 1, 1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 1 / 2, -1 / 2, 0],
        [0, 1, 1, 4, 4, 1 / 4, 1 / 4, 0],
        [0, 1, -1, 8, -8, 1 / 8, -1 / 8, 0],
        [0, 1, 1, 16, 16, 1 / 16, 1 / 16, 0],
        [0, 1, -1, 32, -32, 1 / 32, -1 / 32, 1],
    ],
}
_M = 3


def _transformed(matrix: list[list[float]], tile: np.ndarray) -> np.ndarray:
    """L X L^T."""
    left = np.array(matrix, np.float64)
    return left @ tile.astype(np.float64) @ left.T


def input_transform(image: np.ndarray, *, r: int, channels_last: bool) -> np.ndarray:
    """(N, H, W, C) or (N, C, H, W) to (i, i, N, H', W', C); a window to a tile."""
    i = r + _M - 1
    if image.ndim == 2:
        window = np.zeros((i, i))
        window[: image.shape[0], : image.shape[1]] = image
        return _transformed(_B[r], window)
    if not channels_last:
        image = image.transpose(0, 2, 3, 1)
    batch, rows, columns, channels = image.shape
    high, wide = (-(-(extent - _M + 1) // r) for extent in (rows, columns))
    result = np.empty((i, i, batch, high, wide, channels))
    for n, h, w, c in np.ndindex(batch, high, wide, channels):
        part = image[n, h * r : h * r + i, w * r : w * r + i, c]
        window = np.zeros((i, i))
        window[: part.shape[0], : part.shape[1]] = part
        result[:, :, n, h, w, c] = _transformed(_B[r], window)
    return result


def filter_transform(kernels: np.ndarray, *, r: int, channels_last: bool) -> np.ndarray:
    """(3, 3, C, F) or (F, C, 3, 3) to (i, i, C, F); a kernel to a tile."""
    if kernels.ndim == 2:
        return _transformed(_G[r], kernels)
    if not channels_last:
        kernels = kernels.transpose(2, 3, 1, 0)
    i = r + _M - 1
    result = np.empty((i, i, *kernels.shape[2:]))
    for c, f in np.ndindex(*kernels.shape[2:]):
        result[:, :, c, f] = _transformed(_G[r], kernels[:, :, c, f])
    return result


def output_transform(tiles: np.ndarray, *, r: int, channels_last: bool) -> np.ndarray:
    """(i, i, N, H', W', C) to (N, r * H', r * W', C) or (N, C, r * H', r * W'); tile by tile."""
    if tiles.ndim == 2:
        return _transformed(_A[r], tiles)
    batch, high, wide, channels = tiles.shape[2:]
    result = np.empty((batch, high * r, wide * r, channels))
    for n, h, w, c in np.ndindex(batch, high, wide, channels):
        tile = _transformed(_A[r], tiles[:, :, n, h, w, c])
        result[n, h * r : (h + 1) * r, w * r : (w + 1) * r, c] = tile
    return result if channels_last else result.transpose(0, 3, 1, 2)
