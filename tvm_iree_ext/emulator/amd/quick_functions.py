"""Instructions whose pseudocode is long, as short NumPy functions that compute the same.

Each takes and gives bits, by the names of the pseudocode.  ``tests/emulator/amd`` compares them
with the pseudocode; where that is known to differ from the hardware, the function says so.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.amd.pseudocode import functions as fn
from tvm_iree_ext.emulator.amd.pseudocode.translation import Translated

Array = Any
_F16, _F32, _F64 = np.float16, np.float32, np.float64


def _raw(x: Array) -> Array:
    """Bits of floats, 16 in 32."""
    return fn.raw(x) if x.dtype.itemsize > 2 else fn.raw(x).astype(np.uint32)


def _float(x: Array, kind: Any) -> Array:
    return x.astype(np.uint16).view(kind) if kind is _F16 else x.view(kind)


def _maximum(kind: Any) -> Callable[[Array, Array], tuple[Array]]:
    def run(S0: Array, S1: Array) -> tuple[Array]:
        a, b = _float(S0, kind), _float(S1, kind)
        return (np.where(a == b, S0 & S1, _raw(np.fmax(a, b))),)  # +0 is above -0

    return run


def _minimum(kind: Any) -> Callable[[Array, Array], tuple[Array]]:
    def run(S0: Array, S1: Array) -> tuple[Array]:
        a, b = _float(S0, kind), _float(S1, kind)
        return (np.where(a == b, S0 | S1, _raw(np.fmin(a, b))),)

    return run


def _three(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., tuple[Array]]:
    def run(S0: Array, S1: Array, S2: Array) -> tuple[Array]:
        return second(first(S0, S1)[0], S2)

    return run


def _med3(kind: Any) -> Callable[[Array, Array, Array], tuple[Array]]:
    low, high = _minimum(kind), _maximum(kind)

    def run(S0: Array, S1: Array, S2: Array) -> tuple[Array]:
        least, most = low(S0, S1)[0], high(S0, S1)[0]
        middle = high(least, low(most, S2)[0])[0]
        unordered = np.isnan(_float(S0, kind)) | np.isnan(_float(S1, kind))
        unordered = unordered | np.isnan(_float(S2, kind))
        return (np.where(unordered, low(least, S2)[0], middle),)

    return run


def _rounding(kind: Any, how: Callable[[Array], Array]) -> Callable[[Array], tuple[Array]]:
    def run(S0: Array) -> tuple[Array]:
        return (_raw(how(_float(S0, kind))),)

    return run


def _fract(kind: Any) -> Callable[[Array], tuple[Array]]:
    """Below 1 always, as the manual's text says: the difference of tiny numbers rounds up to 1."""
    below = np.nextafter(kind(1), kind(0))

    def run(S0: Array) -> tuple[Array]:
        x = _float(S0, kind)
        return (_raw(np.minimum(x - np.floor(x), below)),)

    return run


def _ldexp(kind: Any) -> Callable[[Array, Array], tuple[Array]]:
    def run(S0: Array, S1: Array) -> tuple[Array]:
        power = S1.view(np.int32) if S1.dtype.itemsize == 4 else S1.astype(np.uint32).view(np.int32)
        if kind is _F16:
            power = S1.astype(np.uint16).view(np.int16).astype(np.int32)
        return (_raw(np.ldexp(_float(S0, kind), power)),)

    return run


def _div_fmas(kind: Any, power: int, bias: int) -> Callable[..., tuple[Array]]:
    """The pseudocode multiplies by 2^32 always.

    V_DIV_SCALE scales by 2^64 (2^128), the denominator or the numerator: what undoes it is the
    power that the third operand's exponent says, or a division of extreme numbers is wrong.
    """

    def run(S0: Array, S1: Array, S2: Array, VCC_lanes: Array) -> tuple[Array]:
        a, b, c = (_float(one, kind) for one in (S0, S1, S2))
        plain = fn.fma(a, b, c)
        scale = np.where(fn.exponent(c) > bias, kind(2.0**power), kind(2.0**-power))
        return (_raw(np.where(VCC_lanes, plain * scale, plain)),)

    return run


def _permute(S0: Array, S1: Array, S2: Array) -> tuple[Array]:
    """V_PERM_B32."""
    both = (S0.astype(np.uint64) << np.uint64(32)) | S1
    found = np.zeros(both.shape, np.uint32)
    for byte in range(4):
        choice = (S2 >> np.uint32(8 * byte)) & np.uint32(0xFF)
        sign = np.array([15, 31, 47, 63], np.uint64)[(choice & 3).astype(np.int64)]
        shift = np.where(choice < 8, (choice & 7) * 8, 0).astype(np.uint64)
        plain = (both >> shift).astype(np.uint32) & np.uint32(0xFF)
        signs = ((both >> sign) & np.uint64(1)).astype(np.uint32) * np.uint32(0xFF)
        special = np.where(choice >= 13, np.uint32(0xFF), np.uint32(0))
        chosen = np.where(choice < 8, plain, np.where(choice < 12, signs, special))
        found = found | (chosen << np.uint32(8 * byte))
    return (found,)


def _move_words(S0: Array, S1: Array) -> tuple[Array]:
    """V_PK_MOV_B32 of operands whose words are chosen already."""
    low = np.uint64(0xFFFFFFFF)
    return ((S0 & low) | (S1 & ~low),)


def _count_zeros(S0: Array) -> tuple[Array]:
    return (fn.highest_bit(S0).view(np.uint32),)


def _trailing_zeros(S0: Array) -> tuple[Array]:
    return (fn.lowest_bit(S0).view(np.uint32),)


def _bit_count(S0: Array, S1: Array) -> tuple[Array]:
    return (fn.bit_count(S0) + S1,)


def _count_below(high: bool) -> Callable[..., tuple[Array]]:
    def run(S0: Array, S1: Array, laneId: Array) -> tuple[Array]:
        lane = laneId.astype(np.int64) - (32 if high else 0)
        below = ((1 << np.clip(lane, 0, 32)) - 1).astype(np.uint32)
        return (fn.bit_count(S0 & below) + S1,)

    return run


def _multiply_add(signed: bool) -> Callable[..., tuple[Array, ...]]:
    """V_MAD_U64_U32 and V_MAD_I64_I32: 65 bits, of which the highest is the carry."""

    def run(S0: Array, S1: Array, S2: Array) -> tuple[Array, ...]:
        kind = np.int64 if signed else np.uint64
        a, b = (one.view(np.int32) if signed else one for one in (S0, S1))
        product = a.astype(kind) * b.astype(kind)
        total = product.view(np.uint64) + S2
        if signed:
            wrapped = ((product < 0) == (S2 >> 63 != 0)) & ((product < 0) != (total >> 63 != 0))
            return total, wrapped
        return total, total < S2

    return run


def _scalar_found(find: Callable[[Array], Array]) -> Callable[[Array], tuple[Array, ...]]:
    def run(S0: Array) -> tuple[Array, ...]:
        return (find(S0).view(np.uint32),)

    return run


def _scalar_count(S0: Array) -> tuple[Array, ...]:
    count = fn.bit_count(S0)
    return count, count != 0


def _saturated(kind: Any, sign: int, reverse: bool) -> Callable[[Array, Array], tuple[Array]]:
    """A sum or difference of integers with CLAMP: what does not fit is the nearest that does."""
    limits = np.iinfo(kind)
    whole: Any = np.uint16 if limits.bits == 16 else np.uint32

    def run(S0: Array, S1: Array) -> tuple[Array]:
        a, b = (one.astype(whole).view(kind).astype(np.int64) for one in (S0, S1))
        a, b = (b, a) if reverse else (a, b)
        found = np.clip(a + sign * b, limits.min, limits.max).astype(kind)
        return (found.view(whole).astype(np.uint32),)

    return run


def _saturating() -> dict[str, Translated]:
    found = {}
    for letter, bits in (("U", 16), ("U", 32), ("I", 16), ("I", 32)):
        kind = getattr(np, f"{'u' if letter == 'U' else ''}int{bits}")
        for word, sign, reverse in (("ADD", 1, False), ("SUB", -1, False), ("SUBREV", -1, True)):
            for name in (f"V_{word}_{letter}{bits}", f"V_{word}_NC_{letter}{bits}"):
                run = _saturated(kind, sign, reverse)
                found[name] = _made(run, "S0 S1", bits=bits)
    return found


def _made(
    run: Callable[..., tuple[Array, ...]], inputs: str, outputs: str = "D0", bits: int = 32
) -> Translated:
    names = tuple(outputs.split())
    widths = tuple(bits if name == "D0" else 1 for name in names)
    return Translated(tuple(inputs.split()), names, widths, "", run)


def _table() -> dict[str, Translated]:
    found: dict[str, Translated] = {}
    for kind, suffix, bits in ((_F16, "F16", 16), (_F32, "F32", 32), (_F64, "F64", 64)):
        low, high = _minimum(kind), _maximum(kind)
        for number in ("", "_NUM"):
            found[f"V_MAX{number}_{suffix}"] = _made(high, "S0 S1", bits=bits)
            found[f"V_MIN{number}_{suffix}"] = _made(low, "S0 S1", bits=bits)
            found[f"V_MAX3{number}_{suffix}"] = _made(_three(high, high), "S0 S1 S2", bits=bits)
            found[f"V_MIN3{number}_{suffix}"] = _made(_three(low, low), "S0 S1 S2", bits=bits)
            found[f"V_MINMAX{number}_{suffix}"] = _made(_three(low, high), "S0 S1 S2", bits=bits)
            found[f"V_MAXMIN{number}_{suffix}"] = _made(_three(high, low), "S0 S1 S2", bits=bits)
            found[f"V_MED3{number}_{suffix}"] = _made(_med3(kind), "S0 S1 S2", bits=bits)
        for name, how in (("RNDNE", np.rint), ("FLOOR", np.floor), ("CEIL", np.ceil)):
            found[f"V_{name}_{suffix}"] = _made(_rounding(kind, how), "S0", bits=bits)
        found[f"V_FRACT_{suffix}"] = _made(_fract(kind), "S0", bits=bits)
        found[f"V_LDEXP_{suffix}"] = _made(_ldexp(kind), "S0 S1", bits=bits)
    found["V_DIV_FMAS_F32"] = _made(_div_fmas(_F32, 64, 127), "S0 S1 S2 VCC[]")
    found["V_DIV_FMAS_F64"] = _made(_div_fmas(_F64, 128, 1023), "S0 S1 S2 VCC[]", bits=64)
    found["V_PK_MOV_B32"] = _made(_move_words, "S0 S1", bits=64)
    found["V_PERM_B32"] = _made(_permute, "S0 S1 S2")
    for name in ("V_FFBH_U32", "V_CLZ_I32_U32"):
        found[name] = _made(_count_zeros, "S0")
    for name in ("V_FFBL_B32", "V_CTZ_I32_B32"):
        found[name] = _made(_trailing_zeros, "S0")
    found["V_BCNT_U32_B32"] = _made(_bit_count, "S0 S1")
    found["V_MBCNT_LO_U32_B32"] = _made(_count_below(False), "S0 S1 laneId")
    found["V_MBCNT_HI_U32_B32"] = _made(_count_below(True), "S0 S1 laneId")
    for name in ("V_MAD_U64_U32", "V_MAD_CO_U64_U32"):
        found[name] = _made(_multiply_add(False), "S0 S1 S2", "D0 VCC[]", 64)
    for name in ("V_MAD_I64_I32", "V_MAD_CO_I64_I32"):
        found[name] = _made(_multiply_add(True), "S0 S1 S2", "D0 VCC[]", 64)
    for width in ("32", "64"):
        for name in (f"S_FF1_I32_B{width}", f"S_CTZ_I32_B{width}"):
            found[name] = _made(_scalar_found(fn.lowest_bit), "S0")
        for name in (f"S_FLBIT_I32_B{width}", f"S_CLZ_I32_U{width}"):
            found[name] = _made(_scalar_found(fn.highest_bit), "S0")
        found[f"S_BCNT1_I32_B{width}"] = _made(_scalar_count, "S0", "D0 SCC")
    return found


SATURATING: dict[str, Translated] = _saturating()
"""Instructions with CLAMP, by the name without the encoding."""

QUICK: dict[str, Translated] = _table()
"""By the instruction's name without its encoding."""
