"""Comparisons of truth values as numbers: TVM's code generator for LLVM has none of bools."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.tir.tvm_modules import ir, tirx


def as_number(truth: ir.Expr) -> ir.Expr:
    """A truth value as 0 or 1.

    Not by a cast: TVM drops it on both sides of a comparison, and cannot compare bools.
    """
    return tirx.Select(truth, tirx.const(1, "int8"), tirx.const(0, "int8"))


def as_numbers(comparison: Any) -> ir.Expr:
    """A comparison, of two bools as of 0 and 1.

    Not by logic: TVM turns ``not x < y`` into ``x >= y``, which NaN makes another.
    """
    if str(comparison.a.ty.dtype) != "bool":
        return comparison
    return type(comparison)(as_number(comparison.a), as_number(comparison.b))
