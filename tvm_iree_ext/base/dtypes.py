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
    "float": "f32",
    "fp8": "f8E4M3FN",
    "f8": "f8E4M3FN",
    "float8": "f8E4M3FN",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "half": "f16",
    "int": "i32",
    "long": "i64",
    "s8": "i8",
    "s32": "i32",
    "single": "f32",
    "u8": "ui8",
    "u32": "ui32",
}
"""What other libraries and languages call types."""

COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
"""NumPy's complex types, which no kernel takes: programs take them as two tensors of the parts."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
FLOATS8 = tuple(name for name in _MLIR if name.startswith("float8"))
"""8-bit float types: operands of contractions."""
INTEGERS = tuple(name for name in _MLIR if name not in FLOATS + FLOATS8)
_OTHERS = ("bfloat16", *FLOATS8)


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
    """NumPy's dtype object, also of a complex type; others come from ``ml_dtypes``."""
    if name in COMPLEX_PARTS:
        return np.dtype(name)
    name = canonical(name)
    return np.dtype(getattr(ml_dtypes, name) if name in _OTHERS else name)


def item_bytes(name: str) -> int:
    """Bytes per element in memory; a bool takes one."""
    return numpy_dtype(name).itemsize


def eps(name: str) -> float:
    """The distance from 1 to the next float of this type."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).eps)


def smallest(name: str) -> float:
    """The smallest float of this type above 0: the distance between its subnormal numbers."""
    return float(ml_dtypes.finfo(numpy_dtype(name)).smallest_subnormal)
