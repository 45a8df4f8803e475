"""Floats of 8 bits and fewer as bit patterns in bytes: to float32, which holds each, and back.

Both ways are arithmetic on patterns, as no target of ours converts these types itself.  Back is to
the nearest, ties to even; what is too large becomes what ``ml_dtypes`` makes of it: the infinity
where the type has one, else NaN, or below 8 bits the largest number.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tvm_iree_ext.tir import scale_bytes
from tvm_iree_ext.tir.tvm_modules import ir, tirx


@dataclass(frozen=True)
class SmallFormat:
    """The format of a float: fields of its pattern, and the patterns of special numbers.

    Below 8 bits all patterns are numbers; ``nan`` is then what becomes of one that is none.
    """

    bits: int
    mantissa: int
    bias: int
    largest: float
    overflow: int  # the pattern, without the sign, of what is too large
    nan: int
    signed_zero: bool  # else the pattern of -0 is NaN


def _format(name: str) -> SmallFormat:
    """Read off ``ml_dtypes``' type."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.finfo(dtype)

    def pattern(value: float) -> int:
        return int(np.array(value, np.float32).astype(dtype).view(np.uint8))

    return SmallFormat(
        bits=int(info.bits),
        mantissa=int(info.nmant),
        bias=1 - int(info.minexp),
        largest=float(info.max),
        overflow=pattern(np.inf),
        nan=pattern(np.nan),
        signed_zero=pattern(-0.0) != 0,
    )


FORMATS = {
    name: _format(name)
    for name in (
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e4m3b11fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    )
}

HELD_IN_BYTES = (*FORMATS, scale_bytes.NAME)


def _word(value: int, lanes: int = 1) -> ir.Expr:
    return _each(tirx.const(value, "uint32"), lanes)


def _exact(value: float, lanes: int = 1) -> ir.Expr:
    return _each(tirx.const(value, "float32"), lanes)


def _nan(lanes: int) -> ir.Expr:
    return _each(tirx.reinterpret("float32", tirx.const(0x7FC00000, "int32")), lanes)


def _each(value: ir.Expr, lanes: int) -> ir.Expr:
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def _typed(dtype: str, lanes: int) -> str:
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def widened(number: ir.Expr) -> ir.Expr:
    """The float32 of a float of 8 bits, or of a vector of them; anything else as it is."""
    dtype = str(number.ty.dtype)
    name = next((name for name in FORMATS if dtype == name or dtype.startswith(f"{name}x")), None)
    if name is None:
        return number
    return decoded(tirx.reinterpret(_typed("uint8", int(number.ty.dtype.lanes)), number), name)


def decoded(pattern: ir.Expr, name: str) -> ir.Expr:
    """The number of a uint8 as float32, or those of a vector."""
    if name == scale_bytes.NAME:
        return scale_bytes.decoded(pattern)
    form, lanes = FORMATS[name], int(pattern.ty.dtype.lanes)
    word, nan = functools.partial(_word, lanes=lanes), _nan(lanes)
    wide = tirx.Cast(_typed("uint32", lanes), pattern)
    sign = 1 << form.bits - 1
    magnitude = wide & word(sign - 1)
    # Shifted to float32's fields and scaled, which makes numbers of subnormal patterns, too.
    fields = magnitude << word(23 - form.mantissa)
    scaled = tirx.reinterpret(_typed("float32", lanes), fields)
    number = scaled * _exact(2.0 ** (127 - form.bias), lanes)
    negative = (wide & word(sign)) != word(0)
    if form.bits < 8:
        return tirx.Select(negative, -number, number)
    if form.signed_zero:
        if form.overflow & 0x7F != form.nan & 0x7F:  # it has an infinity
            number = tirx.Select(magnitude > word(form.overflow & 0x7F), nan, number)
            infinite = magnitude == word(form.overflow & 0x7F)
            number = tirx.Select(infinite, _exact(float("inf"), lanes), number)
        else:
            number = tirx.Select(magnitude == word(form.nan & 0x7F), nan, number)
        return tirx.Select(negative, -number, number)
    number = tirx.Select(negative, -number, number)
    return tirx.Select(wide == word(form.nan), nan, number)


def halved(number: ir.Expr) -> ir.Expr:
    """The float16 of a float of 8 bits, or of a vector of them: exact, too, and without choices.

    For code generation that has no vectors of truth values.
    """
    name, lanes = str(number.ty.dtype).partition("x")[0], int(number.ty.dtype.lanes)
    return halved_pattern(tirx.reinterpret(_typed("uint8", lanes), number), name)


def halved_pattern(byte: ir.Expr, name: str) -> ir.Expr:
    """The float16 of a pattern in a uint8, or of those of a vector, in which it stands seldom."""
    form, lanes = FORMATS[name], int(byte.ty.dtype.lanes)
    if form.mantissa not in (2, 3) or form.bits < 8:
        raise ValueError(f"{name} is not held by float16")

    def word(value: int) -> ir.Expr:
        return _each(tirx.const(value, "uint16"), lanes)

    pattern = tirx.Cast(_typed("uint16", lanes), byte)
    magnitude, top = pattern & word(0x7F), word(0x80)
    if form.mantissa == 2 and form.signed_zero:  # float16's upper byte
        return tirx.reinterpret(_typed("float16", lanes), pattern << word(8))
    fields = magnitude << word(7)
    scale = 15 - form.bias
    if form.mantissa == 2:  # one more in the exponent, which the two smallest binades have not
        large = ((magnitude + word(0x78)) & top) >> word(7)
        fields = fields + large * (fields + word(0xFC00))  # less 0x400, in 16 bits
        scale = 0
    if form.signed_zero:  # NaN is the largest pattern
        fields = fields | ((magnitude + word(1)) & top) << word(7)
    else:  # NaN is that of -0
        zero = (pattern & top) & ((magnitude + word(0x7F)) ^ word(0xFFFF))
        fields = fields | zero * word(0xFC)
    bits = (pattern & top) << word(8) | fields
    value = tirx.reinterpret(_typed("float16", lanes), bits)
    return value * _each(tirx.const(2.0**scale, "float16"), lanes) if scale else value


def widened_narrow(byte: ir.Expr, name: str) -> ir.Expr:
    """The float32 of a pattern of less than 8 bits, the lower ones of a uint8.

    By way of float16, whose subnormal numbers no target takes for 0.
    """
    form = FORMATS[name]
    bits, mantissa, bias = form.bits, form.mantissa, form.bias
    pattern = tirx.Cast("uint16", byte)
    sign, magnitude = (tirx.const(n, "uint16") for n in (1 << bits - 1, (1 << bits - 1) - 1))
    fields = (pattern & magnitude) << tirx.const(10 - mantissa, "uint16")
    fields = fields | (pattern & sign) << tirx.const(16 - bits, "uint16")
    halved = tirx.reinterpret("float16", fields)
    return tirx.Cast("float32", halved) * tirx.const(2.0 ** (15 - bias), "float32")


def encoded(number: ir.Expr, name: str) -> ir.Expr:
    """The pattern of a float32, as uint8."""
    if name == scale_bytes.NAME:
        return scale_bytes.encoded(number)
    form = FORMATS[name]
    wide = tirx.reinterpret("uint32", number)
    negative, sign = (wide >> _word(31)) != _word(0), 1 << form.bits - 1
    magnitude = tirx.reinterpret("float32", wide & _word(0x7FFFFFFF))
    # The quantum of its binade; of the smallest one below it.
    least = 127 + 1 - form.bias
    exponent = tirx.max((wide >> _word(23)) & _word(0xFF), _word(least))
    quantum = tirx.reinterpret("float32", (exponent - _word(form.mantissa)) << _word(23))
    inverse = tirx.reinterpret(
        "float32", (_word(254 + form.mantissa) - tirx.min(exponent, _word(253))) << _word(23)
    )
    steps = tirx.nearbyint(magnitude * inverse)  # ties to even
    value = steps * quantum
    # Exact in float32 by now: its fields are those of the pattern.
    fields = tirx.reinterpret("uint32", value * _exact(2.0 ** (form.bias - 127)))
    pattern = fields >> _word(23 - form.mantissa)
    signed = tirx.Select(negative, pattern | _word(sign), pattern)
    beyond = tirx.Select(negative, _word(form.overflow | sign), _word(form.overflow))
    if form.overflow & 0x7F == form.nan & 0x7F:
        beyond = _word(form.nan)
    if not form.signed_zero:
        signed = tirx.Select(pattern == _word(0), _word(0), signed)
    fits = magnitude <= _exact(form.largest)
    rounded = tirx.Select(value <= _exact(form.largest), signed, beyond)
    # One past the largest may still round down to it; NaN compares with nothing.
    near = tirx.Select(tirx.Or(fits, magnitude < _exact(2 * form.largest)), rounded, beyond)
    return tirx.Cast("uint8", tirx.Select(tirx.isnan(number), _word(form.nan), near))
