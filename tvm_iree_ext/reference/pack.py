"""Pack and unpack by their definition: element after element."""

from collections.abc import Sequence

import numpy as np


def pack(
    source: np.ndarray,
    packed_shape: Sequence[int],
    *,
    inner_dims_pos: Sequence[int],
    outer_dims_perm: Sequence[int],
    padding: object,
) -> np.ndarray:
    """``source`` in tiles; ``padding`` where a tile reaches past its end."""
    rank = source.ndim
    tiles = packed_shape[rank:]
    result = np.empty(packed_shape, source.dtype)
    for place in np.ndindex(*packed_shape):
        outer, inner = place[:rank], place[rank:]
        index = [0] * rank
        for i, dim in enumerate(outer_dims_perm):
            index[dim] = outer[i]
        for j, dim in enumerate(inner_dims_pos):
            index[dim] = index[dim] * tiles[j] + inner[j]
        inside = all(x < extent for x, extent in zip(index, source.shape, strict=True))
        result[place] = source[tuple(index)] if inside else padding
    return result


def unpack(
    packed: np.ndarray,
    shape: Sequence[int],
    *,
    inner_dims_pos: Sequence[int],
    outer_dims_perm: Sequence[int],
) -> np.ndarray:
    """The array of ``shape`` that the tiles hold."""
    rank = len(shape)
    tiles = dict(zip(inner_dims_pos, packed.shape[rank:], strict=True))
    result = np.empty(shape, packed.dtype)
    for index in np.ndindex(*shape):
        outer = [index[dim] // tiles.get(dim, 1) for dim in outer_dims_perm]
        inner = [index[dim] % tiles[dim] for dim in inner_dims_pos]
        result[index] = packed[tuple(outer + inner)]
    return result
