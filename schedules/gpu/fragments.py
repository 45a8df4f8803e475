"""Blocks on fragments of a matrix instruction: buffers turned into registers, loops into calls.

A block that copies or computes a matrix in a ``local`` buffer becomes calls of the kind's
TensorIntrins: its buffer gets the index ``[tile row, tile column, lane, register]``, and its loops
are cut into whole tiles.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import s_tir

from tvm_iree_ext.intrin.mma_functions import MmaTile
from tvm_iree_ext.layout.nested import Ints


def into_fragments(
    sch: s_tir.Schedule, block: Any, intrins: MmaTile, side: str, order: Ints = (0, 1)
) -> None:
    """Lay the buffer that ``block`` writes out as fragments of an operand.

    Args:
        sch: the schedule.
        block: whose first written buffer it is; its dims are the operand's, in ``order``.
        intrins: of the matrix instruction.
        side: ``lhs``, ``rhs`` or ``acc``.
        order: the operand's dims in the buffer's order.
    """
    sch.transform_layout(block, ("write", 0), _fragment_map(intrins, side, order))


def _fragment_map(intrins: MmaTile, side: str, order: Ints) -> Callable[..., list[Any]]:
    tile = intrins.tile(side)

    def places(i: Any, j: Any) -> list[Any]:
        index: list[Any] = [None, None]
        for position, dim in zip((i, j), order, strict=True):
            index[dim] = position
        inside = [x % extent for x, extent in zip(index, tile, strict=True)]
        outside = [x // extent for x, extent in zip(index, tile, strict=True)]
        return [*outside, *intrins.place(side, inside)]

    return places


def tensorize_tiles(
    sch: s_tir.Schedule, loops: Sequence[Any], extents: Ints, intrinsic: str
) -> list[Any]:
    """Cut loops into tiles of ``extents``, and make each tile a call of ``intrinsic``.

    Returns:
        The loops over tiles, unrolled.
    """
    pairs = [sch.split(loop, [None, extent]) for loop, extent in zip(loops, extents, strict=True)]
    outside, inside = ([pair[part] for pair in pairs] for part in (0, 1))
    sch.reorder(*outside, *inside)
    for loop in outside:
        sch.unroll(loop)
    sch.tensorize(inside[0], intrinsic)
    return outside
