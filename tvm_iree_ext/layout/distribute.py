"""The whole vector against each lane's part of it, as NumPy arrays (``to_simt``, ``to_simd``).

One lane's part is numbered in one of two ways.  Unpacked (the default) it has the vector's rank
and shape ``batch*outer*element`` per dimension; packed it has shape ``batch ++ outer ++ element``.
With fewer subgroups than subgroup tiles, an axis ``parts`` stands before the lane's own axes: the
subgroup's several parts, in lexicographic order of their virtual ids.
"""

from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import check_hardware, lane_parts, subgroup_parts


def coordinates(
    layout: NestedLayout, num_subgroups: int, subgroup_size: int, *, packed: bool = False
) -> np.ndarray:
    """The coordinate of everything that every lane holds.

    Returns:
        Integers ``[num_subgroups, subgroup_size, (parts,) *local, rank]``, where ``local`` is the
        layout's ``distributed_unpacked_shape``, or ``distributed_shape`` when packed.

    Raises:
        LayoutError: when the layout does not fit the hardware.
    """
    check_hardware(layout, num_subgroups, subgroup_size)
    vs = subgroup_parts(layout, num_subgroups)[:, None]  # [subgroups, 1, parts, rank]
    vt = lane_parts(layout, subgroup_size)[None, :, None]  # [1, lanes, 1, rank]
    tiles = [np.array(tile, int) for tile in layout.tiles]
    _, batch, outer, thread, element = tiles
    base = (vs * batch * outer * thread + vt) * element  # [subgroups, lanes, parts, rank]

    local = layout.distributed_shape
    held = np.empty((*base.shape[:3], *local, layout.rank), int)
    digits = np.indices(local, sparse=True)
    for dim in range(layout.rank):
        b, o, e = digits[dim :: layout.rank]
        inside = ((b * outer[dim] + o) * thread[dim]) * element[dim] + e
        held[..., dim] = base[..., dim].reshape(*base.shape[:3], *[1] * len(local)) + inside

    if not packed:
        by_dim = [3 + level * layout.rank + dim for dim in range(layout.rank) for level in range(3)]
        held = held.transpose(0, 1, 2, *by_dim, held.ndim - 1)
    shape = simt_shape(layout, num_subgroups, subgroup_size, packed=packed)
    return held.reshape(*shape, layout.rank)


def register_coordinates(
    layout: NestedLayout, num_subgroups: int, subgroup_size: int
) -> np.ndarray:
    """The same by registers, packed: integers ``[num_subgroups, subgroup_size, registers, rank]``.

    Raises:
        LayoutError: when the layout does not fit the hardware.
    """
    held = coordinates(layout, num_subgroups, subgroup_size, packed=True)
    return held.reshape(num_subgroups, subgroup_size, prod(held.shape[2:-1]), layout.rank)


def simt_shape(
    layout: NestedLayout, num_subgroups: int, subgroup_size: int, *, packed: bool = False
) -> Ints:
    """Shape of :func:`to_simt`'s result: ``(num_subgroups, subgroup_size, (parts,) *local)``."""
    parts = subgroup_parts(layout, num_subgroups).shape[1]
    local = layout.distributed_shape if packed else layout.distributed_unpacked_shape
    return (num_subgroups, subgroup_size, *([parts] if parts > 1 else []), *local)


def held_indices(
    layout: NestedLayout, num_subgroups: int, subgroup_size: int, *, packed: bool = False
) -> np.ndarray:
    """Row-major indices into the whole vector of each lane's elements; see :func:`coordinates`."""
    held = coordinates(layout, num_subgroups, subgroup_size, packed=packed)
    indices = np.zeros(held.shape[:-1], int)
    for dim, extent in enumerate(layout.undistributed_shape):
        indices = indices * extent + held[..., dim]
    return indices


def to_simt(
    array: np.ndarray,
    layout: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    *,
    packed: bool = False,
) -> np.ndarray:
    """Every lane's part of ``array[*undistributed_shape]`` (``iree_vector_ext.to_simt``).

    Raises:
        LayoutError: when the array or the hardware does not fit the layout.

    >>> pairs = NestedLayout((1,), (2,), (1,), (4,), (2,), (0,), (1,))
    >>> to_simt(np.arange(16), pairs, num_subgroups=1, subgroup_size=4)[0]
    array([[ 0,  1,  8,  9],
           [ 2,  3, 10, 11],
           [ 4,  5, 12, 13],
           [ 6,  7, 14, 15]])
    """
    layout.check_shape(array.shape, op="to_simt")
    held = held_indices(layout, num_subgroups, subgroup_size, packed=packed)
    return array.reshape(-1)[held]


def to_simd(
    parts: np.ndarray,
    layout: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    *,
    packed: bool = False,
) -> np.ndarray:
    """The whole vector from every lane's part of it: the inverse of :func:`to_simt`.

    All owners of an element are expected to hold the same value; any of them may be read.

    Raises:
        LayoutError: when the parts or the hardware do not fit the layout.
    """
    held = held_indices(layout, num_subgroups, subgroup_size, packed=packed)
    if parts.shape != held.shape:
        raise LayoutError(
            f"to_simd: the parts have shape {list(parts.shape)}; expected {list(held.shape)}"
        )
    whole = np.empty(layout.undistributed_shape, parts.dtype)
    whole.reshape(-1)[held] = parts
    return whole
