"""Im2col by its definition: element after element."""

from collections.abc import Sequence
from math import prod

import numpy as np


def delinearize(flat: int, basis: Sequence[int]) -> list[int]:
    """Coordinates, the last one fastest; the first one is not reduced."""
    found: list[int] = []
    for extent in reversed(basis[1:]):
        found.insert(0, flat % extent)
        flat //= extent
    return [flat, *found]


def im2col(
    source: np.ndarray,
    output_shape: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    kernel_size: Sequence[int],
    m_offset: Sequence[int],
    m_strides: Sequence[int],
    k_offset: Sequence[int],
    k_strides: Sequence[int],
    batch_pos: Sequence[int],
    m_pos: Sequence[int],
    k_pos: Sequence[int],
) -> np.ndarray:
    """The windows of ``source``; zero for positions past the last window or the window's end."""
    windows = [
        (source.shape[dim] - 1 - (kernel_size[i] - 1) * dilations[i]) // strides[i] + 1
        for i, dim in enumerate(m_pos)
    ]
    dims = sorted((*m_pos, *k_pos))
    window = [kernel_size[m_pos.index(dim)] if dim in m_pos else source.shape[dim] for dim in dims]
    result = np.zeros(output_shape, source.dtype)
    ms = slice(len(batch_pos), len(batch_pos) + len(m_offset))
    for place in np.ndindex(*output_shape):
        m = sum((o + i) * s for o, i, s in zip(m_offset, place[ms], m_strides, strict=True))
        k = sum((o + i) * s for o, i, s in zip(k_offset, place[ms.stop :], k_strides, strict=True))
        if not (0 <= m < prod(windows) and 0 <= k < prod(window)):
            continue
        corner = delinearize(m, windows)
        inside = dict(zip(dims, delinearize(k, window), strict=True))
        index = [0] * source.ndim
        for q, dim in enumerate(batch_pos):
            index[dim] = place[q]
        for dim in k_pos:
            index[dim] = inside[dim]
        for i, dim in enumerate(m_pos):
            index[dim] = corner[i] * strides[i] + inside[dim] * dilations[i]
        result[place] = source[tuple(index)]
    return result
