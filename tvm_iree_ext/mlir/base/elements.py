"""Element types of IR: what a buffer stores of each, and what an expression holds.

Integers below 8 bits lie in bytes, sign-extended.  Floats below 32 bits are held as float32 and
rounded after each operation; those of 8 bits and fewer lie in bytes as their bit patterns.  A
complex number is a pair.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.tir import small_floats
from tvm_iree_ext.tir.rounded_bits import before_widening, bfloat16_bits
from tvm_iree_ext.tir.tir_expressions import bits, cast

Expr: TypeAlias = ir.Expr


class Pair(NamedTuple):
    """A complex number."""

    re: Expr
    im: Expr


Held: TypeAlias = Expr | Pair
"""The value of a scalar in a kernel."""

_WORDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Element:
    """An element type: ``name`` is that of the form, such as ``index`` or ``complex64``."""

    name: str
    kind: str  # "int", "uint", "bool", "float", "complex"
    bits: int
    storage: tuple[str, ...]  # of its buffers: one, or two of a complex type
    held: str  # of an expression, or of the two of a pair

    @property
    def is_float(self) -> bool:
        """Whether it is a real float type."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Whether numbers are pairs."""
        return self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type; i1 and index are."""
        return self.kind in ("int", "uint", "bool")

    @property
    def rounds_by_words(self) -> bool:
        """Whether a number is rounded by arithmetic on its bits, in which it stands often."""
        return self.name in small_floats.HELD_IN_BYTES

    @property
    def numpy(self) -> np.dtype:
        """NumPy's type of the constants of it."""
        return np.dtype(
            "int64" if self.name == "index" else getattr(ml_dtypes, self.name, self.name)
        )

    @property
    def part(self) -> "Element":
        """The type of each of a complex number's two parts."""
        return element(self.storage[0])

    def loaded(self, stored: Expr) -> Expr:
        """What an expression holds of one stored part."""
        came = self.storage[0]
        if came == self.held:
            return stored
        if self.name in small_floats.HELD_IN_BYTES:
            return small_floats.decoded(stored, self.name)
        return cast(stored, self.held)

    def stored(self, held: Expr) -> Expr:
        """What a buffer takes of one part; rounded already, where it was computed."""
        want = self.storage[0]
        if want == self.held:
            return held
        narrow = self._narrow(held)
        if narrow is not None:
            return narrow
        if self.name in small_floats.HELD_IN_BYTES:
            return small_floats.encoded(held, self.name)
        if want == "bfloat16":
            is_known = isinstance(held, tirx.FloatImm)
            words = bits(held, "bfloat16") if is_known else bfloat16_bits(held)
            return tirx.reinterpret("bfloat16", words)
        return cast(held, want)

    def _narrow(self, held: Expr) -> Expr | None:
        """What was loaded to be ``held``: rounded already, it is not rounded again."""
        narrow: Expr | None = before_widening(held)  # of bfloat16
        match held:
            case tirx.Cast(value=half):
                narrow = half
            case tirx.Select():  # of a float of 8 bits or fewer
                words: list[Expr] = []
                tvm_ffi.structural_walk(held, (ir.TensorLoad, words.append))
                narrow = words[0] if words else held
        if narrow is None or str(narrow.ty.dtype) != self.storage[0]:
            return None
        return narrow if tvm_ffi.structural_equal(held, self.loaded(narrow)) else None

    def rounded(self, value: Any) -> Any:
        """A result of arithmetic in the held type, as a number of this type."""
        if isinstance(value, Pair):
            return value
        if self.is_float and self.storage[0] != self.held:
            return self.loaded(self.stored(value))
        if self.kind == "int" and self.bits < 8:
            gone = tirx.const(8 - self.bits, self.held)
            return tirx.shift_right(tirx.shift_left(value, gone), gone)
        if self.kind == "uint" and self.bits < 8:
            return tirx.bitwise_and(value, tirx.const((1 << self.bits) - 1, self.held))
        return value

    def constant(self, number: object) -> Held:
        """A number as an expression."""
        array = np.asarray(number)
        if self.is_complex:
            return Pair(self.part.real(array.real), self.part.real(array.imag))
        return self.real(array)

    def real(self, number: np.ndarray) -> Expr:
        """A number of a type that is not complex."""
        if self.kind == "bool":
            return tirx.const(bool(number), "bool")
        if self.is_integer:
            return integer(int(number), self.held)
        exact = float(number)
        if np.isfinite(exact):
            return tirx.const(exact, self.held)
        if np.isnan(exact):
            return _nan(self.held)
        return tirx.const(exact, self.held)


def integer(number: int, dtype: str) -> Expr:
    """An integer constant, wrapped to a type."""
    if dtype == "bool":
        return tirx.const(bool(number & 1), "bool")
    width = int(dtype.lstrip("uint"))
    number &= (1 << width) - 1
    if dtype.startswith("uint"):
        if number < 1 << 63:
            return tirx.const(number, dtype)
        return tirx.reinterpret(dtype, tirx.const(number - (1 << 64), "int64"))
    return tirx.const(number - (1 << width) if number >> (width - 1) else number, dtype)


def _nan(dtype: str) -> Expr:
    word, pattern = ("int64", 0x7FF8 << 48) if dtype == "float64" else ("int32", 0x7FC00000)
    return tirx.reinterpret(dtype, tirx.const(pattern, word))


@cache
def element(name: str) -> Element:
    """The element type of a name of the form's.

    Raises:
        Unsupported: for one that is not computed with.
    """
    if name == "bool":
        return Element(name, "bool", 1, ("bool",), "bool")
    if name == "index":
        return Element(name, "int", 64, ("int64",), "int64")
    if name in _WORDS:
        kind = "uint" if name.startswith("u") else "int"
        return Element(name, kind, int(name.lstrip("uint")), (name,), name)
    if name in ("int2", "int4", "uint2", "uint4"):
        kind = "uint" if name.startswith("u") else "int"
        return Element(name, kind, int(name[-1]), (f"{kind}8",), f"{kind}8")
    if name in ("float32", "float64"):
        return Element(name, "float", int(name[-2:]), (name,), name)
    if name in ("float16", "bfloat16"):
        return Element(name, "float", 16, (name,), "float32")
    if name in small_floats.HELD_IN_BYTES:
        bits = int(name.removeprefix("float")[0])
        return Element(name, "float", bits, ("uint8",), "float32")
    if name in ("complex64", "complex128"):
        part = "float32" if name == "complex64" else "float64"
        return Element(name, "complex", 2 * int(part[-2:]), (part, part), part)
    raise Unsupported(
        f"the element type {name} is not computed with; floats are of 64, 32, 16 (also bf16), 8, 6"
        " and 4 bits, integers of 1, 2, 4, 8, 16, 32 and 64"
    )
