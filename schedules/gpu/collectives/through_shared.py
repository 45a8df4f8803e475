"""A vector's way through shared memory: written by those who hold it, read by those who want it.

    for each box of the vector:                 one, where all of it has room
        first owners of its elements write them
        barrier                                 put there by TVM's pass, as before the next box
        whoever holds them next reads them

Rows are padded as costs the fewest passes over the banks.  A vector that is larger than the limit
goes box by box, in boxes such that the fewest registers belong to different boxes in different
lanes: what each lane moves of a box should be known when the kernel is compiled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, product
from math import prod
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.layout.distribute import register_coordinates
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import first_holders
from tvm_iree_ext.schedules.gpu.emit.lane_registers import Ids, LaneRegisters, WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_table
from tvm_iree_ext.schedules.gpu.sblocks.copies import TileAccess, choose_placement
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements


@dataclass(frozen=True)
class Staging:
    """The way of a vector through shared memory: boxes, their rows ``pitch`` elements apart."""

    shape: Ints
    box: Ints
    pitch: int

    @property
    def elements(self) -> int:
        """Elements of shared memory."""
        return prod(self.box[:-1]) * self.pitch

    @property
    def boxes(self) -> list[Ints]:
        """The first coordinate of each."""
        steps = (range(0, all_, part) for all_, part in zip(self.shape, self.box, strict=True))
        return list(product(*steps))

    def addresses(self, held: np.ndarray) -> np.ndarray:
        """Addresses in their box of elements of coordinates ``[..., rank]``."""
        inside = held % np.array(self.box, int)
        extents = (*self.box[1:-1], self.pitch) if len(self.box) > 1 else ()
        pitches = [*(prod(extents[dim:]) for dim in range(len(extents))), 1][: len(self.box)]
        return (inside * np.array(pitches, int)).sum(axis=-1)

    def holds(self, box: Ints, held: np.ndarray) -> np.ndarray:
        """Mask of the coordinates ``[..., rank]`` in the box that begins at ``box``."""
        return (held // np.array(self.box, int) == np.array(box) // np.array(self.box, int)).all(-1)


def plan_staging(
    source: NestedLayout,
    result: NestedLayout,
    hardware: tuple[int, int],
    element_bytes: int,
    limit_bytes: int | None = None,
) -> Staging:
    """Boxes and padding for a vector that leaves ``source`` for ``result``.

    Args:
        source: by which it is written.
        result: by which it is read.
        hardware: subgroups of the workgroup, and lanes of each.
        element_bytes: of an element.
        limit_bytes: of shared memory; None for as much as it takes.

    Raises:
        ScheduleError: where not even one element has room.
    """
    shape = source.undistributed_shape
    if not shape:
        return Staging((), (), 1)
    accesses = [TileAccess(layout, *hardware) for layout in (source, result)]
    placement = choose_placement(
        shape, element_bytes, accesses, alignment_bytes=element_bytes, swizzles=False
    ).placement
    pitch = shape[-1] + placement.pad_bytes // element_bytes
    whole = Staging(shape, shape, pitch)
    if limit_bytes is None or whole.elements * element_bytes <= limit_bytes:
        return whole
    held = [register_coordinates(layout, *hardware) for layout in (source, result)]
    for boxes in (_rows(shape, pitch), _pieces_of_a_row(shape)):
        fits = [box for box in boxes if box.elements * element_bytes <= limit_bytes]
        if fits:
            return min(fits, key=lambda box: (_scattered(box, held), len(box.boxes)))
    raise ScheduleError(
        f"to_layout: {limit_bytes} bytes of shared memory; an element takes {element_bytes}"
    )


def _rows(shape: Ints, pitch: int) -> Iterator[Staging]:
    """Boxes of whole rows."""
    for leading in product(*map(_divisors, shape[:-1])):
        yield Staging(shape, (*leading, shape[-1]), pitch)


def _pieces_of_a_row(shape: Ints) -> Iterator[Staging]:
    for part in _divisors(shape[-1]):
        yield Staging(shape, (*[1] * (len(shape) - 1), part), part)


def _divisors(extent: int) -> list[int]:
    return [divisor for divisor in range(1, extent + 1) if extent % divisor == 0]


def _scattered(staging: Staging, held: list[np.ndarray]) -> int:
    """Boxes times registers that belong to a box in some lanes and to another one in others."""
    box = np.array(staging.box, int)
    numbers = [each // box for each in held]
    mixed = sum(int((each != each[:1, :1]).any((0, 1, 3)).sum()) for each in numbers)
    return mixed * len(staging.boxes)


@dataclass(frozen=True)
class _Access:
    """Registers of a lane that lie side by side in shared memory."""

    start: int
    count: int
    first: np.ndarray  # coordinates [subgroups, lanes, rank] of the first


def _accesses(
    layout: NestedLayout, registers: LaneRegisters, staging: Staging, hardware: tuple[int, int]
) -> list[_Access]:
    held = register_coordinates(layout, *hardware)
    bits = DataType(registers.dtype).bits
    run = vector_elements(bits, layout.element_tile[-1] if layout.rank else 1, staging.pitch)
    count = registers.run(held.shape[2], run)
    return [_Access(at, count, held[:, :, at]) for at in range(0, held.shape[2], count)]


def through_shared(
    source: NestedLayout,
    result: NestedLayout,
    have: LaneRegisters,
    want: LaneRegisters,
    workgroup: WorkgroupIds,
    shared: Any,
    staging: Staging,
) -> None:
    """Emit the way of a vector from the registers of one layout to those of another."""
    hardware, ids = workgroup.hardware, Ids(workgroup)
    firsts = first_holders(source, *hardware)

    def place(access: _Access) -> Any:
        # Not in a register: from the expression TVM sees how the address is aligned.
        addresses = staging.addresses(access.first)
        address = lane_table(addresses, workgroup.subgroup, workgroup.lane)
        step = tirx.const(1, "int32")
        return tirx.Ramp(address, step, access.count) if access.count > 1 else address

    writes = _accesses(source, have, staging, hardware)
    reads = _accesses(result, want, staging, hardware)
    for box in staging.boxes:
        for group in _guarded(writes, box, firsts, staging, ids):
            for access in group:
                value = have.load(access.start, access.count)
                I.buffer_store(shared, value, [place(access)])
        for group in _guarded(reads, box, np.ones_like(firsts), staging, ids):
            for access in group:
                want.store(shared[place(access)], access.start, access.count)


def _guarded(
    accesses: list[_Access], box: Ints, lanes: np.ndarray, staging: Staging, ids: Ids
) -> Iterator[list[_Access]]:
    """Accesses to a box, of the ``lanes`` that have it, those of the same lanes under one guard."""
    chosen = [(lanes & staging.holds(box, access.first), access) for access in accesses]
    for _, group in groupby(chosen, key=lambda each: each[0].tobytes()):
        (who, first), *others = group
        if not who.any():
            continue
        together = [first, *(access for _, access in others)]
        condition = ids.condition(who)
        if condition is None:
            yield together
        else:
            with I.If(condition), I.Then():
                yield together
