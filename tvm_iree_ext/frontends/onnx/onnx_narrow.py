"""Numbers of ONNX's narrow types as words of 8 bits, and words as numbers.

A number of a float of 8 or 4 bits is carried as its bits, in a ``uint8``; an integer of 4 or 2
bits as the number, in an ``int8`` or ``uint8``.  Conversions from floats are look-ups in a table
of all of a type's numbers; those to them count the numbers that lie below, by borders between
neighbours that ``ml_dtypes`` tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_rewriting import Attributes, NotRewritten, Values, Writer

FLOATS = {  # by the names of onnx.TensorProto: the bit of the sign, 0 where there is none
    "FLOAT8E4M3FN": 0x80,
    "FLOAT8E4M3FNUZ": 0x80,
    "FLOAT8E5M2": 0x80,
    "FLOAT8E5M2FNUZ": 0x80,
    "FLOAT4E2M1": 0x8,
    "FLOAT8E8M0": 0,
}
_INTEGERS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}
RANGES = {
    **_INTEGERS,
    "INT8": (-128, 127),
    "UINT8": (0, 255),
    "INT16": (-(2**15), 2**15 - 1),
    "UINT16": (0, 2**16 - 1),
}
"""The least and the largest number of each integer type that numbers are quantised to."""

WORDS = {
    **dict.fromkeys(FLOATS, "UINT8"),
    **{name: "INT8" if least else "UINT8" for name, (least, _) in _INTEGERS.items()},
}
"""The type of the words of each narrow type."""

_FAR = 3e38  # beyond the largest number of each type but E8M0


def name_of(kind: int) -> str:
    """The name of an element type, as ``onnx.TensorProto`` has it."""
    import onnx

    return str(onnx.TensorProto.DataType.Name(kind))


def wrapped(x: str, name: str, write: Writer) -> str:
    """Integers as a narrow type keeps them: their lowest bits."""
    import onnx

    least, most = _INTEGERS[name]
    count = write.constant(most - least + 1, "i4")
    rest = write("Mod", write("Cast", x, to=onnx.TensorProto.INT32), count)
    if least:
        is_below = write("Greater", rest, write.constant(most, "i4"))
        rest = write("Where", is_below, write("Sub", rest, count), rest)
    return write("Cast", rest, to=onnx.TensorProto.DataType.Value(WORDS[name]))


def number_of(x: str, values: Values, write: Writer) -> str:
    """The numbers of a value of any type: of floats in words, float32."""
    import onnx

    name = name_of(values.kind(x))
    if name not in FLOATS:
        return x
    kind = onnx.helper.tensor_dtype_to_np_dtype(values.kind(x))
    numbers = np.arange(_codes(name), dtype="u1").view(kind).astype("f4")
    places = write("Cast", x, to=onnx.TensorProto.INT32)
    return write("Gather", write.constant(numbers), places, axis=0)


def _codes(name: str) -> int:
    return 16 if name == "FLOAT4E2M1" else 256


@dataclass(frozen=True)
class _Borders:
    """How numbers become a type's: ``above[k]`` is the largest that is at most code ``k``."""

    above: np.ndarray
    largest: float | None
    nan: int
    beyond: tuple[int, int]


def _borders(name: str, kind: np.dtype, saturates: bool, rounding: str) -> _Borders:
    """The borders between neighbours, by what ``ml_dtypes`` makes of the numbers between them."""

    def code(number: Any) -> int:
        with np.errstate(over="ignore", invalid="ignore"):
            return int(np.float32(number).astype(kind).view("u1"))

    zero = np.float32(0)
    if name == "FLOAT8E8M0":  # of the magnitude; what is not finite becomes NaN
        powers = np.ldexp(np.float32(1), np.arange(-126, 128)).astype("f4")
        above = {
            "up": np.append(zero, powers),
            "down": np.nextafter(powers, zero),
            "nearest": np.append(powers[0] / 2, np.nextafter(powers * np.float32(1.5), zero)),
        }[rounding]
        largest = float(powers[-1]) if saturates else None
        return _Borders(above.astype("f4"), largest, 0xFF, (0xFF, 0xFF))
    sign = FLOATS[name]
    numbers = np.arange(sign, dtype="u1").view(kind).astype("f4")
    numbers = numbers[np.isfinite(numbers)]
    step = numbers[-1] - numbers[-2]
    middles = (numbers + np.append(numbers[1:], numbers[-1] + step)) / 2
    stays = np.array([code(middle) == place for place, middle in enumerate(middles)])
    above = np.where(stays, middles, np.nextafter(middles, zero)).astype("f4")
    if saturates or name == "FLOAT4E2M1":
        return _Borders(above[:-1], float(numbers[-1]), code(np.nan), (0, 0))
    return _Borders(above, None, code(np.nan), (code(_FAR), code(-_FAR)))


def encoded(x: str, source: int, name: str, said: Attributes, write: Writer) -> str:
    """Numbers as the words of a narrow float, rounded to the nearest, of two the even one."""
    import onnx

    kinds = onnx.TensorProto
    if source == kinds.DOUBLE:
        raise NotRewritten("float64 would be rounded twice")
    kind = onnx.helper.tensor_dtype_to_np_dtype(kinds.DataType.Value(name))
    borders = _borders(name, kind, bool(said("saturate", 1)), said.text("round_mode", "up"))
    x = write("Cast", x, to=kinds.FLOAT) if source != kinds.FLOAT else x
    size = write("Abs", x)
    if borders.largest is not None:
        size = write("Min", size, write.constant(borders.largest, "f4"))
    last = write("Unsqueeze", size, write.constant([-1], "i8"))
    is_above = write("Greater", last, write.constant(borders.above))
    ones = write("Cast", is_above, to=kinds.INT32)
    code = write("ReduceSum", ones, write.constant([-1], "i8"), keepdims=0)
    if sign := FLOATS[name]:
        zero = write.constant(0, "f4")
        is_below = write("Less", write("Reciprocal", x), zero)  # of -0, too, but not of -infinity
        negative = write("Or", write("Less", x, zero), is_below)
        words = [code, write("Add", code, write.constant(sign, "i4"))]
        if borders.largest is None:
            is_beyond = write("Greater", code, write.constant(len(borders.above) - 1, "i4"))
            words = [
                write("Where", is_beyond, write.constant(beyond, "i4"), word)
                for beyond, word in zip(borders.beyond, words, strict=True)
            ]
        if name.endswith("FNUZ"):  # which have no -0
            negative = write("And", negative, write("Greater", code, write.constant(0, "i4")))
        code = write("Where", negative, words[1], words[0])
    none = write("IsNaN", x)
    if name == "FLOAT8E8M0":
        none = write("Or", none, write("IsInf", x))
    code = write("Where", none, write.constant(borders.nan, "i4"), code)
    return write("Cast", code, to=kinds.UINT8)


def converted(x: str, source: int, target: int, said: Attributes, write: Writer) -> str:
    """Numbers of a type in another, in words where it is narrow."""
    name = name_of(target)
    if name in FLOATS:
        return encoded(x, source, name, said, write)
    if name in _INTEGERS:
        return wrapped(x, name, write)
    return x if source == target else write("Cast", x, to=target)


def source_of(kind: int) -> int:
    """The type that numbers of a type have after :func:`_number`."""
    import onnx

    name = name_of(kind)
    plain = "FLOAT" if name in FLOATS else WORDS.get(name, name)
    return int(onnx.TensorProto.DataType.Value(plain))
