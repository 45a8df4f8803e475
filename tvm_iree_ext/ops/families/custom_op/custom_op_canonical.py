"""The loops around the region of a ``custom_op``, for any tile sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_iree_ext.base.dtypes import alignment_bytes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.op import canonical
from tvm_iree_ext.ops.base.parameters import passed_dtype
from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp
from tvm_iree_ext.ops.families.custom_op.custom_op_tiles import (
    Tile,
    TileBuilder,
    building,
    got,
    put,
)
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tensor_scalars import with_wide_scalars_in_memory
from tvm_iree_ext.tir.tir_expressions import cast, i64
from tvm_iree_ext.tir.tvm_modules import I, ir_builder, tirx

if TYPE_CHECKING:
    from tvm_iree_ext.tir.tir_expressions import Expr

Loop: TypeAlias = "Callable[[Expr], AbstractContextManager[Any]]"
Spans: TypeAlias = "Mapping[str, tuple[Expr, Expr]]"
"""Start and extent of the current tile along each dim and symbol."""

Builder: TypeAlias = "Callable[[Sequence[Expr], Mapping[Expr, int]], TileBuilder]"
"""Builder of a region's tiles, by where they start, and the most that their extents may be."""


@canonical.register(CustomOp)
def canonical_custom_op(op: CustomOp) -> tirx.PrimFunc:
    """The PrimFunc with a single tile: what every tiling must equal."""
    return with_wide_scalars_in_memory(tiled(op, {}, _serial, TileBuilder))


def _serial(count: Expr) -> AbstractContextManager[Any]:
    frame: AbstractContextManager[Any] = I.serial(i64(0), count)
    return frame


def tiled(
    op: CustomOp,
    tile_sizes: Mapping[int, int],
    tasks: Loop,
    builder: Builder,
) -> tirx.PrimFunc:
    """The PrimFunc with tiles of some dims, the others whole.

    ``tasks(count)`` makes the loop over the tiles of parallel dims, of one where none is split;
    ``builder`` what the tiles of a region are computed by.
    """
    with ir_builder.IRBuilder() as context, I.prim_func(s_tir=True):
        _CustomOpFunction(op, tile_sizes, tasks, builder).emit()
    return context.get()


class _CustomOpFunction:
    """The PrimFunc of a custom_op under construction."""

    def __init__(
        self,
        op: CustomOp,
        tile_sizes: Mapping[int, int],
        tasks: Loop,
        builder: Builder,
    ) -> None:
        self.most: dict[Expr, int] = {}
        self.op, self.tile_sizes, self.tasks, self.builder = op, tile_sizes, tasks, builder
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        self.extents = {
            name: symbols[extent] if isinstance(extent, str) else i64(extent)
            for name, extent in op.extents.items()
        }
        self.operands: dict[str, Any] = {}
        for operand in op.signature.operands:
            if operand.role == "scalar":
                var = I.arg(operand.name, tirx.Var(operand.name, passed_dtype(operand.dtype)))
                self.operands[operand.name] = cast(var, operand.dtype)
                continue
            shape = [symbols[e] if isinstance(e, str) else i64(e) for e in operand.shape]
            buffer = I.buffer(shape, operand.dtype, align=alignment_bytes(operand.dtype))
            self.operands[operand.name] = I.arg(operand.name, buffer)
        kinds = enumerate(op.iterator_types)
        split = [(dim, kind.name) for dim, kind in kinds if dim in tile_sizes]
        self.parallel = [dim for dim, kind in split if kind == "PARALLEL"]
        self.reduced = [dim for dim, kind in split if kind == "REDUCTION"]

    def emit(self) -> None:
        """Tasks over parallel tiles, in each the reduction tiles in order."""
        with I.sblock("root"):
            I.reads()  # of the root nobody asks, and pointers cannot be looked through
            I.writes()
            everything = {name: (i64(0), extent) for name, extent in self.extents.items()}
            counts = [self.tiles_of(dim) for dim in self.parallel]
            total = i64(1)
            for count in counts:
                total = total * count
            with self.tasks(total) as task:
                spans, rest = dict(everything), task
                for dim, count in zip(self.parallel[::-1], counts[::-1], strict=True):
                    spans[f"d{dim}"] = self.span(dim, tirx.floormod(rest, count))
                    rest = tirx.floordiv(rest, count)
                self.emit_task(spans)

    def tiles_of(self, dim: int) -> Expr:
        """How many tiles a dim has."""
        size = self.tile_sizes[dim]
        return tirx.floordiv(self.extents[f"d{dim}"] + (size - 1), i64(size))

    def span(self, dim: int, tile: Expr) -> tuple[Expr, Expr]:
        """Start and extent of a tile; the last one may be smaller."""
        size, extent = self.tile_sizes[dim], self.extents[f"d{dim}"]
        start = I.Bind(tile * size)
        if isinstance(extent, tirx.IntImm) and int(extent) % size == 0:
            return start, i64(size)
        count = I.Bind(tirx.min(i64(size), extent - start))
        self.most[count] = size
        return start, count

    def emit_task(self, spans: Spans) -> None:
        """One tile of the parallel dims."""
        if not self.reduced:
            self.emit_tile(spans, "init")
            return
        builder = self.builder(self.starts(spans), self.most)
        for output in range(len(self.op.outputs)):
            init = self.tile(f"init{output}", len(self.op.inputs) + output, spans)
            self.write(builder, output, init, spans)

        def nest(dims: Sequence[int], spans: Spans) -> None:
            if not dims:
                self.emit_tile(spans, "result")
                return
            with _serial(self.tiles_of(dims[0])) as tile:
                nest(dims[1:], {**spans, f"d{dims[0]}": self.span(dims[0], tile)})

        nest(self.reduced, spans)

    def emit_tile(self, spans: Spans, outputs: str) -> None:
        """The region on one tile; the outputs' contents come from ``init`` or ``result``."""
        op = self.op
        arguments: list[Any] = []
        for i, kind in enumerate(op.inputs):
            scalar = not kind.shape
            name = f"input{i}"
            if scalar:
                arguments.append(number_words.decoded(self.operands[name], op.elements[i]))
            else:
                arguments.append(self.tile(name, i, spans))
        for i in range(len(op.outputs)):
            arguments.append(self.tile(f"{outputs}{i}", len(op.inputs) + i, spans))
        builder = self.builder(self.starts(spans), self.most)
        with building(builder):
            yielded = op.region(*arguments)
            tiles = list(yielded) if isinstance(yielded, tuple | list) else [yielded]
            self.check(tiles)
            if outputs == "result":
                # What is yielded may read what is about to be overwritten.
                tiles = [builder.store(tile) for tile in tiles]
            for output, tile in enumerate(tiles):
                self.write(builder, output, tile, spans)

    def starts(self, spans: Spans) -> list[Expr]:
        """Start of the current tile along each dim."""
        return [spans[f"d{dim}"][0] for dim in range(len(self.op.iterator_types))]

    def check(self, tiles: list[Any]) -> None:
        """The rules of ``yield``."""
        name, outputs = self.op.name, self.op.outputs
        if len(tiles) != len(outputs):
            raise OpError(f"{name}: region yields {len(tiles)} tiles; expected {len(outputs)}")
        for i, (tile, kind) in enumerate(zip(tiles, outputs, strict=True)):
            if not isinstance(tile, Tile):
                raise OpError(f"{name}: region yields {tile!r} for output{i}; expected a tile")
            dtype = self.op.elements[len(self.op.inputs) + i]
            if (tile.dtype, tile.rank) != (dtype, len(kind.shape)):
                raise OpError(
                    f"{name}: region yields {tile.dtype} of rank {tile.rank} for output{i};"
                    f" expected {dtype} of rank {len(kind.shape)}"
                )

    def tile(self, name: str, number: int, spans: Spans) -> Tile:
        """The slice of an operand that belongs to the current tile."""
        buffer, dtype = self.operands[name], self.op.elements[number]
        places = [spans[result] for result in self.op.maps[number].results]
        starts = tuple(start for start, _ in places)

        def element(at: Sequence[Expr]) -> Expr:
            return got(buffer, dtype, [start + one for start, one in zip(starts, at, strict=True)])

        extents = tuple(extent for _, extent in places)
        return Tile(extents, dtype, element, (buffer, starts))

    def write(self, builder: TileBuilder, output: int, tile: Tile, spans: Spans) -> None:
        """Replace the slice of a result by a tile."""
        target = self.tile(f"result{output}", len(self.op.inputs) + output, spans)
        assert target.source is not None
        buffer, starts = target.source
        for extent, came in zip(target.extents, tile.extents, strict=True):
            numbers = isinstance(extent, tirx.IntImm) and isinstance(came, tirx.IntImm)
            if numbers and int(extent) != int(came):
                raise OpError(
                    f"{self.op.name}: region yields extent {int(came)} for output{output};"
                    f" expected {int(extent)}"
                )

        def store(at: list[Expr]) -> None:
            place = [start + one for start, one in zip(starts, at, strict=True)]
            put(buffer, tile.dtype, tile.element(at), place)

        builder.each(target.extents, store)
