"""Reference of ``iree_vector_ext.transfer_gather`` and ``transfer_scatter``."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Result = str
"""Result of an indexing map: ``d0``, ``s0`` or ``0``."""


def transfer_gather(
    base: np.ndarray,
    index_vecs: Sequence[Any],
    mask: Any,
    *,
    shape: Sequence[int],
    maps: Sequence[Sequence[Result]],
    offsets: Sequence[int],
    padding: Any,
) -> np.ndarray:
    """The vector of the elements at the places of its positions; ``maps`` are their results."""
    result = np.full(tuple(shape), padding, base.dtype)
    for position, place in places(shape, index_vecs, mask, maps, offsets):
        if _is_inside(place, base.shape):
            result[position] = base[place]
    return result


def transfer_scatter(
    vector: np.ndarray,
    base: np.ndarray,
    index_vecs: Sequence[Any],
    mask: Any,
    *,
    maps: Sequence[Sequence[Result]],
    offsets: Sequence[int],
) -> np.ndarray:
    """The base with the vector's elements at the places of its positions."""
    result = base.copy()
    for position, place in places(vector.shape, index_vecs, mask, maps, offsets):
        if _is_inside(place, base.shape):
            result[place] = vector[position]
    return result


def _is_inside(place: Sequence[int], shape: Sequence[int]) -> bool:
    return all(0 <= index < extent for index, extent in zip(place, shape, strict=True))


def places(
    shape: Sequence[int],
    index_vecs: Sequence[Any],
    mask: Any,
    maps: Sequence[Sequence[Result]],
    offsets: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The live positions of a vector, each with its place in the base."""

    def at(operand: Any, results: Sequence[Result], position: Sequence[int]) -> Any:
        return np.asarray(operand)[tuple(position[int(one[1:])] for one in results)]

    for position in np.ndindex(*shape):
        if mask is not None and not at(mask, maps[-1], position):
            continue
        place = []
        for one, offset in zip(maps[0], offsets, strict=True):
            number = int(one[1:] or 0)
            if one[0] == "d":
                place.append(int(offset) + position[number])
            elif one[0] == "s":
                place.append(int(offset) + int(at(index_vecs[number], maps[1 + number], position)))
            else:
                place.append(int(offset))
        yield position, tuple(place)
