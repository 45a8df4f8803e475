"""Im2col by its definition, element after element: the dialect's older form and its newer one."""

from collections.abc import Sequence
from math import prod
from typing import Any

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
    if min(windows) < 1:
        return result
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


def im2col_of_sizes(
    source: np.ndarray,
    output_shape: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    kernel_size: Sequence[int],
    offsets: Sequence[int],
    output_sizes: Sequence[Sequence[int]],
    batch_pos: Sequence[int],
    m_pos: Sequence[int],
    k_pos: Sequence[int],
    input_k_perm: Sequence[int],
    output_perm: Sequence[int],
    input_pad_low: Sequence[int] | None = None,
    input_pad_high: Sequence[int] | None = None,
    output_pad_low: Sequence[int] | None = None,
    output_pad_high: Sequence[int] | None = None,
    pad_value: Any = 0,
) -> np.ndarray:
    """The windows of ``source``; ``pad_value`` outside the sizes, the image, and in the padding.

    ``kernel_size`` says nothing that the sizes do not say.
    """
    assert len(kernel_size) == len(m_pos)
    zeros = [0] * source.ndim
    pads = list(zip(input_pad_low or zeros, input_pad_high or zeros, strict=True))
    padded = np.full(
        [e + low + high for e, (low, high) in zip(source.shape, pads, strict=True)],
        pad_value,
        source.dtype,
    )
    padded[tuple(slice(low, low + e) for e, (low, _) in zip(source.shape, pads, strict=True))] = (
        source
    )
    low = output_pad_low or [0] * len(output_shape)
    high = output_pad_high or [0] * len(output_shape)
    inner = [dim for dim in range(source.ndim) if dim not in batch_pos]
    k_dims = [inner[place] for place in input_k_perm]
    result = np.full(output_shape, pad_value, source.dtype)
    for place in np.ndindex(*output_shape):
        bounds = zip(place, low, high, output_shape, strict=True)
        if not all(before <= at < extent - after for at, before, after, extent in bounds):
            continue
        coordinates: list[int] = []
        for canonical, (offset, sizes) in enumerate(zip(offsets, output_sizes, strict=True)):
            axis = output_perm.index(canonical)
            flat = offset + place[axis] - low[axis]
            coordinates += delinearize(flat, sizes) if 0 <= flat < prod(sizes) else [-1]
        if -1 in coordinates:
            continue
        index = [0] * source.ndim
        for dim in batch_pos:
            index[dim] = coordinates.pop(0)
        for i, dim in enumerate(m_pos):
            index[dim] = coordinates.pop(0) * strides[i]
        for dim in k_dims:
            step = dilations[m_pos.index(dim)] if dim in m_pos else 1
            index[dim] += coordinates.pop(0) * step
        if all(0 <= at < extent for at, extent in zip(index, padded.shape, strict=True)):
            result[place] = padded[tuple(index)]
    return result
