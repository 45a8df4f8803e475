"""Copies of boxes of tensors between global and shared memory.

Source: PTX ISA 9.0, *cp.async.bulk.tensor*, *Tensors: swizzling modes*.  A box lies in shared
memory row by row; a swizzle permutes the 16-byte columns of 128 bytes by the address: of 8 rows of
128 bytes, of 64 or of 32.
"""

import math
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BOUNDS, INSTRUCTION, MISALIGNED, Site
from tvm_iree_ext.emulator.ptx.lane_instructions.memory_instructions import at
from tvm_iree_ext.emulator.ptx.machine.address_windows import PARAMETER_WINDOW, SHARED_WINDOW
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxAddress, PtxInstruction
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, on_lanes, place
from tvm_iree_ext.emulator.tensor_maps import BoxMap, decode

_BYTES_OF_MAP = 128
_ALIGNMENT = 128  # of a box in shared memory
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def tensor_copy(one: PtxInstruction) -> PtxOperation:
    """*cp.async.bulk.tensor* from global to shared memory, of tiles."""
    if not (one.has("global") and one.has("mbarrier::complete_tx::bytes")):
        raise ValueError("a tensor copy other than from global to shared memory")
    if any(one.has(name) for name in ("im2col", "multicast::cluster", "tile::gather4")):
        raise ValueError("a tensor copy other than of tiles")
    target, source, barrier, *_ = one.operands
    to, to_type, to_offset = place(target)
    base, base_type, offset = place(source)
    of_barrier, barrier_type, barrier_offset = place(barrier)
    assert isinstance(source, PtxAddress)
    coordinates = source.coordinates

    def function(lanes: Execution, to: Value, base: Value, barrier: Value, *where: Value) -> None:
        targets = _in_shared(at(lanes, to, to_offset))
        maps = at(lanes, base, offset)
        barriers = _in_shared(at(lanes, barrier, barrier_offset))
        places = [lanes.full(one).view(np.int32) for one in where]
        for row, lane in np.argwhere(lanes.active):
            found = _map_at(lanes, int(maps[row, lane]))
            if found is None or len(found.box) != len(places):
                lanes.found(INSTRUCTION, "no tensor map of as many dims is at its address")
                continue
            box = _Box(
                lanes, (int(row), int(lane)), found, int(targets[row, lane]),
                int(barriers[row, lane]), [int(one[row, lane]) for one in places],
            )  # fmt: skip
            lanes.state.copies.start_box(box.group, box.barrier, box)

    sources = [
        (to, to_type), (base, base_type), (of_barrier, barrier_type),
        *((one, "b32") for one in coordinates),
    ]  # fmt: skip
    return on_lanes(function, sources)


def _in_shared(addresses: np.ndarray) -> np.ndarray:
    """Offsets in shared memory, of generic addresses, too."""
    window = np.uint64(SHARED_WINDOW)
    return np.where(addresses >= window, addresses - window, addresses)


def _map_at(lanes: Execution, address: int) -> BoxMap | None:
    start = address - PARAMETER_WINDOW
    parameters = lanes.spaces.parameters
    if not 0 <= start <= len(parameters) - _BYTES_OF_MAP:
        return None
    return decode(parameters[start : start + _BYTES_OF_MAP].tobytes())


class _Box:
    """What a copy of a box does when it ends: it reads then, too."""

    def __init__(
        self,
        lanes: Execution,
        index: tuple[int, int],
        found: BoxMap,
        target: int,
        barrier: int,
        coordinates: list[int],
    ) -> None:
        self._state, self._spaces, self._faults = lanes.state, lanes.spaces, lanes.warps.faults
        self._map, self._target, self.barrier = found, target, barrier
        self._coordinates = coordinates
        self.group = int(lanes.groups[index[0]])
        where = lanes.site.where(index)
        self._site = Site(lanes.site.instruction, lambda _index: where)

    def __call__(self) -> None:
        box = self._map
        kind = np.dtype(_UNSIGNED[box.itemsize])
        addresses, inside = _addresses(box, self._coordinates)
        values = self._spaces.everywhere.load(addresses, kind, 1, inside, self._site)[0]
        fill: Any = (1 << 8 * box.itemsize) - 1 if box.fills_nan else 0
        values = np.where(inside, values, kind.type(fill))
        size = math.prod(box.counts) * box.itemsize
        if self._fits(size):
            shared = self._spaces.shared
            start = self.group * shared.stride
            offsets = start + swizzled(
                self._target + np.arange(len(values)) * box.itemsize, box.swizzle_bytes
            )
            shared.put(offsets, values)
        self._state.mbarriers.arrived(self.barrier, np.array([self.group]), size)

    def _fits(self, size: int) -> bool:
        shared, findings = self._spaces.shared, self._faults
        if self._target % _ALIGNMENT:
            findings.add(
                MISALIGNED, f"no multiple of {_ALIGNMENT} bytes", self._site, (0, 0),
                address=self._target,
            )  # fmt: skip
        if self._target + size > shared.size:
            message = f"{size} bytes outside of the {shared.size} of shared memory"
            findings.add(BOUNDS, message, self._site, (0, 0), address=self._target)
            return False
        return True


def _addresses(box: BoxMap, coordinates: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Each element's address in global memory, in the order of the box, and whether it exists."""
    address = np.zeros((), np.int64)
    inside = np.ones((), bool)
    for extent, stride, count, step, start in zip(
        box.extents, box.strides, box.counts, box.steps, coordinates, strict=True
    ):
        place = start + np.arange(count) * step
        place = place.reshape(count, *[1] * address.ndim)
        address = place * stride + address
        inside = ((place >= 0) & (place < extent)) & inside
    whole = (address + box.address).reshape(-1)
    exists = np.broadcast_to(inside, address.shape).reshape(-1)
    return np.where(exists, whole, box.address).astype(np.uint64), exists


def swizzled(addresses: np.ndarray, width: int) -> np.ndarray:
    """Where bytes lie: of an address, bits 4 and up are changed by bits 7 and up."""
    return addresses ^ ((addresses >> 7 & (width // 16 - 1)) << 4)
