"""The canonical TensorIR of transfer_gather and transfer_scatter: the formula, a block each."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.padding import padding_expr
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.base.symbol_maps import SymbolMap
from tvm_iree_ext.ops.families.transfer.transfer import Transfer
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

FAR = 1 << 48
"""Beyond any extent: indices from here on lie outside, and so do offsets from twice that on."""


@emits_canonical
def canonical_transfer(op: Transfer, parameters: Parameters) -> None:
    """The block ``transfer_gather``; or ``copy`` and ``transfer_scatter``."""
    base, result = parameters.buffers["base"], parameters.buffers["result"]
    if not op.gathers:
        with BlockNest("copy", parameters, op.base.shape) as at:
            I.buffer_store(result, base[tuple(at)], at)
    with BlockNest(op.entry, parameters, op.vector.shape) as at:
        place, live = address(op, parameters, at)
        if op.gathers:
            padding = padding_expr(op.padding, parameters.scalars.get("padding"), op.dtype)
            value = tirx.if_then_else(live, base[tuple(place)], padding)
            I.buffer_store(result, value, at)
        else:
            with I.If(live), I.Then():
                I.buffer_store(result, parameters.buffers["vector"][tuple(at)], place)


def signed(number: ir.Expr) -> ir.Expr:
    """An index as an int64; one that this cannot hold is the largest that it can."""
    if str(number.ty.dtype) == "uint64":
        number = tirx.min(number, tirx.const(2**63 - 1, "uint64"))
    return convert(number, "int64")


def summable(number: ir.Expr, most: int = FAR) -> ir.Expr:
    """An index, or one from which its sum with an offset, or a place, does not overflow."""
    return tirx.max(tirx.min(number, tirx.const(most, "int64")), tirx.const(-most, "int64"))


def summable_offset(offset: ir.Expr) -> ir.Expr:
    """An offset, or one that no index brings back into any extent."""
    return summable(offset, 2 * FAR)


def address(
    op: Transfer, parameters: Parameters, at: Sequence[ir.Expr]
) -> tuple[list[ir.Expr], ir.Expr]:
    """The place in the base of a position, and whether it is live."""

    def element(name: str, one: SymbolMap) -> ir.Expr:
        if name in parameters.scalars:
            return parameters.scalars[name]
        return parameters.buffers[name][tuple(at[dim] for dim in one.dims)]

    named = {f"d{dim}": index for dim, index in enumerate(at)} | {"0": tirx.const(0, "int64")}
    for t in range(len(op.index_vecs)):
        named[f"s{t}"] = signed(element(f"index{t}", op.maps[1 + t]))
    place = []
    live: ir.Expr = tirx.const(True, "bool")
    if op.mask_map is not None:
        live = element("mask", op.mask_map)
    for axis, (result, offset) in enumerate(zip(op.maps[0].results, op.offsets, strict=True)):
        if isinstance(offset, int):
            start: ir.Expr = tirx.const(offset, "int64")
        else:
            start = parameters.scalars[f"offset{axis}"]
        step = named[result]
        if axis not in op.checked_axes:
            place.append(start + step)
            continue
        index = summable_offset(start) + (summable(step) if result.startswith("s") else step)
        extent = i64(parameters.extent(op.base.shape[axis]))
        is_inside = tirx.all(tirx.const(0, "int64") <= index, index < extent)
        live = tirx.all(live, is_inside)
        # From far away nothing is addressed, not even where nothing is read.
        nowhere = tirx.const(0, "int64")
        place.append(index if isinstance(offset, int) else tirx.Select(is_inside, index, nowhere))
    return place, live
