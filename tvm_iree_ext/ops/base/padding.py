"""Padding: a number of an element type, or one that is passed when the kernel is called."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tvm_modules import ir, tirx

Number: TypeAlias = bool | int | float | complex
Padding: TypeAlias = Number | Literal["operand"]


def check_padding(op: str, name: str, value: object, dtype: str) -> Padding:
    """The padding called ``name``, when it is ``"operand"`` or of the element type.

    Raises:
        OpError: otherwise.
    """
    if isinstance(value, str) and value == "operand":
        return "operand"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        if str(value.dtype) != dtype:
            raise OpError(f"{op}: {name} has dtype {value.dtype}; expected {dtype}")
        value = value.item()
    if dtype == "bool":
        fits = isinstance(value, bool)
    elif dtype in dtypes.COMPLEX:
        fits = isinstance(value, int | float | complex) and not isinstance(value, bool)
    elif dtype in (*dtypes.FLOATS, *dtypes.FLOATS8):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        fits = isinstance(value, int) and not isinstance(value, bool)
        least, most = dtypes.limits(dtype)
        fits = fits and least <= value <= most  # type: ignore[operator]
    if not fits:
        raise OpError(f"{op}: {name} is {value!r}; expected a number of type {dtype}")
    return value  # type: ignore[return-value]


def padding_json(value: Padding | None) -> Any:
    """The padding as a JSON value: what is not finite as text."""
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def padding_number(value: Number, dtype: str) -> ir.Expr:
    """A padding that is known as a constant of the element type."""
    if dtype in ("uint64", "uint128"):
        return number_words.word_constant(int(value), dtype)  # type: ignore[arg-type]
    return tirx.const(value, dtype)


def padding_expr(padding: Padding | None, passed: ir.Expr | None, dtype: str) -> ir.Expr:
    """A padding in the element type; ``passed`` is what came at call time for an operand."""
    if padding != "operand" or passed is None:
        assert not isinstance(padding, str)
        return padding_number(padding or 0, dtype)
    if str(passed.ty.dtype) == "float64" and dtype in ("float16", "bfloat16"):
        passed = tirx.Cast("float32", passed)  # TVM has no code for the way straight on
    return passed if str(passed.ty.dtype) == dtype else tirx.Cast(dtype, passed)
