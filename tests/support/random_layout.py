"""Random layouts, for tests and trials."""

from collections.abc import Sequence
from math import prod
from random import Random

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.layout.pictures.layout_report import fewest_hardware

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


def factor_again(random: Random, layout: NestedLayout) -> NestedLayout:
    """The same layout with batch*outer cut elsewhere."""
    batch, outer = [], []
    for both in map(prod, zip(layout.batch_tile, layout.outer_tile, strict=True)):
        batch.append(random.choice([d for d in range(1, both + 1) if both % d == 0]))
        outer.append(both // batch[-1])
    return NestedLayout(
        layout.subgroup_tile, tuple(batch), tuple(outer), layout.thread_tile, layout.element_tile,
        layout.subgroup_strides, layout.thread_strides,
    )  # fmt: skip


def random_pair(random: Random) -> tuple[NestedLayout, NestedLayout, int, int]:
    """Two layouts of one shape, often close relatives, and the hardware that both need."""
    shape = random.choices([2, 3, 4, 6, 8, 16], k=random.choice([1, 2, 2, 3]))
    levels = random.choice([5, 4])  # 4: no subgroup tiles, so that shuffles suffice
    gaps = random.random() < 0.3
    source = random_layout(random, shape, gaps=gaps, levels=levels)
    result = random_layout(random, shape, gaps=gaps, levels=levels)
    if random.random() < 0.15:
        result = factor_again(random, source)
    return source, result, *fewest_hardware(source, result)
