"""NumPy reference of ``iree_linalg_ext.scatter`` and ``gather``: one batch position at a time."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np


def scatter(
    updates: np.ndarray,
    indices: np.ndarray,
    original: np.ndarray,
    *,
    dimension_map: Sequence[int],
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    mask: np.ndarray | None = None,
    depth_dim: bool = True,
) -> np.ndarray:
    """``original`` with ``combine(update, current)`` at the slices that are addressed, in order."""
    result = original.copy()
    window = updates.shape[indices.ndim - depth_dim :]
    for position, place in addressed(
        original.shape, window, indices, dimension_map, mask, depth_dim
    ):
        current = result[place]
        update = updates[position].reshape(current.shape)
        result[place] = np.asarray(combine(update, current)).astype(original.dtype)
    return result


def gather(
    source: np.ndarray,
    indices: np.ndarray,
    init: np.ndarray,
    *,
    dimension_map: Sequence[int],
    mask: np.ndarray | None = None,
    depth_dim: bool = True,
) -> np.ndarray:
    """``init`` with the slices of ``source`` that are addressed."""
    output = init.copy()
    window = init.shape[indices.ndim - depth_dim :]
    for position, place in addressed(source.shape, window, indices, dimension_map, mask, depth_dim):
        output[position] = source[place].reshape(window)
    return output


def addressed(
    full: Sequence[int],
    window: Sequence[int],
    indices: np.ndarray,
    dimension_map: Sequence[int],
    mask: np.ndarray | None,
    depth_dim: bool,
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Batch positions in row-major order, each with its slice of a tensor of extents ``full``.

    Left out are those whose mask has no lowest bit, and those whose window leaves the tensor.
    """
    extents = [1] * (len(full) - len(window)) + list(window)
    for position in np.ndindex(indices.shape[: indices.ndim - depth_dim]):
        if mask is not None and not int(mask[position]) & 1:
            continue
        start = [0] * len(full)
        for component, index in zip(dimension_map, np.atleast_1d(indices[position]), strict=True):
            start[component] += int(index)
        bounds = list(zip(start, extents, full, strict=True))
        if all(first >= 0 and first + count <= limit for first, count, limit in bounds):
            yield position, tuple(slice(first, first + count) for first, count, _ in bounds)
