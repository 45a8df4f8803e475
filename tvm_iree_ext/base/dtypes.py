"""Element types: one name each, with MLIR's and NumPy's names for it.

The canonical name is TVM's and NumPy's (``float32``); MLIR's (``f32``) is accepted everywhere.
``bool`` is MLIR's ``i1``, and its ``index`` is ``int64``.
"""

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.suggestions import did_you_mean

_MLIR = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float6_e2m3fn": "f6E2M3FN",
    "float6_e3m2fn": "f6E3M2FN",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e8m0fnu": "f8E8M0FNU",
    "int4": "i4",
    "uint4": "ui4",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
_CANONICAL = (
    {name: name for name in _MLIR}
    | {short: name for name, short in _MLIR.items()}
    | {"index": "int64"}
)

MEANT = {
    "b16": "bf16",
    "boolean": "bool",
    "byte": "i8",
    "double": "f64",
    "e8m0": "f8E8M0FNU",
    "float": "f32",
    "fp4": "f4E2M1FN",
    "f4": "f4E2M1FN",
    "fp8": "f8E4M3FN",
    "f8": "f8E4M3FN",
    "float8": "f8E4M3FN",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "half": "f16",
    "int": "i32",
    "long": "i64",
    "s4": "i4",
    "s8": "i8",
    "s32": "i32",
    "single": "f32",
    "u4": "ui4",
    "u8": "ui8",
    "u32": "ui32",
}
"""What other libraries and languages call types."""

COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
"""The complex types, and the type of their parts, of which imported programs have two tensors."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
EXPONENTS = "float8_e8m0fnu"
"""The type of the scales of the MX formats: powers of two, without a sign."""
FLOATS8 = tuple(name for name in _MLIR if name.startswith("float8") and name != EXPONENTS)
"""8-bit float types."""
NARROW_FLOATS = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
"""Float types of 6 bits and of 4, one number in a byte, whose upper bits mean nothing."""
INTEGERS4 = ("int4", "uint4")
"""4-bit integer types, one number in a byte, whose upper bits mean nothing."""
COMPLEX = tuple(COMPLEX_PARTS)
_BLOCK_SCALED = (*NARROW_FLOATS, EXPONENTS)
INTEGERS = tuple(
    name for name in _MLIR if name not in (*FLOATS, *FLOATS8, *_BLOCK_SCALED, *INTEGERS4, *COMPLEX)
)
ORDERED = (*FLOATS, *INTEGERS, *FLOATS8, *INTEGERS4)
"""The types whose numbers have an order."""
ELEMENTS = (*ORDERED, *COMPLEX)
"""The types of elements of all ops: what one takes that only moves them.

Products alone have :data:`NARROW_FLOATS`, and scales of :data:`EXPONENTS`.
"""

WORDS = {
    **dict.fromkeys((*FLOATS8, *_BLOCK_SCALED), "uint8"),
    "int4": "int8",
    "uint4": "uint8",
    "complex64": "uint64",
    "complex128": "uint128",
}
"""The types that kernels have as words of the same size, as TVM does not know them as numbers."""
_OTHERS = ("bfloat16", *FLOATS8, *_BLOCK_SCALED, *INTEGERS4)


def canonical(name: object) -> str:
    """The canonical name of ``name``: a name of either style, or a dtype of NumPy's or PyTorch's.

    Raises:
        OpError: for an unknown type.
    """
    if isinstance(name, type) and issubclass(name, np.generic):  # np.float32
        name = np.dtype(name)
    text = str(name).removeprefix("torch.")
    if text not in _CANONICAL:
        hint = did_you_mean(text, _CANONICAL, MEANT)
        raise OpError(f"dtype {text!r} is unknown{hint or '; known are ' + ', '.join(_MLIR)}")
    return _CANONICAL[text]


def is_dtype(name: str) -> bool:
    """Whether ``name`` names a type, in either style."""
    return name in _CANONICAL


def mlir_name(name: str) -> str:
    """MLIR's name: ``f32`` for ``float32``."""
    return _MLIR[canonical(name)]


def mlir_names() -> tuple[str, ...]:
    """All names of MLIR's."""
    return tuple(_MLIR.values())


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype object; what NumPy does not have comes from ``ml_dtypes``."""
    if name == "uint128":
        return np.dtype("V16")
    name = canonical(name)
    return np.dtype(getattr(ml_dtypes, name) if name in _OTHERS else name)


def word_dtype(name: str) -> str:
    """The type of the words that kernels have for elements of a type: mostly itself."""
    return WORDS.get(name, name)


def number_dtype(name: str) -> str:
    """The type of the numbers with which regions compute for elements of a type."""
    if name in (*FLOATS8, *_BLOCK_SCALED):
        return "float32"
    return WORDS[name] if name in INTEGERS4 else name


def item_bytes(name: str) -> int:
    """Bytes per element in memory; a bool takes one."""
    return numpy_dtype(name).itemsize


def alignment_bytes(name: str) -> int:
    """The bytes of which addresses of elements are multiples: words of 128 bits are two of 64."""
    return min(item_bytes(name), 8)


def limits(name: str) -> tuple[float, float]:
    """The least and the largest finite number of a type that is not complex."""
    kind = numpy_dtype(name)
    found = ml_dtypes.iinfo(kind) if canonical(name) in INTEGERS4 else None
    if found is None and kind.kind in "iu":
        found = np.iinfo(kind)
    if found is not None:
        return int(found.min), int(found.max)
    return float(ml_dtypes.finfo(kind).min), float(ml_dtypes.finfo(kind).max)


def eps(name: str) -> float:
    """The distance from 1 to the next float of this type."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).eps)


def smallest(name: str) -> float:
    """The smallest float of this type above 0: the distance between its subnormal numbers."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).smallest_subnormal)
