"""Words in two halves: lanes and workgroups hand on 32 bits at a time.

Of the forms that :mod:`~tvm_iree_ext.codegen.wide_words` takes, for words of 128 bits.
"""

from typing import Any

from tvm import DataType, tirx


def halves(word: Any) -> tuple[Any, Any]:
    """The lower and the upper half of a word of 64 or 128 bits."""
    dtype = str(word.ty.dtype)
    half = _half(dtype)
    upper = word >> tirx.const(DataType(half).bits, dtype)
    return tirx.Cast(half, word), tirx.Cast(half, upper)


def joined(low: Any, high: Any, dtype: str) -> Any:
    """The word of ``dtype`` that has these halves."""
    shift = tirx.const(DataType(_half(dtype)).bits, dtype)
    return tirx.Cast(dtype, low) | (tirx.Cast(dtype, high) << shift)


def _half(dtype: str) -> str:
    return f"uint{DataType(dtype).bits // 2}"
