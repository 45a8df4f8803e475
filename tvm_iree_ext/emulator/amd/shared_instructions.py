"""DS: loads, stores and atomics of a workgroup's shared memory, and exchanges between lanes.

Source: "CDNA3 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture", chapter "Data
Share Operations".
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.access_forms import AccessForm, access_form
from tvm_iree_ext.emulator.amd.atomic_operations import atomic_operation
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import pair
from tvm_iree_ext.emulator.amd.outstanding import MemoryOperation
from tvm_iree_ext.emulator.amd.running import Running
from tvm_iree_ext.emulator.amd.shared_memory import WorkgroupMemory
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, CodeStep

_ACCESS = re.compile(r"DS_(LOAD|READ|STORE|WRITE)(_2ADDR_STRIDE64|_2ADDR|2ST64|2)?_(\w+)$")
_SPACE = "LDS"
_WRAP = 0xFFFFFFFF  # an address is of 32 bits


class SharedInstruction:
    """Compiles an instruction of shared memory into a step."""

    def __init__(self, instruction: Instruction, first_accumulator: int) -> None:
        self.instruction, self.chip = instruction, instruction.chip
        self._accumulators = first_accumulator if instruction.get("acc") else 0
        self._counter = "ds" if instruction.chip.isa == "rdna4" else "lgkm"
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def step(self) -> CodeStep:
        """What executes it.

        Raises:
            EmulationError: for an instruction that is not emulated.
        """
        one = self.instruction
        if one.name == "DS_NOP":
            return self._finished(lambda waves: None)
        if "PERMUTE" in one.name or "SWIZZLE" in one.name:
            return self._finished(self._exchange())
        match = _ACCESS.match(one.name)
        form = access_form(match.group(3)) if match else None
        if match is None:
            return self._finished(self._atomic())
        if form is None:
            raise EmulationError(f"{one.name} is not emulated")
        how, several, _ = match.groups()
        offsets = self._offsets(several or "", form)
        if how in ("LOAD", "READ"):
            return self._finished(self._load(form, offsets))
        return self._finished(self._store(form, offsets))

    def _finished(self, execute: Callable[[Any], None]) -> CodeStep:
        one = self.instruction
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def _offsets(self, several: str, form: AccessForm) -> list[int]:
        one = self.instruction
        if not several:
            return [one.get("offset0") | one.get("offset1") << 8]
        step = form.bytes * (64 if "64" in several else 1)
        return [one.get("offset0") * step, one.get("offset1") * step]

    def _rows(self, field: str, count: int, into: set[int], plain: bool = False) -> list[int]:
        first = self.instruction.get(field) - FIRST_VECTOR
        first += 0 if plain else self._accumulators
        rows = list(range(first, first + count))
        into.update(FIRST_VECTOR + row for row in rows)
        return rows

    def _address(self) -> Callable[[Running], Array]:
        (row,) = self._rows("addr", 1, self.reads, plain=True)
        return lambda waves: waves.vector[row].astype(np.int64)

    def _load(self, form: AccessForm, offsets: list[int]) -> Callable[[Running], None]:
        address, words = self._address(), max(1, form.bytes // 4)
        rows = self._rows("vdst", words * len(offsets), set())  # loads come in order
        targets = [FIRST_VECTOR + row for row in rows]
        keeps = [form.kept] * len(rows) if form.kept else ()
        counter = self._counter

        def execute(waves: Running) -> None:
            waves.outstanding.settle(_SPACE)
            base, lanes, memory = address(waves), waves.full_mask(), WorkgroupMemory(waves)
            values: list[Array] = []
            for offset in offsets:
                places = (base + offset) & _WRAP
                values += form.loaded(memory.load(places, form.element, form.count, lanes))
            waves.outstanding.begin(
                MemoryOperation(counter, waves.active, waves.mask(), targets, values, keeps)
            )

        return execute

    def _store(self, form: AccessForm, offsets: list[int]) -> Callable[[Running], None]:
        address, words = self._address(), max(1, form.bytes // 4)
        fields = ("data0", "data1")[: len(offsets)]
        rows = [self._rows(field, words, self.reads) for field in fields]
        counter = self._counter

        def execute(waves: Running) -> None:
            base, lanes, step = address(waves), waves.full_mask(), waves.step
            values = [form.stored([waves.vector[row] for row in own]) for own in rows]

            def effect(due: Array) -> None:
                now, waves.step = waves.step, step
                memory = WorkgroupMemory(waves)
                for offset, value in zip(offsets, values, strict=True):
                    places = (base + offset) & _WRAP
                    memory.store(places, value, lanes & due[:, None])
                waves.step = now

            waves.outstanding.begin(
                MemoryOperation(counter, waves.active, None, effect=effect, space=_SPACE)
            )

        return execute

    def _atomic(self) -> Callable[[Running], None]:
        one = self.instruction
        operation = atomic_operation(one)
        words = np.dtype(operation.element).itemsize // 4
        address = self._address()
        fields = ("data0", "data1")[: operation.operands]
        rows = [self._rows(field, words, self.reads) for field in fields]
        returns = "_RTN" in one.name
        targets = self._rows("vdst", words, self.writes) if returns else []
        offset = one.get("offset0") | one.get("offset1") << 8
        counter = self._counter

        def execute(waves: Running) -> None:
            waves.outstanding.settle(_SPACE)
            places = (address(waves) + offset) & _WRAP
            lanes, memory = waves.full_mask(), WorkgroupMemory(waves)
            memory.aligned(places, 4 * words, lanes)
            operands = [
                waves.vector[own[0]] if words == 1
                else pair(waves.vector[own[0]], waves.vector[own[1]])
                for own in rows
            ]  # fmt: skip
            given = operands[0].copy() if len(operands) == 1 else np.stack(operands)
            old = memory.update(places, operation.change, given, lanes)
            found = np.ascontiguousarray(old).view(np.uint32).reshape(*old.shape, words)
            values = [found[..., word] for word in range(words)] if returns else []
            registers = [FIRST_VECTOR + row for row in targets]
            waves.outstanding.begin(
                MemoryOperation(counter, waves.active, waves.mask(), registers, values)
            )

        return execute

    def _exchange(self) -> Callable[[Running], None]:
        """DS_BPERMUTE, DS_PERMUTE and DS_SWIZZLE: memory takes no part."""
        one = self.instruction
        offset = one.get("offset0") | one.get("offset1") << 8
        is_swizzle, pushes = "SWIZZLE" in one.name, one.name == "DS_PERMUTE_B32"
        (address,) = self._rows("addr", 1, self.reads, plain=True)
        data = address if is_swizzle else self._rows("data0", 1, self.reads, plain=True)[0]
        (target,) = self._rows("vdst", 1, self.writes)
        counter, any_lane = self._counter, "_FI_" in one.name
        # Of 64 lanes RDNA 3 exchanges within each 32.
        narrow = self.chip.isa == "rdna3"

        def execute(waves: Running) -> None:
            values, lanes = waves.vector[data], waves.full_mask()
            wave = np.arange(waves.count)[:, None]
            if is_swizzle:
                sources = np.broadcast_to(swizzled(offset, waves.lanes), values.shape)
            else:
                place = (waves.vector[address] + np.uint32(offset)) >> np.uint32(2)
                width = 32 if narrow else waves.lanes
                own = np.arange(waves.lanes, dtype=np.uint32) // np.uint32(width) * np.uint32(width)
                sources = (place % np.uint32(width) + own).astype(np.int64)
            if pushes:
                found = np.zeros_like(values)
                every, lane = np.nonzero(lanes)
                found[every, sources[every, lane]] = values[every, lane]
            else:
                valid = lanes[wave, sources]
                found = values[wave, sources]
                found = found if any_lane else np.where(valid, found, np.uint32(0))
            waves.outstanding.begin(
                MemoryOperation(
                    counter, waves.active, waves.mask(), [FIRST_VECTOR + target], [found]
                )
            )

        return execute


@functools.cache
def swizzled(offset: int, lanes: int) -> Array:
    """Each lane's source in DS_SWIZZLE_B32.

    Source: "RDNA3 Instruction Set Architecture", DS_SWIZZLE_B32: modes of the offset.
    """
    lane = np.arange(lanes)
    if offset >= 0xE000:
        raise EmulationError("DS_SWIZZLE_B32 of an FFT is not emulated")
    if offset >= 0xC000:  # rotation in 32 lanes
        amount = offset >> 5 & 31
        kept = offset & 31
        moved = lane + (-amount if offset >> 10 & 1 else amount)
        return lane // 32 * 32 + ((lane & kept) | (moved & ~kept)) % 32
    if offset & 0x8000:  # quads
        return lane // 4 * 4 + (offset >> (2 * (lane % 4)) & 3)
    keep, set_, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return lane // 32 * 32 + (((lane % 32 & keep) | set_) ^ flip)
