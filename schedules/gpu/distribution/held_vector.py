"""A vector that the lanes of a workgroup hold by one layout, and then by another.

    for each tile of the value, as large as the layout, in blockIdx:
        each lane reads what it holds in the source layout
        the conversion: none, in registers, by shuffles or through shared memory
        the first lane that holds an element in the result layout writes it

Where no source layout is given, lanes read rows one beside another.  What lies beyond a value that
is smaller than its tiles is 0 in registers, and is not written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd, lcm, prod
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import LayoutError, ScheduleError
from tvm_iree_ext.layout.distribute import register_coordinates
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import check_hardware, first_holders
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.schedules.emit import ceil_div, i64, product
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import (
    emit_conversion,
    shared_elements,
)
from tvm_iree_ext.schedules.gpu.emit.lane_registers import Ids, LaneRegisters, WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_table
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip

_STATIC_BYTES = 48 << 10  # of shared memory that a kernel may declare, on every GPU


@dataclass(frozen=True)
class HeldVector:
    """The layouts before and after, the workgroup, and what its shared memory may take."""

    source: NestedLayout
    result: NestedLayout
    hardware: tuple[int, int]
    limit_bytes: int

    @staticmethod
    def of(op: ToLayout, hardware: tuple[int, int], chip: GpuChip) -> "HeldVector":
        """That of an op in a workgroup.

        Raises:
            ScheduleError: where the workgroup cannot hold it.
        """
        bits = DataType(op.type.dtype).bits
        try:
            source = op.source_layout or _rows(op.layout, hardware, bits)
            for layout in (source, op.layout):
                check_hardware(layout, *hardware)
        except LayoutError as error:
            raise ScheduleError(f"to_layout: {error}") from error
        registers = sum(
            -(-prod(layout.undistributed_shape) * bits // (32 * prod(_tiles(layout, hardware))))
            for layout in (source, op.layout)
        )
        if registers > chip.max_registers:
            shape = list(op.layout.undistributed_shape)
            raise ScheduleError(
                f"to_layout: a lane holds {registers} registers of {shape} before and after;"
                f" {chip.name} has {chip.max_registers}"
            )
        return HeldVector(source, op.layout, hardware, min(_STATIC_BYTES, chip.shared_memory_bytes))


def usual_subgroups(op: ToLayout, size: int, most_lanes: int) -> int:
    """The fewest subgroups that hold all parts, or as many as a workgroup may have."""
    layouts = [one for one in (op.source_layout, op.layout) if one is not None]
    whole = lcm(*(layout.subgroup_period for layout in layouts))
    fit = [count for count in range(1, whole + 1) if whole % count == 0]
    return max((count for count in fit if count * size <= most_lanes), default=1)


def _tiles(layout: NestedLayout, hardware: tuple[int, int]) -> Ints:
    """Subgroups and lanes that hold different parts."""
    return min(hardware[0], prod(layout.subgroup_tile)), prod(layout.thread_tile)


def _rows(layout: NestedLayout, hardware: tuple[int, int], bits: int) -> NestedLayout:
    """A layout of the same shape by which lanes lie side by side in memory, in runs."""
    shape = layout.undistributed_shape
    rank = len(shape)
    if not rank:
        return layout
    ones = (1,) * rank
    run = gcd(vector_elements(bits, shape[-1]), max(1, prod(shape) // prod(hardware)))
    run &= -run
    rest = [*shape[:-1], shape[-1] // run]
    lanes = _shared_out(rest, hardware[1])
    subgroups = _shared_out(rest, hardware[0])
    return NestedLayout(
        subgroups, tuple(rest), ones, lanes, (*ones[:-1], run),
        _strides(subgroups), _strides(lanes),
    )  # fmt: skip


def _shared_out(rest: list[int], count: int) -> Ints:
    """Tiles for as many of ``count`` ids as divide the dims, the last first; ``rest`` is left."""
    tiles = [1] * len(rest)
    for dim in reversed(range(len(rest))):
        tiles[dim] = gcd(rest[dim], count)
        rest[dim] //= tiles[dim]
        count //= tiles[dim]
    return tuple(tiles)


def _strides(tiles: Ints) -> Ints:
    return tuple(prod(tiles[dim + 1 :]) for dim in range(len(tiles)))


def emit_to_layout(op: ToLayout, vector: HeldVector, kind: str) -> None:
    """Emit the function of ``op``, of one kernel."""
    parameters = Parameters.declare(op)
    given, taken = parameters.buffers["input"], parameters.buffers["result"]
    extents = [parameters.extent(extent) for extent in op.type.shape]
    tile = op.layout.undistributed_shape
    counts = [ceil_div(extent, own) for extent, own in zip(extents, tile, strict=True)]
    dtype, layouts = op.type.dtype, (vector.source, vector.result)
    options: dict[str, Any] = {
        "limit_bytes": vector.limit_bytes,
        "through_shared_memory": op.shared_memory_conversion,
    }
    size = shared_elements(*layouts, *vector.hardware, dtype, **options)
    with workgroups(product(counts), *vector.hardware, kind) as (number, workgroup):
        places = [_Held(one, workgroup, extents, counts, number) for one in layouts]
        have, want = (
            LaneRegisters(I.alloc_buffer((place.registers,), dtype, scope="local"))
            for place in places
        )
        shared = I.alloc_buffer((size,), dtype, scope="shared") if size else None
        places[0].read(given, have)
        emit_conversion(*layouts, have, want, workgroup, shared, **options)
        places[1].write(taken, want)


@contextmanager
def guarded(condition: Any | None) -> Iterator[None]:
    """What is emitted inside is done where a condition holds; always where it is None."""
    if condition is None:
        yield
        return
    with I.If(condition), I.Then():
        yield


class _Held:
    """What a lane holds of a workgroup's tile, as places in memory."""

    def __init__(
        self, layout: NestedLayout, workgroup: WorkgroupIds, extents: Any, counts: Any, number: Any
    ) -> None:
        hardware, self.layout = workgroup.hardware, layout
        self.extents, self.tile = extents, layout.undistributed_shape
        self.held = register_coordinates(layout, *hardware)
        self.registers = self.held.shape[2]
        self.hardware, self.ids, self.workgroup = hardware, Ids(workgroup), workgroup
        self.origin: list[Any] = []
        for dim in reversed(range(layout.rank)):
            whole = isinstance(counts[dim], int) and counts[dim] == 1
            at = i64(0) if whole else number % counts[dim] * i64(self.tile[dim])
            self.origin.insert(0, at)
            number = number if whole else tirx.floordiv(number, counts[dim])

    def read(self, buffer: Any, registers: LaneRegisters) -> None:
        """Each lane its own, 0 beyond the value."""
        for start, count in self._runs(registers):
            index, inside = self._place(start, count)
            value = buffer[tuple(index)]
            if inside is not None:
                zero = tirx.const(0, registers.dtype)
                zero = tirx.Broadcast(zero, count) if count > 1 else zero
                value = tirx.if_then_else(inside, value, zero)
            registers.store(value, start, count)

    def write(self, buffer: Any, registers: LaneRegisters) -> None:
        """The first lane that holds an element writes it, where the value has one."""
        chosen = self.ids.condition(first_holders(self.layout, *self.hardware))
        with guarded(chosen):
            for start, count in self._runs(registers):
                index, inside = self._place(start, count)
                with guarded(inside):
                    I.buffer_store(buffer, registers.load(start, count), index)

    def _runs(self, registers: LaneRegisters) -> list[tuple[int, int]]:
        """Registers that are one access: their start, and how many."""
        last = self.extents[-1] if self.extents else 1
        run = 1
        if isinstance(last, int):
            element = self.layout.element_tile[-1] if self.extents else 1
            run = vector_elements(DataType(registers.dtype).bits, element, last)
            run = registers.run(self.registers, run)
        return [(start, run) for start in range(0, self.registers, run)]

    def _expression(self, values: np.ndarray) -> Any:
        return lane_table(values, self.workgroup.subgroup, self.workgroup.lane)

    def _place(self, start: int, count: int) -> tuple[list[Any], Any | None]:
        """The index of registers that lie side by side, and whether it is inside."""
        index, inside = [], []
        for dim, extent in enumerate(self.extents):
            at = self.held[:, :, start, dim]
            # What all registers share is computed once.
            base = int(at.min())
            place = self.origin[dim] + i64(base)
            if (at != base).any():
                # A vector's place is not in a register: TVM must see how it is aligned.
                whole = count > 1 and dim == len(self.extents) - 1
                table = self._expression if whole else self.ids.table
                place = place + tirx.Cast("int64", table(at - base))
            if not isinstance(extent, int) or extent % self.tile[dim]:
                inside.append(place < extent)
            index.append(place)
        if count > 1:
            index[-1] = tirx.Ramp(index[-1], i64(1), count)
        return index, tirx.all(*inside) if inside else None
