"""Operands of AMD's instructions: where their bits come from.

An operand's number is 0 to 127 for scalar registers, 128 to 208 for small integers, 240 to 248 for
floats, 255 for the literal behind the instruction, from 256 on for vector registers.

Source: "RDNA3 Instruction Set Architecture" and "CDNA3 Instruction Set Architecture", chapters on
scalar and vector ALU operations, tables of source operands.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.chips import ChipFacts
from tvm_iree_ext.emulator.amd.wave_state import EXEC, FIRST_VECTOR, VCC, Array, Waves

Getter = Callable[[Waves], Array]

_LITERAL = 255
_FLOATS = {
    240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0,
    248: 0.15915494309189535,
}  # fmt: skip
_UNSIGNED: dict[int, Any] = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_FLOAT: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}

SHARED_APERTURE = 0x0001_0000_0000_0000
PRIVATE_APERTURE = 0x0002_0000_0000_0000
"""Where flat addresses of shared and of private memory begin; no memory of others is there."""

_APERTURES = {
    235: SHARED_APERTURE, 236: SHARED_APERTURE + 0xFFFFFFFF, 237: PRIVATE_APERTURE,
    238: PRIVATE_APERTURE + 0xFFFFFFFF,
}  # fmt: skip


def constant(number: int, bits: int, is_float: bool, literal: int | None, wide_sign: bool) -> int:
    """The bits of an operand that is a constant.

    ``bits`` are the operand's; ``wide_sign`` says that a literal of 32 bits is sign-extended to 64.
    """
    if 128 <= number <= 192:
        return number - 128
    if 193 <= number <= 208:
        return (192 - number) & ((1 << bits) - 1)
    if number in _FLOATS:
        # Of 64 bits a double, in V_MOV_B64, too: LLVM knows no other (``isInlinableLiteral64``).
        width = bits if is_float or bits == 64 else 32
        whole = np.array(_FLOATS[number], _FLOAT[width]).view(_UNSIGNED[width])
        return int(whole)
    if number == _LITERAL and literal is not None:
        if bits == 64 and is_float:
            return literal << 32
        if bits == 64 and wide_sign and literal >> 31:
            return literal | 0xFFFFFFFF_00000000
        return literal
    if number in _APERTURES:
        return _APERTURES[number] & ((1 << bits) - 1)
    raise EmulationError(f"operand {number} is not known")


def is_register(number: int, chip: ChipFacts) -> bool:
    """Whether an operand is a register, not a constant or a condition."""
    return number >= FIRST_VECTOR or (number < 128 and number != chip.null)


def scalar_getter(
    number: int,
    bits: int,
    chip: ChipFacts,
    *,
    is_float: bool = False,
    literal: int | None = None,
    wide_sign: bool = False,
    constant_bits: int | None = None,
) -> Getter:
    """What gives a scalar operand's bits [wave], 32 or 64; [1] for a constant.

    A constant is one of ``constant_bits``: 16 or 32 where an operand holds several numbers.
    """
    kind = _UNSIGNED[64 if bits == 64 else 32]
    if number == chip.null:
        zero = np.zeros(1, kind)
        return lambda waves: zero
    if number < 128:
        if bits == 64:
            return lambda waves: pair(waves.scalar[number], waves.scalar[number + 1])
        return lambda waves: waves.scalar[number]
    if number in (251, 252):
        register = VCC if number == 251 else EXEC
        return lambda waves: is_zero_mask(waves, register).astype(kind)
    if number == 253:
        return lambda waves: waves.scc.astype(kind)
    width = constant_bits or bits
    value = np.array([constant(number, width, is_float, literal, wide_sign)], kind)
    return lambda waves: value


def vector_getter(
    number: int,
    bits: int,
    chip: ChipFacts,
    *,
    is_float: bool = False,
    literal: int | None = None,
    wide_sign: bool = False,
    constant_bits: int | None = None,
    first_accumulator: int = 0,
) -> Getter:
    """What gives a vector operand's bits [wave, lane], 32 or 64; a scalar's are [wave, 1]."""
    if number >= FIRST_VECTOR:
        register = number - FIRST_VECTOR + first_accumulator
        if bits == 64:
            return lambda waves: pair(waves.vector[register], waves.vector[register + 1])
        return lambda waves: waves.vector[register]
    inner = scalar_getter(
        number,
        bits,
        chip,
        is_float=is_float,
        literal=literal,
        wide_sign=wide_sign,
        constant_bits=constant_bits,
    )
    return lambda waves: inner(waves)[:, None]


def pair(low: Array, high: Array) -> Array:
    """64 bits of two registers."""
    found = np.empty((*low.shape, 2), np.uint32)
    found[..., 0], found[..., 1] = low, high
    return found.view(np.uint64)[..., 0]


def halves(values: Array) -> tuple[Array, Array]:
    """The two registers of 64 bits."""
    low = (values & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low, (values >> np.uint64(32)).astype(np.uint32)


def is_zero_mask(waves: Waves, register: int) -> Array:
    """Whether a mask of lanes in scalar registers has none."""
    words = waves.lanes // 32
    return np.asarray(~waves.scalar[register : register + words].any(axis=0))
