"""Functions whose parameters lie otherwise."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

Arranged = Callable[[list[Any], Any], list[Any]]
"""Gives what a tensor's axes have, as it lies now; takes what they had, and an axis of extent 1."""


def with_parameters(function: tirx.PrimFunc, arranged: Mapping[int, Arranged]) -> tirx.PrimFunc:
    """The function whose parameters of these numbers lie so; it computes the same."""
    parameters = list(function.params)
    declared: dict[ir.Var, tuple[ir.Var, Arranged]] = {}
    zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")
    for number, arrange in arranged.items():
        old = parameters[number]
        parameters[number] = buffer_like(old, arrange(list(old.ty.shape), one), old.name)
        declared[old] = parameters[number], arrange

    def load(node: ir.TensorLoad) -> Any:
        if node.source not in declared:
            return node
        new, arrange = declared[node.source]
        return tirx.BufferLoad(new, arrange(list(node.indices), zero))

    def store(node: tirx.BufferStore) -> Any:
        if node.buffer not in declared:
            return node
        new, arrange = declared[node.buffer]
        return tirx.BufferStore(new, node.value, arrange(list(node.indices), zero))

    def region(node: ir.TensorRegion) -> Any:
        if node.source not in declared:
            return node
        new, arrange = declared[node.source]
        unit = ir.Range.from_min_extent(zero, one)
        return tirx.BufferRegion(new, arrange(list(node.region), unit))

    rules = [(ir.TensorLoad, load), (tirx.BufferStore, store), (ir.TensorRegion, region)]
    body = tvm_ffi.structural_map(function.body, rules)
    return tirx.PrimFunc(parameters, body, function.ret_type, function.attrs)


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
