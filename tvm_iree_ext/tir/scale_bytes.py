"""Scales of the MX formats, powers of two whose exponents lie in bytes, as float32.

There is no sign and no 0: 0 stands for 2**-127 and 255 for NaN (OCP Microscaling Formats 1.0,
E8M0).  Back is to the nearest, ties to the larger; what has no logarithm is NaN.
"""

from __future__ import annotations

from tvm_iree_ext.tir.tvm_modules import ir, tirx

NAME = "float8_e8m0fnu"


def _word(value: int) -> ir.Expr:
    return tirx.const(value, "uint32")


def decoded(pattern: ir.Expr) -> ir.Expr:
    """The number of a uint8 as float32; the least is subnormal."""
    wide = tirx.Cast("uint32", pattern)
    # The upper bit of the fraction, of the least and of NaN; by arithmetic, since code of vectors
    # may have none of truth values.
    is_least = ((wide + _word(255)) >> _word(8)) ^ _word(1)
    is_nan = (wide + _word(1)) >> _word(8)
    fields = (wide << _word(23)) | ((is_least | is_nan) << _word(22))
    return tirx.reinterpret("float32", fields)


def encoded(number: ir.Expr) -> ir.Expr:
    """The pattern of a float32, as uint8."""
    wide = tirx.reinterpret("uint32", number)
    # Half of the way to the next power of two; a subnormal one lies between 2**-127 and 2**-126.
    is_subnormal = wide < _word(1 << 23)
    pattern = (wide + tirx.Select(is_subnormal, _word(1 << 21), _word(1 << 22))) >> _word(23)
    # 0, a sign and infinity come here, and what is larger than the largest by half of it.
    has_none = tirx.Or(wide == _word(0), pattern >= _word(255))
    return tirx.Cast("uint8", tirx.Select(has_none, _word(255), pattern))
