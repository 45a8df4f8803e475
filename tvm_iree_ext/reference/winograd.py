"""The Winograd transforms as matrix products, in float64."""

import functools
from fractions import Fraction
from math import prod
from typing import Any

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
_POINTS = [Fraction(one) for one in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4")]
_POINTS.append(Fraction("-1/4"))


@functools.cache
def _of_kernel(r: int, m: int) -> tuple[Any, Any, Any]:
    """B transposed, G, A transposed, for kernels of m x m.

    With E the values of the powers x^0, ..., x^(i - 1) at i - 1 points, and below them the leading
    coefficient: A and G are E's first columns, those of G over f, the points' products of
    differences; B transposed is f times E inverted and transposed.  Exact, then rounded once.
    """
    if m == 3:
        return _B[r], _G[r], _A[r]
    i = r + m - 1
    points = _POINTS[: i - 1]

    def values(count: int) -> list[list[Fraction]]:
        powers = [[a**power for power in range(count)] for a in points]
        return [*powers, [Fraction(int(power == count - 1)) for power in range(count)]]

    one = Fraction(1)
    f = [*(prod((a - b for b in points if b != a), start=one) for a in points), one]
    f[0] = abs(f[0])  # of both G and B, so that their product stays
    inverse = _inverted(values(i))
    scaled = [[f[j] * inverse[row][j] for row in range(i)] for j in range(i)]
    kernels = [[value / f[j] for value in row] for j, row in enumerate(values(m))]
    return _rounded(scaled), _rounded(kernels), _rounded(values(r)).T


def _inverted(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """By Gauss and Jordan's elimination."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for at in range(size):
        pivot = next(place for place in range(at, size) if rows[place][at])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for place in range(size):
            if place != at:
                factor = rows[place][at]
                rows[place] = [x - factor * y for x, y in zip(rows[place], rows[at], strict=True)]
    return [row[size:] for row in rows]


def _rounded(matrix: list[list[Fraction]]) -> np.ndarray:
    return np.array([list(map(float, row)) for row in matrix])


def _transformed(matrix: Any, tile: np.ndarray) -> np.ndarray:
    """L X L^T."""
    left = np.array(matrix, np.float64)
    return left @ tile.astype(np.float64) @ left.T


def input_transform(image: np.ndarray, *, r: int, m: int = 3, channels_last: bool) -> np.ndarray:
    """(N, H, W, C) or (N, C, H, W) to (i, i, N, H', W', C); a window to a tile.

    Or of one dim: (N, W, C) or (N, C, W) to (i, N, W', C).
    """
    i = r + m - 1
    if image.ndim in (1, 3):
        return _input_line(image, r, m, channels_last)
    if image.ndim == 2:
        window = np.zeros((i, i))
        window[: image.shape[0], : image.shape[1]] = image
        return _transformed(_of_kernel(r, m)[0], window)
    if not channels_last:
        image = image.transpose(0, 2, 3, 1)
    batch, rows, columns, channels = image.shape
    high, wide = (-(-(extent - m + 1) // r) for extent in (rows, columns))
    result = np.empty((i, i, batch, high, wide, channels))
    for n, h, w, c in np.ndindex(batch, high, wide, channels):
        part = image[n, h * r : h * r + i, w * r : w * r + i, c]
        window = np.zeros((i, i))
        window[: part.shape[0], : part.shape[1]] = part
        result[:, :, n, h, w, c] = _transformed(_of_kernel(r, m)[0], window)
    return result


def filter_transform(kernels: np.ndarray, *, r: int, m: int = 3, channels_last: bool) -> np.ndarray:
    """(m, m, C, F) or (F, C, m, m) to (i, i, C, F); a kernel to a tile.

    Or of one dim: (m, C, F) or (F, C, m) to (i, C, F).
    """
    if kernels.ndim in (1, 3):
        kernels = kernels if channels_last else kernels.transpose(2, 1, 0)
        return np.tensordot(_of_kernel(r, m)[1], kernels.astype(np.float64), 1)
    if kernels.ndim == 2:
        return _transformed(_of_kernel(r, m)[1], kernels)
    if not channels_last:
        kernels = kernels.transpose(2, 3, 1, 0)
    i = r + m - 1
    result = np.empty((i, i, *kernels.shape[2:]))
    for c, f in np.ndindex(*kernels.shape[2:]):
        result[:, :, c, f] = _transformed(_of_kernel(r, m)[1], kernels[:, :, c, f])
    return result


def output_transform(tiles: np.ndarray, *, r: int, m: int = 3, channels_last: bool) -> np.ndarray:
    """(i, i, N, H', W', C) to (N, r * H', r * W', C) or (N, C, r * H', r * W'); tile by tile."""
    if tiles.ndim in (1, 4):
        return _output_line(tiles, r, m, channels_last)
    if tiles.ndim == 2:
        return _transformed(_of_kernel(r, m)[2], tiles)
    batch, high, wide, channels = tiles.shape[2:]
    result = np.empty((batch, high * r, wide * r, channels))
    for n, h, w, c in np.ndindex(batch, high, wide, channels):
        tile = _transformed(_of_kernel(r, m)[2], tiles[:, :, n, h, w, c])
        result[n, h * r : (h + 1) * r, w * r : (w + 1) * r, c] = tile
    return result if channels_last else result.transpose(0, 3, 1, 2)


def _input_line(image: np.ndarray, r: int, m: int, channels_last: bool) -> np.ndarray:
    """(N, W, C) or (N, C, W) to (i, N, W', C); a window to a tile."""
    i, matrix = r + m - 1, np.array(_of_kernel(r, m)[0], np.float64)
    if image.ndim == 1:
        return matrix @ np.append(image.astype(np.float64), np.zeros(i - len(image)))
    if not channels_last:
        image = image.transpose(0, 2, 1)
    batch, columns, channels = image.shape
    wide = -(-(columns - m + 1) // r)
    result = np.empty((i, batch, wide, channels))
    for n, w, c in np.ndindex(batch, wide, channels):
        part = image[n, w * r : w * r + i, c].astype(np.float64)
        result[:, n, w, c] = matrix @ np.append(part, np.zeros(i - len(part)))
    return result


def _output_line(tiles: np.ndarray, r: int, m: int, channels_last: bool) -> np.ndarray:
    """(i, N, W', C) to (N, r * W', C) or (N, C, r * W'); tile by tile."""
    matrix = np.array(_of_kernel(r, m)[2], np.float64)
    if tiles.ndim == 1:
        return matrix @ tiles.astype(np.float64)
    batch, wide, channels = tiles.shape[1:]
    result = np.empty((batch, wide * r, channels))
    for n, w, c in np.ndindex(batch, wide, channels):
        result[n, w * r : (w + 1) * r, c] = matrix @ tiles[:, n, w, c].astype(np.float64)
    return result if channels_last else result.transpose(0, 2, 1)
