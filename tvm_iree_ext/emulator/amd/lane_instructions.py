"""Vector instructions whose lanes see one another, and moves that no pseudocode is needed for.

V_READLANE, V_READFIRSTLANE, V_WRITELANE, V_PERMLANE*, V_SWAP, and accumulators.  Sources: the
instructions' pseudocode, "CDNA3 Instruction Set Architecture" and "RDNA3 Instruction Set
Architecture".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import is_register, scalar_getter, vector_getter
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, CodeStep, Waves

_ROW = 16  # lanes


class LaneInstruction:
    """Compiles one of these instructions into a step."""

    def __init__(self, instruction: Instruction, first_accumulator: int) -> None:
        self.instruction, self.chip = instruction, instruction.chip
        self._first_accumulator = first_accumulator
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def step(self) -> CodeStep | None:
        """What executes it; None for an instruction of another kind."""
        one = self.instruction
        name = one.plain_name
        if name in ("V_READFIRSTLANE_B32", "V_READLANE_B32"):
            return self._finished(self._read_lane(name == "V_READFIRSTLANE_B32"))
        if name == "V_WRITELANE_B32":
            return self._finished(self._write_lane())
        if name.startswith("V_ACCVGPR_"):
            return self._finished(self._accumulator(name))
        if name.startswith("V_PERMLANE") and "SWAP" in name:
            return self._finished(self._swap_rows(32 if "32_SWAP" in name else 16))
        if name.startswith("V_PERMLANE"):
            return self._finished(self._permute(name))
        if name in ("V_SWAP_B32", "V_SWAPREL_B32"):
            return self._finished(self._swap())
        if name == "V_PIPEFLUSH" or name == "V_NOP":
            return self._finished(lambda waves: None)
        return None

    def _finished(self, execute: Callable[[Any], None]) -> CodeStep:
        one = self.instruction
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def _scalar(self, field: str) -> Callable[[Waves], Array]:
        number = self.instruction.get(field)
        if is_register(number, self.chip):
            self.reads.add(number)
        return scalar_getter(number, 32, self.chip, literal=self.instruction.literal)

    def _read_lane(self, first: bool) -> Callable[[Waves], None]:
        one = self.instruction
        number, target = one.get("src0"), one.get("vdst")
        if target >= FIRST_VECTOR:  # in VOP1 the field is taken for a vector register's
            target -= FIRST_VECTOR
        self.reads.add(number)
        self.writes.add(target)
        if number < FIRST_VECTOR:
            get = scalar_getter(number, 32, self.chip, literal=one.literal)
            return lambda waves: waves.write_scalar(target, get(waves))
        row = number - FIRST_VECTOR
        select = None if first else self._scalar("src1")

        def execute(waves: Waves) -> None:
            if select is None:
                lanes = waves.full_mask()
                lane = np.where(lanes.any(axis=1), lanes.argmax(axis=1), 0)
            else:
                lane = (select(waves) & np.uint32(waves.lanes - 1)).astype(np.int64)
            waves.write_scalar(target, waves.vector[row][np.arange(waves.count), lane])

        return execute

    def _write_lane(self) -> Callable[[Waves], None]:
        one = self.instruction
        row = one.get("vdst") - FIRST_VECTOR
        value, select = self._scalar("src0"), self._scalar("src1")
        self.writes.add(FIRST_VECTOR + row)

        def execute(waves: Waves) -> None:
            wave = np.flatnonzero(waves.active)
            lane = np.broadcast_to(select(waves), waves.count) & np.uint32(waves.lanes - 1)
            given = np.broadcast_to(value(waves), waves.count)
            waves.vector[row][wave, lane[wave].astype(np.int64)] = given[wave]

        return execute

    def _accumulator(self, name: str) -> Callable[[Waves], None]:
        one = self.instruction
        number, target = one.get("src0"), one.get("vdst") - FIRST_VECTOR
        first = self._first_accumulator
        from_one = name != "V_ACCVGPR_WRITE_B32" and name != "V_ACCVGPR_WRITE"
        target += first if "READ" not in name else 0
        offset = first if from_one and number >= FIRST_VECTOR else 0
        if is_register(number, self.chip):
            self.reads.add(number + offset)
        self.writes.add(FIRST_VECTOR + target)
        get = vector_getter(
            number, 32, self.chip, literal=one.literal, is_float=True, first_accumulator=offset
        )
        return lambda waves: waves.write_vector(target, get(waves))

    def _swap(self) -> Callable[[Waves], None]:
        one = self.instruction
        a, b = one.get("src0") - FIRST_VECTOR, one.get("vdst") - FIRST_VECTOR
        self.reads.update((FIRST_VECTOR + a, FIRST_VECTOR + b))
        self.writes.update(self.reads)

        def execute(waves: Waves) -> None:
            before = waves.vector[a].copy()
            waves.write_vector(a, waves.vector[b])
            waves.write_vector(b, before)

        return execute

    def _swap_rows(self, width: int) -> Callable[[Waves], None]:
        """Odd rows of the first register and even rows of the second change places."""
        one = self.instruction
        a, b = one.get("vdst") - FIRST_VECTOR, one.get("src0") - FIRST_VECTOR
        self.reads.update((FIRST_VECTOR + a, FIRST_VECTOR + b))
        self.writes.update(self.reads)

        def execute(waves: Waves) -> None:
            lane = np.arange(waves.lanes)
            odd = lane // width % 2 == 1
            first, second = waves.vector[a].copy(), waves.vector[b].copy()
            waves.write_vector(a, np.where(odd, second[:, lane ^ width], first))
            waves.write_vector(b, np.where(odd, second, first[:, lane ^ width]))

        return execute

    def _permute(self, name: str) -> Callable[[Waves], None]:
        one = self.instruction
        row, target = one.get("src0") - FIRST_VECTOR, one.get("vdst") - FIRST_VECTOR
        self.reads.add(FIRST_VECTOR + row)
        self.writes.add(FIRST_VECTOR + target)
        if name == "V_PERMLANE64_B32":
            return lambda waves: (
                waves.write_vector(target, np.roll(waves.vector[row], 32, axis=1))
                if waves.lanes == 64
                else None
            )
        across = _ROW if "X16" in name else 0
        any_lane, zeroes = bool(one.get("opsel") & 1), bool(one.get("opsel") & 2)
        places = self._selection("VAR" in name)

        def execute(waves: Waves) -> None:
            lane = np.arange(waves.lanes)
            source = ((lane // _ROW * _ROW) ^ across)[None, :] + places(waves)
            wave = np.arange(waves.count)[:, None]
            values = waves.vector[row][wave, source]
            if not any_lane:
                valid = waves.full_mask()[wave, source]
                kept = np.uint32(0) if zeroes else waves.vector[target]
                values = np.where(valid, values, kept)
            waves.write_vector(target, values)

        return execute

    def _selection(self, by_lane: bool) -> Callable[[Waves], Array]:
        """Which lane of a row each lane of it takes."""
        if by_lane:
            row = self.instruction.get("src1") - FIRST_VECTOR
            self.reads.add(FIRST_VECTOR + row)
            return lambda waves: (waves.vector[row] & np.uint32(15)).astype(np.int64)
        low, high = self._scalar("src1"), self._scalar("src2")

        def places(waves: Waves) -> Array:
            words = np.stack([np.broadcast_to(get(waves), waves.count) for get in (low, high)])
            lane = np.arange(waves.lanes) % _ROW
            chosen = words[lane // 8].T  # [wave, lane]
            return (chosen >> (4 * (lane % 8)).astype(np.uint32) & np.uint32(15)).astype(np.int64)

        return places
