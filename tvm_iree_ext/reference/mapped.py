"""NumPy reference of ``iree_linalg_ext.map_load`` and ``map_store``: one element at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Region = Callable[..., Sequence[Any]]


def map_load(source: np.ndarray, shape: Sequence[int], region: Region) -> np.ndarray:
    """``source`` at ``region``'s place for each index of ``shape``; outside of it, the padding."""
    output = np.empty(shape, source.dtype)
    for index in np.ndindex(*shape):
        *place, padding = region(*index)
        at = tuple(map(int, place))
        output[index] = source[at] if lies_in(at, source.shape) else padding
    return output


def map_store(input: np.ndarray, init: np.ndarray, region: Region) -> np.ndarray:
    """``init`` with each element of ``input`` at ``region``'s place, where the mask holds."""
    output = init.copy()
    for index in np.ndindex(*input.shape):
        *place, mask = region(*index)
        at = tuple(map(int, place))
        if mask and lies_in(at, output.shape):
            output[at] = input[index]
    return output


def lies_in(place: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a place is one of a tensor's."""
    return all(0 <= at < extent for at, extent in zip(place, shape, strict=True))
