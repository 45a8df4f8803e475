"""Instructions of the scalar ALU: one computation for each wave.

Source: "RDNA3 Instruction Set Architecture" and "CDNA3 Instruction Set Architecture", chapter
"Scalar ALU Operations".
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import Getter, halves, is_register, scalar_getter
from tvm_iree_ext.emulator.amd.semantics import semantics
from tvm_iree_ext.emulator.amd.wave_state import EXEC, VCC, Array, CodeStep, Waves

_SOURCES = {"S0": "ssrc0", "S1": "ssrc1"}
# Bits of MODE, STATUS and the like that no kernel here depends on.
_IGNORED = ("S_SETREG_B32", "S_SETREG_IMM32_B32")


class ScalarInstruction:
    """Compiles one instruction of the scalar ALU into a step."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction, self.chip = instruction, instruction.chip
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def step(self) -> CodeStep:
        """What executes it."""
        one = self.instruction
        if one.name in _IGNORED:
            return self._finished(lambda waves: None)
        bits = self._bits()
        function = semantics(one, bits)
        getters = [self._input(name, bits) for name in function.inputs]
        putters = [self._output(name, bits) for name in function.outputs]
        run = function.run

        def execute(waves: Waves) -> None:
            found = run(*[get(waves) for get in getters])
            for put, value in zip(putters, found, strict=True):
                put(waves, value)

        return self._finished(execute)

    def _finished(self, execute: Callable[[Waves], None]) -> CodeStep:
        one = self.instruction
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def _bits(self) -> dict[str, int]:
        one = self.instruction
        fields = {**_SOURCES, "D0": "sdst"}
        return {name: 64 for name, field in fields.items() if one.bits(field) == 64}

    def _input(self, name: str, bits: Mapping[str, int]) -> Getter:
        one = self.instruction
        if one.format.startswith("SOPK") and name in ("S0", "S1", "SIMM16"):
            # The constant is the operand that is no register.
            is_register_operand = name == "S0" and one.name.startswith("S_CMPK")
            if not is_register_operand:
                value = np.array([one.get("simm16")], np.uint32)
                return lambda waves: value
            return self._scalar(one.get("sdst"), 32)
        if name in _SOURCES:
            field = _SOURCES[name]
            form = one.form(field)
            return self._scalar(one.get(field), bits.get(name, 32), "F" in form, "I" in form)
        if name == "D0":
            return self._scalar(one.get("sdst"), bits.get("D0", 32))
        if name == "SCC":
            return lambda waves: waves.scc
        if name in ("EXEC", "VCC"):
            return _wide(EXEC if name == "EXEC" else VCC)
        if name == "M0":
            return self._scalar(self.chip.m0, 32)
        raise EmulationError(f"{one.name} takes {name}, which is not emulated")

    def _scalar(
        self, number: int, bits: int, is_float: bool = False, wide_sign: bool = False
    ) -> Getter:
        if is_register(number, self.chip):
            self.reads.update(range(number, number + bits // 32))
        return scalar_getter(
            number,
            bits,
            self.chip,
            is_float=is_float,
            literal=self.instruction.literal,
            wide_sign=wide_sign,
        )

    def _output(self, name: str, bits: Mapping[str, int]) -> Callable[[Waves, Any], None]:
        one = self.instruction
        if name == "SCC":
            return lambda waves, value: waves.write_scc(value)
        if name == "D0":
            return self._register(one.get("sdst"), bits.get("D0", 32))
        if name in ("EXEC", "VCC"):
            register = EXEC if name == "EXEC" else VCC
            return lambda waves, value: write_pair(waves, register, value)
        raise EmulationError(f"{one.name} gives {name}, which is not emulated")

    def _register(self, number: int, bits: int) -> Callable[[Waves, Any], None]:
        if number == self.chip.null:
            return lambda waves, value: None
        self.writes.update(range(number, number + bits // 32))
        if bits == 64:
            return lambda waves, value: write_pair(waves, number, value)
        return lambda waves, value: waves.write_scalar(number, value)


def write_pair(waves: Waves, register: int, value: Array) -> None:
    """Write 64 bits to two scalar registers."""
    low, high = halves(np.asarray(value).astype(np.uint64))
    waves.write_scalar(register, low)
    waves.write_scalar(register + 1, high)


def _wide(register: int) -> Getter:
    """A mask of lanes as an integer; with 32 lanes nothing stands above."""

    def get(waves: Waves) -> Array:
        found = waves.scalar[register].astype(np.uint64)
        if waves.lanes == 64:
            found = found | (waves.scalar[register + 1].astype(np.uint64) << np.uint64(32))
        return found

    return get
