"""Arithmetic of floats: f16, bf16, f32, f64 and pairs.

Source: PTX ISA 9.0, *Floating-Point Instructions*, *Half Precision Floating-Point Instructions*,
*Mixed Precision Floating-Point Instructions*.  Numbers are rounded once, as the modifier says;
subnormal ones stay, but for ``.ftz``.  Approximations are computed in float64 and rounded, which is
within the errors that the manual allows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, numpy_of
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values import exact
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, pure
from tvm_iree_ext.emulator.ptx.values.small_floats import from_bfloat16, to_bfloat16

_DIRECTED = ("rz", "rm", "rp")
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_LEAST_NORMAL = np.float32(2.0**-126)
_NAN_32 = np.uint32(0x7FFFFFFF).view(np.float32)
_NAN_16 = np.uint16(0x7FFF).view(np.float16)


def flushed(value: Value) -> Value:
    """Subnormal float32 as zeros of their signs (``.ftz``)."""
    return np.where(np.abs(value) < _LEAST_NORMAL, np.copysign(np.float32(0), value), value)


def float_arithmetic(one: PtxInstruction) -> PtxOperation:
    """*add*, *sub*, *mul*, *fma*, *mad*, *div*, *min*, *max*, *abs*, *neg* of floats."""
    kind = one.type
    function = _of_type(one, _PAIRS.get(kind, kind))
    if one.has("ftz") and kind == "f32":
        function = _flushing(function)
    if one.has("sat"):
        function = _saturating(function)
    if one.has("relu"):
        function = _without_negatives(function)
    if kind in _PAIRS:
        function = _of_pairs(function, _PAIRS[kind])
    elif kind == "bf16":
        function = _of_bfloat16(function)
    return pure(one, function, [kind] * (len(one.operands) - 1), kind)


def _flushing(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: flushed(function(*map(flushed, values)))


def _saturating(function: Callable[..., Any]) -> Callable[..., Any]:
    def saturated(*values: Value) -> Value:
        result = function(*values)
        kind = result.dtype.type
        return np.fmin(np.fmax(result, kind(0)), kind(1))  # NaN gives 0

    return saturated


def _without_negatives(function: Callable[..., Any]) -> Callable[..., Any]:
    def positive(*values: Value) -> Value:
        result = function(*values)
        return np.where(result < 0, result.dtype.type(0), result)

    return positive


def _of_bfloat16(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: to_bfloat16(function(*map(from_bfloat16, values)))


def _of_pairs(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A function of 16 bits on both halves of a word."""

    def half(value: Value, shift: int) -> Value:
        bits = (value >> np.uint32(shift)).astype(np.uint16)
        return from_bfloat16(bits) if kind == "bf16" else bits.view(np.float16)

    def bits_of_result(value: Value) -> Value:
        raw = to_bfloat16(value) if kind == "bf16" else np.asarray(value).view(np.uint16)
        return raw.astype(np.uint32)

    def both(*values: Value) -> Value:
        low, high = (
            bits_of_result(function(*(half(one, shift) for one in values))) for shift in (0, 16)
        )
        return low | high << np.uint32(16)

    return both


def _of_type(one: PtxInstruction, kind: str) -> Callable[..., Any]:
    """The function of values; those of bf16 come as float32, and their results are rounded later.

    Rounding to 24 bits and then to 8 is rounding once, for sums, products and quotients
    (Figueroa, *When is double rounding innocuous?*, 1995); not for fma.
    """
    rounding = one.one_of(*_DIRECTED)
    name = one.opcode
    if name == "fma" or name == "mad":
        return _fma(kind, rounding)
    if name == "div":
        return _division(one, kind, rounding)
    if name in ("add", "sub", "mul"):
        change = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
        return _rounded(name, kind, rounding) if rounding else change
    if name in ("min", "max"):
        return _extreme(one, kind)
    return {"abs": np.abs, "neg": np.negative}[name]


def _fma(kind: str, rounding: str) -> Callable[..., Any]:
    if kind == "f16":
        return lambda a, b, c: exact.to_odd(
            *exact.two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
        ).astype(np.float16)
    if kind == "bf16":
        return _fma_bfloat16
    if rounding and kind == "f32":
        return lambda a, b, c: exact.directed(
            *exact.two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64)),
            np.float32, rounding,
        )  # fmt: skip
    if rounding:
        raise ValueError(f"fma of {kind} rounded {rounding}")
    return exact.fma_32 if kind == "f32" else exact.fma_64


def _fma_bfloat16(a: Value, b: Value, c: Value) -> Value:
    """To a float32 by rounding to odd, so that rounding it to bfloat16 is rounding once."""
    total, error = exact.two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
    wide = exact.to_odd(total, error)
    narrow = exact.directed(wide, np.float64(0), np.float32, "rz")
    lost = (narrow.astype(np.float64) != wide) & np.isfinite(wide)
    bits = np.asarray(narrow).view(np.uint32)
    return np.where(lost, bits | np.uint32(1), bits).view(np.float32)


def _rounded(name: str, kind: str, rounding: str) -> Callable[..., Any]:
    """A sum or product in a direction."""
    narrow = numpy_of(kind)

    def function(a: Value, b: Value) -> Value:
        a, b = a.astype(np.float64), b.astype(np.float64)
        if name == "mul":
            pair = exact.two_product(a, b) if kind == "f64" else (a * b, np.float64(0))
        else:
            pair = exact.two_sum(a, -b if name == "sub" else b)
        total, error = pair
        error = np.where(np.isfinite(error), error, 0.0)
        return exact.directed(np.asarray(total), error, narrow, rounding)

    return function


def _division(one: PtxInstruction, kind: str, rounding: str) -> Callable[..., Any]:
    """*div*: ``.rn`` is NumPy's; ``.approx`` and ``.full`` are rounded from float64's quotient."""
    if rounding:
        raise ValueError(f"a division rounded {rounding}")
    if one.has("approx"):
        # *div.approx*: for 2^126 <= |b| <= 2^128 the result is 0 (or NaN of an infinity).
        def approximate(a: Value, b: Value) -> Value:
            quotient = np.divide(a, b)
            large = (np.abs(b) >= np.float32(2.0**126)) & np.isfinite(b)
            zero = np.where(np.isinf(a), _NAN_32, np.copysign(np.float32(0), quotient))
            return np.where(large, zero, quotient)

        return approximate
    return np.divide


def _extreme(one: PtxInstruction, kind: str) -> Callable[..., Any]:
    """*min*, *max*: of a NaN and a number the number, with ``.NaN`` NaN; -0 is less than +0."""
    least = one.opcode == "min"
    if one.has("xorsign") or one.has("abs"):
        raise ValueError("xorsign")
    number = np.fmin if least else np.fmax
    canonical = _NAN_16 if kind == "f16" else np.float64(np.nan) if kind == "f64" else _NAN_32

    def function(a: Value, b: Value, *more: Value) -> Value:
        result = number(a, b)
        zeros = (a == 0) & (b == 0)
        # Zeros that are equal differ in their signs.
        pick = np.signbit(a) if least else ~np.signbit(a)
        result = np.where(zeros, np.where(pick, a, b), result)
        bad = np.isnan(a) | np.isnan(b) if one.has("NaN") else np.isnan(a) & np.isnan(b)
        result = np.where(bad, canonical, result)
        return function(result, *more) if more else result

    return function


@instruction("fma")
def _fma_instruction(one: PtxInstruction) -> PtxOperation:
    """*fma*."""
    return float_arithmetic(one)


@instruction("copysign")
def _copysign(one: PtxInstruction) -> PtxOperation:
    """*copysign*: the sign of the first, all else of the second."""
    return pure(one, lambda a, b: np.copysign(b, a), (one.type, one.type), one.type)


@instruction("testp")
def _testp(one: PtxInstruction) -> PtxOperation:
    """*testp*."""
    kind = one.type
    least = np.finfo(numpy_of(kind)).tiny
    tests: dict[str, Callable[[Value], Value]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= least),
        "subnormal": lambda a: (np.abs(a) < least) & (a != 0),
    }
    return pure(one, tests[one.modifiers[0]], (kind,), "pred")


def _computed(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A function of float32 by way of float64."""
    return lambda a: function(a.astype(np.float64)).astype(np.float32)


_APPROXIMATE: dict[str, Callable[[Value], Value]] = {
    "ex2": _computed(np.exp2),
    "lg2": _computed(np.log2),
    "sin": _computed(np.sin),
    "cos": _computed(np.cos),
    "tanh": _computed(np.tanh),
    "rsqrt": _computed(lambda a: np.copysign(1, a) / np.sqrt(a)),
    "sqrt": np.sqrt,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
}


@instruction("ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "sqrt", "rcp")
def _functions(one: PtxInstruction) -> PtxOperation:
    """*ex2*, *lg2*, *sin*, *cos*, *tanh*, *rsqrt*, *sqrt*, *rcp*."""
    kind = one.type
    if kind == "f64":
        return pure(one, _of_float64(one), (kind,), kind)
    rounding = one.one_of(*_DIRECTED)
    if rounding:
        raise ValueError(f"rounded {rounding}")
    function = _APPROXIMATE[one.opcode]
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        whole = function

        def function(a: Value) -> Value:
            found = whole(a.astype(np.float32))
            return found.astype(np.float16) if "bf16" not in kind else found

        if kind in _PAIRS:
            function = _of_pairs(function, _PAIRS[kind])
        elif kind == "bf16":
            function = _of_bfloat16(function)
    elif one.has("ftz"):
        function = _flushing(function)
    return pure(one, function, (kind,), kind)


_UPPER = np.uint64(0xFFFFFFFF00000000)
_LEAST_NORMAL_64 = 2.0**-1022


def _of_float64(one: PtxInstruction) -> Callable[[Value], Value]:
    """``.rn`` of float64, and *rsqrt.approx.f64*; with ``.approx.ftz`` the upper word alone.

    *rcp.approx.ftz.f64*, *rsqrt.approx.ftz.f64*: the lower word is taken for zeros, and is zeros.
    """

    def root(a: Value) -> Value:  # within 2^-52.7: longdouble has more bits, or is rounded twice
        wide = a.astype(np.longdouble)
        return (np.copysign(1, wide) / np.sqrt(wide)).astype(np.float64)

    if not one.has("ftz"):
        exact_ones: dict[str, Callable[[Value], Value]] = {
            "sqrt": np.sqrt, "rcp": lambda a: 1 / a, "rsqrt": root,
        }  # fmt: skip
        return exact_ones[one.opcode]

    def upper(a: Value) -> Value:
        a = (np.asarray(a).view(np.uint64) & _UPPER).view(np.float64)
        a = np.where(np.abs(a) < _LEAST_NORMAL_64, np.copysign(0.0, a), a)
        found = np.asarray(1 / a if one.opcode == "rcp" else root(a))
        found = np.where(np.abs(found) < _LEAST_NORMAL_64, np.copysign(0.0, found), found)
        return (found.view(np.uint64) & _UPPER).view(np.float64)

    return upper
