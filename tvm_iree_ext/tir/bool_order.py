"""Comparisons of truth values as numbers: TVM's code generator for LLVM has none of bools."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.tir.tvm_modules import ir, tirx


def as_numbers(comparison: Any) -> ir.Expr:
    """A comparison, of two bools as of 0 and 1.

    Not by logic: TVM turns ``not x < y`` into ``x >= y``, which NaN makes another.  And not by
    casts, which it drops on both sides.
    """
    sides = comparison.a, comparison.b
    if str(sides[0].ty.dtype) != "bool":
        return comparison
    one, zero = tirx.const(1, "int8"), tirx.const(0, "int8")
    return type(comparison)(*(tirx.Select(side, one, zero) for side in sides))
