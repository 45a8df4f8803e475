"""``iree_vector_ext.transfer_gather`` and ``transfer_scatter``: vectors out of memory, and into it.

For every position d of the vector, with map 0, the map of the base, and the other indexing maps:

    s_t     = index_vecs[t][map_{t+1}(d)]                            for each symbol t
    live    = mask[map_last(d)], or true without a mask
    src[i]  = offsets[i] + (d_k where map0[i] is d_k; s_t where it is s_t; 0 where it is 0)

    transfer_gather:   result[d] = base[src] if live else padding
    transfer_scatter:  result = base;  result[src] = vector[d] if live

So along an axis of the base a dim is contiguous, a symbol gathered, and 0 stays at the offset.  A
dim that is in no map repeats the data.  A position that is not live touches no memory, and its
indices may be anything.  Nor is one live that lies outside of the base, which the dialect leaves
undefined; ``out_of_range="unchecked"`` leaves that test to the caller.

``transfer_scatter`` is the mirror image, defined by the same formula.  No two live positions may
write one element: where they do, that element is unspecified.  A dim along which that is certain
is refused.

Differences to the dialect, each with its reason: operands are in memory, as all are here; the base
of a scatter and its result are two buffers, as in and out operands are in every op; indices may be
of any integer type; extents of the base may be known at call time only.  What is known when the op
is made to lie outside of the base is refused, and a dim that map 0 has twice, which the dialect's
own lowering does not honour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import UncountedOp, operand_bytes
from tvm_iree_ext.ops.base.operands import (
    INDEX_DTYPES,
    OperandLike,
    as_tensor,
    as_vector,
    named_extents,
    whole_number,
)
from tvm_iree_ext.ops.base.padding import Padding, check_padding, padding_json
from tvm_iree_ext.ops.base.symbol_maps import SymbolMap

Offset = int | Literal["operand"]
OutOfRange = Literal["skip", "unchecked"]

OUT_OF_RANGE = ("skip", "unchecked")


@dataclass(frozen=True, eq=False)
class Transfer(UncountedOp):
    """A transfer between memory and vector; made by the two functions below, which check it.

    ``vector`` has numbers for extents.  ``maps`` are those of the base, of each index vector, and
    of the mask where there is one.
    """

    name: str
    base: TensorType
    vector: TensorType
    index_vecs: tuple[TensorType, ...]
    maps: tuple[SymbolMap, ...]
    offsets: tuple[Offset, ...]
    padding: Padding | None
    out_of_range: OutOfRange

    @property
    def gathers(self) -> bool:
        """Whether this is ``transfer_gather``."""
        return self.name.endswith("gather")

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.base.dtype

    @property
    def extents(self) -> tuple[int, ...]:
        """The vector's shape."""
        return tuple(int(extent) for extent in self.vector.shape)

    @property
    def mask_map(self) -> SymbolMap | None:
        """The map of the mask, where there is one."""
        return self.maps[-1] if len(self.maps) > 1 + len(self.index_vecs) else None

    @property
    def checked_axes(self) -> tuple[int, ...]:
        """The axes of the base along which a call decides whether a position lies in it."""
        if self.out_of_range == "unchecked":
            return ()
        return tuple(axis for axis in range(len(self.base.shape)) if not self._is_inside(axis))

    def _is_inside(self, axis: int) -> bool:
        """Whether all positions are known to lie in the base along an axis."""
        result, extent, offset = (
            self.maps[0].results[axis],
            self.base.shape[axis],
            self.offsets[axis],
        )
        if result.startswith("s") or not isinstance(extent, int) or not isinstance(offset, int):
            return False
        return offset >= 0 and offset + _count(self.vector, result) <= extent

    @cached_property
    def signature(self) -> Signature:
        """``base, [offset0, ...], [index0, ...], [mask], [padding], result``.

        For a scatter ``vector`` goes first, and there is no padding.  An index that is no vector
        is a scalar.
        """
        vector, base = self.vector.shape, self.base.shape
        operands = [] if self.gathers else [Operand("vector", vector, self.dtype)]
        operands.append(Operand("base", base, self.dtype))
        for axis, offset in enumerate(self.offsets):
            if offset == "operand":
                operands.append(Operand(f"offset{axis}", (), "int64", "scalar"))
        for t, kind in enumerate(self.index_vecs):
            scalar = Operand(f"index{t}", (), "int64", "scalar")
            operands.append(Operand(f"index{t}", kind.shape, kind.dtype) if kind.shape else scalar)
        if self.mask_map is not None:
            shape = tuple(vector[dim] for dim in self.mask_map.dims)
            operands.append(Operand("mask", shape, "bool"))
        if self.padding == "operand":
            operands.append(Operand("padding", (), self.dtype, "scalar"))
        over = base if self.gathers and self.out_of_range != "unchecked" else ()
        shape = vector if self.gathers else base
        operands.append(Operand("result", shape, self.dtype, "result", over=over))
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """The maps, offsets, and for a gather the padding; ``"operand"`` for what a call gives.

        And what becomes of positions out of range.
        """
        maps = [str(one) for one in self.maps]
        plain: dict[str, Any] = {
            "indexing_maps": maps,
            "offsets": list(self.offsets),
            "out_of_range": self.out_of_range,
        }
        return plain | ({"padding": padding_json(self.padding)} if self.gathers else {})

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """Each element of the vector read and written, indices and mask read.

        For a scatter also the copy of the base.
        """
        operands = {operand.name: operand for operand in self.signature.operands}
        moved = 2 * prod(self.extents) * dtypes.item_bytes(self.dtype)
        for name, operand in operands.items():
            if name.startswith("index") or name == "mask":
                moved += operand_bytes(operand, extents)
        return moved if self.gathers else moved + 2 * operand_bytes(operands["base"], extents)


def transfer_gather(
    base: OperandLike,
    *index_vecs: OperandLike,
    result: OperandLike,
    indexing_maps: Sequence[str | SymbolMap],
    offsets: Sequence[Offset] | None = None,
    padding: Padding | None = None,
    mask: OperandLike | None = None,
    out_of_range: OutOfRange = "skip",
    dtype: str = "float32",
    index_dtype: str = "index",
) -> Transfer:
    """The vector of the elements of ``base`` that maps and indices say.

    Args:
        base: what is read: a shape (of ``dtype``), a :class:`TensorType`, or anything with
            ``shape`` and ``dtype``; extents are numbers, names or ``"?"``.
        index_vecs: one for each symbol: vectors of integers, or scalars, whose shape is ``()``.
        result: the vector's shape, numbers; where it has a type, base's.
        indexing_maps: of the base, ``"(d0, d1)[s0] -> (s0, d1)"``, whose results are dims, symbols
            and 0; of each index vector and of the mask, ``"(d0, d1)[s0] -> (d0)"``, of dims only.
        offsets: where base begins, on each axis: numbers, or ``"operand"`` for one that is given at
            call time; without them, 0.
        padding: what a position takes that is left out: a number, or ``"operand"``; by default 0,
            of bools False.
        mask: of i1; its shape is that of the result, restricted to the dims of its map.
        out_of_range: ``"skip"`` leaves positions out that lie outside of base.  ``"unchecked"`` is
            the promise that none does: one that lies there touches any memory.
        dtype: element type of a base given as a bare shape.
        index_dtype: element type of index vectors given as bare shapes.

    Returns:
        The op.  Its kernel takes ``base``, then what is given at call time of ``offset0``, ...,
        then ``index0``, ..., ``mask``, and ``padding``, where they are operands.

    Raises:
        OpError: for maps, ranks, extents, dtypes, offsets or a padding that do not fit.
    """
    op = "iree_vector_ext.transfer_gather"
    base_type = as_tensor(op, "base", base, dtype, dtypes.ELEMENTS, least=0)
    if padding is None:
        padding = False if base_type.dtype == "bool" else 0
    fill = check_padding(op, "padding", padding, base_type.dtype)
    parts = (result, index_vecs, mask, indexing_maps, offsets, index_dtype)
    return _made(op, "result", base_type, *parts, fill, out_of_range)


def transfer_scatter(
    vector: OperandLike,
    base: OperandLike,
    *index_vecs: OperandLike,
    indexing_maps: Sequence[str | SymbolMap],
    offsets: Sequence[Offset] | None = None,
    mask: OperandLike | None = None,
    out_of_range: OutOfRange = "skip",
    dtype: str = "float32",
    index_dtype: str = "index",
) -> Transfer:
    """``base`` with the elements of ``vector`` where maps and indices say.

    The kernel takes ``vector``, ``base`` and so on, as the one of :func:`transfer_gather`, whose
    arguments these are; ``vector`` is in place of its result.

    Raises:
        OpError: as there, and where two positions of the vector are certain to write one element.
    """
    op = "iree_vector_ext.transfer_scatter"
    base_type = as_tensor(op, "base", base, dtype, dtypes.ELEMENTS, least=0)
    parts = (vector, index_vecs, mask, indexing_maps, offsets, index_dtype)
    made = _made(op, "vector", base_type, *parts, None, out_of_range)
    written = {f"d{dim}" for dim in made.maps[0].dims}
    for one in made.maps[1:]:
        written |= {f"d{dim}" for dim in one.dims}
    for dim, extent in enumerate(made.extents):
        if extent > 1 and f"d{dim}" not in written:
            raise OpError(
                f"{op}: d{dim}, of extent {extent}, is in no indexing map: its positions all write"
                " the same elements; destinations must be unique"
            )
    return made


def _made(
    op: str,
    name: str,
    base: TensorType,
    vector: OperandLike,
    index_vecs: Sequence[OperandLike],
    mask: OperandLike | None,
    indexing_maps: Sequence[str | SymbolMap],
    offsets: Sequence[Offset] | None,
    index_dtype: str,
    padding: Padding | None,
    out_of_range: OutOfRange,
) -> Transfer:
    """The op, checked; ``name`` is what ``vector`` is called."""
    kind = as_vector(op, name, vector, base.dtype, dtypes.ELEMENTS)
    if kind.dtype != base.dtype:
        raise OpError(f"{op}: {name} has dtype {kind.dtype}; expected {base.dtype} as base has")
    names = [f"index{t}" for t in range(len(index_vecs))]
    indices = [
        as_vector(op, one, given, index_dtype, INDEX_DTYPES)
        for one, given in zip(names, index_vecs, strict=True)
    ]
    maps = _maps(op, name, indexing_maps, ["base", *names, *(["mask"] if mask is not None else [])])
    for one in maps:
        if one.num_dims != len(kind.shape) or one.num_symbols != len(indices):
            raise OpError(
                f"{op}: indexing map {one} has {one.num_dims} dims and {one.num_symbols} symbols;"
                f" expected {len(kind.shape)}, the rank of {name}, and {len(indices)}, the number"
                " of index vectors"
            )
    if len(maps[0].results) != len(base.shape):
        raise OpError(
            f"{op}: the indexing map of base has {len(maps[0].results)} results;"
            f" expected {len(base.shape)} for base {shape_text(base.shape)}"
        )
    if len(set(maps[0].dims)) != len(maps[0].dims):
        raise OpError(
            f"{op}: indexing map {maps[0]}: a dim appears twice; a diagonal needs symbols"
        )
    shapes = dict(zip(names, indices, strict=True))
    if mask is not None:
        shapes["mask"] = as_vector(op, "mask", mask, "bool", ("bool",))
    for (who, operand), one in zip(shapes.items(), maps[1:], strict=True):
        _check_restricted(op, who, operand, one, name, kind)
    settled = _offsets(op, offsets, len(base.shape))
    if out_of_range not in OUT_OF_RANGE:
        raise OpError(f"{op}: out_of_range is {out_of_range!r}; expected 'skip' or 'unchecked'")
    if mask is None:
        _check_inside(op, base, kind, maps[0], settled)
    base = named_extents(base, "base")
    return Transfer(op, base, kind, tuple(indices), maps, settled, padding, out_of_range)


def _maps(
    op: str, name: str, given: Sequence[str | SymbolMap], operands: Sequence[str]
) -> tuple[SymbolMap, ...]:
    """A map for each operand; all but the first have plain dims only."""
    if isinstance(given, str) or len(given) != len(operands):
        count = 1 if isinstance(given, str) else len(given)
        raise OpError(
            f"{op}: {count} indexing maps; expected one for each of {', '.join(operands)}"
        )
    maps = tuple(
        one if isinstance(one, SymbolMap) else SymbolMap.parse(op, one, zero=True) for one in given
    )
    for who, one in zip(operands[1:], maps[1:], strict=True):
        for result in one.results:
            if not result.startswith("d"):
                raise OpError(
                    f"{op}: indexing map {one} of {who} has the result {result}; expected dims"
                )
    return maps


def _check_restricted(
    op: str, who: str, operand: TensorType, one: SymbolMap, name: str, vector: TensorType
) -> None:
    """Raise OpError unless an operand has the vector's shape, restricted to the dims of its map."""
    expected = tuple(vector.shape[dim] for dim in one.dims)
    if operand.shape != expected:
        raise OpError(
            f"{op}: {who} has shape {shape_text(operand.shape)}; expected {shape_text(expected)},"
            f" {name} {shape_text(vector.shape)} at the dims of {one}"
        )


def _offsets(op: str, given: Sequence[Offset] | None, rank: int) -> tuple[Offset, ...]:
    if given is None:
        return (0,) * rank
    if isinstance(given, str) or len(given) != rank:
        raise OpError(f"{op}: offsets is {given!r}; expected {rank}, one for each axis of base")
    settled: list[Offset] = []
    for axis, offset in enumerate(given):
        number = whole_number(offset)
        if isinstance(offset, str) and offset == "operand":
            settled.append("operand")
        elif number is None:
            raise OpError(
                f"{op}: offset {axis} is {offset!r}; expected a number of type index, or 'operand'"
            )
        else:
            settled.append(number)
    return tuple(settled)


def _check_inside(
    op: str, base: TensorType, vector: TensorType, one: SymbolMap, offsets: Sequence[Offset]
) -> None:
    """Raise OpError where positions are known to lie outside of the base."""
    for axis, (result, extent, offset) in enumerate(
        zip(one.results, base.shape, offsets, strict=True)
    ):
        if result.startswith("s") or not isinstance(offset, int):
            continue
        count = _count(vector, result)
        if offset < 0 or (isinstance(extent, int) and offset + count > extent):
            last = offset + count - 1
            raise OpError(
                f"{op}: axis {axis} of base is accessed from {offset} to {last}, and has extent"
                f" {extent}"
            )


def _count(vector: TensorType, result: str) -> int:
    """How many places a dim, or 0, of the base's map goes over."""
    return int(vector.shape[int(result[1:])]) if result != "0" else 1
