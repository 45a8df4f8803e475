"""Parameters of functions like others."""

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx


def buffer_like(old: ir.Var, shape: Sequence[Any], name: str) -> ir.Var:
    """A parameter of another shape.

    TVM fuses functions only where what they hand on is declared alike, alignment and all.
    """
    return tirx.decl_buffer(
        list(shape),
        str(old.ty.dtype),
        name,
        data_alignment=old.ty.data_alignment,
        elem_offset=tirx.const(0, "int64"),
        layout=None if old.ty.layout is None else "default",
    )
