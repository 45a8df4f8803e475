"""Layouts made from layouts: of a transposed, reduced, broadcast or contracted vector.

Nothing here asks who holds an element, so nothing is verified: a malformed layout stays so.
Dimensions are counted from 0 and never negative.  Source: ``NestedLayoutAttr`` in IREE's
VectorExtAttrs.td (``broadcast`` is ours).
"""

from collections.abc import Sequence

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.nested import FIELDS, Ints, NestedLayout

_UNDISTRIBUTED: Ints = (1, 1, 1, 1, 1, 0, 0)  # the seven entries of a dimension of extent 1


def permute(layout: NestedLayout, permutation: Sequence[int]) -> NestedLayout:
    """The layout of the transposed vector, whose dim k is ``layout``'s dim ``permutation[k]``.

    Raises:
        LayoutError: when ``permutation`` is not one of ``0..rank-1``.
    """
    if sorted(permutation) != list(range(layout.rank)):
        raise LayoutError(
            f"permute: {list(permutation)} is not a permutation of the {layout.rank} dimensions"
        )
    return apply(layout, permutation)


def project(layout: NestedLayout, dropped: Sequence[bool]) -> NestedLayout:
    """The layout after a reduction over the dims where ``dropped`` is true.

    Lanes and subgroups that differed only along a dropped dim then hold the same elements.

    Raises:
        LayoutError: unless there is one bool per dimension.
    """
    if len(dropped) != layout.rank:
        raise LayoutError(
            f"project: dropped has {len(dropped)} entries; the layout has rank {layout.rank}"
        )
    return apply(layout, [dim for dim, drop in enumerate(dropped) if not drop])


def broadcast(layout: NestedLayout, leading_shape: Sequence[int]) -> NestedLayout:
    """The layout of the vector repeated along new leading dims of the given extents.

    Every lane keeps the elements it has, once per position of the new dims (a batch tile).

    Raises:
        LayoutError: for an extent below 1.
    """
    if any(extent < 1 for extent in leading_shape):
        raise LayoutError(f"broadcast: extents are {list(leading_shape)}; they start at 1")
    leading = [(1, extent, 1, 1, 1, 0, 0) for extent in leading_shape]
    return _from_dims([*leading, *_dims(layout)])


def apply(layout: NestedLayout, results: Sequence[int | None]) -> NestedLayout:
    """The layout seen through an affine map: result k is dim ``results[k]``, or extent 1 for None.

    None stands for every expression other than a plain dim.

    Raises:
        LayoutError: when a result names a dimension that the layout lacks.

    >>> rows = NestedLayout((1, 1), (1, 1), (1, 1), (4, 8), (1, 2), (0, 0), (8, 1))
    >>> apply(rows, (1, None, 0)).undistributed_shape   # (d0, d1) -> (d1, 0, d0)
    (16, 1, 4)
    """
    for dim in results:
        if dim is not None and not 0 <= dim < layout.rank:
            raise LayoutError(f"apply: result d{dim} is outside the layout of rank {layout.rank}")
    dims = _dims(layout)
    return _from_dims([_UNDISTRIBUTED if dim is None else dims[dim] for dim in results])


def recombine(
    layouts: Sequence[NestedLayout], maps: Sequence[Sequence[int]], result_map: Sequence[int]
) -> NestedLayout | None:
    """The layout of a contraction's result from those of its operands.

    Args:
        layouts: one per operand.
        maps: per operand, the iteration dim of each of its dims.
        result_map: the iteration dim of each dim of the result.

    Returns:
        None when operands disagree on an iteration dim of the result, or none has it.

    Raises:
        LayoutError: when a map's length is not its layout's rank.
    """
    if len(layouts) != len(maps):
        raise LayoutError(f"recombine: {len(layouts)} layouts and {len(maps)} maps")
    found: dict[int, set[Ints]] = {}
    for number, (layout, dims) in enumerate(zip(layouts, maps, strict=True)):
        if len(dims) != layout.rank:
            raise LayoutError(
                f"recombine: the map of layout {number} has {len(dims)} results;"
                f" the layout has rank {layout.rank}"
            )
        for iteration, entries in zip(dims, _dims(layout), strict=True):
            found.setdefault(iteration, set()).add(entries)
    candidates = [found.get(iteration, set()) for iteration in result_map]
    if any(len(entries) != 1 for entries in candidates):
        return None
    return _from_dims([next(iter(entries)) for entries in candidates])


def _dims(layout: NestedLayout) -> list[Ints]:
    """Per dimension, its seven entries in the order of the fields."""
    return list(zip(*(getattr(layout, name) for name in FIELDS), strict=True))


def _from_dims(dims: Sequence[Ints]) -> NestedLayout:
    columns = list(zip(*dims, strict=True)) or [()] * len(FIELDS)
    return NestedLayout(*columns)
