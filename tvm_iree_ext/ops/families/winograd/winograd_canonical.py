"""The canonical TensorIR of the Winograd transforms: two products with a constant matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


def _replaced(at: Sequence[ir.Expr], k: ir.Expr) -> tuple[ir.Expr, ...]:
    """A position with another second coordinate."""
    return (at[0], k, *at[2:])


@emits_canonical
def canonical_winograd(op: Winograd, parameters: Parameters) -> None:
    """Two products with the constant matrix, a block each.

    Blocks ``constants, columns, rows, result``.
    """
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    down, across = op.factors
    (height, depth), (width, length) = ((len(one), len(one[0])) for one in (down, across))
    is_line = len(op.dims) == 1
    dtype = op.compute_dtype
    rest = [i64(extent) for extent in op.places(parameters)]  # the tiles: one dim each
    r_down, r_across = op.across(op.output_tile_size)

    def tiled(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
        """An index of transformed tiles."""
        if not is_line:
            return a, b, *at
        return (b, *(at if op.kind == "filter" else [*at[:1], *at[2:]]))

    def kernel(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
        inside = (b,) if is_line else (a, b)
        return (*inside, *at) if op.channels_last else (at[1], at[0], *inside)

    def pixel(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> list[tuple[ir.Expr, ir.Expr]]:
        """An index of the image: places along its dims, with the extents of those that are tiled.

        Of others, the extent is their place, which is inside.
        """
        image = result if op.kind == "output" else source
        n, h, w, c = at or (i64(0),) * 4
        places = [h * r_down + a, w * r_across + b][2 - len(op.dims) :]
        extents = image.shape if op.is_tile else [image.shape[dim] for dim in op.dims]
        inside = list(zip(places, extents, strict=True))
        if op.is_tile:
            return inside
        return [(n, n), *inside, (c, c)] if op.channels_last else [(n, n), (c, c), *inside]

    def loaded(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> ir.Expr:
        if op.kind == "output":
            return source[tiled(a, b, at)]
        if op.kind == "filter":
            return source[kernel(a, b, at)]
        places = pixel(a, b, at)
        inside = tirx.all(*(place < extent for place, extent in places if place is not extent))
        index = tuple(place for place, _ in places)
        return tirx.if_then_else(inside, source[index], tirx.const(0, source.dtype))

    def stored(p: ir.Expr, q: ir.Expr, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        if op.kind != "output":
            return list(tiled(p, q, at))
        return [place for place, _ in pixel(p, q, at)]

    def product(name: str, shape: Sequence[ir.Expr], depth: int, target: Any, term: Any) -> None:
        """``target[at] = sum_k term(at, k)``."""
        with I.grid(*shape, i64(depth)) as loops, I.sblock(name):
            at = [I.axis.spatial(e, i) for e, i in zip(shape, loops[:-1], strict=True)]
            k = I.axis.reduce(i64(depth), loops[-1])
            with I.init():
                I.buffer_store(target, tirx.const(0, dtype), at)
            I.buffer_store(target, target[tuple(at)] + term(at, k), at)

    with I.sblock("root"):
        constants = I.sblock_alloc_buffer([width, length], dtype)
        columns = I.sblock_alloc_buffer([i64(height), i64(length), *rest], dtype)
        tiles = I.sblock_alloc_buffer([i64(height), i64(width), *rest], dtype)
        with I.serial(i64(0), i64(1)) as once, I.sblock("constants"):
            I.axis.opaque(i64(1), once)
            I.reads()
            I.writes(constants[0:width, 0:length])
            for p, row in enumerate(op.matrix):
                for k, value in enumerate(row):
                    number = tirx.const(float(value), dtype)
                    I.buffer_store(constants, number, [i64(p), i64(k)])

        def column(at: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
            value = tirx.Cast(dtype, loaded(k, at[1], at[2:]))
            return value if is_line else constants[at[0], k] * value

        product("columns", [i64(height), i64(length), *rest], depth, columns, column)
        product(
            "rows",
            [i64(height), i64(width), *rest],
            length,
            tiles,
            lambda at, k: constants[at[1], k] * columns[_replaced(at, k)],
        )
        shape = [i64(height), i64(width), *rest]
        with I.grid(*shape) as loops, I.sblock("result"):
            at = [I.axis.spatial(e, i) for e, i in zip(shape, loops, strict=True)]
            value = tirx.Cast(str(result.dtype), tiles[tuple(at)])
            I.buffer_store(result, value, stored(at[0], at[1], at[2:]))
