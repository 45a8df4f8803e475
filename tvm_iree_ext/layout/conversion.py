"""Conversion between layouts of a vector (``iree_vector_ext.to_layout``): what must move.

The verdict comes from ownership, element by element, so replication counts: any lane that holds an
element may serve as its source, and a lane that holds it itself is preferred.

    FREE      every lane holds the same elements in the same registers
    IN_LANE   every lane already holds what it needs, in other registers
    SHUFFLE   what a lane lacks is held by lanes of its own subgroup
    SHARED    some of it is held by another subgroup only

Registers are the positions of :func:`~tvm_iree_ext.layout.distribute.to_simt`'s local axes in
row-major order.  Unpacked, a lane's registers follow the coordinates, so that equal element sets
mean FREE; packed (batch digits, then outer, then element: the order of IREE's distributed vectors)
the same sets may need a register permutation.
"""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.base.lazy import method_from
from tvm_iree_ext.layout import ownership
from tvm_iree_ext.layout.distribute import held_indices
from tvm_iree_ext.layout.nested import Ints, NestedLayout


class Movement(Enum):
    """Distance that data move, from nothing to shared memory."""

    FREE = "free"
    IN_LANE = "in lane"
    SHUFFLE = "shuffle"
    SHARED = "shared memory"


@dataclass(frozen=True, eq=False)
class Conversion:
    """A verdict, the reason in words, and where each lane's result registers come from.

    It is of layout ``source`` to layout ``result``.  With ``H`` subgroups of ``L`` lanes and ``R``
    registers a lane in the result, the three source arrays have shape ``[H, L, R]``;
    :meth:`perform` follows them.

    ``xor_masks`` is a butterfly, where one exists for a SHUFFLE: R masks, ascending.  In step k
    every lane takes one value from lane ``lane ^ xor_masks[k]``, for its result register
    ``xor_registers[subgroup, lane, k]``; mask 0 stays in the lane.
    """

    movement: Movement
    reason: str
    source: NestedLayout = field(repr=False)
    result: NestedLayout = field(repr=False)
    source_subgroup: np.ndarray = field(repr=False)
    source_lane: np.ndarray = field(repr=False)
    source_register: np.ndarray = field(repr=False)
    xor_masks: Ints | None = None
    xor_registers: np.ndarray | None = field(default=None, repr=False)

    _repr_svg_ = method_from("tvm_iree_ext.layout.pictures.shown_layout", "conversion_svg")

    def perform(self, parts: np.ndarray) -> np.ndarray:
        """The result's registers ``[H, L, R]`` from the source's ``parts[H, L, ...]``."""
        registers = parts.reshape(*parts.shape[:2], -1)
        return registers[self.source_subgroup, self.source_lane, self.source_register]


def equal_but_for_batch_and_outer(source: NestedLayout, result: NestedLayout) -> bool:
    """IREE's rule for a free conversion between layouts of one shape: sufficient for FREE.

    It holds because batch and outer enter coordinates only as ``b*outer + o``.
    """
    names = ("subgroup_tile", "thread_tile", "element_tile", "subgroup_strides", "thread_strides")
    return source.undistributed_shape == result.undistributed_shape and all(
        getattr(source, name) == getattr(result, name) for name in names
    )


def analyse_conversion(
    source: NestedLayout,
    result: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    *,
    packed: bool = False,
) -> Conversion:
    """Find the cheapest way from layout ``source`` to layout ``result``.

    Raises:
        LayoutError: when the layouts are of different shapes or do not fit the hardware.

    >>> rows = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))
    >>> columns = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), (0, 1))
    >>> conversion = analyse_conversion(rows, columns, num_subgroups=1, subgroup_size=4)
    >>> conversion.movement, conversion.xor_masks
    (<Movement.SHUFFLE: 'shuffle'>, (0, 1, 2, 3))
    >>> print(conversion.reason)
    lane 0 of subgroup 0 holds (0, 0..3) in the source and (0..3, 0) in the result; \
the lanes of each subgroup can exchange them by shuffles
    """
    if source.undistributed_shape != result.undistributed_shape:
        raise LayoutError(
            f"to_layout: the source has shape {list(source.undistributed_shape)} and the result"
            f" {list(result.undistributed_shape)}; a conversion keeps the shape"
        )
    have = _registers(source, num_subgroups, subgroup_size, packed)
    want = _registers(result, num_subgroups, subgroup_size, packed)

    # Sources: the subgroup itself where it holds the element, and in there the nearest lane.
    holder = ownership.first_subgroups(source, num_subgroups).reshape(-1)[want]
    own = ownership.representative_subgroups(source, num_subgroups)[:, None, None]
    own_id = np.arange(num_subgroups)[:, None, None]
    source_subgroup = np.where(holder == own, own_id, holder)
    nearest = _nearest_lanes(ownership.representative_lanes(source, subgroup_size))
    lane = np.arange(subgroup_size)[:, None]
    source_lane = nearest[lane, ownership.first_lanes(source).reshape(-1)[want]]
    source_register = _find(have, source_subgroup, source_lane, want)

    masks, registers = None, None
    if have.shape == want.shape and np.array_equal(have, want):
        movement, moved = Movement.FREE, None
    elif (moved := source_subgroup != own_id).any():
        movement = Movement.SHARED
    elif (moved := source_lane != lane).any():
        movement = Movement.SHUFFLE
        masks, registers = _butterfly(source_lane ^ lane)
    else:
        movement, moved = Movement.IN_LANE, None
    reason = _reason(movement, moved, have, want, source.undistributed_shape)
    return Conversion(
        movement,
        reason,
        source,
        result,
        source_subgroup,
        source_lane,
        source_register,
        masks,
        registers,
    )


def _registers(
    layout: NestedLayout, num_subgroups: int, subgroup_size: int, packed: bool
) -> np.ndarray:
    """The row-major element index in every register: ``[subgroups, lanes, registers]``."""
    held = held_indices(layout, num_subgroups, subgroup_size, packed=packed)
    return held.reshape(num_subgroups, subgroup_size, -1)


def _nearest_lanes(representatives: np.ndarray) -> np.ndarray:
    """``[lane, representative]``: among the represented lanes, the one of smallest xor distance.

    A lane that holds the element itself is its own nearest.  Where replicas differ in address bits
    only, the distance is one mask for all lanes, so a butterfly is found if there is one.
    """
    groups = ownership.replica_groups(representatives)  # [representative, replica]
    lanes = np.arange(len(representatives))[:, None]
    nearest = (lanes[:, None] ^ groups).argmin(axis=-1)  # [lane, representative]
    return groups[np.arange(len(groups)), nearest]


def _find(
    have: np.ndarray, subgroup: np.ndarray, lane: np.ndarray, element: np.ndarray
) -> np.ndarray:
    """The register of ``have`` in which each (subgroup, lane) holds each element."""
    num_lanes, registers = have.shape[1:]
    by_lane = have.reshape(-1, registers)
    order = by_lane.argsort(axis=-1)
    elements = int(have.max()) + 1
    keys = np.take_along_axis(by_lane, order, -1) + np.arange(len(by_lane))[:, None] * elements
    place = np.searchsorted(keys.reshape(-1), (subgroup * num_lanes + lane) * elements + element)
    return order.reshape(-1)[place]


def _butterfly(distance: np.ndarray) -> tuple[Ints | None, np.ndarray | None]:
    """The xor masks, if every lane takes equally many values over every distance."""
    registers = np.argsort(distance, axis=-1, kind="stable")
    masks = np.take_along_axis(distance, registers, -1)
    if (masks != masks[0, 0]).any():
        return None, None
    return tuple(masks[0, 0].tolist()), registers


_REMEDY = {
    Movement.IN_LANE: "each lane only reorders its registers",
    Movement.SHUFFLE: "the lanes of each subgroup can exchange them by shuffles",
    Movement.SHARED: "they can only be exchanged through shared memory",
}


def _reason(
    movement: Movement,
    moved: np.ndarray | None,
    have: np.ndarray,
    want: np.ndarray,
    shape: Ints,
) -> str:
    """The verdict, by the example of the first lane concerned."""
    if movement is Movement.FREE:
        return "every lane holds the same elements in the same registers"
    if moved is None:
        return f"every lane already holds what it needs; {_REMEDY[movement]}"
    subgroup, lane, _ = np.argwhere(moved)[0]
    held, needed = (elements_text(each[subgroup, lane], shape) for each in (have, want))
    return (
        f"lane {lane} of subgroup {subgroup} holds {held} in the source and {needed} in the"
        f" result; {_REMEDY[movement]}"
    )


def elements_text(indices: np.ndarray, shape: Ints) -> str:
    """Row-major element indices as boxes of coordinates.

    >>> elements_text(np.array([0, 1, 4, 5, 8, 9, 12, 13]), (4, 4))
    '(0..3, 0..1)'
    >>> elements_text(np.array([0, 5]), (4, 4))
    '(0, 0), (1, 1)'
    """
    dims = [np.unique(along) for along in np.unravel_index(indices, shape)] if shape else []
    if len(np.unique(indices)) == np.prod([len(along) for along in dims], dtype=int):
        return f"({', '.join(map(_values_text, dims))})"
    listed = [f"({', '.join(map(str, at))})" for at in np.argwhere(_mask(indices, shape))]
    return ", ".join(listed[:4] + (["..."] if len(listed) > 4 else []))


def _mask(indices: np.ndarray, shape: Ints) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask.reshape(-1)[indices] = True
    return mask


def _values_text(values: np.ndarray) -> str:
    """Ascending integers as runs: ``0..3``, ``0|4|8``, ``0..3|16..19|...|48..51``."""
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1)
    texts = [f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return "|".join(texts if len(texts) <= 4 else [*texts[:2], "...", texts[-1]])
