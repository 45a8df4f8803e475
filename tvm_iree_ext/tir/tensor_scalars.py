"""Scalars of a function as tensors of rank 0: values that only a run tells.

A function of TensorIR takes numbers by value, and Relax hands on only integers so.  A number that
is computed from data lies in memory, from where the function then reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.base.dtypes import WORDS, alignment_bytes
from tvm_iree_ext.tir.tir_expressions import cast
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

TENSOR_SCALARS = "tvm_iree_ext.tensor_scalars"
"""On a PrimFunc: its parameters that stand for scalars, with their element types, by name."""

WIDE = WORDS["complex128"]
"""The words that no call passes by value."""


def with_tensor_scalars(function: tirx.PrimFunc, dtypes: Mapping[str, str]) -> tirx.PrimFunc:
    """The function with tensors of rank 0 in the places of scalars.

    Args:
        function: canonical or scheduled TensorIR.
        dtypes: element types by the names of the scalars; a read is converted to the scalar's type.
    """
    if not dtypes:
        return function
    made = _read_from_memory(
        function,
        {
            one: tirx.decl_buffer((), dtypes[one.name], one.name)
            for one in function.params
            if one.name in dtypes and isinstance(one.ty, ir.PrimType)
        },
    )
    return made.with_attr(TENSOR_SCALARS, dict(dtypes))


def with_wide_scalars_in_memory(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with tensors for its scalars of 128 bits: calls pass numbers of 64 by value."""
    buffers = {
        one: tirx.decl_buffer((), WIDE, one.name, data_alignment=alignment_bytes(WIDE))
        for one in function.params
        if isinstance(one.ty, ir.PrimType) and str(one.ty.dtype) == WIDE
    }
    return _read_from_memory(function, buffers) if buffers else function


def _read_from_memory(function: tirx.PrimFunc, buffers: Mapping[ir.Var, Any]) -> tirx.PrimFunc:
    """The function with buffers in the places of some of its scalars."""

    def read(var: ir.Var) -> ir.Expr:
        if var not in buffers:
            return var
        return cast(buffers[var][()], str(var.ty.dtype))

    body = tvm_ffi.structural_map(function.body, (ir.Var, read))
    parameters = [buffers.get(one, one) for one in function.params]
    return tirx.PrimFunc(parameters, body, attrs=function.attrs)


def tensor_scalars(function: tirx.PrimFunc) -> dict[str, str]:
    """The scalars of a function that are tensors: element types by name."""
    found = (function.attrs or {}).get(TENSOR_SCALARS, {})
    return {str(name): str(dtype) for name, dtype in found.items()}
