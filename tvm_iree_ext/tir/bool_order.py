"""Comparisons of truth values by logic: LLVM's code generator of TVM has none for their order."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.tir.tvm_modules import ir, tirx


def by_logic(comparison: Any) -> ir.Expr:
    """A comparison, where it is of two bools by what says the same: false is less than true."""
    a, b = comparison.a, comparison.b
    if str(a.ty.dtype) != "bool":
        return comparison
    match type(comparison).__name__:
        case "LT":
            return tirx.And(tirx.Not(a), b)
        case "LE":
            return tirx.Or(tirx.Not(a), b)
        case "GT":
            return tirx.And(a, tirx.Not(b))
        case _:
            return tirx.Or(a, tirx.Not(b))
