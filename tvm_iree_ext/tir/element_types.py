"""The element types that an expression computes with."""

from typing import Any

import tvm_ffi
from tvm import ir


def element_types(value: Any) -> set[str]:
    """The types of an expression and of all that it is computed of, such as ``boolx16``."""
    types: set[str] = set()

    def look(expr: Any) -> None:
        types.add(str(getattr(expr.ty, "dtype", "")))

    tvm_ffi.structural_walk(value, (ir.Expr, look))
    return types
