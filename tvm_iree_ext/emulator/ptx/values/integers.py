"""Integer arithmetic, bits and shifts.

Source: PTX ISA 9.0, *Integer Arithmetic Instructions*, *Extended-Precision Integer Arithmetic
Instructions*, *Logic and Shift Instructions*.  Signed and unsigned numbers are added, subtracted
and multiplied alike, as unsigned ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, bits_of, numpy_of
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values.floats import float_arithmetic
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, pure

_WIDER = {
    "u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64",
}  # fmt: skip


def _raw(kind: str) -> str:
    return f"b{bits_of(kind)}"


def _is_integer(one: PtxInstruction) -> bool:
    return one.type[0] in "bus" and one.type not in ("bf16", "bf16x2")


_PACKED_INTEGERS = ("u16x2", "s16x2")


@instruction("add", "sub")
def _sums(one: PtxInstruction) -> PtxOperation:
    """*add*, *sub*, with ``.sat`` of s32, with ``.cc``: *add.cc*, *sub.cc*, *addc*, *subc*."""
    if not _is_integer(one):
        return float_arithmetic(one)
    kind = one.type
    if one.has("sat"):
        return pure(one, _saturated(one.opcode), ("s64", "s64"), "s32")
    function = np.add if one.opcode == "add" else np.subtract
    return pure(one, function, (_raw(kind), _raw(kind)), _raw(kind))


def _saturated(opcode: str) -> Callable[..., Any]:
    change = np.add if opcode == "add" else np.subtract
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    return lambda a, b: np.clip(change(a.astype(np.int64), b.astype(np.int64)), least, most).astype(
        np.int32
    )


@instruction("mul")
def _mul(one: PtxInstruction) -> PtxOperation:
    """*mul*: ``.lo``, ``.hi``, ``.wide``."""
    if not _is_integer(one):
        return float_arithmetic(one)
    kind = one.type
    part = one.one_of("lo", "hi", "wide", default="lo")
    if part == "lo":
        return pure(one, np.multiply, (_raw(kind), _raw(kind)), _raw(kind))
    function = _wide(kind) if part == "wide" else high(kind)
    return pure(one, function, (kind, kind), _WIDER[kind] if part == "wide" else kind)


def _wide(kind: str) -> Callable[..., Any]:
    wide = numpy_of(_WIDER[kind])
    return lambda a, b: np.multiply(a, b, dtype=wide)


def high(kind: str) -> Callable[[Value, Value], Value]:
    """The upper half of a product."""
    bits, narrow = bits_of(kind), numpy_of(kind)
    if bits < 64:
        wide = numpy_of(_WIDER[kind])
        return lambda a, b: (np.multiply(a, b, dtype=wide) >> bits).astype(narrow)
    if kind == "u64":
        return high_64

    def signed(a: Value, b: Value) -> Value:
        unsigned = high_64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
        return unsigned - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)

    return signed


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def high_64(a: Value, b: Value) -> Value:
    """The upper 64 bits of a product of two unsigned numbers, from products of halves."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


@instruction("mad")
def _mad(one: PtxInstruction) -> PtxOperation:
    """*mad*: a product and a sum."""
    if not _is_integer(one):
        return float_arithmetic(one)
    kind = one.type
    part = one.one_of("lo", "hi", "wide", default="lo")
    if part == "lo":
        raw = _raw(kind)
        return pure(one, lambda a, b, c: a * b + c, (raw, raw, raw), raw)
    result = _WIDER[kind] if part == "wide" else kind
    product = _wide(kind) if part == "wide" else high(kind)
    return pure(one, lambda a, b, c: product(a, b) + c, (kind, kind, result), result)


@instruction("mul24", "mad24")
def _mul24(one: PtxInstruction) -> PtxOperation:
    """*mul24.lo*, *mad24.lo*: of the low 24 bits."""
    kind = one.type

    def low(a: Value) -> Value:
        shift = numpy_of(kind).type(8)
        return (a << shift) >> shift

    if one.opcode == "mul24":
        return pure(one, lambda a, b: low(a) * low(b), (kind, kind), kind)
    return pure(one, lambda a, b, c: low(a) * low(b) + c, (kind, kind, kind), kind)


@instruction("sad")
def _sad(one: PtxInstruction) -> PtxOperation:
    """*sad*: c + \\|a - b\\|."""
    kind = one.type
    return pure(one, lambda a, b, c: c + np.where(a < b, b - a, a - b), (kind, kind, kind), kind)


@instruction("div")
def _div(one: PtxInstruction) -> PtxOperation:
    """*div*: towards zero; what a division by zero gives is left open."""
    if not _is_integer(one):
        return float_arithmetic(one)
    kind = one.type
    if kind[0] == "u":
        return pure(one, np.floor_divide, (kind, kind), kind)
    return pure(one, lambda a, b: (a - np.fmod(a, b)) // b, (kind, kind), kind)


@instruction("rem")
def _rem(one: PtxInstruction) -> PtxOperation:
    """*rem*: with the sign of the dividend."""
    return pure(one, np.fmod, (one.type, one.type), one.type)


@instruction("abs", "neg")
def _signs(one: PtxInstruction) -> PtxOperation:
    """*abs*, *neg*."""
    if not _is_integer(one):
        return float_arithmetic(one)
    return pure(one, np.abs if one.opcode == "abs" else np.negative, (one.type,), one.type)


@instruction("min", "max")
def _extremes(one: PtxInstruction) -> PtxOperation:
    """*min*, *max*."""
    kind = one.type
    if kind in _PACKED_INTEGERS:
        kind = kind.removesuffix("x2")
        change = np.minimum if one.opcode == "min" else np.maximum
        return pure(one, _halves(change, kind), ("b32", "b32"), "b32")
    if not _is_integer(one):
        return float_arithmetic(one)
    function = np.minimum if one.opcode == "min" else np.maximum
    if one.has("relu"):
        return pure(one, lambda a, b: np.maximum(function(a, b), 0), (kind, kind), kind)
    return pure(one, function, (kind, kind), kind)


def _halves(change: Callable[..., Any], kind: str) -> Callable[..., Any]:
    half = numpy_of(kind)

    def function(a: Value, b: Value) -> Value:
        low = change(a.astype(np.uint16).view(half), b.astype(np.uint16).view(half))
        top = change((a >> 16).astype(np.uint16).view(half), (b >> 16).astype(np.uint16).view(half))
        low32, top32 = (one.view(np.uint16).astype(np.uint32) for one in (low, top))
        return low32 | top32 << np.uint32(16)

    return function


@instruction("popc")
def _popc(one: PtxInstruction) -> PtxOperation:
    """*popc*."""
    return pure(one, lambda a: np.bitwise_count(a).astype(np.uint32), (one.type,), "u32")


def _leading_zeros(a: Value) -> Value:
    """Zero bits above the highest one, of unsigned numbers."""
    bits = 8 * a.dtype.itemsize
    spread = a
    shift = 1
    while shift < bits:
        spread = spread | spread >> a.dtype.type(shift)
        shift *= 2
    return (bits - np.bitwise_count(spread)).astype(np.uint32)


@instruction("clz")
def _clz(one: PtxInstruction) -> PtxOperation:
    """*clz*."""
    return pure(one, _leading_zeros, (one.type,), "u32")


@instruction("bfind")
def _bfind(one: PtxInstruction) -> PtxOperation:
    """*bfind*: the place of the highest bit that is not the sign's; 0xffffffff without one."""
    kind = one.type
    bits, unsigned = bits_of(kind), numpy_of(_raw(kind))

    def function(a: Value) -> Value:
        if kind[0] == "s":
            a = np.where(a < 0, ~a, a)
        zeros = _leading_zeros(np.asarray(a).view(unsigned))
        found = zeros if one.has("shiftamt") else np.uint32(bits - 1) - zeros
        return np.where(zeros == bits, np.uint32(0xFFFFFFFF), found)

    return pure(one, function, (kind,), "u32")


def _reversed_bits(a: Value) -> Value:
    size = a.dtype.itemsize
    raw = np.ascontiguousarray(a)[..., None].view(np.uint8)[..., ::-1]
    flipped = np.packbits(np.unpackbits(raw, axis=-1, bitorder="little"), axis=-1)
    return flipped.reshape(*np.shape(a), size).view(a.dtype)[..., 0]


@instruction("brev")
def _brev(one: PtxInstruction) -> PtxOperation:
    """*brev*."""
    return pure(one, _reversed_bits, (one.type,), one.type)


def _width_mask(length: Value, bits: int) -> Value:
    """So many ones, at most all."""
    one = np.uint64(1)
    length = np.minimum(length, bits).astype(np.uint64)
    full = np.uint64((1 << bits) - 1)
    return np.where(length >= bits, full, (one << (length & np.uint64(63))) - one)


@instruction("bfe")
def _bfe(one: PtxInstruction) -> PtxOperation:
    """*bfe*: a field of bits; of a signed type with the sign that its highest bit says."""
    kind = one.type
    bits, narrow = bits_of(kind), numpy_of(kind)

    def function(a: Value, start: Value, length: Value) -> Value:
        start, length = start & np.uint32(0xFF), length & np.uint32(0xFF)
        wide = a.astype(np.int64).view(np.uint64) if kind[0] == "s" else a.astype(np.uint64)
        at = np.minimum(start, np.uint32(63)).astype(np.uint64)
        moved = np.where(start < bits, (wide & np.uint64((1 << bits) - 1)) >> at, np.uint64(0))
        mask = _width_mask(length, bits)
        field = moved & mask
        if kind[0] == "s":
            last = np.minimum(start + length - np.uint32(1), np.uint32(bits - 1))
            sign = (wide >> last.astype(np.uint64)) & np.uint64(1)
            kept = _width_mask(np.minimum(length, np.maximum(bits, start) - start), bits)
            field = (field & kept) | np.where((sign == 1) & (length > 0), ~kept, np.uint64(0))
        return field.astype(numpy_of(_raw(kind))).view(narrow)

    return pure(one, function, (kind, "u32", "u32"), kind)


@instruction("bfi")
def _bfi(one: PtxInstruction) -> PtxOperation:
    """*bfi*: a into b, from a place on, so many bits."""
    kind = one.type
    bits, narrow = bits_of(kind), numpy_of(kind)

    def function(a: Value, b: Value, start: Value, length: Value) -> Value:
        start, length = start & np.uint32(0xFF), length & np.uint32(0xFF)
        at = np.minimum(start, np.uint32(63)).astype(np.uint64)
        mask = np.where(start < bits, _width_mask(length, bits) << at, np.uint64(0)).astype(narrow)
        moved = (a.astype(np.uint64) << at).astype(narrow)
        return (b & ~mask) | (moved & mask)

    return pure(one, function, (kind, kind, "u32", "u32"), kind)


@instruction("bmsk")
def _bmsk(one: PtxInstruction) -> PtxOperation:
    """*bmsk.clamp*: so many ones from a place on."""

    def function(start: Value, length: Value) -> Value:
        at = np.minimum(start, np.uint32(63)).astype(np.uint64)
        made = np.where(start < 32, _width_mask(length, 32) << at, np.uint64(0))
        return made.astype(np.uint32)

    return pure(one, function, ("u32", "u32"), "b32")


@instruction("and", "or", "xor")
def _logic(one: PtxInstruction) -> PtxOperation:
    """*and*, *or*, *xor*."""
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[one.opcode]
    return pure(one, function, (one.type, one.type), one.type)


@instruction("not")
def _not(one: PtxInstruction) -> PtxOperation:
    """*not*."""
    return pure(one, np.invert, (one.type,), one.type)


@instruction("cnot")
def _cnot(one: PtxInstruction) -> PtxOperation:
    """*cnot*: 1 of 0, else 0."""
    return pure(one, lambda a: (a == 0).astype(a.dtype), (one.type,), one.type)


@instruction("lop3")
def _lop3(one: PtxInstruction) -> PtxOperation:
    """*lop3*: any function of three bits, by its table of eight.

    With ``.or`` or ``.and`` also the predicate of whether any bit is set.
    """
    if one.one_of("or", "and", default=""):
        raise ValueError("a result of predicates")
    *_, table = one.operands
    wanted = table.value  # type: ignore[union-attr]

    def function(a: Value, b: Value, c: Value, _table: Value) -> Value:
        found: Value = np.uint32(0)
        for row in range(8):
            if wanted >> row & 1:
                found = found | (
                    (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                )
        return found

    return pure(one, function, ("b32", "b32", "b32", "b32"), "b32")


@instruction("shl", "shr")
def _shifts(one: PtxInstruction) -> PtxOperation:
    """*shl*, *shr*: a shift by the width or more gives zeros, or the sign everywhere."""
    kind = one.type
    bits, narrow = bits_of(kind), numpy_of(kind)
    left = one.opcode == "shl"

    def function(a: Value, count: Value) -> Value:
        most = np.minimum(count, np.uint32(bits - 1)).astype(narrow)
        if left:
            return np.where(count < bits, a << most, narrow.type(0))
        if kind[0] == "s":
            return a >> most
        return np.where(count < bits, a >> most, narrow.type(0))

    amount = one.operands[2]
    known = getattr(amount, "value", None)
    if known is not None and 0 <= known < bits:
        count = narrow.type(known)
        move = np.left_shift if left else np.right_shift
        return pure(one, lambda a, _count: move(a, count), (kind, "u32"), kind)
    return pure(one, function, (kind, "u32"), kind)


@instruction("shf")
def _shf(one: PtxInstruction) -> PtxOperation:
    """*shf*: of two words, joined: ``.l`` the upper word of a shift left, ``.r`` the lower."""
    left, clamp = one.has("l"), one.has("clamp")

    def function(a: Value, b: Value, count: Value) -> Value:
        count = np.minimum(count, np.uint32(32)) if clamp else count & np.uint32(31)
        joined = a.astype(np.uint64) | b.astype(np.uint64) << _HALF
        by = count.astype(np.uint64)
        moved = joined << by >> _HALF if left else joined >> by
        return moved.astype(np.uint32)

    return pure(one, function, ("b32", "b32", "u32"), "b32")


@instruction("prmt")
def _prmt(one: PtxInstruction) -> PtxOperation:
    """*prmt*: bytes of two words by four numbers, whose fourth bit takes a byte's sign.

    Modes (``.f4e`` and the like) are not known here.
    """
    if len(one.modifiers) > 1:
        raise ValueError(f"mode {one.modifiers[1]}")

    def function(a: Value, b: Value, choice: Value) -> Value:
        both = a.astype(np.uint64) | b.astype(np.uint64) << _HALF
        found: Value = np.uint32(0)
        for place in range(4):
            number = (choice >> np.uint32(4 * place)) & np.uint32(15)
            at = (number & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            byte = (both >> at).astype(np.uint32) & np.uint32(0xFF)
            sign = (byte >> np.uint32(7)) * np.uint32(0xFF)
            byte = np.where((number & np.uint32(8)) != 0, sign, byte)
            found = found | byte << np.uint32(8 * place)
        return found

    return pure(one, function, ("b32", "b32", "b32"), "b32")


@instruction("dp4a", "dp2a")
def _dot(one: PtxInstruction) -> PtxOperation:
    """*dp4a*, *dp2a*: a dot product of bytes, or of halves and bytes, and a sum."""
    first, second = (kind for kind in one.modifiers if kind in ("u32", "s32"))
    gives = "s32" if "s32" in (first, second) else "u32"
    four = one.opcode == "dp4a"
    lanes, upper = (4, 0) if four else (2, 2 if one.has("hi") else 0)

    def parts(value: Value, kind: str, bits: int, start: int) -> list[Value]:
        element = numpy_of(f"{kind[0]}{bits}")
        raw = numpy_of(f"b{bits}")
        shifted = [value >> np.uint32(bits * (start + place)) for place in range(lanes)]
        return [one.astype(raw).view(element).astype(np.int64) for one in shifted]

    def function(a: Value, b: Value, c: Value) -> Value:
        left = parts(a, first, 8 if four else 16, 0)
        right = parts(b, second, 8, upper)
        total = c.astype(np.int64)
        for x, y in zip(left, right, strict=True):
            total = total + x * y
        return total.astype(np.uint64).astype(np.uint32).view(numpy_of(gives))

    return pure(one, function, ("b32", "b32", gives), gives)
