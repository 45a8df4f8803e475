"""PTX's scalar types, and the NumPy types that hold them.

Source: PTX ISA 9.0, *Fundamental Types*, *Packed Data Types*, *Operand Size Exceeding
Instruction-Type Size*.  A register is an array of its own type where NumPy has it, and of unsigned
integers otherwise; an operand of another type is a view of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
# Types of less than 32 bits a number of which lie in one register.
_PACKED = {"f16x2": 32, "bf16x2": 32, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16, "tf32": 32}

Value = Any
"""A register of many lanes: an array [warps, 32], or a scalar where all lanes have the same."""

Conversion = Callable[[Value], Value]


def bits_of(kind: str) -> int:
    """Bits of a type; of ``pred`` 8."""
    if kind in _PACKED:
        return _PACKED[kind]
    return 8 if kind == "pred" else int(kind[1:])


def bytes_of(kind: str) -> int:
    """Bytes of a type."""
    return bits_of(kind) // 8


def numpy_of(kind: str) -> np.dtype:
    """The NumPy type of values of a PTX type."""
    if kind == "pred":
        return np.dtype(bool)
    if kind in _FLOATS:
        return np.dtype(_FLOATS[kind])
    bits = bits_of(kind)
    return np.dtype(_SIGNED[bits] if kind[0] == "s" else _UNSIGNED[bits])


def storage_of(kind: str) -> np.dtype:
    """The NumPy type of a register that is declared with a PTX type."""
    found = numpy_of(kind)
    return np.dtype(_UNSIGNED[bits_of(kind)]) if found.kind == "i" else found


def taken(stored: np.dtype, kind: str) -> Conversion | None:
    """What makes an operand of a type of a register's contents; None where they are the same.

    Of a register that is wider than the type the low bits are taken.
    """
    wanted = numpy_of(kind)
    if stored == wanted:
        return None
    if stored.itemsize == wanted.itemsize:
        return lambda value: value.view(wanted)
    if stored.itemsize > wanted.itemsize:
        whole = np.dtype(_UNSIGNED[8 * stored.itemsize])
        part = np.dtype(_UNSIGNED[8 * wanted.itemsize])
        return lambda value: value.view(whole).astype(part).view(wanted)
    raise TypeError(f"a register of {stored} has no {kind}")


def given(kind: str, stored: np.dtype) -> Conversion | None:
    """What makes a register's contents of a result; None where they are the same.

    A register that is wider than the type takes the sign, or zeros.
    """
    made = numpy_of(kind)
    if stored == made:
        return None
    if stored.itemsize == made.itemsize:
        return lambda value: value.view(stored)
    if stored.itemsize < made.itemsize:
        raise TypeError(f"a register of {stored} takes no {kind}")
    if made.kind == "i":
        wide = np.dtype(_SIGNED[8 * stored.itemsize])
        return lambda value: value.astype(wide).view(stored)
    bits = np.dtype(_UNSIGNED[8 * made.itemsize])
    unsigned = np.dtype(_UNSIGNED[8 * stored.itemsize])
    return lambda value: value.view(bits).astype(unsigned).view(stored)


def constant(value: int, float_bits: int, kind: str) -> Value:
    """A constant as a scalar of a type; floats of one width become those of another."""
    wanted = numpy_of(kind)
    if kind == "pred":
        return np.bool_(value)
    if float_bits:
        made = np.array(value, _UNSIGNED[float_bits]).view(_FLOATS[f"f{float_bits}"])
        if wanted.kind == "f":
            return made.astype(wanted)[()]
        return made.view(_UNSIGNED[float_bits])[()].astype(wanted)
    bits = 8 * wanted.itemsize
    raw = np.array(value & (1 << bits) - 1, _UNSIGNED[bits])
    return raw.view(wanted)[()]
