"""The canonical TensorIR of the Winograd transforms: two products with a constant matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


def _joined(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
    """A position in tiles."""
    return (a, b, *at)


def _replaced(at: Sequence[ir.Expr], k: ir.Expr) -> tuple[ir.Expr, ...]:
    """A position with another second coordinate."""
    return (at[0], k, *at[2:])


@emits_canonical
def canonical_winograd(op: Winograd, parameters: Parameters) -> None:
    """Two products with the constant matrix, a block each.

    Blocks ``constants, columns, rows, result``.
    """
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    height, width = len(op.matrix), len(op.matrix[0])
    dtype = op.compute_dtype
    tiled = source if op.kind == "output" else result
    rest = list(tiled.shape[2:])  # the tiles: one dim each

    def loaded(a: ir.Expr, b: ir.Expr, at: Sequence[ir.Expr]) -> ir.Expr:
        if op.kind == "output" or (op.kind == "filter" and op.channels_last):
            return source[_joined(a, b, at)]
        if op.kind == "filter":
            return source[at[1], at[0], a, b]
        y, x = a, b
        index: tuple[ir.Expr, ...] = (y, x)
        extents = list(source.shape)
        if not op.is_tile:
            n, h, w, c = at
            r = op.output_tile_size
            y, x = h * r + a, w * r + b
            index = (n, y, x, c) if op.channels_last else (n, c, y, x)
            extents = [source.shape[dim] for dim in op.dims]
        inside = tirx.all(y < extents[0], x < extents[1])
        return tirx.if_then_else(inside, source[index], tirx.const(0, source.dtype))

    def stored(p: ir.Expr, q: ir.Expr, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        if op.kind != "output" or op.is_tile:
            return [p, q, *at]
        n, h, w, c = at
        r = op.output_tile_size
        y, x = h * r + p, w * r + q
        return [n, y, x, c] if op.channels_last else [n, c, y, x]

    def product(name: str, shape: Sequence[ir.Expr], depth: int, target: Any, term: Any) -> None:
        """``target[at] = sum_k term(at, k)``."""
        with I.grid(*shape, i64(depth)) as loops, I.sblock(name):
            at = [I.axis.spatial(e, i) for e, i in zip(shape, loops[:-1], strict=True)]
            k = I.axis.reduce(i64(depth), loops[-1])
            with I.init():
                I.buffer_store(target, tirx.const(0, dtype), at)
            I.buffer_store(target, target[tuple(at)] + term(at, k), at)

    with I.sblock("root"):
        constants = I.sblock_alloc_buffer([height, width], dtype)
        columns = I.sblock_alloc_buffer([i64(height), i64(width), *rest], dtype)
        tiles = I.sblock_alloc_buffer([i64(height), i64(height), *rest], dtype)
        with I.serial(i64(0), i64(1)) as once, I.sblock("constants"):
            I.axis.opaque(i64(1), once)
            I.reads()
            I.writes(constants[0:height, 0:width])
            for p, row in enumerate(op.matrix):
                for k, value in enumerate(row):
                    number = tirx.const(float(value), dtype)
                    I.buffer_store(constants, number, [i64(p), i64(k)])

        def column(at: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
            value = loaded(k, at[1], at[2:])
            return constants[at[0], k] * tirx.Cast(dtype, value)

        product("columns", [i64(height), i64(width), *rest], width, columns, column)
        product(
            "rows",
            [i64(height), i64(height), *rest],
            width,
            tiles,
            lambda at, k: constants[at[1], k] * columns[_replaced(at, k)],
        )
        shape = [i64(height), i64(height), *rest]
        with I.grid(*shape) as loops, I.sblock("result"):
            at = [I.axis.spatial(e, i) for e, i in zip(shape, loops, strict=True)]
            value = tirx.Cast(str(result.dtype), tiles[tuple(at)])
            I.buffer_store(result, value, stored(at[0], at[1], at[2:]))
