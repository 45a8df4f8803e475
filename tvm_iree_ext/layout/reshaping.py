"""The layout of a vector after a row-major reshape, such that nothing moves between lanes.

New dims are filled from last to first, each taking digits of the old dims from fast to slow: the
last old dim first, and in it element, thread, outer, batch, subgroup.  Source: ``reshape`` of
``NestedLayoutAttr`` in IREE's VectorExtAttrs.td.

That rule alone can move elements, when a faster old dim is distributed at a slower level than a
slower one: thread [4, 4], element [4, 1], strides [4, 1] (16x4) collapses to thread 16, element 4.
So owners are compared before and after, and "no layout" is the answer where they differ.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.nested import Digits, NestedLayout
from tvm_iree_ext.layout.ownership import check_enumerable, first_lanes, first_subgroups


def reshape(layout: NestedLayout, new_shape: Sequence[int]) -> NestedLayout | None:
    """The layout of the same vector in shape ``new_shape``, every element with its lane.

    Returns:
        None when there is no such layout.

    Raises:
        LayoutError: when the layout is not well-formed or the two shapes differ in size.

    >>> square = NestedLayout((1, 1), (4, 4), (1, 1), (16, 4), (1, 4), (0, 0), (1, 16))
    >>> expanded = reshape(square, (16, 4, 16, 4))
    >>> expanded.batch_tile, expanded.thread_tile, expanded.thread_strides
    ((4, 1, 4, 1), (4, 4, 4, 1), (4, 1, 16, 0))
    """
    layout.verify()
    check_enumerable(layout)
    old_shape = layout.undistributed_shape
    if any(extent < 1 for extent in new_shape) or prod(new_shape) != prod(old_shape):
        raise LayoutError(
            f"reshape: {list(old_shape)} has {prod(old_shape)} elements;"
            f" {list(new_shape)} cannot hold them"
        )
    reshaped = _refill(layout, new_shape)
    if reshaped is None or not _same_owners(layout, reshaped):
        return None
    return reshaped


class _Digit:
    """The rest of one digit of an old dimension."""

    def __init__(self, level: str, count: int, stride: int) -> None:
        self.level, self.count, self.stride = level, count, stride


def _refill(layout: NestedLayout, new_shape: Sequence[int]) -> NestedLayout | None:
    strides = {"subgroup": layout.subgroup_strides, "thread": layout.thread_strides}
    left = [  # fast to slow; the next one to take stands last
        _Digit(level, count, strides[level][dim] if level in strides else 0)
        for dim in range(layout.rank)
        for level in Digits._fields
        if (count := getattr(layout.tiles, level)[dim]) > 1
    ]
    dims = []
    for extent in reversed(new_shape):
        tile = dict.fromkeys(Digits._fields, 1)
        stride = {"subgroup": 0, "thread": 0}
        while extent > 1:
            digit = left[-1]
            taken = min(extent, digit.count)
            if extent % taken or digit.count % taken:
                return None
            if digit.level in stride:
                if tile[digit.level] == 1:
                    stride[digit.level] = digit.stride
                elif stride[digit.level] * tile[digit.level] != digit.stride:
                    return None
            tile[digit.level] *= taken
            extent //= taken
            digit.count //= taken
            digit.stride *= taken
            if digit.count == 1:
                left.pop()
        dims.append((*tile.values(), *stride.values()))
    columns = list(zip(*reversed(dims), strict=True)) or [()] * 7
    return NestedLayout(*columns)


def _same_owners(one: NestedLayout, other: NestedLayout) -> bool:
    """Whether elements of equal row-major index have the same subgroup and lane."""
    subgroups = [first_subgroups(each, each.subgroup_period).ravel() for each in (one, other)]
    lanes = [first_lanes(each).ravel() for each in (one, other)]
    return np.array_equal(subgroups[0], subgroups[1]) and np.array_equal(lanes[0], lanes[1])
