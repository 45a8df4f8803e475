"""``wgmma``: four subgroups multiply tiles of shared memory while their lanes go on.

A descriptor says where a tile lies: its first byte, two strides and a swizzle, all in bytes of the
address space of shared memory (PTX ISA, matrix descriptors; the strides as in CUTLASS's canonical
layouts).  From its start until the lanes wait for its group, an instruction reads its tiles, and
its accumulator belongs to it: the registers are poison, and stores into the tiles race with it.
Tiles that ordinary stores wrote are read only after ``fence.proxy.async``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import INSTRUCTION, UNWAITED
from tvm_iree_ext.simulator.base.lane_values import (
    Origin,
    Poison,
    Value,
    over_lanes,
    poisoned,
)
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.simulator.machine.matrix_instructions import MatrixInstruction
from tvm_iree_ext.simulator.machine.pending_registers import current, put
from tvm_iree_ext.simulator.machine.shared_tiles import DescribedTile, read_tile
from tvm_iree_ext.simulator.machine.value_functions import register_of
from tvm_iree_ext.simulator.races.happens_before import HappensBefore, OrderedLog
from tvm_iree_ext.simulator.races.touches import READ, Touch
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits

LANES = 128  # of the four subgroups
_SWIZZLE_BYTES = {0: 16, 1: 128, 2: 64, 3: 32}  # by the descriptor's code
_CODE_OF_MODE = {0: 0, 1: 3, 2: 2, 3: 1}  # by the argument of the function that encodes it


def encode(address: Any, leading: Any, stride: Any, mode: int) -> Any:
    """A descriptor: the address in bytes, the offsets in units of 16."""
    fields = (np.asarray(address) >> 4, leading, stride)
    words = [np.asarray(field).astype(np.uint64) & np.uint64(0x3FFF) for field in fields]
    code = np.uint64(_CODE_OF_MODE[mode])
    return words[0] | words[1] << np.uint64(16) | words[2] << np.uint64(32) | code << np.uint64(62)


def tile_addresses(descriptor: int, outer: int, k: int, bits: int, *, k_major: bool) -> np.ndarray:
    """The bytes from which elements ``[outer, k]`` are read, outer being M or N."""
    fields = (descriptor & 0x3FFF, descriptor >> 16 & 0x3FFF, descriptor >> 32 & 0x3FFF)
    start, leading, stride = (field << 4 for field in fields)
    place = DescribedTile(start, leading, stride, _SWIZZLE_BYTES[descriptor >> 62])
    return place.addresses(outer, k, bits, k_major=k_major)


@dataclass
class _Pending:
    target: Any  # Registers or LaneView
    index: int
    value: Value
    group: int


class Warpgroup:
    """The instructions of a workgroup that are under way, in the groups that lanes commit."""

    def __init__(self, state: WorkgroupState, order: HappensBefore) -> None:
        self._state, self._order = state, order
        self._committed = 0
        self._pending: dict[tuple[int, int], _Pending] = {}
        self._reads: list[tuple[SimulatedMemory, Touch, int]] = []

    def issue(
        self,
        product: MatrixInstruction,
        targets: list[tuple[Any, int]],
        a: list[Value] | Value,
        b: Value,
        flags: tuple[Any, int, int, int, int],
        mask: Any,
        statement: int,
    ) -> None:
        """Start an instruction.

        Args:
            product: of the kind.
            targets: the accumulator's registers: local buffers and indices.
            a: registers, or a descriptor.
            b: a descriptor.
            flags: whether to add to the accumulator, the signs of A and B, and whether M or N is
                contiguous in A and B.
            mask: of the lanes.
            statement: its number.
        """
        state, mma = self._state, product.mma
        if not state.whole(mask, statement, mma.name, mma.num_subgroups):
            return
        add, sign_a, sign_b, major_a, major_b = flags
        held = [self._current(*target) for target in targets]
        begin = product.matrix(state, "acc", held, mask, statement)
        if not np.all(np.asarray(state.decided("whether to accumulate", add, mask, statement))):
            begin = np.zeros(np.shape(begin.value if type(begin) is Poison else begin))
        if isinstance(a, list):
            left = product.matrix(state, "lhs", a, mask, statement)
        else:
            left = self._tile(a, mma.m, mma.k, mma.a, not major_a, mask, statement)
        right = self._tile(b, mma.n, mma.k, mma.b, not major_b, mask, statement)
        if type(right) is Poison:
            right = Poison(
                right.value.swapaxes(-1, -2), np.asarray(right.bad).swapaxes(-1, -2), right.origin
            )
        else:
            right = right.swapaxes(-1, -2)
        result = product.result(state, left * sign_a, right * sign_b, begin)
        state.counts[mma.name] += state.subgroups_of(mask) // mma.num_subgroups
        kind = [target.dtype for target, _ in targets]
        for number, (target, index) in enumerate(targets):
            value = register_of(result, number, len(targets), kind[number])
            value = state.merged(mask, value, held[number])
            self._pending[id(target), index] = _Pending(target, index, value, self._committed)
            unready = Poison(
                np.zeros(state.lanes, target.dtype),
                True,
                Origin("an accumulator of wgmma before its group is waited for", -1, statement),
            )
            put(state, target, index, state.merged(mask, unready, held[number]))

    def _current(self, target: Any, index: int) -> Value:
        pending = self._pending.get((id(target), index))
        return current(target, index) if pending is None else pending.value

    def _tile(
        self,
        descriptor: Value,
        outer: int,
        k: int,
        dtype: str,
        k_major: bool,
        mask: Any,
        statement: int,
    ) -> Value:
        """A tile ``[groups, outer, k]`` from shared memory; 0 for warpgroups that take no part."""
        state, active = self._state, self._state.active(mask)
        words = over_lanes(
            state.decided("a matrix descriptor", descriptor, mask, statement), state.lanes
        )
        tiles, wrong = [], []
        origin = None
        for start in range(0, state.lanes, LANES):
            if not active[start]:
                tiles.append(np.zeros((outer, k)))
                wrong.append(np.zeros((outer, k), bool))
                continue
            group = words[start : start + LANES]
            if (group != group[0]).any():
                lanes = start + np.flatnonzero(group != group[0])
                state.report(
                    INSTRUCTION, statement, lanes,
                    "the lanes of a warpgroup give different matrix descriptors",
                )  # fmt: skip
            bits = dtype_bits(dtype)
            at = tile_addresses(int(group[0]), outer, k, bits, k_major=k_major)
            number, bad, why = read_tile(state, at, dtype, "wgmma", start, statement, self._log)
            tiles.append(number)
            wrong.append(bad)
            origin = origin or why
        return poisoned(np.stack(tiles), np.stack(wrong), origin)

    def _log(
        self,
        memory: SimulatedMemory,
        units: np.ndarray,
        width: int,
        first_lane: int,
        statement: int,
    ) -> None:
        """All four subgroups read: a store by any lane is another lane's."""
        state = self._state
        if memory.touches is None:
            return
        flat = np.unique(units)
        if isinstance(memory.touches, OrderedLog):
            subgroup = first_lane // state.subgroup_size
            memory.touches.read_by_products(flat, subgroup, self._committed + 1, statement)
            return
        for shift in (0, LANES // 2):
            for part in range(0, len(flat), LANES):
                here = flat[part : part + LANES]
                first = np.zeros(state.lanes, np.int64)
                mask = np.zeros(state.lanes, bool)
                lanes = first_lane + (np.arange(len(here)) + shift) % LANES
                first[lanes], mask[lanes] = here, True
                touch = Touch(READ, statement, first, width, mask)
                memory.touches.append(touch)
                self._reads.append((memory, touch, self._committed))

    def commit(self) -> None:
        """Close a group."""
        self._committed += 1

    def wait(self, newest: int, mask: Any) -> None:
        """All groups but the ``newest`` last are done."""
        done = self._committed - newest
        self._order.products_done(self._state.active(mask), done)
        for key, pending in list(self._pending.items()):
            if pending.group < done:
                put(self._state, pending.target, pending.index, pending.value)
                del self._pending[key]
        for memory, touch, group in self._reads:
            if group < done and memory.touches is not None:
                memory.touches.append(touch)
        self._reads = [read for read in self._reads if read[2] >= done]

    def log_those_under_way(self) -> None:
        """At the start of an interval between barriers."""
        for memory, touch, _ in self._reads:
            if memory.touches is not None:
                memory.touches.append(touch)

    def finish(self) -> None:
        """At the end of the kernel."""
        if self._pending:
            pending = next(iter(self._pending.values()))
            self._state.report(
                UNWAITED, -1, (0,),
                f"{len(self._pending)} registers of wgmma, such as those of {pending.target.name},"
                " are never waited for",
                pending.target.name,
            )  # fmt: skip
