"""Moves and conversions of values.

Source: PTX ISA 9.0, *Data Movement and Conversion Instructions: mov, cvt, cvta, cvt.pack*.
"""

from collections.abc import Callable

import numpy as np

from tvm_iree_ext.emulator.ptx.machine.address_windows import SHARED_WINDOW
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, bits_of, numpy_of
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction, PtxSymbol, RegisterVector
from tvm_iree_ext.emulator.ptx.values import exact
from tvm_iree_ext.emulator.ptx.values.floats import flushed
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, pure
from tvm_iree_ext.emulator.ptx.values.small_floats import (
    from_bfloat16,
    from_float8,
    to_bfloat16,
    to_float8,
    to_tf32,
)

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_EIGHT_BITS = ("e4m3x2", "e5m2x2")
Convert = Callable[..., Value]


@instruction("mov")
def _mov(one: PtxInstruction) -> PtxOperation:
    """*mov*: also of vectors into one register, and the other way; and of addresses."""
    target, source = one.operands
    kind = one.type
    if isinstance(target, RegisterVector):
        part = f"b{bits_of(kind) // len(target.items)}"
        count = len(target.items)
        return PtxOperation(
            lambda a: _parts(a, count),
            [(source, kind)],
            [(item, part) for item in target.items],
        )
    if isinstance(source, RegisterVector):
        part = f"b{bits_of(kind) // len(source.items)}"
        return PtxOperation(_whole, [(item, part) for item in source.items], [(target, kind)])
    if isinstance(source, PtxSymbol):
        kind = f"b{bits_of(kind)}"
    return pure(one, lambda a: a, (kind,), kind)


def _parts(value: Value, count: int) -> tuple[Value, ...]:
    bits = 8 * value.dtype.itemsize // count
    narrow = numpy_of(f"b{bits}")
    move = value.dtype.type
    return tuple((value >> move(bits * place)).astype(narrow) for place in range(count))


def _whole(*parts: Value) -> Value:
    bits = 8 * parts[0].dtype.itemsize
    wide = numpy_of(f"b{bits * len(parts)}")
    found = parts[0].astype(wide)
    for place, part in enumerate(parts[1:], 1):
        found = found | part.astype(wide) << wide.type(bits * place)
    return found


@instruction("cvta")
def _cvta(one: PtxInstruction) -> PtxOperation:
    """*cvta*: between addresses of a state space and generic ones.

    A space's addresses are numbers from its window on here, but for those of shared memory.
    """
    kind = one.type
    if one.has("shared") or one.has("shared::cta") or one.has("shared::cluster"):
        window = numpy_of(kind).type(SHARED_WINDOW)
        if one.has("to"):
            return pure(one, lambda a: a - window, (kind,), kind)
        return pure(one, lambda a: a + window, (kind,), kind)
    return pure(one, lambda a: a, (kind,), kind)


@instruction("cvt")
def _cvt(one: PtxInstruction) -> PtxOperation:
    """*cvt*: of one number, of two into a pair, and between pairs."""
    gives, source = (kind for kind in one.modifiers if _is_type(kind))
    if gives in _EIGHT_BITS:
        return _to_pair_of_8_bits(one, gives, source)
    if source in _EIGHT_BITS:
        return _from_pair_of_8_bits(one, source, gives)
    if gives in ("f16x2", "bf16x2") and len(one.operands) == 3:
        return _to_pair(one, gives)
    if gives == "tf32":
        away = one.has("rna")
        return pure(one, lambda a: to_tf32(a, ties_away=away), (source,), "b32")
    convert = conversion(one, gives, source)
    return pure(one, convert, (source,), gives)


def _is_type(name: str) -> bool:
    try:
        return bits_of(name) > 0 and name[0] in "busfet" and name != "ftz"
    except ValueError:
        return False


def conversion(one: PtxInstruction, gives: str, source: str) -> Convert:
    """A conversion of one number."""
    to_float, from_float = _is_float(gives), _is_float(source)
    if from_float and to_float:
        return _between_floats(one, gives, source)
    if from_float:
        return _to_integer(one, gives, source)
    if to_float:
        return _from_integer(one, gives)
    return _between_integers(one, gives, source)


def _is_float(kind: str) -> bool:
    return kind.startswith(("f", "bf"))


def _between_integers(one: PtxInstruction, gives: str, source: str) -> Convert:
    wanted = numpy_of(gives)
    if not one.has("sat"):
        return lambda a: a.astype(wanted)
    limits = np.iinfo(wanted)
    own = np.iinfo(numpy_of(source))
    least, most = max(limits.min, own.min), min(limits.max, own.max)
    return lambda a: np.clip(a, a.dtype.type(least), a.dtype.type(most)).astype(wanted)


def _to_integer(one: PtxInstruction, gives: str, source: str) -> Convert:
    """Rounded to an integer, and to the nearest that the type has; NaN is 0.

    Of f64 to a 64-bit type NaN is 0x8000000000000000 (PTX ISA, *cvt*, notes).
    """
    change = _TO_INTEGER[one.one_of(*_TO_INTEGER)]
    wanted = numpy_of(gives)
    limits = np.iinfo(wanted)
    bits = 8 * wanted.itemsize
    nan = wanted.type(limits.min if gives[0] == "s" else 1 << 63) if bits == 64 else wanted.type(0)

    def convert(a: Value) -> Value:
        if source == "bf16":
            a = from_bfloat16(a)
        elif one.has("ftz") and source == "f32":
            a = flushed(a)
        whole = change(a.astype(np.float64))
        # The largest integers of 64 bits are no float64: the next one above is cut off.
        inside = np.where(
            (whole >= limits.min) & (whole < 2.0 ** (limits.max.bit_length())), whole, 0
        )
        found = inside.astype(wanted)
        found = np.where(whole >= 2.0 ** limits.max.bit_length(), limits.max, found)
        found = np.where(whole < limits.min, limits.min, found)
        return np.where(np.isnan(whole), nan, found).astype(wanted)

    return convert


def _from_integer(one: PtxInstruction, gives: str) -> Convert:
    rounding = one.one_of("rz", "rm", "rp")
    if gives == "bf16":
        return lambda a: to_bfloat16(_odd_float32(a))
    wanted = numpy_of(gives)
    if not rounding:
        # NumPy rounds integers to float32 once; to float16 by way of float32.
        if gives == "f16":
            return lambda a: a.astype(np.float64).astype(np.float16)
        return lambda a: a.astype(wanted)

    def directed(a: Value) -> Value:
        total = a.astype(np.float64)
        rest = np.zeros(np.shape(a))
        if a.dtype.itemsize == 8:
            limit = 2.0**63 if a.dtype.kind == "i" else 2.0**64
            over = total >= limit
            back = np.where(over, 0, total).astype(a.dtype)
            difference = a - back
            rest = difference.view(np.int64).astype(np.float64)
            rest = np.where(over, -(np.invert(a).astype(np.float64) + 1), rest)
        return exact.directed(np.asarray(total), rest, wanted, rounding)

    return directed


def _odd_float32(a: Value) -> Value:
    """A number as float32, rounded so that rounding it to bfloat16 is rounding once."""
    total = a.astype(np.float64)
    narrow = exact.directed(np.asarray(total), np.float64(0), np.float32, "rz")
    bits = np.asarray(narrow).view(np.uint32)
    return np.where(narrow != total, bits | np.uint32(1), bits).view(np.float32)


def _between_floats(one: PtxInstruction, gives: str, source: str) -> Convert:
    rounding = one.one_of("rz", "rm", "rp")
    whole = one.one_of(*_TO_INTEGER)
    wanted = numpy_of(gives) if gives != "bf16" else np.dtype(np.float32)

    def convert(a: Value) -> Value:
        if source == "bf16":
            a = from_bfloat16(a)
        if one.has("ftz") and source == "f32":
            a = flushed(a)
        if whole:
            a = _TO_INTEGER[whole](a)
        if gives == "bf16":
            if source == "f64":
                a = _odd_float32(a)
            result = to_bfloat16(a, towards_zero=rounding == "rz")
            return np.where(_negative(a), np.uint16(0), result) if one.has("relu") else result
        if rounding and a.dtype.itemsize > wanted.itemsize:
            result = exact.directed(
                np.asarray(a.astype(np.float64)), np.float64(0), wanted, rounding
            )
        else:
            result = a.astype(wanted)
        if one.has("ftz") and gives == "f32":
            result = flushed(result)
        if one.has("sat"):
            result = np.fmin(np.fmax(result, wanted.type(0)), wanted.type(1))
        return np.where(result < 0, wanted.type(0), result) if one.has("relu") else result

    return convert


def _negative(a: Value) -> Value:
    return np.signbit(a) & ~np.isnan(a)


def _to_pair(one: PtxInstruction, gives: str) -> PtxOperation:
    """Two float32 into a word: the first is its upper half."""
    narrow = gives.removesuffix("x2")
    rest = PtxInstruction(
        one.opcode, tuple(m for m in one.modifiers if m != gives), one.operands, None, False,
        one.text,
    )  # fmt: skip
    convert = _between_floats(rest, narrow, "f32")

    def function(a: Value, b: Value) -> Value:
        high, low = (np.asarray(convert(one)).view(np.uint16).astype(np.uint32) for one in (a, b))
        return low | high << np.uint32(16)

    return pure(one, function, ("f32", "f32"), gives)


def _to_pair_of_8_bits(one: PtxInstruction, gives: str, source: str) -> PtxOperation:
    kind = gives.removesuffix("x2")
    relu = one.has("relu")

    def joined(high: Value, low: Value) -> Value:
        if relu:
            high, low = (np.where(value < 0, value.dtype.type(0), value) for value in (high, low))
        upper, lower = (to_float8(value, kind).astype(np.uint16) for value in (high, low))
        return lower | upper << np.uint16(8)

    if source == "f32":
        return pure(one, joined, ("f32", "f32"), "b16")

    def of_pair(a: Value) -> Value:
        low, high = _parts(a, 2)
        return joined(high.view(np.float16), low.view(np.float16))

    return pure(one, of_pair, ("b32",), "b16")


def _from_pair_of_8_bits(one: PtxInstruction, source: str, gives: str) -> PtxOperation:
    kind = source.removesuffix("x2")
    if gives != "f16x2":
        raise ValueError(gives)

    def function(a: Value) -> Value:
        low, high = (
            from_float8(part, kind).astype(np.float16).view(np.uint16) for part in _parts(a, 2)
        )
        return _whole(low, high)

    return pure(one, function, ("b16",), "b32")
