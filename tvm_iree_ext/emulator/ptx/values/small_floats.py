"""Floats that NumPy lacks: bfloat16, tf32 and those of 8 bits, as integers of their bits.

Source: PTX ISA 9.0, *Alternate Floating-Point Data Formats*; of e4m3 and e5m2 the OCP 8-bit
Floating Point Specification 1.0.
"""

import functools

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value

_FORMS = {"e4m3": (3, 7, 448.0), "e5m2": (2, 15, 57344.0)}  # bits of fraction, bias, largest
_NAN_8 = 0x7F


def from_bfloat16(bits: Value) -> Value:
    """As float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat16(value: Value, *, towards_zero: bool = False) -> Value:
    """Of float32, rounded to even; NaN is 0x7fff."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    if towards_zero:
        kept = bits
    else:
        kept = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(value), np.uint16(0x7FFF), (kept >> np.uint32(16)).astype(np.uint16))


def to_tf32(value: Value, *, ties_away: bool) -> Value:
    """Of float32, with 10 bits of fraction; the rest is zeros."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    half = np.uint32(0x1000)
    if not ties_away:
        half = np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    rounded = (bits + half) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(value), rounded, bits)


@functools.cache
def _values_of(kind: str) -> np.ndarray:
    """The 256 numbers of a type, as float32."""
    fraction_bits, bias, _ = _FORMS[kind]
    bits = np.arange(128)
    exponent, fraction = bits >> fraction_bits, bits & (1 << fraction_bits) - 1
    normal = (1 + fraction / 2.0**fraction_bits) * 2.0 ** (exponent - bias)
    small = fraction / 2.0**fraction_bits * 2.0 ** (1 - bias)
    values = np.where(exponent > 0, normal, small)
    if kind == "e4m3":
        values[_NAN_8] = np.nan
    else:
        values[0x7C], values[0x7D:] = np.inf, np.nan
    return np.concatenate([values, -values]).astype(np.float32)


def from_float8(bits: Value, kind: str) -> Value:
    """As float32."""
    return _values_of(kind)[bits]


def to_float8(value: Value, kind: str) -> Value:
    """Of float32, rounded to even; what is too large is the largest number (``.satfinite``)."""
    fraction_bits, bias, largest = _FORMS[kind]
    wide = np.asarray(value, np.float64)
    size = np.minimum(np.abs(wide), largest)
    _, exponent = np.frexp(size)
    least = 1 - bias
    step = np.exp2(np.maximum(exponent - 1, least) - fraction_bits)
    size = np.minimum(np.rint(size / step) * step, largest)
    codes = np.searchsorted(_values_of(kind)[: _code_of_largest(kind) + 1], size)
    found = codes.astype(np.uint8) | (np.signbit(wide).astype(np.uint8) << np.uint8(7))
    return np.where(np.isnan(wide), np.uint8(_NAN_8), found)


def _code_of_largest(kind: str) -> int:
    return 0x7E if kind == "e4m3" else 0x7B
