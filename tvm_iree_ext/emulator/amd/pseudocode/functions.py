"""Functions that AMD's pseudocode calls, on arrays.

What the manuals' pseudocode leaves open is taken from the text of the instructions in AMD's
"RDNA3 Instruction Set Architecture" and "CDNA3 Instruction Set Architecture", chapter
"Instructions": conversions to integers clamp, and a NaN becomes 0.  Transcendental functions are
NumPy's; the hardware's differ from these by at most an ulp or two.
"""

from typing import Any

import ml_dtypes
import numpy as np

Array = Any  # an array, or a NumPy scalar

_SIGN_BITS = {2: 15, 4: 31, 8: 63}
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FRACTION_BITS = {2: 10, 4: 23, 8: 52}
_FP8 = {
    True: (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    False: (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
}


def raw(x: Array) -> Array:
    """The bits of floats."""
    return x.view(_UNSIGNED[x.dtype.itemsize])


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c``, rounded once: through float64, and for float64 with the errors added."""
    kind = np.result_type(a, b, c)
    if kind != np.float64:
        return (a.astype(np.float64) * b + c).astype(kind)
    return _fma_double(a, b, c)


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    """Dekker's exact product and Knuth's exact sum, whose errors are added to the result."""
    product = a * b
    plain = product + c
    split = 134217729.0  # 2^27 + 1
    high_a, high_b = a * split, b * split
    high_a, high_b = high_a - (high_a - a), high_b - (high_b - b)
    low_a, low_b = a - high_a, b - high_b
    error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    back = plain - product
    rest = (product - (plain - back)) + (c - back)
    better = plain + (rest + error)
    return np.where(np.isfinite(better), better, plain)


def shl(x: Array, count: Array) -> Array:
    """Shift left by any count: nothing is left of what is shifted by all bits or more."""
    bits = x.dtype.itemsize * 8
    return np.where(count < bits, x << np.minimum(count, bits - 1).astype(x.dtype), 0).astype(
        x.dtype
    )


def shr(x: Array, count: Array) -> Array:
    """Shift right by any count."""
    bits = x.dtype.itemsize * 8
    if x.dtype.kind == "i":
        return x >> np.minimum(count, bits - 1).astype(x.dtype)
    return np.where(count < bits, x >> np.minimum(count, bits - 1).astype(x.dtype), 0).astype(
        x.dtype
    )


def pow2(kind: Any, exponent: Array) -> Array:
    """2 to an integer power."""
    return np.ldexp(np.ones_like(exponent, kind), exponent.astype(np.int32)).astype(kind)


def ldexp(x: Array, exponent: Array) -> Array:
    """``x`` times 2 to an integer power."""
    return np.ldexp(x, np.asarray(exponent).astype(np.int32)).astype(x.dtype)


def exponent(x: Array) -> Array:
    """The exponent field, biased as it is."""
    size = x.dtype.itemsize
    width = _SIGN_BITS[size] - _FRACTION_BITS[size]
    return ((raw(x) >> _FRACTION_BITS[size]) & ((1 << width) - 1)).astype(np.int32)


def mantissa(x: Array) -> Array:
    """The fraction, from 0.5 up to 1, with the sign."""
    return np.frexp(x)[0].astype(x.dtype)


def frexp_exponent(x: Array) -> Array:
    """The power of 2 of which :func:`mantissa` is multiplied; 0 for what is not finite."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def sign(x: Array) -> Array:
    """Whether the sign is set."""
    return np.signbit(x)


def is_quiet_nan(x: Array) -> Array:
    """Whether it is a NaN whose first bit of the fraction is set."""
    bit = _FRACTION_BITS[x.dtype.itemsize] - 1
    return np.isnan(x) & ((raw(x) >> bit) & 1 != 0)


def is_signal_nan(x: Array) -> Array:
    """Whether it is a NaN that is not quiet."""
    bit = _FRACTION_BITS[x.dtype.itemsize] - 1
    return np.isnan(x) & ((raw(x) >> bit) & 1 == 0)


def is_denormal(x: Array) -> Array:
    """Whether it is neither 0 nor normal, and smaller than these."""
    return (exponent(x) == 0) & (x != 0)


def is_even(x: Array) -> Array:
    """Whether a whole number is even."""
    return np.fmod(x, 2) == 0


def fract(x: Array) -> Array:
    """What is above the whole number below."""
    return x - np.floor(x)


def reverse_bits(x: Array) -> Array:
    """The bits in the opposite order."""
    bits = x.dtype.itemsize * 8
    shift, mask = bits // 2, (1 << bits) - 1
    while shift:
        mask ^= (mask << shift) & ((1 << bits) - 1)
        low = x.dtype.type(mask)
        x = ((x >> shift) & low) | ((x & low) << shift)
        shift //= 2
    return x


def sign_extend(x: Array, width: Array) -> Array:
    """An integer whose sign is its bit ``width - 1``; 0 has none."""
    bits = x.dtype.itemsize * 8
    shift = (bits - np.asarray(width)).astype(x.dtype) & (bits - 1)
    return np.where(np.asarray(width) == 0, 0, (x << shift) >> shift).astype(x.dtype)


def to_integer(x: Array, kind: Any) -> Array:
    """Towards 0, clamped; 0 for a NaN."""
    limits = np.iinfo(kind)
    wide = np.where(np.isnan(x), 0, np.trunc(x.astype(np.float64)))
    if limits.bits < 64:
        return np.clip(wide, limits.min, limits.max).astype(kind)
    return np.where(wide >= float(limits.max), limits.max, wide.astype(kind)).astype(kind)


def clamp_integer(x: Array, kind: Any) -> Array:
    """An integer clamped to another type."""
    limits = np.iinfo(kind)
    low = max(limits.min, np.iinfo(x.dtype).min)
    return np.clip(x, low, limits.max).astype(kind)


def to_half(x: Array, to_zero: bool) -> Array:
    """float32 to float16: to the nearest even, or towards 0."""
    found = x.astype(np.float16)
    if not to_zero:
        return found
    too_far = np.abs(found.astype(np.float32)) > np.abs(x)
    return np.where(too_far, (raw(found) - np.uint16(1)).view(np.float16), found)


def to_bfloat(x: Array) -> Array:
    """The bits of a bfloat16: float32 to the nearest even."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    return np.where(np.isnan(x), (bits >> 16) | np.uint32(0x40), rounded).astype(np.uint16)


def from_bfloat(x: Array) -> Array:
    """A bfloat16's bits as float32."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def to_float8(x: Array, wide_exponent: bool, ocp: bool) -> Array:
    """The bits of an 8-bit float: of OCP, or as gfx940 to gfx942 have them."""
    return x.astype(_FP8[ocp][wide_exponent]).view(np.uint8)


def from_float8(x: Array, wide_exponent: bool, ocp: bool) -> Array:
    """The bits of an 8-bit float as float32."""
    return x.astype(np.uint8).view(_FP8[ocp][wide_exponent]).astype(np.float32)


def bit_count(x: Array) -> Array:
    """How many bits are 1."""
    size = x.dtype.itemsize
    whole = np.ascontiguousarray(x)
    bytes_ = whole.view(np.uint8).reshape(*whole.shape, size)
    return _ONES[bytes_].sum(axis=-1, dtype=np.uint32)


def highest_bit(x: Array) -> Array:
    """How many zeros stand above the first 1, int32; -1 where there is none."""
    bits = x.dtype.itemsize * 8
    high = np.frexp((x >> (bits // 2)).astype(np.float64))[1]
    low = np.frexp((x & x.dtype.type((1 << bits // 2) - 1)).astype(np.float64))[1]
    place = np.where(high > 0, high + bits // 2, low)
    return np.where(place == 0, -1, bits - place).astype(np.int32)


def lowest_bit(x: Array) -> Array:
    """How many zeros stand below the last 1, int32; -1 where there is none."""
    bits = x.dtype.itemsize * 8
    lowest = x & (~x + x.dtype.type(1))
    return np.where(x == 0, -1, bits - 1 - highest_bit(lowest)).astype(np.int32)


_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
