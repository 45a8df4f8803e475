"""Tiles of shared memory that matrix instructions read through descriptors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.simulator.base.findings import BOUNDS, INSTRUCTION
from tvm_iree_ext.simulator.base.lane_values import Origin, element_type
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.simulator.machine.matrix_instructions import rounded
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits, tvm_dtype

Log = Callable[[SimulatedMemory, np.ndarray, int, int, int], None]
"""Notes what is read: the memory, units, how many of each, the first lane, the statement."""


@dataclass(frozen=True)
class DescribedTile:
    """A tile as a descriptor says that it lies, in bytes: its start, two offsets, the swizzle."""

    start: int
    leading: int
    stride: int
    width: int

    def addresses(self, outer: int, k: int, bits: int, *, k_major: bool) -> np.ndarray:
        """The bytes from which elements ``[outer, k]`` are read, outer being M or N.

        Without a swizzle the tile is made of 8 x 16-byte matrices.  With one, a row of 32, 64 or
        128 bytes has its 16-byte columns permuted by bits 7..9 of the address.
        """
        width, leading, stride = self.width, self.leading, self.stride
        i, j = np.meshgrid(np.arange(outer), np.arange(k), indexing="ij")
        if k_major:
            byte = j * bits // 8
            at = i % 8 * width + i // 8 * stride
            at = at + (byte // 16 * leading + byte % 16 if width == 16 else byte)
        else:
            run = width * 8 // bits  # elements of a row
            across, along = (stride, leading) if width == 16 else (leading, stride)
            at = i % run * bits // 8 + i // run * across + j % 8 * width + j // 8 * along
        at = self.start + at
        return at ^ ((at >> 7 & (width // 16 - 1)) << 4)


def read_tile(
    state: WorkgroupState,
    at: np.ndarray,
    dtype: str,
    who: str,
    first_lane: int,
    statement: int,
    log: Log,
) -> tuple[np.ndarray, np.ndarray, Origin | None]:
    """Elements at addresses: numbers, which were never written, and the first of those."""
    size = dtype_bits(dtype) // 8
    memory = state.shared_at(int(at.min()))
    offset = at - memory.address if memory is not None else at
    if memory is None or offset.max() + size > len(memory.data):
        name = memory.name if memory is not None else "shared memory"
        state.report(
            BOUNDS, statement, (first_lane,),
            f"a matrix descriptor leads to bytes {int(offset.min())}..{int(offset.max())}"
            f" of {name}, which are not all its",
            name,
        )  # fmt: skip
        return np.zeros(at.shape), np.zeros(at.shape, bool), None
    raw = memory.data[offset[..., None] + np.arange(size)]
    values = rounded(np.ascontiguousarray(raw).view(element_type(tvm_dtype(dtype)))[..., 0], dtype)
    units = offset // memory.unit
    log(memory, units, max(1, size // memory.unit), first_lane, statement)
    if memory.unfenced is not None and memory.unfenced[units].any():
        state.report(
            INSTRUCTION, statement, (first_lane,),
            f"{who} reads {memory.name}, which ordinary stores wrote, without"
            " fence.proxy.async between",
            memory.name,
        )  # fmt: skip
    bad = ~memory.valid[units]
    origin = None
    if bad.any():
        origin = Origin(memory.name, int(offset[bad][0]) // size, statement)
    return values.astype(np.float64), bad, origin
