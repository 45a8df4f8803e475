"""``iree_linalg_ext.custom_op``: a loop nest over tiles, whose body is a Python function.

The function gets a :class:`.Tile` for each operand (a scalar operand is an
expression), inputs first, and yields a tile for each output: what it returns is the dialect's
``yield``.  ``ops.tiles.index(dim)`` is the dialect's ``index``.

An indexing map ``(d0, d1)[s0] -> (d0, s0)`` says where an operand's tile starts: along an axis of
a dim it is the part that belongs to the tile of this loop, along an axis of a symbol everything.
The value is the one with a single tile.  Tiles of ``reduction`` dims run in order, and each takes
for its output what the one before it yielded.

Differences to the dialect: an output is two operands, ``init0`` and ``result0``.  A ``parallel``
dim that the map of some output omits is never split, as the dialect recommends.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import Op, UncountedOp, canonical
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.shapes import unused
from tvm_iree_ext.ops.base.symbol_maps import SymbolMap

_NAME = "iree_linalg_ext.custom_op"
_ITERATOR = re.compile(r"#iree_linalg_ext\.iterator_type<(\w+)>|(\w+)")

Region = Callable[..., Any]


class IteratorType(enum.Enum):
    """``#iree_linalg_ext.iterator_type``."""

    PARALLEL = 0
    REDUCTION = 1

    @staticmethod
    def parse(text: str | IteratorType) -> IteratorType:
        """Read ``parallel`` or ``#iree_linalg_ext.iterator_type<parallel>``.

        Raises:
            OpError: for anything but ``parallel`` and ``reduction``.
        """
        if isinstance(text, IteratorType):
            return text
        match = _ITERATOR.fullmatch(str(text).strip())
        keyword = (match[1] or match[2]) if match else None
        if keyword not in ("parallel", "reduction"):
            raise OpError(f"iterator_type {text!r}: expected 'parallel' or 'reduction'")
        return IteratorType[keyword.upper()]


@dataclass(frozen=True, eq=False)
class CustomOp(UncountedOp):
    """A loop nest over tiles; made by :func:`custom_op`, which checks it."""

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    maps: tuple[SymbolMap, ...]
    iterator_types: tuple[IteratorType, ...]
    extents: Mapping[str, Extent]
    """The extent of each dim and symbol by its name, such as ``d0``."""
    region: Region
    numbers: tuple[str, ...] = ()
    """Of an op over words: the element types of operands, inputs then outputs, and of tiles."""

    name = _NAME

    @property
    def elements(self) -> tuple[str, ...]:
        """The element types of tiles, those of inputs first."""
        return self.numbers or tuple(one.dtype for one in (*self.inputs, *self.outputs))

    @cached_property
    def in_words(self) -> Op:
        """The op over words, whose region is over numbers still."""
        made = super().in_words
        return made if made is self else replace(made, numbers=self.elements)  # type: ignore

    @cached_property
    def signature(self) -> Signature:
        """``input0, ..., init0, ..., result0, ...``."""
        operands = [
            Operand(f"input{i}", kind.shape, kind.dtype, "input" if kind.shape else "scalar")
            for i, kind in enumerate(self.inputs)
        ]
        over = tuple(
            self.extents[f"d{dim}"]
            for dim, kind in enumerate(self.iterator_types)
            if kind is IteratorType.REDUCTION
        )
        outputs = list(enumerate(self.outputs))
        operands += [Operand(f"init{i}", kind.shape, kind.dtype) for i, kind in outputs]
        operands += [
            Operand(f"result{i}", kind.shape, kind.dtype, "result", init=f"init{i}", over=over)
            for i, kind in outputs
        ]
        return Signature(tuple(operands))

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Maps, iterator types, and the region as the TensorIR that it makes for one tile."""
        return {
            "indexing_maps": [str(one) for one in self.maps],
            "iterator_types": [one.name.lower() for one in self.iterator_types],
            "region": canonical(self.in_words).script(),
        }

    @property
    def tileable(self) -> tuple[int, ...]:
        """The dims that may be split: reductions, and parallel dims that no output map omits."""
        maps = self.maps[len(self.inputs) :]
        return tuple(
            dim
            for dim, kind in enumerate(self.iterator_types)
            if kind is IteratorType.REDUCTION or all(dim in one.dims for one in maps)
        )


def custom_op(
    inputs: Sequence[OperandLike],
    outputs: Sequence[OperandLike],
    *,
    indexing_maps: Sequence[str | SymbolMap],
    iterator_types: Sequence[str | IteratorType],
    region: Region,
    dtype: str = "float32",
) -> CustomOp:
    """A loop nest over tiles whose body is ``region``.

    Args:
        inputs: shapes (of ``dtype``), :class:`TensorType`, or arrays; rank 0 is a scalar operand.
        outputs: the same, from rank 1 on; their contents come as ``init0, ...``.
        indexing_maps: one for each operand, inputs then outputs, as ``"(d0)[s0] -> (d0, s0)"``.
        iterator_types: ``"parallel"`` or ``"reduction"`` for each loop.
        region: takes a tile (or, for a scalar, an expression) for each operand; returns a tile
            for each output, bare where there is one.
        dtype: element type of operands given as bare shapes.

    Returns:
        The op.  Its kernel takes the inputs, then the outputs' initial contents.

    Raises:
        OpError: for operands, maps or a region that do not fit.
    """
    allowed = dtypes.ELEMENTS
    ins = [
        as_tensor(_NAME, f"input{i}", one, dtype, allowed, least=0) for i, one in enumerate(inputs)
    ]
    outs = [
        as_tensor(_NAME, f"output{i}", one, dtype, allowed, least=0)
        for i, one in enumerate(outputs)
    ]
    if not outs:
        raise OpError(f"{_NAME}: has no output; expected at least one")
    for i, kind in enumerate(outs):
        if not kind.shape:
            raise OpError(f"{_NAME}: output{i} is a scalar; outputs are ranked tensors")
    iterators = tuple(IteratorType.parse(one) for one in iterator_types)
    names = [f"input{i}" for i in range(len(ins))] + [f"output{i}" for i in range(len(outs))]
    maps = _maps(indexing_maps, names, [*ins, *outs], len(iterators))
    extents = _extents(names, [*ins, *outs], maps, len(iterators))
    settled = [
        TensorType(tuple(extents[result] for result in one.results), kind.dtype)
        for one, kind in zip(maps, [*ins, *outs], strict=True)
    ]
    try:
        inspect.signature(region).bind(*names)
    except TypeError as error:
        raise OpError(f"{_NAME}: region takes {len(names)} tiles: {error}") from None
    op = CustomOp(
        tuple(settled[: len(ins)]), tuple(settled[len(ins) :]), maps, iterators, extents, region
    )
    op.prim_func()  # the region must yield what fits the outputs
    return op


def _maps(
    given: Sequence[str | SymbolMap], names: Sequence[str], types: Sequence[TensorType], loops: int
) -> tuple[SymbolMap, ...]:
    if len(given) != len(names):
        raise OpError(
            f"{_NAME}: {len(given)} indexing maps; expected one for each of {len(names)} operands"
        )
    maps = tuple(
        one if isinstance(one, SymbolMap) else SymbolMap.parse(_NAME, one) for one in given
    )
    full = [one for one in maps if one.results]
    for name, one, kind in zip(names, maps, types, strict=True):
        if len(one.results) != len(kind.shape):
            raise OpError(
                f"{_NAME}: {name} {shape_text(kind.shape)} has rank {len(kind.shape)};"
                f" its indexing map has {len(one.results)} results"
            )
        if one.results and one.num_dims != loops:
            raise OpError(
                f"{_NAME}: the indexing map of {name} has {one.num_dims} dims;"
                f" expected {loops} as there are iterator types"
            )
        if one.results and one.num_symbols != full[0].num_symbols:
            raise OpError(
                f"{_NAME}: the indexing map of {name} has {one.num_symbols} symbols;"
                f" expected {full[0].num_symbols} as in the others"
            )
    return maps


def _extents(
    names: Sequence[str], types: Sequence[TensorType], maps: Sequence[SymbolMap], loops: int
) -> dict[str, Extent]:
    """The extent of each dim and symbol; a number and a name on one make the number."""
    found: dict[str, Extent] = {}
    source: dict[str, str] = {}
    for name, kind, one in zip(names, types, maps, strict=True):
        for axis, (result, extent) in enumerate(zip(one.results, kind.shape, strict=True)):
            seen = found.get(result)
            if isinstance(seen, int) and isinstance(extent, int) and seen != extent:
                raise OpError(
                    f"{_NAME}: {name} axis {axis} ({result}) has extent {extent};"
                    f" expected {seen} as in {source[result]}"
                )
            if seen is None or seen == "?" or isinstance(extent, int):
                found[result], source[result] = extent, f"{name} axis {axis}"
    for dim in range(loops):
        if f"d{dim}" not in found:
            raise OpError(f"{_NAME}: d{dim} appears in no indexing map, so it has no extent")
    taken = found.values()
    return {name: unused(name, taken) if e == "?" else e for name, e in found.items()}
