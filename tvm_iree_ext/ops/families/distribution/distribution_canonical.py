"""The canonical TensorIR of to_simt and to_simd, the layout's formulas, and of to_layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext.layout.ownership import subgroup_parts
from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.padding import padding_expr
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.distribution.distribution import Distribution
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


@emits_canonical
def canonical_distribution(op: Distribution, parameters: Parameters) -> None:
    """The block ``to_simt`` or ``to_simd``, after a table where subgroups hold several parts."""
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    if op.distributes:
        table = _table(parameters, "held", _tiles_held(op)) if op.parts > 1 else None
        with BlockNest("to_simt", parameters, op.parts_shape) as at:
            place = _coordinate(op, at, table)
            inside = [
                x < i64(extent)
                for x, extent, whole in zip(
                    place, op.extents, op.layout.undistributed_shape, strict=True
                )
                if extent < whole
            ]
            value = source[tuple(place)]
            if inside:
                padding = padding_expr(op.padding, parameters.scalars.get("padding"), op.dtype)
                value = tirx.if_then_else(tirx.all(*inside), value, padding)
            I.buffer_store(result, value, at)
    else:
        table = _table(parameters, "part", _part_of_tile(op)) if op.parts > 1 else None
        with BlockNest("to_simd", parameters, op.extents) as at:
            I.buffer_store(result, source[tuple(_owner(op, at, table))], at)


@emits_canonical
def canonical_to_layout(op: ToLayout, parameters: Parameters) -> None:
    """The block ``to_layout``, a copy; after ``held``, where lanes hold the value before.

    A copy alone is the value itself to passes over programs, which leave it out.
    """
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    if op.moves_between_lanes:
        held = I.sblock_alloc_buffer(list(source.shape), op.type.dtype)
        with BlockNest("held", parameters, op.type.shape) as at:
            I.buffer_store(held, source[tuple(at)], at)
        source = held
    with BlockNest("to_layout", parameters, op.type.shape) as at:
        I.buffer_store(result, source[tuple(at)], at)


def _table(parameters: Parameters, name: str, values: Sequence[int]) -> Any:
    """A buffer of numbers that are known."""
    table = I.sblock_alloc_buffer([len(values)], "int64")
    with BlockNest(name, parameters, ()):
        for place, value in enumerate(values):
            I.buffer_store(table, i64(value), [place])
    return table


def _tiles_held(op: Distribution) -> list[int]:
    """The subgroup tiles that each subgroup holds, by their row-major numbers."""
    held = subgroup_parts(op.layout, op.num_subgroups).reshape(-1, op.layout.rank)
    return [int(np.ravel_multi_index(tuple(one), op.layout.subgroup_tile)) for one in held]


def _part_of_tile(op: Distribution) -> list[int]:
    """The part as which its subgroup holds each subgroup tile."""
    return [int(place) % op.parts for place in np.argsort(_tiles_held(op))]


def _split(value: ir.Expr, extents: Sequence[int]) -> list[ir.Expr]:
    """A row-major position as an index."""
    strides = [prod(extents[dim + 1 :]) for dim in range(len(extents))]
    return [
        tirx.floormod(tirx.floordiv(value, i64(stride)), i64(extent))
        for extent, stride in zip(extents, strides, strict=True)
    ]


def _coordinate(op: Distribution, at: Sequence[ir.Expr], table: Any) -> list[ir.Expr]:
    """Coordinates in the whole of the element at ``[g, t, (p,) *local]``."""
    layout, rank = op.layout, op.layout.rank
    subgroup, lane, *local = at
    if table is not None:
        part, *local = local
        tile = _split(table[subgroup * i64(op.parts) + part], layout.subgroup_tile)
    else:
        tile = _virtual(subgroup, layout.subgroup_tile, layout.subgroup_strides)
    thread = _virtual(lane, layout.thread_tile, layout.thread_strides)
    place = []
    for dim in range(rank):
        _, batches, outers, threads, elements = (i64(tiles[dim]) for tiles in layout.tiles)
        if op.packed:
            batch, outer, element = local[dim::rank]
        else:
            rest, element = (f(local[dim], elements) for f in (tirx.floordiv, tirx.floormod))
            batch, outer = (f(rest, outers) for f in (tirx.floordiv, tirx.floormod))
        x = (tile[dim] * batches + batch) * outers + outer
        place.append((x * threads + thread[dim]) * elements + element)
    return place


def _virtual(number: ir.Expr, tiles: Sequence[int], strides: Sequence[int]) -> list[ir.Expr]:
    """The virtual id of a subgroup or lane."""
    return [
        tirx.floormod(tirx.floordiv(number, i64(stride)), i64(tile)) if stride else i64(0)
        for tile, stride in zip(tiles, strides, strict=True)
    ]


def _owner(op: Distribution, at: Sequence[ir.Expr], table: Any) -> list[ir.Expr]:
    """Place of an element of the whole in its first owner."""
    layout = op.layout
    digits = []
    for dim, x in enumerate(at):
        found = []
        for tiles in reversed(layout.tiles[1:]):
            found.append(tirx.floormod(x, i64(tiles[dim])))
            x = tirx.floordiv(x, i64(tiles[dim]))
        digits.append([x, *reversed(found)])
    subgroup, lane, number = i64(0), i64(0), i64(0)
    for dim, (tile, _, _, thread, _) in enumerate(digits):
        subgroup = subgroup + tile * i64(layout.subgroup_strides[dim])
        lane = lane + thread * i64(layout.thread_strides[dim])
        number = number * i64(layout.subgroup_tile[dim]) + tile
    place = [subgroup, lane]
    if table is not None:
        place = [tirx.floormod(subgroup, i64(op.num_subgroups)), lane, table[number]]
    if op.packed:
        return place + [digits[dim][level] for level in (1, 2, 4) for dim in range(layout.rank)]
    for dim, (_, batch, outer, _, element) in enumerate(digits):
        outers, elements = (i64(tiles[dim]) for tiles in (layout.outer_tile, layout.element_tile))
        place.append((batch * outers + outer) * elements + element)
    return place
