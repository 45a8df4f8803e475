"""``iree_linalg_ext.pack`` and ``iree_linalg_ext.unpack``: to a layout of tiles, and back.

With P = ``inner_dims_pos``, T = ``inner_tiles``, Q = ``outer_dims_perm`` (the identity where it is
empty), r dims unpacked and tile(d) = T[j] where d = P[j], else 1:

    packed shape:  ceildiv(X[Q[i]], tile(Q[i])) for i < r, then T
    pack:          packed[o, t] = unpacked[x],  x[Q[i]] = o[i] * tile(Q[i])  (+ t[j] if Q[i] = P[j])
    unpack:        unpacked[x] = packed[x[Q[i]] div tile(Q[i]) ..., x[P[j]] mod T[j] ...]

Positions of ``packed`` past the end of ``unpacked`` take the padding value when it is packed, and
are dropped when it is unpacked.  The dialect gives a result its type by an operand; here a shape
does, ``output_shape``.  Where an extent of the result is a name that no argument has, its value is
that of the array which the caller gives as ``out``.  Where the dialect leaves positions unspecified
(no padding value, or a packed shape larger than it need be), ``pack`` writes zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Shape, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents
from tvm_iree_ext.ops.base.padding import Number, Padding, check_padding, padding_expr, padding_json
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

_DTYPES = dtypes.ELEMENTS


@dataclass(frozen=True, eq=False)
class Packing(UncountedOp):
    """A pack or unpack; made by :func:`pack` and :func:`unpack`, which check it.

    ``padding`` is a number, ``"operand"`` for one that is passed at call time, or None.
    """

    name: str
    unpacked: TensorType
    packed: TensorType
    inner_dims_pos: tuple[int, ...]
    inner_tiles: Shape
    outer_dims_perm: tuple[int, ...]
    padding: Padding | None

    @property
    def packs(self) -> bool:
        """Whether it is ``pack``."""
        return self.name.endswith(".pack")

    def tile(self, dim: int) -> Extent:
        """How many positions of an unpacked dim one tile holds."""
        if dim not in self.inner_dims_pos:
            return 1
        return self.inner_tiles[self.inner_dims_pos.index(dim)]

    def outer_axis(self, dim: int) -> int:
        """The packed axis that counts the tiles of an unpacked dim."""
        return self.outer_dims_perm.index(dim)

    def divides(self, dim: int) -> bool:
        """Whether the tiles of a dim, as many as there are, hold its positions exactly."""
        outer, tile = self.packed.shape[self.outer_axis(dim)], self.tile(dim)
        extent = self.unpacked.shape[dim]
        if tile == 1:
            return outer == extent
        numbers = (outer, tile, extent)
        return all(isinstance(n, int) for n in numbers) and outer * tile == extent  # type: ignore

    @cached_property
    def signature(self) -> Signature:
        """``input, [padding_value], result``."""
        source, result = (
            (self.unpacked, self.packed) if self.packs else (self.packed, self.unpacked)
        )
        least = self.least_packed()
        operands = [Operand("input", source.shape, source.dtype, least=() if self.packs else least)]
        if self.padding == "operand":
            operands.append(Operand("padding_value", (), source.dtype, "scalar"))
        operands.append(
            Operand(
                "result",
                result.shape,
                result.dtype,
                "result",
                least if self.packs else (),
                # Calls see to it that what is unpacked of nothing is empty: see ``least``.
                over=tuple(e for e in source.shape if self.packs or isinstance(e, int)),
            )
        )
        return Signature(tuple(operands))

    def least_packed(self) -> Shape:
        """Least outer extents of the packed operand, if that is not plain."""
        rank = len(self.unpacked.shape)
        wanted = tuple(
            ceildiv(self.unpacked.shape[dim], self.tile(dim)) for dim in self.outer_dims_perm
        )
        if wanted == self.packed.shape[:rank]:
            return ()
        if all(isinstance(e, int) for e in (*wanted, *self.packed.shape[:rank])):
            return ()  # compared when the op was made
        return wanted

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's, and the padding value or ``"operand"``."""
        return {
            "inner_dims_pos": list(self.inner_dims_pos),
            "inner_tiles": list(self.inner_tiles),
            "outer_dims_perm": list(self.outer_dims_perm),
            "padding_value": padding_json(self.padding),
        }

    def packed_index(self, outer: Sequence[Any], inner: Sequence[Any]) -> list[Any]:
        """Indices into the packed operand from tile numbers by dim, and positions by P."""
        return [*(outer[dim] for dim in self.outer_dims_perm), *inner]


def pack(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    inner_dims_pos: Sequence[int],
    inner_tiles: Sequence[Extent],
    outer_dims_perm: Sequence[int] = (),
    padding_value: Number | np.generic | Literal["operand"] | None = None,
    dtype: str = "float32",
) -> Packing:
    """Copy ``input`` into tiles: ``[outer..., tile...]``.

    Args:
        input: a shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_shape: the packed shape, where it is more than it need be; what is more holds the
            padding value, or zeros.
        inner_dims_pos: the dims that are tiled, in the order of the tile's axes.
        inner_tiles: the tile's extents: numbers, or names for such as are known at call time.
        outer_dims_perm: the order of the outer axes, as dims of ``input``; by default theirs.
        padding_value: what fills a tile past the end of ``input``: a number, or ``"operand"`` for
            one passed at call time.  Without it, tiles must divide the extents that are numbers.

    Raises:
        OpError: for a rank, extent, dtype, position, permutation, tile or padding value that does
            not fit.
    """
    op = "iree_linalg_ext.pack"
    unpacked = named_extents(as_tensor(op, "input", input, dtype, _DTYPES, least=0), "d")
    rank = len(unpacked.shape)
    positions, tiles, order = _tiling(op, rank, inner_dims_pos, inner_tiles, outer_dims_perm)
    by_dim = dict(zip(positions, tiles, strict=True))
    if padding_value is None:
        for dim, tile in by_dim.items():
            extent = unpacked.shape[dim]
            if isinstance(extent, int) and isinstance(tile, int) and extent % tile:
                raise OpError(
                    f"{op}: input axis {dim} has extent {extent}, which tiles of {tile} do not"
                    " divide; a padding_value is needed"
                )
    outer = tuple(ceildiv(unpacked.shape[dim], by_dim.get(dim, 1)) for dim in order)
    packed = (*outer, *tiles)
    if output_shape is not None:
        kind = as_tensor(op, "output_shape", tuple(output_shape), unpacked.dtype, _DTYPES, least=0)
        packed = _packed_shape(op, "output_shape", kind.shape, outer, tiles)
    return Packing(
        name=op,
        unpacked=unpacked,
        packed=TensorType(packed, unpacked.dtype),
        inner_dims_pos=positions,
        inner_tiles=packed[rank:],
        outer_dims_perm=order,
        padding=None
        if padding_value is None
        else check_padding(op, "padding_value", padding_value, unpacked.dtype),
    )


def unpack(
    input: OperandLike,
    output_shape: Sequence[Extent],
    *,
    inner_dims_pos: Sequence[int],
    inner_tiles: Sequence[Extent],
    outer_dims_perm: Sequence[int] = (),
    dtype: str = "float32",
) -> Packing:
    """Copy the tiles of ``input`` back to an array of ``output_shape``; what is past it is dropped.

    Args:
        input: the packed operand: a shape (of ``dtype``), :class:`TensorType`, or an array.
        output_shape: extents as numbers, or names; the value of a name that ``input`` lacks is
            that of the array given as ``out`` in a call.
        inner_dims_pos, inner_tiles, outer_dims_perm: as of :func:`pack`.

    Raises:
        OpError: as :func:`pack`.
    """
    op = "iree_linalg_ext.unpack"
    packed = as_tensor(op, "input", input, dtype, _DTYPES, least=0)
    unpacked = named_extents(
        as_tensor(op, "output_shape", tuple(output_shape), packed.dtype, _DTYPES, least=0),
        "d",
        packed.shape,
    )
    rank = len(unpacked.shape)
    positions, tiles, order = _tiling(op, rank, inner_dims_pos, inner_tiles, outer_dims_perm)
    by_dim = dict(zip(positions, tiles, strict=True))
    outer = tuple(ceildiv(unpacked.shape[dim], by_dim.get(dim, 1)) for dim in order)
    shape = _packed_shape(op, "input", packed.shape, outer, tiles)
    return Packing(
        name=op,
        unpacked=unpacked,
        packed=named_extents(TensorType(shape, packed.dtype), "p", unpacked.shape),
        inner_dims_pos=positions,
        inner_tiles=shape[rank:],
        outer_dims_perm=order,
        padding=None,
    )


def ceildiv(a: Extent, b: Extent) -> Extent:
    """``a / b`` rounded up, as a number where both are, or as an extent's text."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return a if b == 1 else f"ceildiv({a}, {b})"


def _tiling(
    op: str, rank: int, positions: Sequence[int], tiles: Sequence[Extent], order: Sequence[int]
) -> tuple[tuple[int, ...], Shape, tuple[int, ...]]:
    """The attributes, checked; a tile ``"?"`` has a name, and an empty order is the identity."""
    positions, tiles, order = tuple(positions), tuple(tiles), tuple(order)
    if rank == 0:
        raise OpError(f"{op}: the unpacked operand has rank 0; expected at least 1")
    if len(tiles) != len(positions):
        raise OpError(
            f"{op}: {len(tiles)} inner_tiles; expected one for each of the {len(positions)}"
            " inner_dims_pos"
        )
    if len(positions) > rank:
        raise OpError(f"{op}: {len(positions)} inner_dims_pos; there are only {rank} dims to tile")
    for name, dims in (("inner_dims_pos", positions), ("outer_dims_perm", order)):
        for dim in dims:
            if not isinstance(dim, int) or not 0 <= dim < rank:
                raise OpError(f"{op}: {name} has {dim!r}; expected dims from 0 to {rank - 1}")
        if len(set(dims)) != len(dims):
            raise OpError(f"{op}: {name} {list(dims)} has a dim twice")
    if order and len(order) != rank:
        raise OpError(f"{op}: outer_dims_perm has {len(order)} dims; expected all {rank}, or none")
    for tile in tiles:
        if isinstance(tile, str):
            if tile != "?" and not tile.isidentifier():
                raise OpError(f"{op}: inner tile {tile!r} is not a name or '?'")
        elif not isinstance(tile, int) or isinstance(tile, bool) or tile < 1:
            raise OpError(f"{op}: inner tile {tile!r} is not a number from 1")
    named = tuple(f"tile{j}" if tile == "?" else tile for j, tile in enumerate(tiles))
    return positions, named, order or tuple(range(rank))


def _packed_shape(op: str, what: str, shape: Shape, outer: Shape, tiles: Shape) -> Shape:
    """The packed shape, settled: where a number and a name meet, the number holds."""
    rank = len(outer)
    if len(shape) != rank + len(tiles):
        raise OpError(
            f"{op}: {what} {shape_text(shape)} has rank {len(shape)};"
            f" expected {rank + len(tiles)}: {rank} outer axes and {len(tiles)} of the tile"
        )
    for axis, (came, least) in enumerate(zip(shape, outer, strict=False)):
        if isinstance(came, int) and isinstance(least, int) and came < least:
            raise OpError(
                f"{op}: {what} axis {axis} has extent {came}; expected at least {least} tiles"
            )
    for axis, (came, tile) in enumerate(zip(shape[rank:], tiles, strict=True), rank):
        if isinstance(came, int) and came != tile:
            raise OpError(
                f"{op}: {what} axis {axis} has extent {came}; expected {tile} as in inner_tiles"
            )
    return (*shape[:rank], *tiles)


def padding_value(op: Packing, parameters: Parameters) -> ir.Expr:
    """Value of positions past the end, in the element type: zero where nothing is said."""
    passed = parameters.scalars.get("padding_value")
    return padding_expr(op.padding, passed, op.unpacked.dtype)


@emits_canonical
def canonical_packing(op: Packing, parameters: Parameters) -> None:
    """One block, over the result."""
    with I.sblock("root"):
        (_emit_pack if op.packs else _emit_unpack)(op, parameters)


def _emit_pack(op: Packing, parameters: Parameters) -> None:
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    rank = len(op.unpacked.shape)
    with I.grid(*result.shape) as loops, I.sblock("pack"):
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        at = [I.axis.spatial(e, i) for e, i in zip(result.shape, listed, strict=True)]
        index: list[ir.Expr] = [tirx.const(0, "int64")] * rank
        for axis, dim in enumerate(op.outer_dims_perm):
            index[dim] = at[axis]
            if dim in op.inner_dims_pos:
                j = rank + op.inner_dims_pos.index(dim)
                index[dim] = at[axis] * result.shape[j] + at[j]
        value: ir.Expr = source[tuple(index)]
        inside = [index[dim] < source.shape[dim] for dim in range(rank) if not op.divides(dim)]
        if inside:
            value = tirx.if_then_else(tirx.all(*inside), value, padding_value(op, parameters))
        I.buffer_store(result, value, at)


def _emit_unpack(op: Packing, parameters: Parameters) -> None:
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    rank = len(op.unpacked.shape)
    with I.grid(*result.shape) as loops, I.sblock("unpack"):
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        at = [I.axis.spatial(e, i) for e, i in zip(result.shape, listed, strict=True)]
        tiles = dict(zip(op.inner_dims_pos, source.shape[rank:], strict=True))
        outer = [tirx.floordiv(at[d], tiles[d]) if d in tiles else at[d] for d in range(rank)]
        inner = [tirx.floormod(at[dim], tiles[dim]) for dim in op.inner_dims_pos]
        value: ir.Expr = source[tuple(op.packed_index(outer, inner))]
        # A kernel's call is checked, a program's extents may be anything.
        least = op.least_packed()
        tests = [
            outer[dim] < source.shape[axis]
            for axis, dim in enumerate(op.outer_dims_perm)
            if least and least[axis] != op.packed.shape[axis]
        ]
        if tests:
            nothing = padding_expr(None, None, op.unpacked.dtype)
            value = tirx.if_then_else(tirx.all(*tests), value, nothing)
        I.buffer_store(result, value, at)
