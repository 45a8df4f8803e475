"""Instructions of the vector ALU: one computation for each lane.

VOP1, VOP2, VOP3, VOP3P, VOPC and VOPD, with their modifiers: negation, absolute value, halves
(OPSEL), bytes and words (SDWA), neighbours (DPP), clamping and scaling of results.

Source: "RDNA3 Instruction Set Architecture" and "CDNA3 Instruction Set Architecture", chapter
"Vector ALU Operations".
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.data_parallel_primitives import moved, writing_lanes
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import Getter, halves, is_register, vector_getter
from tvm_iree_ext.emulator.amd.quick_functions import SATURATING
from tvm_iree_ext.emulator.amd.semantics import semantics
from tvm_iree_ext.emulator.amd.wave_state import EXEC, FIRST_VECTOR, VCC, Array, CodeStep, Waves

Putter = Callable[[Waves, Any], None]

_SOURCES = {"S0": ("vsrc0", "src0"), "S1": ("vsrc1", "src1"), "S2": ("src2",)}
_OUTPUT_SCALES = {1: 2.0, 2: 4.0, 3: 0.5}  # OMOD
_SIGNS = {16: 0x8000, 32: 0x80000000, 64: 1 << 63}
_FLOAT_TYPES: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}
# On CDNA a result of 16 bits clears the other half of its register, but for these.
_KEEPING = ("V_MAD_", "V_FMA_F16", "V_DIV_FIXUP_F16", "V_MAX3", "V_MIN3", "V_MED3", "V_CVT_PK")


class VectorInstruction:
    """Compiles one instruction of the vector ALU into a step."""

    def __init__(self, instruction: Instruction, lanes: int) -> None:
        self.instruction, self.chip = instruction, instruction.chip
        self._mask_words = lanes // 32
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self._is_packed = instruction.format.startswith("VOP3P")
        self._is_mixed = "_MIX" in instruction.name

    def step(self) -> CodeStep:
        """What executes it.

        Raises:
            EmulationError: for an instruction that is not emulated.
        """
        bits = self._bits()
        function = semantics(self.instruction, bits)
        getters = [self._input(name, bits) for name in function.inputs]
        putters = [
            self._output(name, width, bits)
            for name, width in zip(function.outputs, function.bits, strict=True)
        ]
        run, lanes = function.run, self._moving()

        if len(putters) == 1:
            (put,) = putters

            def execute(waves: Waves) -> None:
                put(waves, run(*[get(waves) for get in getters])[0])
        else:

            def execute(waves: Waves) -> None:
                found = run(*[get(waves) for get in getters])
                for put, value in zip(putters, found, strict=True):
                    put(waves, value)

        return self._finished(_with_lanes(execute, lanes) if lanes else execute)

    def _finished(self, execute: Callable[[Waves], None]) -> CodeStep:
        one = self.instruction
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return CodeStep(execute, one.place, one.place + one.size, one.__repr__, reads, writes)

    def _bits(self) -> dict[str, int]:
        one, found = self.instruction, {}
        for name, fields in _SOURCES.items():
            field = next((field for field in fields if one.has(field)), "")
            plain = field.removeprefix("v") if field not in one.operands else field
            width = one.bits(plain, one.bits(field))
            if width == 64:
                found[name] = 64
        if one.bits("vdst") == 64 and one.form("vdst") != "M64":
            found["D0"] = 64
        return found

    def _input(self, name: str, bits: Mapping[str, int]) -> Getter:
        if name == "S2" and not self.instruction.has("src2"):
            name = "D0"  # V_FMAC_DX9_ZERO: what is added to is the result's register
        if name in _SOURCES:
            return self._source(name, bits.get(name, 32))
        if name == "D0":
            return self._register(self.instruction.get("vdst"), bits.get("D0", 32))
        if name == "laneId":
            return lambda waves: np.arange(waves.lanes, dtype=np.uint32)[None, :]
        if name == "VCC[]":
            register = self._carry_in()
            self._note(self.reads, register, self._mask_words)
            return lambda waves: waves.lane_mask(register)
        if name == "EXEC[]":
            return lambda waves: waves.lane_mask(EXEC)
        raise EmulationError(f"{self.instruction.name} takes {name}, which is not emulated")

    def _carry_in(self) -> int:
        """Where a mask is read: in VOP3 it is the third operand, but V_DIV_FMAS has VCC."""
        one = self.instruction
        if one.has("src2") and "src2" in one.operands and "DIV_FMAS" not in one.name:
            return one.get("src2")
        return VCC

    def _source(self, name: str, bits: int) -> Getter:
        one, index = self.instruction, int(name[1])
        field = next((field for field in _SOURCES[name] if one.has(field)), "")
        if not field:
            raise EmulationError(f"{one.name} has no {name}")
        plain = field if field in one.operands else field.removeprefix("v")
        form, width = one.form(plain), one.bits(plain)
        number = one.get(field)
        if one.has("src0_sel") and one.get(f"s{index}"):  # SDWA's bit for a scalar register
            number -= FIRST_VECTOR
        get, width = self._half(number, width, form, index, bits)
        if one.has("src0_sel") and index < 2:
            get = self._selected(get, index, form)
        if index == 0 and (one.has("dpp") or one.has("lane_sel_0")):
            get = moved(get, one)
        return self._modified(get, index, form, width if width != 16 or bits != 64 else bits)

    def _half(
        self, number: int, width: int, form: str, index: int, bits: int
    ) -> tuple[Getter, int]:
        """An operand's bits, and of which half they are the low ones."""
        one = self.instruction
        is_float = "F" in form
        high = False
        if width == 16 and not self._is_packed:
            if one.format.startswith("VOP3") and one.has("opsel"):
                high = bool(one.get("opsel") >> index & 1)
            elif not self.chip.is_cdna and number >= FIRST_VECTOR + 128:
                number, high = number - 128, True
        constant_bits = width
        if self._is_packed and not self._is_mixed:
            constant_bits = 16 if "F16" in form else 32
        get = self._register(number, bits, constant_bits, is_float, "I" in form)
        if high:
            inner = get
            return (lambda waves: inner(waves) >> np.uint32(16)), 16
        return get, width

    def _register(
        self,
        number: int,
        bits: int,
        constant_bits: int | None = None,
        is_float: bool = False,
        wide_sign: bool = False,
    ) -> Getter:
        one = self.instruction
        if is_register(number, self.chip):
            self._note(self.reads, number, bits // 32)
        return vector_getter(
            number,
            bits,
            self.chip,
            is_float=is_float,
            literal=one.literal,
            wide_sign=wide_sign,
            constant_bits=constant_bits,
        )

    def _selected(self, get: Getter, index: int, form: str) -> Getter:
        """Bytes and words of SDWA's operands."""
        one = self.instruction
        choice = one.get(f"src{index}_sel")
        signed = bool(one.get(f"src{index}_sext"))
        if choice == 6 or "CVT_F32_FP8" in one.name or "CVT_F32_BF8" in one.name:
            return get
        shift, mask = (8 * choice, 0xFF) if choice < 4 else (16 * (choice - 4), 0xFFFF)

        def chosen(waves: Waves) -> Array:
            found = (get(waves) >> np.uint32(shift)) & np.uint32(mask)
            if signed:
                kind: Any = np.int8 if mask == 0xFF else np.int16
                whole: Any = np.uint8 if mask == 0xFF else np.uint16
                found = found.astype(whole).view(kind).astype(np.int32).view(np.uint32)
            return found

        return chosen

    def _modified(self, get: Getter, index: int, form: str, width: int) -> Getter:
        """Negation and absolute value, and the halves of packed operands."""
        one = self.instruction
        if self._is_packed:
            return self._packed(get, index, form)
        if "BITOP3" in one.name:
            return get
        absolute = one.get("abs") >> index & 1 | one.get(f"src{index}_abs")
        negative = one.get("neg") >> index & 1 | one.get(f"src{index}_neg")
        if not absolute and not negative:
            return get
        kind: Any = np.uint64 if width == 64 else np.uint32
        sign = kind(_SIGNS[width])

        def changed(waves: Waves) -> Array:
            found = get(waves)
            if absolute:
                found = found & ~sign
            return found ^ sign if negative else found

        return changed

    def _packed(self, get: Getter, index: int, form: str) -> Getter:
        one = self.instruction
        low, high = one.get("opsel"), one.get("opsel_hi") | one.get("opsel_hi2") << 2
        low, high = low >> index & 1, high >> index & 1
        if one.name == "V_PK_MOV_B32":  # the low word of the first operand, the high of the second
            high = low
        minus, minus_high = one.get("neg") >> index & 1, one.get("neg_hi") >> index & 1
        if self._is_mixed:
            return _mixed(get, bool(high), bool(low), bool(minus_high), bool(minus))
        if one.bits(f"src{index}") == 64:
            return _two_words(get, low, high, minus, minus_high)
        if "IU" in one.name or (low == 0 and high == 1 and not minus and not minus_high):
            return get
        if one.bits(f"src{index}") == 32 and form in ("F32", "I32", "U32", "B32"):
            # The sum of a dot product is one number.
            return (lambda waves: get(waves) ^ np.uint32(0x80000000)) if minus else get
        flip = np.uint32(minus * 0x8000 | minus_high * 0x80000000)

        def chosen(waves: Waves) -> Array:
            found = get(waves)
            first = found >> np.uint32(16) if low else found & np.uint32(0xFFFF)
            second = found & np.uint32(0xFFFF0000) if high else found << np.uint32(16)
            return (first | second) ^ flip

        return chosen

    def _output(self, name: str, width: int, bits: Mapping[str, int]) -> Putter:
        one = self.instruction
        if name == "D0":
            return self._result(width, bits.get("D0", 32))
        if name == "D0[]":
            register = one.get("vdst", VCC) if one.format == "VOP3_SDST" else VCC
            if "_SDST" in one.format and "SDWA" in one.format:
                register = one.get("sdst") if one.get("sd") else VCC
            elif one.has("vdst") and one.get("vdst") < FIRST_VECTOR:
                register = one.get("vdst")
            if one.name.startswith("V_CMPX") and not self.chip.is_cdna:
                return lambda waves, value: None
            return self._mask(register)
        if name == "EXEC[]":
            return self._mask(EXEC)
        if name == "VCC[]":
            return self._mask(one.get("sdst") if one.has("sdst") else VCC)
        raise EmulationError(f"{one.name} gives {name}, which is not emulated")

    def _mask(self, register: int) -> Putter:
        if register == self.chip.null:
            return lambda waves, value: None
        self._note(self.writes, register, self._mask_words)
        return lambda waves, value: waves.write_lane_mask(register, value)

    def _result(self, width: int, bits: int) -> Putter:
        one = self.instruction
        number = one.get("vdst")
        if number < FIRST_VECTOR:
            return self._scalar_result(number)
        finish = self._finish(width if bits != 64 else 64)
        register = number - FIRST_VECTOR
        if bits == 64:
            self._note(self.writes, number, 2)

            def put_pair(waves: Waves, value: Array) -> None:
                low, high = halves(finish(value))
                waves.write_vector(register, low)
                waves.write_vector(register + 1, high)

            return put_pair
        if one.has("dst_sel"):
            self._note(self.writes, number, 1)
            return self._selected_result(register, finish)
        if width <= 16:
            return self._half_result(register, finish)
        self._note(self.writes, number, 1)
        return lambda waves, value: waves.write_vector(register, finish(value))

    def _scalar_result(self, number: int) -> Putter:
        """The result of V_S_EXP_F32 and the like: one number for each wave."""
        one = self.instruction
        if not one.name.startswith("V_S_") or one.bits("vdst") != 32:
            raise EmulationError(f"{one.name} writes a scalar register")
        self._note(self.writes, number, 1)
        return lambda waves, value: waves.write_scalar(number, value[:, 0])

    def _half_result(self, register: int, finish: Callable[[Array], Array]) -> Putter:
        """A result of 16 bits: which half of the register it is, and what becomes of the other."""
        one = self.instruction
        high = False
        if one.format.startswith("VOP3") and one.has("opsel"):
            high = bool(one.get("opsel") >> 3 & 1)
        elif not self.chip.is_cdna and register >= 128:
            register, high = register - 128, True
        self._note(self.writes, FIRST_VECTOR + register, 1)
        clears = self.chip.is_cdna and not high and not one.name.startswith(_KEEPING)

        def put(waves: Waves, value: Array) -> None:
            half = finish(value) & np.uint32(0xFFFF)
            old = waves.vector[register]
            if high:
                half = (half << np.uint32(16)) | (old & np.uint32(0xFFFF))
            elif not clears:
                half = half | (old & np.uint32(0xFFFF0000))
            waves.write_vector(register, half)

        return put

    def _selected_result(self, register: int, finish: Callable[[Array], Array]) -> Putter:
        """SDWA's place of the result, and what becomes of the rest: zeros, signs, or as it was."""
        one = self.instruction
        choice, unused = one.get("dst_sel"), one.get("dst_unused")
        shift, width = (8 * choice, 8) if choice < 4 else (16 * (choice & 1), 16)
        if choice == 6:
            shift, width = 0, 32
        mask = ((1 << width) - 1) << shift

        def put(waves: Waves, value: Array) -> None:
            found = (finish(value) << np.uint32(shift)) & np.uint32(mask)
            if unused == 2:
                found = found | (waves.vector[register] & np.uint32(~mask & 0xFFFFFFFF))
            elif unused == 1:
                sign = (found >> np.uint32(shift + width - 1)) & np.uint32(1)
                above = ~np.uint32((1 << (shift + width)) - 1)
                found = found | np.where(sign != 0, above, np.uint32(0))
            waves.write_vector(register, found)

        return put

    def _finish(self, width: int) -> Callable[[Array], Array]:
        """Scaling and clamping of a result."""
        one = self.instruction
        scale, clamp = _OUTPUT_SCALES.get(one.get("omod")), one.get("clmp")
        if "BITOP3" in one.name:
            return lambda value: value
        if not scale and not clamp:
            return lambda value: value
        form = one.form("vdst")
        if not scale and one.plain_name in SATURATING:
            return lambda value: value
        if "F" not in form or self._is_packed:
            raise EmulationError(f"{one.name} is clamped, which is not emulated for {form}")
        kind = _FLOAT_TYPES[width]
        whole: Any = {16: np.uint16, 32: np.uint32, 64: np.uint64}[width]

        def finish(value: Array) -> Array:
            number = value.astype(whole).view(kind)
            if scale:
                number = number * kind(scale)
            if clamp:
                number = np.where(np.isnan(number), kind(0), np.clip(number, kind(0), kind(1)))
            return number.view(whole).astype(value.dtype)

        return finish

    def _note(self, registers: set[int], first: int, count: int) -> None:
        registers.update(range(first, first + count))

    def _moving(self) -> Callable[[Waves], Array] | None:
        """Which lanes DPP lets write; None for all that execute."""
        one = self.instruction
        return writing_lanes(one) if one.has("dpp") else None


def _with_lanes(
    execute: Callable[[Waves], None], lanes: Callable[[Waves], Array]
) -> Callable[[Waves], None]:
    def run(waves: Waves) -> None:
        with waves.writing_only(lanes(waves)):
            execute(waves)

    return run


def _mixed(get: Getter, is_half: bool, high: bool, absolute: bool, negative: bool) -> Getter:
    """An operand of V_FMA_MIX: a float32, or a half of it that is a float16."""
    sign = np.uint32((0x80000000 if high else 0x8000) if is_half else 0x80000000)

    def changed(waves: Waves) -> Array:
        found = get(waves)
        if absolute:
            found = found & ~sign
        return found ^ sign if negative else found

    return changed if absolute or negative else get


def _two_words(get: Getter, low: int, high: int, minus: int, minus_high: int) -> Getter:
    """A packed operand of two words of 32 bits."""
    if low == 0 and high == 1 and not minus and not minus_high:
        return get
    flip = np.uint64(minus * 0x80000000 | minus_high << 63)

    def chosen(waves: Waves) -> Array:
        found = get(waves)
        first = found >> np.uint64(32) if low else found & np.uint64(0xFFFFFFFF)
        second = found >> np.uint64(32) if high else found & np.uint64(0xFFFFFFFF)
        return (first | (second << np.uint64(32))) ^ flip

    return chosen
