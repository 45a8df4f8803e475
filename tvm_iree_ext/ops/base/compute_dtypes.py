"""The element types in which ops compute, for the types that their operands have in memory."""

from collections.abc import Iterable

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType


def wide_dtype(types: Iterable[TensorType]) -> str:
    """The type of float sums: float64 where an operand is, else float32."""
    return "float64" if any(kind.dtype == "float64" for kind in types) else "float32"


def computed_dtype(dtype: str) -> str:
    """The type of a region over elements of ``dtype``: float32 for floats of 16 bits."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def epilogue_dtype(dtype: str, wide: str) -> str:
    """The type in which an epilogue takes elements of ``dtype``; ``wide`` is that of floats."""
    if dtype in dtypes.FLOATS:
        return wide
    return "int32" if dtype in ("int8", "int16", "uint8", "uint16") else dtype
