"""Elementwise blocks on a GPU, by a NestedLayout.

    before:  for i, j: block(i, j)
    after:   for workgroup in blockIdx: for subgroup in threadIdx.y: for lane in threadIdx.x:
                 for what the layout gives a lane: if inside: block(i, j)

Any layout will do.  One that was not given is derived: neighbouring lanes have neighbouring runs of
16 bytes of the contiguous dimension, as in a copy, and each lane several of them.
"""

from collections.abc import Sequence
from typing import Any

from tvm import DataType, s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules.gpu.sblocks.copies import copy_layout
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import (
    Replicas,
    distribute,
    known_factor,
    power_of_two,
    vector_elements,
)
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_RUNS = 4  # accesses of a lane: enough to wait for at once


def elementwise_layout(
    shape: Sequence[Any],
    dtype_bits: int,
    target: Target,
    num_subgroups: int = _SUBGROUPS,
    *,
    run: int | None = None,
) -> NestedLayout:
    """A workgroup's part of a row-major tensor, of which extents may be known only later.

    ``run`` elements are one access; by default as many as 16 bytes and the rows allow.
    """
    run = run or vector_elements(dtype_bits, shape[-1])
    room = num_subgroups * subgroup_size(target) * _RUNS * run
    tile: list[int] = []
    for extent in reversed(shape):
        size = int(extent) if isinstance(extent, int | tirx.IntImm) else room
        part = min(room, power_of_two(size))
        tile.append(max(part, run) if not tile else part)
        room = max(1, room // tile[-1])
    return copy_layout(tile[::-1], dtype_bits, num_subgroups, subgroup_size(target), run=run)


def schedule_elementwise_block(
    sch: s_tir.Schedule,
    block: str,
    target: Target,
    layout: NestedLayout | None = None,
    *,
    num_subgroups: int = _SUBGROUPS,
    replicas: Replicas = "first",
    run: int | None = None,
) -> None:
    """Spread a block of one store over the GPU.

    Args:
        sch: whose block it is.
        block: its name; each of its loops is a dimension of what it writes.
        target: a GPU.
        layout: of a workgroup's part, by default :func:`elementwise_layout`'s.
        num_subgroups: of a workgroup.
        replicas: whether lanes that the layout does not tell apart all store, or the first does.
        run: how many elements may be one access; by default as many as what is written allows.

    Raises:
        ScheduleError: for more lanes than the chip's workgroups have.
        LayoutError: when the layout does not fit the block or the workgroup.
    """
    chip, size = gpu_chip(target), subgroup_size(target)
    if num_subgroups * size > chip.max_lanes:
        raise ScheduleError(
            f"elementwise: {num_subgroups} subgroups of {size} lanes; a workgroup of {chip.name}"
            f" has at most {chip.max_lanes} lanes"
        )
    part = sch.get_sblock(block)
    buffer = sch.get(part).writes[0].source
    bits = DataType(str(buffer.dtype)).bits
    extents = [sch.get(loop).extent for loop in sch.get_loops(part)]
    if layout is None:
        layout = elementwise_layout(extents, bits, target, num_subgroups, run=run)
    if run is None:
        run = vector_elements(bits, known_factor(extents[-1])) if extents else 1
    distribute(sch, part, layout, num_subgroups, size, replicas=replicas, vector=run)
