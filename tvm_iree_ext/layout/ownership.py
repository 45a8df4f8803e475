"""Owners of elements on hardware with more or fewer ids than the layout has tiles.

With H hardware subgroups and U subgroup tiles (the product of ``subgroup_tile``):

    H is a multiple of the period    subgroup g holds the part of its virtual id; parts repeat
    H divides U, strides gapless     part vs is held by subgroup ``canonical(vs) mod H``; each
                                     subgroup holds U/H parts, in lexicographic order of vs
    anything else                    refused: some elements would have no owner, or parts would be
                                     unevenly repeated

The period is U where strides leave no gaps.  Lanes follow the first line only.

Everything here is a NumPy array over all elements at once.  The smallest owner of an element
identifies its group of owners: a subgroup (lane) holds an element exactly when its own
representative is the element's first owner.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.nested import Ints, NestedLayout

MAX_HELD = 2**27  # registers of all lanes together; their tables then take a few gigabytes


def check_enumerable(layout: NestedLayout, copies: int = 1) -> None:
    """Refuse to make tables of more than ``MAX_HELD`` entries.

    Raises:
        LayoutError: when ``copies`` of the whole vector have more elements than that.
    """
    if prod(layout.undistributed_shape) * copies > MAX_HELD:
        raise LayoutError(
            f"nested_layout: a vector of shape {list(layout.undistributed_shape)}, held"
            f" {copies} times, is too large to list its owners; the limit is {MAX_HELD} elements"
        )


def check_hardware(layout: NestedLayout, num_subgroups: int, subgroup_size: int) -> None:
    """Refuse hardware over which ``layout`` cannot be spread evenly.

    Raises:
        LayoutError: when the layout is not well-formed, or by the rules at the top of this file.
    """
    layout.verify()
    tiles, period = prod(layout.subgroup_tile), layout.subgroup_period
    fewer = 1 <= num_subgroups < tiles == period and tiles % num_subgroups == 0
    if not fewer and (num_subgroups < 1 or num_subgroups % period):
        divisor = f" or a divisor of {tiles}" if tiles == period > 1 else ""
        raise LayoutError(
            f"nested_layout: num_subgroups is {num_subgroups}; subgroup_tile"
            f" {list(layout.subgroup_tile)} with strides {list(layout.subgroup_strides)}"
            f" takes a multiple of {period}{divisor}"
        )
    if subgroup_size < 1 or subgroup_size % layout.lane_period:
        raise LayoutError(
            f"nested_layout: subgroup_size is {subgroup_size}; thread_tile"
            f" {list(layout.thread_tile)} with strides {list(layout.thread_strides)}"
            f" takes a multiple of {layout.lane_period}"
        )
    subgroups = max(1, num_subgroups // tiles)
    check_enumerable(layout, subgroups * (subgroup_size // prod(layout.thread_tile)))


def subgroup_parts(layout: NestedLayout, num_subgroups: int) -> np.ndarray:
    """The virtual ids that each subgroup holds: integers ``[num_subgroups, parts, rank]``.

    ``parts`` is 1 unless there are fewer subgroups than subgroup tiles.
    """
    tiles = layout.subgroup_tile
    if num_subgroups >= prod(tiles):
        return _virtual(tiles, layout.subgroup_strides, np.arange(num_subgroups))[:, None]
    every = _virtual(tiles, _row_major(tiles), np.arange(prod(tiles)))  # lexicographic
    holder = every @ np.array(layout.subgroup_strides, int) % num_subgroups
    return every[np.argsort(holder, kind="stable")].reshape(num_subgroups, -1, layout.rank)


def lane_parts(layout: NestedLayout, subgroup_size: int) -> np.ndarray:
    """The virtual id of each lane: integers ``[subgroup_size, rank]``."""
    return _virtual(layout.thread_tile, layout.thread_strides, np.arange(subgroup_size))


def id_digits(tiles: Ints, strides: Ints, count: int) -> list[tuple[int, int | None]]:
    """The ids 0 .. ``count`` - 1 as digits, slow to fast: extents, with the dimension of each.

    A digit without a dimension counts replicas: ids beyond the tiles, or in a gap of the strides.

    >>> id_digits((4, 8), (1, 16), 256)
    [(2, None), (8, 1), (4, None), (4, 0)]
    """
    digits: list[tuple[int, int | None]] = []
    span = 1
    distributed = [dim for dim, tile in enumerate(tiles) if tile > 1]
    for dim in sorted(distributed, key=lambda dim: strides[dim]):
        if strides[dim] > span:
            digits.append((strides[dim] // span, None))
        digits.append((tiles[dim], dim))
        span = strides[dim] * tiles[dim]
    if count > span:
        digits.append((count // span, None))
    return digits[::-1]


def first_subgroups(layout: NestedLayout, num_subgroups: int) -> np.ndarray:
    """The smallest subgroup that holds each element, in the vector's shape."""
    canonical = _canonical(layout, 0, layout.subgroup_strides)
    if num_subgroups < prod(layout.subgroup_tile):
        return canonical % num_subgroups
    return canonical


def first_lanes(layout: NestedLayout) -> np.ndarray:
    """The smallest lane that holds each element, in the vector's shape."""
    return _canonical(layout, 3, layout.thread_strides)


def representative_subgroups(layout: NestedLayout, num_subgroups: int) -> np.ndarray:
    """For each subgroup, the smallest that holds the same elements: ``[num_subgroups]``."""
    if num_subgroups < prod(layout.subgroup_tile):
        return np.arange(num_subgroups)
    return subgroup_parts(layout, num_subgroups)[:, 0] @ np.array(layout.subgroup_strides, int)


def representative_lanes(layout: NestedLayout, subgroup_size: int) -> np.ndarray:
    """For each lane, the smallest that holds the same elements: ``[subgroup_size]``."""
    return lane_parts(layout, subgroup_size) @ np.array(layout.thread_strides, int)


def first_holders(layout: NestedLayout, num_subgroups: int, subgroup_size: int) -> np.ndarray:
    """The lanes that are the smallest to hold what they hold: a mask ``[subgroups, lanes]``."""
    subgroups = representative_subgroups(layout, num_subgroups) == np.arange(num_subgroups)
    lanes = representative_lanes(layout, subgroup_size) == np.arange(subgroup_size)
    return subgroups[:, None] & lanes


def replica_groups(representatives: np.ndarray) -> np.ndarray:
    """The ids that share each representative: ``[largest representative + 1, replicas]``."""
    members = np.argsort(representatives, kind="stable")
    firsts = np.unique(representatives)
    groups = np.zeros((firsts[-1] + 1, len(members) // len(firsts)), int)
    groups[firsts] = members.reshape(len(firsts), -1)
    return groups


def replication(layout: NestedLayout, num_subgroups: int, subgroup_size: int) -> tuple[int, int]:
    """How many subgroups hold each element, and how many lanes in each of them.

    Raises:
        LayoutError: when the layout does not fit the hardware.
    """
    check_hardware(layout, num_subgroups, subgroup_size)
    subgroups = max(1, num_subgroups // prod(layout.subgroup_tile))
    return subgroups, subgroup_size // prod(layout.thread_tile)


def owner_map(layout: NestedLayout, num_subgroups: int, subgroup_size: int) -> np.ndarray:
    """Every owner of every element, as ``subgroup * subgroup_size + lane``, ascending.

    Returns:
        Integers ``[*undistributed_shape, owners]``; ``owners`` is the product of the two numbers
        of :func:`replication`.

    Raises:
        LayoutError: when the layout does not fit the hardware.

    >>> rows = NestedLayout((1, 1), (1, 1), (2, 1), (2, 5), (1, 1), (0, 0), (5, 1))
    >>> owner_map(rows, num_subgroups=1, subgroup_size=10)[..., 0]
    array([[0, 1, 2, 3, 4],
           [5, 6, 7, 8, 9],
           [0, 1, 2, 3, 4],
           [5, 6, 7, 8, 9]])
    """
    check_hardware(layout, num_subgroups, subgroup_size)
    subgroups = replica_groups(representative_subgroups(layout, num_subgroups))
    lanes = replica_groups(representative_lanes(layout, subgroup_size))
    by_subgroup = subgroups[first_subgroups(layout, num_subgroups)]
    by_lane = lanes[first_lanes(layout)]
    ids = by_subgroup[..., :, None] * subgroup_size + by_lane[..., None, :]
    return ids.reshape(*layout.undistributed_shape, -1)


def owners(
    layout: NestedLayout, coordinate: Sequence[int], num_subgroups: int, subgroup_size: int
) -> list[tuple[int, int]]:
    """The (subgroup, lane) pairs that hold the element at ``coordinate``, ascending.

    Raises:
        LayoutError: when the layout does not fit the hardware, or the coordinate the vector.
    """
    check_hardware(layout, num_subgroups, subgroup_size)
    digits = layout.digits(coordinate)
    subgroup, lane = layout.subgroup_id(digits.subgroup), layout.lane_id(digits.thread)
    if num_subgroups < prod(layout.subgroup_tile):
        subgroup %= num_subgroups
    lanes = np.flatnonzero(representative_lanes(layout, subgroup_size) == lane)
    holders = np.flatnonzero(representative_subgroups(layout, num_subgroups) == subgroup)
    return [(int(g), int(t)) for g in holders for t in lanes]


def _virtual(tiles: Ints, strides: Ints, ids: np.ndarray) -> np.ndarray:
    """Virtual ids ``[len(ids), rank]``; a stride of 0 has tile 1, so that any divisor serves."""
    divisors = np.maximum(np.array(strides, int), 1)
    return ids[:, None] // divisors % np.array(tiles, int)


def _row_major(shape: Ints) -> Ints:
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _canonical(layout: NestedLayout, level: int, strides: Ints) -> np.ndarray:
    """``sum_i strides[i] * digit_i(x)`` for every coordinate x, in the vector's shape."""
    total = np.zeros(layout.undistributed_shape, int)
    for dim, extent in enumerate(layout.undistributed_shape):
        faster = prod(tiles[dim] for tiles in layout.tiles[level + 1 :])
        digit = np.arange(extent) // faster % layout.tiles[level][dim]
        total += (digit * strides[dim]).reshape(-1, *[1] * (layout.rank - dim - 1))
    return total
