"""The formats of float32 and float64, as functions computed by bit patterns take them."""

from dataclasses import dataclass

from tvm_iree_ext.codegen.polynomials import Expr


@dataclass(frozen=True)
class FloatFormat:
    """A format of IEEE 754.

    Attributes:
        bits, mantissa, bias: of the format.
        ln2: log 2 as a sum of two, the first with few enough digits to be multiplied exactly.
    """

    bits: int
    mantissa: int
    bias: int
    ln2: tuple[float, float]


FORMATS = {
    "float32": FloatFormat(
        bits=32, mantissa=23, bias=127, ln2=(0.693359375, -2.12194440054690583e-4)
    ),
    "float64": FloatFormat(
        bits=64, mantissa=52, bias=1023, ln2=(0.693145751953125, 1.42860682030941723212e-6)
    ),
}


def format_of(x: Expr) -> FloatFormat:
    """The format of a number, or of a vector's."""
    return FORMATS[scalar_of(x)]


def scalar_of(x: Expr) -> str:
    """The type of a number, or of a vector's elements."""
    return str(x.ty.dtype).partition("x")[0]


def integer_of(x: Expr) -> str:
    """The type of integers as wide as a float, as many as a vector has."""
    return str(x.ty.dtype).replace("float", "int")
