"""Sums and products of floats rounded once, in every direction, with NumPy's arithmetic.

The difference between a sum of float64 and its rounding is a float64 (Knuth's two-sum), and so is
that of a product (Dekker's, with Veltkamp's splitting).  A number that is rounded to odd before it
is rounded to fewer bits is rounded right (Boldo and Melquiond, *Emulation of FMA and correctly
rounded sums: proved algorithms using rounding to odd*, 2008).
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value

_SPLITTER = float((1 << 27) + 1)
_LARGE, _SMALL = 2.0**480, 2.0**-400  # beyond them, products' errors may not be numbers
_INTEGER = {2: np.int16, 4: np.int32, 8: np.int64}


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """A sum of float64, and what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """A product of float64, and what rounding took from it."""
    product = a * b
    a1 = a * _SPLITTER
    a1 = a1 - (a1 - a)
    b1 = b * _SPLITTER
    b1 = b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def to_odd(total: Value, error: Value) -> Value:
    """What a float64 and the error of its rounding stand for, rounded to odd."""
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    away = np.where((error > 0) == (total > 0), 1, -1)
    moved = bits + np.where(inexact & (bits & 1 == 0), away, 0)
    return moved.view(np.float64)


def fma_32(a: Value, b: Value, c: Value) -> Value:
    """*fma.rn.f32*: a product of float32 is a float64; its sum with c is rounded twice.

    That differs from rounding once only where the sum lies in the middle between two float32, or
    where float32 has fewer bits than usual: those are looked at again.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    result = total.astype(np.float32)
    bits = np.asarray(total).view(np.int64)
    doubtful = (bits & 0x1FFFFFFF) == 0x10000000
    doubtful = doubtful | (np.abs(result) < np.float32(2.0**-125)) & (total != 0)
    if doubtful.any():
        total, error = two_sum(product, np.asarray(c, np.float64))
        return np.where(doubtful, to_odd(total, error).astype(np.float32), result)
    return result


def fma_64(a: Value, b: Value, c: Value) -> Value:
    """*fma.rn.f64*, by the algorithm of Boldo and Melquiond; very large and small ones singly."""
    upper, lower = two_product(a, b)
    total, error = two_sum(c, lower)
    first, second = two_sum(upper, total)
    low, rest = two_sum(error, second)
    result = first + to_odd(low, rest)
    usual = (np.abs(upper) < _LARGE) & (np.abs(upper) > _SMALL)
    usual = usual & (np.abs(a) < _LARGE) & (np.abs(b) < _LARGE) & (np.abs(c) < _LARGE)
    usual = usual & ((np.abs(c) > _SMALL) | (c == 0))
    plain = ((a == 0) | (b == 0)) & np.isfinite(a) & np.isfinite(b)
    infinite = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    result = np.where(plain | infinite, a * b + c, result)
    unusual = ~(usual | plain | infinite)
    if unusual.any():
        result = _one_by_one(result, unusual, a, b, c)
    return result


def _one_by_one(result: Value, chosen: Value, *operands: Value) -> Value:
    result = np.array(np.broadcast_to(result, chosen.shape))
    whole = [np.broadcast_to(one, chosen.shape) for one in operands]
    for index in np.argwhere(chosen):
        place = tuple(index)
        a, b, c = (Fraction(float(one[place])) for one in whole)
        exact = a * b + c
        try:
            value = float(exact)  # rounded to even
        except OverflowError:
            value = math.inf if exact > 0 else -math.inf
        if value == 0:
            value = math.copysign(0.0, exact if exact else float(result[place]))
        result[place] = value
    return result


def directed(total: Value, error: Value, kind: Any, rounding: str) -> Value:
    """``total + error`` of float64 as a type no wider, rounded ``rz``, ``rm`` or ``rp``."""
    result = np.asarray(total.astype(kind))
    back = result.astype(np.float64)
    above = (back > total) | ((back == total) & (error < 0))
    below = (back < total) | ((back == total) & (error > 0))
    if rounding == "rz":
        down, up = above & (total > 0), below & (total < 0)
        most = np.isinf(result) & np.isfinite(total)
        down, up = down | most & (total > 0), up | most & (total < 0)
    elif rounding == "rm":
        down, up = above, np.zeros_like(above)
    else:
        down, up = np.zeros_like(below), below
    lowest, highest = np.array(-np.inf, kind), np.array(np.inf, kind)
    result = np.where(down, np.nextafter(result, lowest), result)
    return np.where(up, np.nextafter(result, highest), result)
