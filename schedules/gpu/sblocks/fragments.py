"""Blocks on fragments of a matrix instruction: buffers turned into registers, loops into calls.

A block that copies or computes a matrix in a ``local`` buffer becomes calls of the kind's
TensorIntrins: its buffer gets the index ``[tile row, tile column, lane, register]``, and its loops
are cut into whole tiles.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import s_tir, tirx

from tvm_iree_ext.intrin.intrin_descriptions import MmaTile
from tvm_iree_ext.layout.nested import Ints


def into_fragments(
    sch: s_tir.Schedule,
    block: Any,
    intrins: MmaTile,
    side: str,
    order: Ints = (0, 1),
    interleave: int = 1,
) -> None:
    """Lay the buffer that ``block`` writes out as fragments of an operand.

    Args:
        sch: the schedule.
        block: whose first written buffer it is; its dims are the operand's, in ``order``.
        intrins: of the matrix instruction.
        side: ``lhs``, ``rhs`` or ``acc``.
        order: the operand's dims in the buffer's order.
        interleave: how many neighbouring columns (N) belong to as many instructions.
    """
    shape = sch.get(block).writes[0].source.shape
    extents = dict(zip(order, shape, strict=True))
    places = _fragment_map(intrins, side, order, interleave, extents)
    sch.transform_layout(block, ("write", 0), places)


def _fragment_map(
    intrins: MmaTile, side: str, order: Ints, interleave: int, extents: Mapping[int, Any]
) -> Callable[..., list[Any]]:
    tile = intrins.tile(side)
    runs = [interleave if name == "N" else 1 for name in intrins.dims(side)]

    def places(i: Any, j: Any) -> list[Any]:
        index: list[Any] = [None, None]
        for position, dim in zip((i, j), order, strict=True):
            index[dim] = position
        inside, outside = [], []
        for dim, (x, extent, run) in enumerate(zip(index, tile, runs, strict=True)):
            inside.append(x // run % extent if run > 1 else x % extent)
            if run == 1:
                outside.append(x // extent)
            elif _is(extents[dim], run * extent):  # else TVM leaves a term that is 0
                outside.append(x % run)
            else:
                outside.append(x // (run * extent) * run + x % run)
        return [*outside, *intrins.place(side, inside)]

    return places


def _is(extent: Any, number: int) -> bool:
    return isinstance(extent, int | tirx.IntImm) and int(extent) == number


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
