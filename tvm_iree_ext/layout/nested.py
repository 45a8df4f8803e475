"""NestedLayout: which lane of which subgroup holds which element of a vector.

Each dimension is cut five times, from slow to fast: subgroup, batch, outer, thread, element.

    x[i] = (((vs[i]*batch[i] + b[i])*outer[i] + o[i])*thread[i] + vt[i])*element[i] + e[i]

``b``, ``o`` and ``e`` count what one lane holds; ``vs`` and ``vt`` are the virtual ids of the
subgroup ``g`` and of the lane ``t`` inside its subgroup:

    vs[i] = g div subgroup_strides[i] mod subgroup_tile[i]     (0 where the stride is 0)
    vt[i] = t div thread_strides[i]   mod thread_tile[i]       (0 where the stride is 0)

Source: ``NestedLayoutAttr`` in IREE's VectorExtAttrs.td.  One deliberate difference: its text ends
the inverse of the last two lines with a modulo, which sends gapped strides to the wrong lane
(thread_tile [4, 8], strides [1, 16]: virtual id (3, 7) is lane 115, not 115 mod 32 = 19).
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Literal, NamedTuple

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.base.lazy import method_from

Ints = tuple[int, ...]
Level = Literal["subgroup", "thread"]  # the two levels that hardware ids count


class Digits(NamedTuple):
    """The position of one element, cut as the layout cuts it: five tuples, one entry per dim."""

    subgroup: Ints
    batch: Ints
    outer: Ints
    thread: Ints
    element: Ints


@dataclass(frozen=True)
class NestedLayout:
    """Distribution of a vector over subgroups, lanes and each lane's registers.

    All fields have one entry per dimension of the vector (rank 0 is legal).  Strides count
    subgroups and lanes; 0 says that the dimension is not distributed at that level.  A stride whose
    tile is 1 means nothing and becomes 0, so that equal layouts compare and hash equal.

    Construction checks the ranks only, as IREE does.  A layout that breaks another rule can be
    parsed, printed, permuted and projected; whatever asks who holds an element calls
    :meth:`verify` first.

    Raises:
        LayoutError: when the fields differ in length, or hold something that is no integer.

    >>> layout = NestedLayout(
    ...     subgroup_tile=(2, 1), batch_tile=(2, 4), outer_tile=(1, 1), thread_tile=(16, 4),
    ...     element_tile=(1, 4), subgroup_strides=(1, 0), thread_strides=(1, 16),
    ... )
    >>> layout.undistributed_shape, layout.distributed_unpacked_shape
    ((64, 64), (2, 16))
    >>> layout.digits((37, 53))
    Digits(subgroup=(1, 0), batch=(0, 3), outer=(0, 0), thread=(5, 1), element=(0, 1))
    >>> layout.lane_id((5, 1))
    21
    """

    subgroup_tile: Ints
    batch_tile: Ints
    outer_tile: Ints
    thread_tile: Ints
    element_tile: Ints
    subgroup_strides: Ints
    thread_strides: Ints

    def __post_init__(self) -> None:
        for name in FIELDS:
            object.__setattr__(self, name, _integers(name, getattr(self, name)))
        ranks = {name: len(getattr(self, name)) for name in FIELDS}
        if len(set(ranks.values())) > 1:
            came = ", ".join(f"{name} {rank}" for name, rank in ranks.items())
            raise LayoutError(
                f"nested_layout: all fields must have the same rank as the layout; got {came}"
            )
        for level in ("subgroup", "thread"):
            tiles, strides = getattr(self, f"{level}_tile"), getattr(self, f"{level}_strides")
            normal = tuple(0 if t == 1 else s for t, s in zip(tiles, strides, strict=True))
            object.__setattr__(self, f"{level}_strides", normal)

    def __str__(self) -> str:
        """The MLIR attribute, letter for letter as IREE prints it."""
        parameters = ", ".join(f"{name} = {list(getattr(self, name))}" for name in FIELDS)
        return f"#iree_vector_ext.nested_layout<{parameters}>"

    _repr_svg_ = method_from("tvm_iree_ext.layout.pictures.shown_layout", "layout_svg")

    @property
    def rank(self) -> int:
        """Number of dimensions of the vector."""
        return len(self.element_tile)

    @property
    def tiles(self) -> Digits:
        """The five tile lists, from slow to fast."""
        return Digits(
            self.subgroup_tile,
            self.batch_tile,
            self.outer_tile,
            self.thread_tile,
            self.element_tile,
        )

    @property
    def undistributed_shape(self) -> Ints:
        """Shape of the whole vector."""
        return tuple(prod(tiles) for tiles in zip(*self.tiles, strict=True))

    @property
    def undistributed_packed_shape(self) -> Ints:
        """Shape of the whole vector with every digit apart: subgroup ++ batch ++ ... (5 x rank)."""
        return sum(self.tiles, ())

    @property
    def distributed_shape(self) -> Ints:
        """Shape of what one lane holds, packed: batch ++ outer ++ element (3 x rank)."""
        return self.batch_tile + self.outer_tile + self.element_tile

    @property
    def distributed_unpacked_shape(self) -> Ints:
        """Shape of what one lane holds, collapsed to the vector's rank.

        The local index of digits b, o, e is ``(b*outer + o)*element + e`` in each dimension.
        """
        return tuple(
            prod(tiles)
            for tiles in zip(self.batch_tile, self.outer_tile, self.element_tile, strict=True)
        )

    @property
    def subgroup_period(self) -> int:
        """Subgroups after which virtual ids repeat: the number of subgroup tiles, plus gaps."""
        return _period(self.subgroup_tile, self.subgroup_strides)

    @property
    def lane_period(self) -> int:
        """Lanes after which virtual ids repeat: the number of thread tiles, plus gaps."""
        return _period(self.thread_tile, self.thread_strides)

    def verify(self) -> None:
        """Refuse a layout in which an element has no owner, or two virtual ids share a lane.

        Raises:
            LayoutError: for a tile below 1, a stride of 0 (or less) under a larger tile, and
                strides of one level that overlap; level, dimension and numbers are named.
        """
        for level, tiles in zip(Digits._fields, self.tiles, strict=True):
            for dim, tile in enumerate(tiles):
                if tile < 1:
                    raise LayoutError(
                        f"nested_layout: {level}_tile of dimension {dim} is {tile};"
                        " tiles start at 1"
                    )
        _check_strides("subgroup", self.subgroup_tile, self.subgroup_strides)
        _check_strides("thread", self.thread_tile, self.thread_strides)

    def check_shape(
        self, shape: Sequence[int | str | None], *, exact: bool = True, op: str = "to_layout"
    ) -> None:
        """Refuse a value of ``shape`` that cannot have this layout (``iree_vector_ext.to_layout``).

        Args:
            shape: extents; one that is not an integer is known only later, and fits.
            exact: whether extents must equal the layout's, as those of vectors and buffers must;
                a tensor may be smaller, and is padded or masked.
            op: whose operand it is, for the message.

        Raises:
            LayoutError: when the rank differs, or an extent; the dimension and both are named.
        """
        if len(shape) != self.rank:
            raise LayoutError(
                f"{op}: the operand has rank {len(shape)}; the layout has rank {self.rank}"
            )
        for dim, (came, want) in enumerate(zip(shape, self.undistributed_shape, strict=True)):
            if exact and isinstance(came, int) and came != want:
                raise LayoutError(
                    f"{op}: dimension {dim} of the operand has extent {came};"
                    f" the layout expects {want} ({self})"
                )

    def virtual_subgroup(self, subgroup: int) -> Ints:
        """The virtual id ``vs`` of a hardware subgroup."""
        self.verify()
        return _virtual(self.subgroup_tile, self.subgroup_strides, subgroup)

    def virtual_lane(self, lane: int) -> Ints:
        """The virtual id ``vt`` of a lane of a subgroup."""
        self.verify()
        return _virtual(self.thread_tile, self.thread_strides, lane)

    def subgroup_id(self, virtual: Sequence[int]) -> int:
        """The canonical (smallest) subgroup whose virtual id is ``virtual``."""
        self.verify()
        self._check_index("subgroup", virtual, self.subgroup_tile)
        return sum(map(operator.mul, virtual, self.subgroup_strides))

    def lane_id(self, virtual: Sequence[int]) -> int:
        """The canonical (smallest) lane whose virtual id is ``virtual``."""
        self.verify()
        self._check_index("thread", virtual, self.thread_tile)
        return sum(map(operator.mul, virtual, self.thread_strides))

    def coordinate(self, digits: Digits) -> Ints:
        """The coordinate in the whole vector of the element at ``digits``.

        Raises:
            LayoutError: when the layout is not well-formed or a digit is outside its tile.
        """
        self.verify()
        for level, came, tile in zip(Digits._fields, digits, self.tiles, strict=True):
            self._check_index(level, came, tile)
        coordinate = [0] * self.rank
        for came, tile in zip(digits, self.tiles, strict=True):
            coordinate = [x * t + d for x, t, d in zip(coordinate, tile, came, strict=True)]
        return tuple(coordinate)

    def digits(self, coordinate: Sequence[int]) -> Digits:
        """The inverse of :meth:`coordinate`.

        Raises:
            LayoutError: when the layout is not well-formed or the coordinate is outside the vector.
        """
        self.verify()
        self._check_index("coordinate", coordinate, self.undistributed_shape)
        rest, found = list(coordinate), []
        for tile in reversed(self.tiles):
            found.append(tuple(x % t for x, t in zip(rest, tile, strict=True)))
            rest = [x // t for x, t in zip(rest, tile, strict=True)]
        return Digits(*reversed(found))

    def _check_index(self, what: str, index: Sequence[int], extents: Ints) -> None:
        if len(index) != self.rank:
            raise LayoutError(
                f"nested_layout: {what} {tuple(index)} has {len(index)} entries;"
                f" the layout has rank {self.rank}"
            )
        if not all(0 <= at < extent for at, extent in zip(index, extents, strict=True)):
            raise LayoutError(f"nested_layout: {what} {tuple(index)} is outside {extents}")


FIELDS = tuple(field.name for field in fields(NestedLayout))


def _integers(name: str, values: Sequence[int]) -> Ints:
    try:
        return tuple(int(operator.index(value)) for value in values)
    except TypeError:
        raise LayoutError(
            f"nested_layout: {name} is {values!r}; expected a sequence of integers"
        ) from None


def _virtual(tiles: Ints, strides: Ints, hardware_id: int) -> Ints:
    return tuple(
        hardware_id // stride % tile if stride else 0
        for tile, stride in zip(tiles, strides, strict=True)
    )


def _period(tiles: Ints, strides: Ints) -> int:
    return max((tile * stride for tile, stride in zip(tiles, strides, strict=True)), default=0) or 1


def _check_strides(level: Level, tiles: Ints, strides: Ints) -> None:
    for dim, (tile, stride) in enumerate(zip(tiles, strides, strict=True)):
        if tile > 1 and stride < 1:
            raise LayoutError(
                f"nested_layout: {level}_strides of dimension {dim} is {stride} where {level}_tile"
                f" is {tile}; all but the first of its {tile} parts would have no owner"
            )
    span, faster = 1, None
    distributed = [dim for dim in range(len(tiles)) if tiles[dim] > 1]
    for dim in sorted(distributed, key=lambda dim: (strides[dim], tiles[dim])):
        if strides[dim] % span:
            raise LayoutError(
                f"nested_layout: overlapping strides: {level}_tile {list(tiles)} with"
                f" {level}_strides {list(strides)}: dimension {faster} spans {span} ids, so the"
                f" stride of dimension {dim} must be a multiple of {span}; it is {strides[dim]}"
            )
        span, faster = strides[dim] * tiles[dim], dim
