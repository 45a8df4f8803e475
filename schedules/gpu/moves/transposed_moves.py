"""A block that reads along another dimension than it writes: through tiles in shared memory.

    before:  for i, j: result[i, j] = input[j, i]
    after:   for tile of i, of j in blockIdx.x:
                 lanes side by side along i:  shared[i, j] = input[j, i]
                 barrier, put there by TVM's pass
                 lanes side by side along j:  result[i, j] = shared[i, j]

Rows in shared memory are padded as costs both sides the fewest passes over the banks.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules.gpu.sblocks.copies import TileAccess, choose_placement, copy_layout
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import distribute
from tvm_iree_ext.targets.gpu import LINE_BYTES, gpu_chip, subgroup_size

_ROWS = 32  # whose first elements are in banks of their own


def fills_lanes(
    sch: s_tir.Schedule, block: Any, read: int, written: int, lanes: int, item: int
) -> bool:
    """Whether a tile of :func:`spread_transposed` has an element for each lane, as it must."""
    return prod(_edges(sch, sch.get_loops(block), read, written, item).values()) >= lanes


def spread_transposed(
    sch: s_tir.Schedule, block: Any, read: int, written: int, target: Target, lanes: int, item: int
) -> None:
    """Spread a block over tiles of two of its dims.

    Args:
        sch: the schedule.
        block: of one store, whose loops are all its own, a dim of what it writes each.
        read: the dim along which elements of what it reads lie side by side.
        written: that of what it writes.
        target: a GPU.
        lanes: of a workgroup.
        item: bytes of an element.
    """
    size, bits = subgroup_size(target), 8 * item
    subgroups = lanes // size
    copy = sch.cache_write(block, 0, "shared")
    loops = list(sch.get_loops(copy))
    edges = _edges(sch, loops, read, written, item)
    outer, inner = list(loops), {}
    for dim, edge in edges.items():
        outer[dim], inner[dim] = sch.split(loops[dim], [None, edge])
    sch.reorder(*outer, inner[read], inner[written])
    grid = sch.fuse(*outer)
    sch.bind(grid, "blockIdx.x")
    sch.compute_at(block, grid, preserve_unit_loops=True)
    loads = sch.get_loops(block)[1:]
    others = [loop for dim, loop in enumerate(loads) if dim not in (read, written)]
    sch.reorder(*others, loads[written], loads[read])  # with none between: their digits are fused
    shape = (edges[read], edges[written])
    fills = copy_layout(shape[::-1], bits, subgroups, size, run=1)
    empties = copy_layout(shape, bits, subgroups, size, run=1)
    for part, layout, along in (
        (block, fills, [loads[written], loads[read]]),
        (copy, empties, [inner[read], inner[written]]),
    ):
        distribute(sch, part, layout, subgroups, size, loops=along, grid=False)
    accesses = [
        TileAccess(layout, subgroups, size, access_bytes=item)
        for layout in (_swapped(fills), empties)
    ]
    placement = choose_placement(
        shape, item, accesses, banks=gpu_chip(target).banks, alignment_bytes=item, swizzles=False
    ).placement
    pitch = shape[1] + placement.pad_bytes // item
    _tile(sch, block, edges)
    sch.storage_align(block, 0, -2, 2 * pitch, pitch)


def _tile(sch: s_tir.Schedule, block: Any, edges: dict[int, int]) -> None:
    """Let the shared buffer be tiles of ``edges``, of which a workgroup has one.

    By itself, TVM makes the buffer as small as the tile only where extents are numbers.
    """

    def place(*indices: Any) -> list[Any]:
        whole = [index // edges.get(dim, 1) for dim, index in enumerate(indices)]
        return [*whole, *(indices[dim] % edge for dim, edge in edges.items())]

    # Elements beyond the edges are never written: there is nothing to fill them with.
    sch.transform_layout(block, ("write", 0), place, assume_injective_transform=True)


def _swapped(layout: NestedLayout) -> NestedLayout:
    """The same lanes, of the transposed tile."""
    tiles = [*layout.tiles, layout.subgroup_strides, layout.thread_strides]
    return NestedLayout(*(tile[::-1] for tile in tiles))


def _edges(
    sch: s_tir.Schedule, loops: Sequence[Any], read: int, written: int, item: int
) -> dict[int, int]:
    """The extents of a tile, by dim."""
    most = {read: _ROWS, written: max(_ROWS, LINE_BYTES // item)}
    return {dim: _edge(sch.get(loops[dim]).extent, rows) for dim, rows in most.items()}


def _edge(extent: Any, most: int) -> int:
    if isinstance(extent, tirx.IntImm):
        return min(most, 1 << max(0, int(extent) - 1).bit_length())
    return most
