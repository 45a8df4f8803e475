"""Reference of ``iree_vector_ext.to_simt`` and ``to_simd``: lane by lane, element by element."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Ints = tuple[int, ...]
Lists = Mapping[str, Sequence[int]]
"""The seven lists of a layout, by name."""


def to_simt(
    whole: np.ndarray,
    layout: Lists,
    num_subgroups: int,
    subgroup_size: int,
    *,
    packed: bool,
    padding: Any,
) -> np.ndarray:
    """Elements that every lane holds: ``[subgroup, lane, (part,) *local]``."""
    held = list(places(layout, num_subgroups, subgroup_size, packed=packed))
    shape = tuple(max(axis) + 1 for axis in zip(*(place for place, _ in held), strict=True))
    parts = np.full(shape, padding, whole.dtype)
    for place, x in held:
        if all(at < extent for at, extent in zip(x, whole.shape, strict=True)):
            parts[place] = whole[x]
    return parts


def to_simd(
    parts: np.ndarray,
    layout: Lists,
    num_subgroups: int,
    subgroup_size: int,
    *,
    packed: bool,
    shape: Sequence[int],
) -> np.ndarray:
    """The whole; of several owners of an element the first is read."""
    whole = np.zeros(tuple(shape), parts.dtype)
    for place, x in reversed(list(places(layout, num_subgroups, subgroup_size, packed=packed))):
        if all(at < extent for at, extent in zip(x, whole.shape, strict=True)):
            whole[x] = parts[place]
    return whole


def places(
    layout: Lists, num_subgroups: int, subgroup_size: int, *, packed: bool
) -> Iterator[tuple[Ints, Ints]]:
    """Every place at which a lane holds an element, with the element's coordinate."""
    subgroups, batches, outers, threads, elements = (
        tuple(layout[f"{level}_tile"])
        for level in ("subgroup", "batch", "outer", "thread", "element")
    )
    for g in range(num_subgroups):
        tiles = parts_of(g, num_subgroups, subgroups, layout["subgroup_strides"])
        for t in range(subgroup_size):
            vt = virtual(t, threads, layout["thread_strides"])
            for p, vs in enumerate(tiles):
                part = (p,) if len(tiles) > 1 else ()
                for b in np.ndindex(batches):
                    for o in np.ndindex(outers):
                        for e in np.ndindex(elements):
                            x = tuple(
                                (
                                    ((vs[i] * batches[i] + b[i]) * outers[i] + o[i]) * threads[i]
                                    + vt[i]
                                )
                                * elements[i]
                                + e[i]
                                for i in range(len(batches))
                            )
                            local = (*b, *o, *e)
                            if not packed:
                                local = tuple(
                                    (b[i] * outers[i] + o[i]) * elements[i] + e[i]
                                    for i in range(len(batches))
                                )
                            yield (g, t, *part, *local), x


def virtual(number: int, tiles: Sequence[int], strides: Sequence[int]) -> Ints:
    """The virtual id of a subgroup or lane."""
    return tuple(
        number // stride % tile if stride else 0
        for tile, stride in zip(tiles, strides, strict=True)
    )


def parts_of(g: int, count: int, tiles: Ints, strides: Sequence[int]) -> list[Ints]:
    """The virtual ids that subgroup ``g`` of ``count`` holds."""
    if count >= prod(tiles):
        return [virtual(g, tiles, strides)]
    return [
        vs
        for vs in np.ndindex(tiles)
        if sum(v * stride for v, stride in zip(vs, strides, strict=True)) % count == g
    ]
