"""Scalar operations of a web in the dialects arith and math."""

from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.random_programs.doors.mlir_text import MlirLines

_UNSIGNED = ("uint8", "bool")
_MATH = {"abs": "absf", "round": "roundeven"}
_FLOAT = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf"}
_FLOAT |= {"max": "maximumf", "min": "minimumf"}
_WHOLE = {"add": "addi", "sub": "subi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori"}
_SIGNED = {"div": "divsi", "rem": "remsi", "max": "maxsi", "min": "minsi"}
_PREDICATES = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


class Scalars:
    """Writes scalar operations of one element type."""

    def __init__(self, lines: MlirLines, dtype: str) -> None:
        self._lines, self._dtype = lines, dtype
        self._is_float = dtype in FLOATS
        self._type = lines.element(dtype)

    def _op(self, op: str, *names: str) -> str:
        return self._lines.value(f"{op} {', '.join(names)} : {self._type}")

    def number(self, value: Any) -> str:
        """A constant."""
        if value in (float("inf"), float("-inf")):
            infinity = {"f16": "7C00", "bf16": "7F80", "f32": "7F800000"}
            bits = infinity.get(self._type, "7FF0000000000000")
            sign = f"{int(bits[0], 16) + 8:X}" if value < 0 else bits[0]
            return self._lines.value(f"arith.constant 0x{sign}{bits[1:]} : {self._type}")
        literal = self._lines.literal(value, self._dtype)
        kind = "" if self._dtype == "bool" else f" : {self._type}"
        return self._lines.value(f"arith.constant {literal}{kind}")

    def unary(self, function: str, x: str) -> str:
        """A function of one number."""
        if function == "not":
            return self._op("arith.xori", x, self.number(1 if self._dtype == "bool" else -1))
        if function == "sign":
            zero, one, less = self.number(0), self.number(1), self.number(-1)
            negative, positive = self.compare("LT", x, zero), self.compare("GT", x, zero)
            below = self.select(negative, less, zero)
            return self.select(positive, one, below)
        if not self._is_float:
            return (
                self._op("math.absi", x)
                if function == "abs"
                else self.binary("sub", self.number(0), x)
            )
        if function == "neg":
            return self._op("arith.negf", x)
        if function == "logistic":
            one = self.number(1)
            power = self._op("math.exp", self._op("arith.negf", x))
            return self._op("arith.divf", one, self._op("arith.addf", one, power))
        return self._op(f"math.{_MATH.get(function, function)}", x)

    def binary(self, function: str, x: str, y: str) -> str:
        """A function of two numbers."""
        if self._is_float:
            return self._op(f"arith.{_FLOAT[function]}", x, y)
        name = _WHOLE.get(function) or _SIGNED[function]
        if self._dtype in _UNSIGNED and name in _SIGNED.values():
            name = f"{name[:3]}ui"
        return self._op(f"arith.{name}", x, y)

    def select(self, flag: str, x: str, y: str) -> str:
        """One of two."""
        return self._op("arith.select", flag, x, y)

    def compare(self, direction: str, x: str, y: str) -> str:
        """A comparison."""
        name = _PREDICATES[direction]
        if self._is_float:
            return self._op(f"arith.cmpf {'u' if name == 'ne' else 'o'}{name},", x, y)
        prefix = "" if name in ("eq", "ne") else "u" if self._dtype in _UNSIGNED else "s"
        return self._op(f"arith.cmpi {prefix}{name},", x, y)

    def to(self, dtype: str, x: str) -> str:
        """The number in another type."""
        if dtype == self._dtype:
            return x
        if dtype == "bool":
            return self.compare("NE", x, self.number(0))
        other, is_float = self._lines.element(dtype), dtype in FLOATS
        sizes = item_bytes(self._dtype), item_bytes(dtype)
        unsigned = self._dtype in _UNSIGNED
        if self._is_float and is_float:
            if sizes[0] == sizes[1]:  # the two of 16 bits
                return Scalars(self._lines, "float32").to(dtype, self.to("float32", x))
            op = "extf" if sizes[0] < sizes[1] else "truncf"
        elif self._is_float:
            op = "fptoui" if dtype in _UNSIGNED else "fptosi"
        elif is_float:
            op = "uitofp" if unsigned else "sitofp"
        elif sizes[0] == sizes[1] and self._dtype != "bool":
            return x
        elif sizes[0] <= sizes[1]:
            op = "extui" if unsigned else "extsi"
        else:
            op = "trunci"
        return self._lines.value(f"arith.{op} {x} : {self._type} to {other}")
