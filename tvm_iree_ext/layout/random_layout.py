"""Random layouts, for tests and trials."""

from collections.abc import Sequence
from random import Random

from tvm_iree_ext.layout.nested import NestedLayout

_LEVELS = 5


def random_layout(
    random: Random, shape: Sequence[int], *, gaps: bool, levels: int = _LEVELS
) -> NestedLayout:
    """A layout of ``shape``, whose extents have the prime factors 2 and 3 only.

    Args:
        random: where choices come from.
        shape: of the vector.
        gaps: whether strides may leave ids without a tile.
        levels: only so many levels, the fastest ones, have tiles above 1.
    """
    tiles = [[1] * len(shape) for _ in range(_LEVELS)]
    for dim, extent in enumerate(shape):
        for prime in (2, 3):
            while extent % prime == 0:
                tiles[random.randrange(_LEVELS - levels, _LEVELS)][dim] *= prime
                extent //= prime
    subgroup, thread = (_strides(random, tiles[level], gaps) for level in (0, 3))
    batch, outer, element = (tuple(tiles[level]) for level in (1, 2, 4))
    return NestedLayout(tuple(tiles[0]), batch, outer, tuple(tiles[3]), element, subgroup, thread)


def _strides(random: Random, tile: Sequence[int], gaps: bool) -> tuple[int, ...]:
    """Strides that do not overlap, the dimensions in any order of speed."""
    strides, span = [0] * len(tile), 1
    for dim in random.sample(range(len(tile)), len(tile)):
        span *= random.choice([1, 1, 1, 2]) if gaps else 1
        strides[dim] = span
        span *= tile[dim]
    return tuple(strides)
