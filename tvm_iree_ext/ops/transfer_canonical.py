"""The canonical TensorIR of transfer_gather and transfer_scatter: the formula, a block each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.canonical import Block, convert
from tvm_iree_ext.ops.padding import padding_expr
from tvm_iree_ext.ops.parameters import Parameters
from tvm_iree_ext.ops.symbol_maps import SymbolMap

if TYPE_CHECKING:
    from tvm_iree_ext.ops.transfer import Transfer


def canonical(op: "Transfer") -> tirx.PrimFunc:
    """The block ``transfer_gather``; or ``copy`` and ``transfer_scatter``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        parameters = Parameters.declare(op)
        base, result = parameters.buffers["base"], parameters.buffers["result"]
        if not op.gathers:
            with Block("copy", parameters, op.base.shape) as at:
                I.buffer_store(result, base[tuple(at)], at)
        with Block(op.entry, parameters, op.vector.shape) as at:
            place, live = _address(op, parameters, at)
            if op.gathers:
                padding = padding_expr(op.padding, parameters.scalars.get("padding"), op.dtype)
                value = tirx.if_then_else(live, base[tuple(place)], padding)
                I.buffer_store(result, value, at)
            else:
                with I.If(live), I.Then():
                    I.buffer_store(result, parameters.buffers["vector"][tuple(at)], place)
    return builder.get()


def _address(
    op: "Transfer", parameters: Parameters, at: Sequence[ir.Expr]
) -> tuple[list[ir.Expr], ir.Expr]:
    """The place in the base of a position, and whether it is live."""

    def element(name: str, one: SymbolMap) -> ir.Expr:
        if name in parameters.scalars:
            return parameters.scalars[name]
        return parameters.buffers[name][tuple(at[dim] for dim in one.dims)]

    named = {f"d{dim}": index for dim, index in enumerate(at)} | {"0": tirx.const(0, "int64")}
    for t in range(len(op.index_vecs)):
        named[f"s{t}"] = convert(element(f"index{t}", op.maps[1 + t]), "int64")
    place = []
    for axis, (result, offset) in enumerate(zip(op.maps[0].results, op.offsets, strict=True)):
        if isinstance(offset, int):
            start: ir.Expr = tirx.const(offset, "int64")
        else:
            start = parameters.scalars[f"offset{axis}"]
        place.append(start + named[result])
    live: ir.Expr = tirx.const(True, "bool")
    if op.mask_map is not None:
        live = element("mask", op.mask_map)
    return place, live
