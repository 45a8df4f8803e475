"""Functions of values that translated kernels call by name."""

import math
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.simulator.base.lane_values import (
    Value,
    apply,
    bits,
    cast,
    choose,
    plain,
    rows,
    stacked,
)

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _of_type(function: Callable[[Any], Any]) -> Callable[[Value], Value]:
    """``function``, its result in the type of what it takes."""

    def typed(value: Any) -> Any:
        array = np.asarray(value)
        wide = array.astype(np.float64) if array.dtype.itemsize > 4 else array.astype(np.float32)
        return np.asarray(function(wide)).astype(array.dtype)[()]

    return lambda value: apply(typed, value)


def bfloat16_bits(value: Value) -> Value:
    """The bits of the nearest bfloat16 of a float32: ties to even; a NaN is the quiet one."""

    def rounded(single: Any) -> Any:
        array = np.asarray(single, np.float32)
        words = array.astype(ml_dtypes.bfloat16).view(np.uint16)
        return np.where(np.isnan(array), 0x7FC0, words).astype(np.uint16)[()]

    return apply(rounded, value)


def _nearest(x: Any) -> Any:
    return np.where(np.abs(x - np.trunc(x)) == 0.5, np.trunc(x) + np.sign(x), np.rint(x))


def _flushed_exp2(x: Any) -> Any:
    """``exp2`` of NVIDIA's and AMD's instructions: subnormal results are 0."""
    result = np.exp2(x)
    return np.where(result < np.finfo(np.float32).tiny, np.zeros_like(result), result)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp2_approx_ftz_f": _flushed_exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "cbrt": np.cbrt,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": lambda x: np.asarray(_erf(x), x.dtype),
    "erfc": lambda x: np.asarray(_erfc(x), x.dtype),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _nearest,
    "fabs": np.abs,
}
UNARY: dict[str, Callable[[Value], Value]] = {
    name: _of_type(function) for name, function in _PLAIN.items()
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fmax": np.fmax,
    "fmin": np.fmin,
}
_SPELLING = re.compile(r"^(?:__)?(?:nv_|ocml_)?(h?)(\w+?)(?:_f(?:16|32|64)|f|_approx_ftz_f)?$")
_OTHER_NAMES = {"pow": "pow", "power": "pow", "tirx_round": "round", "rintf": "rint", "abs": "fabs"}


def library_name(name: str) -> str:
    """The plain name of a C, CUDA or ROCm function of numbers: ``exp`` of ``__expf``, ``hexp``."""
    known = UNARY.keys() | BINARY.keys() | {"fma"}
    for candidate in (name, name.lstrip("_")):
        if candidate in known:
            return candidate
    found = _SPELLING.match(name)
    if found and found[2] in known:
        return found[2]
    return _OTHER_NAMES.get(found[2] if found else name, "")


def fused(a: Value, b: Value, c: Value) -> Value:
    """``a * b + c``, rounded once; of float64 nearly so, with 64 digits of the sum."""

    def compute(a: Any, b: Any, c: Any) -> Any:
        kind = np.result_type(a)
        if kind.itemsize > np.float32().itemsize:
            return _fused_doubles(*map(np.asarray, (a, b, c)))
        product = np.asarray(a).astype(np.float64) * np.asarray(b).astype(np.float64)
        return (product + np.asarray(c).astype(np.float64)).astype(kind)

    return apply(compute, a, b, c)


_HALF_BITS = 21  # what is left of a float64's 53 digits behind 32, whose products are exact


def _fused_doubles(a: Any, b: Any, c: Any) -> Any:
    """By products of halves, of which the largest meets ``c`` first: there all may cancel."""
    plain = a * b + c
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    total = ((a_high * b_high + c) + a_high * b_low) + a_low * b_high + a_low * b_low
    return np.where(np.isfinite(plain), total.astype(np.float64), plain)


def _halves(a: Any) -> tuple[Any, Any]:
    high = (a.view(np.int64) & np.int64(-1 << _HALF_BITS)).view(np.float64)
    return high.astype(np.longdouble), (a - high).astype(np.longdouble)


def least(a: Value, b: Value) -> Value:
    """The smaller; where one is no number, the other."""
    return np.fmin(a, b)


def greatest(a: Value, b: Value) -> Value:
    """The larger; where one is no number, the other."""
    return np.fmax(a, b)


def truncated_quotient(a: Value, b: Value) -> Value:
    """Integer division towards zero, as C's."""

    def divide(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        quotient = np.floor_divide(a, b)
        inexact = (quotient * b != a) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
        return quotient + inexact

    return apply(divide, a, b)


def truncated_remainder(a: Value, b: Value) -> Value:
    """The remainder with the sign of ``a``, as C's."""

    def remain(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return int(math.fmod(a, b)) if abs(a) < 1 << 52 else a - truncated_quotient(a, b) * b
        return np.fmod(a, b)

    return apply(remain, a, b)


def number_of_bits(value: Value) -> Value:
    """How many bits are 1."""

    def count(value: Any) -> Any:
        array = np.asarray(value)
        raw = array.view(f"u{array.dtype.itemsize}")
        total = np.zeros(array.shape, array.dtype)
        for bit in range(8 * array.dtype.itemsize):
            total += ((raw >> raw.dtype.type(bit)) & raw.dtype.type(1)).astype(array.dtype)
        return total

    return apply(count, value)


def permuted_bytes(first: Value, second: Value, selector: Value, place: int) -> Value:
    """A word of bytes of two words: for each, ``place`` bits of the selector name one of eight."""

    def permute(first: Any, second: Any, selector: Any) -> Any:
        words = [np.asarray(word).astype(np.int64) & 0xFFFFFFFF for word in (first, second)]
        both = (words[0] | words[1] << 32).astype(np.uint64)
        result = np.zeros(both.shape, np.uint64)
        for at in range(4):
            picked = np.asarray(selector).astype(np.int64) >> place * at & 7
            byte = both >> (8 * picked).astype(np.uint64) & np.uint64(0xFF)
            result = result | byte << np.uint64(8 * at)
        return result.astype(np.uint32).view(np.int32)

    return apply(permute, first, second, selector)


def leading_zeros(value: Value) -> Value:
    """How many bits above the highest 1."""

    def count(value: Any) -> Any:
        array = np.asarray(value)
        width = 8 * array.dtype.itemsize
        raw = array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
        zeros = np.full(array.shape, width, np.int32)
        for bit in range(width):
            zeros = np.where((raw >> np.uint64(bit)) & np.uint64(1), width - 1 - bit, zeros)
        return zeros.astype(np.int32)

    return apply(count, value)


def shuffled(vectors: list[tuple[Value, int]], picked: list[int], lanes: int) -> Value:
    """Elements of vectors, by their numbers in all of them."""
    every = [row for vector, count in vectors for row in rows(vector, count)]
    if len(picked) == 1:
        return every[picked[0]]
    return stacked([every[at] for at in picked], lanes)


def concatenated(vectors: list[Value], lanes: int) -> Value:
    """Vectors end to end."""
    every = [row for vector in vectors for row in rows(vector, np.shape(vector)[0])]
    return stacked(every, lanes)


def register_of(elements: Value, at: int, count: int, dtype: np.dtype) -> Value:
    """The ``at``-th of ``count`` registers of elements ``[elements, lanes]``."""
    return rows(_regrouped(elements, count, dtype), count)[at]


def vector_of(elements: Value, count: int, dtype: np.dtype) -> Value:
    """Elements ``[elements, lanes]`` as ``count`` of another type, in the low bits of each."""
    regrouped = _regrouped(elements, count, dtype)
    return rows(regrouped, 1)[0] if count == 1 else regrouped


def _regrouped(elements: Value, count: int, dtype: np.dtype) -> Value:
    each = np.shape(plain(elements))[0] // count
    if each * np.result_type(plain(elements)).itemsize != dtype.itemsize:
        elements = apply(lambda values: np.repeat(values, 2, axis=0), elements)
    return bits(elements, dtype, count)


NAMES: dict[str, Any] = {
    "np": np,
    "cast": cast,
    "bits": bits,
    "choose": choose,
    "rows": rows,
    "stacked": stacked,
    "least": least,
    "greatest": greatest,
    "fused": fused,
    "truncated_quotient": truncated_quotient,
    "truncated_remainder": truncated_remainder,
    "number_of_bits": number_of_bits,
    "permuted_bytes": permuted_bytes,
    "leading_zeros": leading_zeros,
    "shuffled": shuffled,
    "concatenated": concatenated,
    "apply": apply,
    "register_of": register_of,
    "vector_of": vector_of,
}
"""Names that the source of a kernel may use."""
