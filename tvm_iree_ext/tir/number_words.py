"""Numbers of types that TVM does not know, as the words in which kernels have them, and back.

Floats of 8 bits are computed with as float32 and rounded once, integers of 4 bits as int8 or uint8
and wrapped, complex numbers as two floats: the real part is the lower half of the word.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import (
    COMPLEX_PARTS,
    EXPONENTS,
    FLOATS8,
    NARROW_FLOATS,
    WORDS,
    number_dtype,
    numpy_dtype,
)
from tvm_iree_ext.tir import complex_arithmetic, scale_bytes, small_floats
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

_PARTS = ("real", "imag")


@dataclass(frozen=True, eq=False)
class ComplexNumber:
    """A complex number in a region: two expressions, with the arithmetic of one.

    It has no order: a comparator compares ``real``, ``imag`` or the absolute values.
    """

    real: ir.Expr
    imag: ir.Expr

    def _paired(self, other: Any) -> ComplexNumber:
        if isinstance(other, ComplexNumber):
            return other
        dtype = str(self.real.ty.dtype)
        if isinstance(other, ir.Expr):
            return ComplexNumber(other, tirx.const(0.0, dtype))
        number = complex(other)
        return ComplexNumber(tirx.const(number.real, dtype), tirx.const(number.imag, dtype))

    def __add__(self, other: Any) -> ComplexNumber:
        b = self._paired(other)
        return ComplexNumber(self.real + b.real, self.imag + b.imag)

    def __sub__(self, other: Any) -> ComplexNumber:
        b = self._paired(other)
        return ComplexNumber(self.real - b.real, self.imag - b.imag)

    def __mul__(self, other: Any) -> ComplexNumber:
        b = self._paired(other)
        return ComplexNumber(
            self.real * b.real - self.imag * b.imag, self.real * b.imag + self.imag * b.real
        )

    def __rsub__(self, other: Any) -> ComplexNumber:
        return self._paired(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> ComplexNumber:
        b = self._paired(other)
        return ComplexNumber(*complex_arithmetic.quotient(self.real, self.imag, b.real, b.imag))

    def __rtruediv__(self, other: Any) -> ComplexNumber:
        return self._paired(other) / self

    def __abs__(self) -> ir.Expr:
        return complex_arithmetic.magnitude(self.real, self.imag)

    def __neg__(self) -> ComplexNumber:
        return self * -1.0

    def conj(self) -> ComplexNumber:
        """The number with the other sign of the imaginary part."""
        return ComplexNumber(self.real, self.imag * -1.0)

    def __eq__(self, other: object) -> Any:
        b = self._paired(other)
        return tirx.And(tirx.EQ(self.real, b.real), tirx.EQ(self.imag, b.imag))

    def __ne__(self, other: object) -> Any:
        b = self._paired(other)
        return tirx.Or(tirx.NE(self.real, b.real), tirx.NE(self.imag, b.imag))

    def _unordered(self, other: object) -> Any:
        raise TypeError("complex numbers have no order; compare real(arg0) or imag(arg0)")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def _whole(self, other: object) -> Any:
        raise TypeError("complex numbers have no //, %, &, | and ^; they have + - * /")

    __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = _whole
    __rfloordiv__ = __rmod__ = __rand__ = __ror__ = __rxor__ = _whole


def decoded(word: ir.Expr, dtype: str) -> Any:
    """The number of ``dtype`` that a word is, as regions see it; a word itself where it is one."""
    if dtype in FLOATS8:
        return tirx.Cast("float32", small_floats.halved_pattern(word, dtype))
    if dtype in NARROW_FLOATS:
        return small_floats.widened_narrow(word, dtype)
    if dtype == EXPONENTS:
        return scale_bytes.decoded(word)
    if dtype == "int4":  # in arithmetic that is right in wider registers, too
        return (word & tirx.const(7, "int8")) - (word & tirx.const(8, "int8"))
    if dtype == "uint4":
        return word & tirx.const(15, "uint8")
    if dtype in COMPLEX_PARTS:
        part, half, bits = _halves(dtype)
        upper = tirx.shift_right(word, tirx.const(bits, WORDS[dtype]))
        return ComplexNumber(
            tirx.reinterpret(part, tirx.Cast(half, word)),
            tirx.reinterpret(part, tirx.Cast(half, upper)),
        )
    return word


def encoded(number: Any, dtype: str) -> Any:
    """The word of a number as regions yield it; the inverse of :func:`decoded`."""
    if dtype in FLOATS8:
        return small_floats.encoded(number, dtype)
    if dtype in ("int4", "uint4"):
        return decoded(number, dtype)
    if dtype in COMPLEX_PARTS:
        _, half, bits = _halves(dtype)
        word = WORDS[dtype]
        real, imag = (tirx.Cast(word, _bits(part, half)) for part in (number.real, number.imag))
        return tirx.bitwise_or(tirx.shift_left(imag, tirx.const(bits, word)), real)
    return number


def _bits(part: ir.Expr, half: str) -> ir.Expr:
    """The word of a float; of a constant one, of which C takes no address."""
    if isinstance(part, tirx.FloatImm):
        kind = numpy_dtype(str(part.ty.dtype))
        return word_constant(int(np.asarray(part.value, kind).view(half)), half)
    return tirx.reinterpret(half, part)


def held_dtype(dtype: str) -> str:
    """The type of the expressions, or of the two, by which regions see numbers of ``dtype``."""
    return COMPLEX_PARTS.get(dtype, number_dtype(dtype))


def seen(word: ir.Expr, dtype: str) -> Any:
    """What a region is given for a parameter: a variable for its number, or for two parts."""
    if dtype not in WORDS:
        return word
    held = held_dtype(dtype)
    if dtype in COMPLEX_PARTS:
        return ComplexNumber(*(tirx.Var(f"{word.name}.{part}", held) for part in _PARTS))
    return tirx.Var(word.name, held)


def parts_of(number: Any) -> tuple[Any, ...]:
    """The expressions of a number: two of a complex one."""
    return (number.real, number.imag) if isinstance(number, ComplexNumber) else (number,)


def as_number(value: Any, dtype: str) -> Any:
    """What a region yields, where it is to be complex as such: a number of Python's, or a real."""
    if dtype not in COMPLEX_PARTS or not isinstance(value, ir.Expr | int | float | complex):
        return value
    zero = tirx.const(0.0, COMPLEX_PARTS[dtype])
    return ComplexNumber(zero, zero)._paired(value)


def both_complex(a: Any, b: Any) -> tuple[ComplexNumber, ComplexNumber]:
    """Two numbers, one of which is complex, as complex numbers."""
    known = a if isinstance(a, ComplexNumber) else b
    return known._paired(a), known._paired(b)


def over_words(parts: Sequence[ir.Expr], yields: str, words: Mapping[Any, str]) -> ir.Expr:
    """What a region computes of words: ``parts`` of its number are over the variables of
    :func:`seen`, and ``words`` are variables with the types of their numbers.
    """
    known: dict[str, ir.Expr] = {}
    same: dict[str, ir.Expr] = {}  # words of the type that is yielded
    for word, dtype in words.items():
        variables, values = parts_of(seen(word, dtype)), parts_of(decoded(word, dtype))
        known |= {one.name: value for one, value in zip(variables, values, strict=True)}
        same |= {word.name: word} if dtype == yields and len(variables) == 1 else {}

    def placed(part: ir.Expr) -> ir.Expr:
        found: ir.Expr = tvm_ffi.structural_map(
            part, (tirx.Var, lambda one: known.get(one.name, one))
        )
        return found

    def whole(part: ir.Expr) -> ir.Expr:
        """The word of a part, where it is all: what is chosen needs no encoding."""
        match part:
            case tirx.Var() if part.name in same:
                return same[part.name]
            case tirx.Select():
                choices = whole(part.true_value), whole(part.false_value)
                return tirx.Select(placed(part.condition), *choices)
        if yields in FLOATS8 and tvm_ffi.structural_equal(part, nan()):
            return tirx.const(word_of(math.nan, yields), WORDS[yields])
        return encoded(placed(part), yields)

    if len(parts) == 1:
        return whole(parts[0])
    return encoded(ComplexNumber(*map(placed, parts)), yields)


def nan() -> ir.Expr:
    """A float32 that is no number."""
    return complex_arithmetic.nan("float32")


def word_of(value: Any, dtype: str) -> int:
    """The word of a number of Python's, as a number."""
    array = np.asarray(value).astype(numpy_dtype(dtype))
    if dtype in COMPLEX_PARTS:
        return int.from_bytes(array.tobytes(), "little")
    if dtype == "int4":
        return int(array)
    return int(array.view(np.uint8))


def word_constant(word: int, dtype: str) -> ir.Expr:
    """A word of 64 bits or of 128 as an expression: constants are made from signed numbers."""
    if word < 1 << 63:
        return tirx.const(word, dtype)
    if dtype == "uint64":
        return tirx.reinterpret("uint64", tirx.const(word - (1 << 64), "int64"))
    upper, lower = (
        tirx.Cast(dtype, word_constant(part, "uint64"))
        for part in (word >> 64, word & ((1 << 64) - 1))
    )
    return tirx.bitwise_or(tirx.shift_left(upper, tirx.const(64, dtype)), lower)


def _halves(dtype: str) -> tuple[str, str, int]:
    """The type of a complex number's parts, of their words, and its bits."""
    part = COMPLEX_PARTS[dtype]
    bits = 8 * numpy_dtype(part).itemsize
    return part, f"uint{bits}", bits


def part_of(which: str) -> Callable[[Any], Any]:
    """The function ``real`` or ``imag`` of regions: of a complex number its part."""

    def part(number: Any) -> Any:
        if not isinstance(number, ComplexNumber):
            raise TypeError(f"{which}() takes a complex number")
        return operator.attrgetter(which)(number)

    return part


def conjugate(number: Any) -> Any:
    """The function ``conj`` of regions."""
    if not isinstance(number, ComplexNumber):
        raise TypeError("conj() takes a complex number")
    return number.conj()
