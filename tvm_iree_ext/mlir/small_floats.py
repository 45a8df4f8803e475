"""Floats of 8 bits as bit patterns in bytes: to float32, which holds each of them, and back.

Both ways are arithmetic on patterns, as no target of ours converts these types itself.  Back is to
the nearest, ties to even; what is too large becomes what ``ml_dtypes`` makes of it: the infinity
where the type has one, else NaN.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tvm import ir, tirx


@dataclass(frozen=True)
class Format:
    """Sign, exponent, mantissa; where the patterns of special numbers are."""

    mantissa: int
    bias: int
    largest: float
    overflow: int  # the pattern, without the sign, of what is too large
    nan: int
    signed_zero: bool  # else the pattern of -0 is NaN


def _format(name: str) -> Format:
    """Read off ``ml_dtypes``' type."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.finfo(dtype)

    def pattern(value: float) -> int:
        return int(np.array(value, np.float32).astype(dtype).view(np.uint8))

    return Format(
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
    )
}


def _word(value: int) -> ir.Expr:
    return tirx.const(value, "uint32")


def _exact(value: float) -> ir.Expr:
    return tirx.const(value, "float32")


def _nan() -> ir.Expr:
    return tirx.reinterpret("float32", tirx.const(0x7FC00000, "int32"))


def decoded(pattern: ir.Expr, name: str) -> ir.Expr:
    """The number of a uint8 as float32."""
    form = FORMATS[name]
    wide = tirx.Cast("uint32", pattern)
    magnitude = wide & _word(0x7F)
    # Shifted to float32's fields and scaled, which makes numbers of subnormal patterns, too.
    scaled = tirx.reinterpret("float32", magnitude << _word(23 - form.mantissa))
    number = scaled * _exact(2.0 ** (127 - form.bias))
    negative = (wide & _word(0x80)) != _word(0)
    if form.signed_zero:
        if form.overflow & 0x7F != form.nan & 0x7F:  # it has an infinity
            number = tirx.Select(magnitude > _word(form.overflow & 0x7F), _nan(), number)
            infinite = magnitude == _word(form.overflow & 0x7F)
            number = tirx.Select(infinite, _exact(float("inf")), number)
        else:
            number = tirx.Select(magnitude == _word(form.nan & 0x7F), _nan(), number)
        return tirx.Select(negative, -number, number)
    number = tirx.Select(negative, -number, number)
    return tirx.Select(wide == _word(form.nan), _nan(), number)


def encoded(number: ir.Expr, name: str) -> ir.Expr:
    """The pattern of a float32, as uint8."""
    form = FORMATS[name]
    wide = tirx.reinterpret("uint32", number)
    negative = (wide >> _word(31)) != _word(0)
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
    signed = tirx.Select(negative, pattern | _word(0x80), pattern)
    beyond = tirx.Select(negative, _word(form.overflow | 0x80), _word(form.overflow))
    if form.overflow & 0x7F == form.nan & 0x7F:
        beyond = _word(form.nan)
    if not form.signed_zero:
        signed = tirx.Select(pattern == _word(0), _word(0), signed)
    fits = magnitude <= _exact(form.largest)
    rounded = tirx.Select(value <= _exact(form.largest), signed, beyond)
    # One past the largest may still round down to it; NaN compares with nothing.
    near = tirx.Select(tirx.Or(fits, magnitude < _exact(2 * form.largest)), rounded, beyond)
    return tirx.Cast("uint8", tirx.Select(tirx.isnan(number), _word(form.nan), near))
