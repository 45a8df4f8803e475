"""Tiles: the values in the region of a ``custom_op``, computed where they are used.

A tile is a small array with extents that may be known only in the kernel.  ``tile[i, j]`` is its
element at a local position, as a TIR expression.  Arithmetic, :func:`apply` and :func:`compute`
make new tiles without computing anything yet: an element is computed where it is used.
:func:`matmul` and :func:`reduce` compute at once, into memory, and :func:`store` does so with any
tile whose elements would otherwise be computed again and again.

How they compute is the schedule's business: the canonical PrimFunc uses plain loops.

Elements of types that TVM does not know are numbers in tiles, and words in memory: floats of 8 bits
are computed with as float32 and rounded where they are stored, integers of 4 bits as those of 8 and
wrapped there, complex numbers as such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tvm_iree_ext.base.dtypes import COMPLEX_PARTS, INTEGERS4, word_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tvm_modules import I, tirx

if TYPE_CHECKING:
    from tvm_iree_ext.tir.tir_expressions import Expr

Number: TypeAlias = int | float | complex


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of an operand: ``element`` gives the one at a local position, of ``dtype``.

    ``source`` is the buffer that it is a slice of, and where it starts there, if it is one.
    """

    extents: tuple[Expr, ...]
    dtype: str
    element: Callable[[Sequence[Expr]], Expr]
    source: tuple[Any, tuple[Expr, ...]] | None = None

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.extents)

    def __getitem__(self, position: Expr | int | tuple[Expr | int, ...]) -> Expr:
        """The element at a position within the tile."""
        listed = position if isinstance(position, tuple) else (position,)
        if len(listed) != self.rank:
            raise OpError(
                f"{CUSTOM_OP}: a tile of rank {self.rank} is indexed by {len(listed)} positions"
            )
        return self.element([_index(one) for one in listed])

    def __add__(self, other: Tile | Expr | Number) -> Tile:
        return apply(operator.add, self, other)

    def __radd__(self, other: Expr | Number) -> Tile:
        return apply(operator.add, other, self)

    def __sub__(self, other: Tile | Expr | Number) -> Tile:
        return apply(operator.sub, self, other)

    def __rsub__(self, other: Expr | Number) -> Tile:
        return apply(operator.sub, other, self)

    def __mul__(self, other: Tile | Expr | Number) -> Tile:
        return apply(operator.mul, self, other)

    def __rmul__(self, other: Expr | Number) -> Tile:
        return apply(operator.mul, other, self)

    def __truediv__(self, other: Tile | Expr | Number) -> Tile:
        return apply(operator.truediv, self, other)

    def __matmul__(self, other: Tile) -> Tile:
        return matmul(self, other)


CUSTOM_OP = "iree_linalg_ext.custom_op"


def compute(extents: Sequence[Expr | int], value: Callable[..., Any], dtype: str) -> Tile:
    """A tile whose element at a position is ``value(i, j, ...)``, converted to ``dtype``."""
    shape = tuple(_index(extent) for extent in extents)
    return Tile(shape, dtype, lambda at: as_element(value(*at), dtype))


def apply(function: Callable[..., Any], *operands: Tile | Expr | Number) -> Tile:
    """``function`` of the elements of tiles of one shape; other operands are the same for all.

    Raises:
        OpError: without a tile, and for tiles of several ranks or element types.
    """
    shaped = [operand for operand in operands if isinstance(operand, Tile)]
    if not shaped:
        raise OpError(f"{CUSTOM_OP}: elementwise arithmetic needs a tile among its operands")
    first = shaped[0]
    for other in shaped[1:]:
        if (other.rank, other.dtype) != (first.rank, first.dtype):
            raise OpError(
                f"{CUSTOM_OP}: elementwise on tiles of {first.dtype} of rank {first.rank} and of"
                f" {other.dtype} of rank {other.rank}; expected one type and rank"
            )
        _check_extents("elementwise", first.extents, other.extents)

    def element(at: Sequence[Expr]) -> Expr:
        values = [
            one.element(at) if isinstance(one, Tile) else as_element(one, first.dtype)
            for one in operands
        ]
        return as_element(function(*values), first.dtype)

    return Tile(first.extents, first.dtype, element)


def store(tile: Tile) -> Tile:
    """The same tile in memory: each element is computed once."""
    return _builder().store(tile)


def matmul(a: Tile, b: Tile, *, dtype: str | None = None) -> Tile:
    """``a[m, k] @ b[k, n]`` in memory; summed in ``dtype``, by default the operands'.

    Raises:
        OpError: for another rank than 2, two element types, or extents that differ.
    """
    if a.rank != 2 or b.rank != 2 or a.dtype != b.dtype:
        raise OpError(
            f"{CUSTOM_OP}: matmul of {a.dtype} of rank {a.rank} and {b.dtype} of rank {b.rank};"
            " expected rank 2 and one type"
        )
    _check_extents("matmul", a.extents[1:], b.extents[:1])
    return _builder().matmul(a, b, dtype or a.dtype)


def reduce(tile: Tile, axis: int, combine: Callable[[Expr, Expr], Expr], identity: Number) -> Tile:
    """The tile without ``axis``, along which elements are combined in order; in memory."""
    if not 0 <= axis < tile.rank:
        raise OpError(f"{CUSTOM_OP}: reduce along axis {axis} of a tile of rank {tile.rank}")
    return _builder().reduce(tile, axis, combine, identity)


def index(dim: int) -> Expr:
    """``iree_linalg_ext.index``: where the tile starts along iteration dim ``dim``.

    Raises:
        OpError: outside a region of ``custom_op``, or for a dim that the op does not have.
    """
    starts = _builder("iree_linalg_ext.index").starts
    if not isinstance(dim, int) or not 0 <= dim < len(starts):
        raise OpError(
            f"iree_linalg_ext.index: dim is {dim!r}; the custom_op has dims 0 to {len(starts) - 1}"
        )
    return starts[dim]


class TileBuilder:
    """A builder of tiles' values in memory, by plain loops of TIR's IRBuilder."""

    def __init__(self, starts: Sequence[Expr], most: Mapping[Expr, int]) -> None:
        self.starts, self.most = tuple(starts), most

    def allocate(self, extents: Sequence[Expr], dtype: str) -> Any:
        """Memory for a tile."""
        shape = list(extents) or [_index(1)]
        return I.alloc_buffer(shape, word_dtype(dtype), scope="global", align=64)

    def each(self, extents: Sequence[Expr], body: Callable[[list[Expr]], None]) -> None:
        """``body`` at every position: all are independent of one another."""
        for_each(extents, body)

    def fill(
        self, extents: Sequence[Expr], dtype: str, value: Callable[[list[Expr]], Expr]
    ) -> Tile:
        """A tile in memory with ``value`` at each position."""
        buffer = self.allocate(extents, dtype)
        self.each(extents, lambda at: put(buffer, dtype, value(at), at or [_index(0)]))
        return in_memory(buffer, extents, dtype)

    def store(self, tile: Tile) -> Tile:
        """See :func:`store`."""
        return self.fill(tile.extents, tile.dtype, tile.element)

    def matmul(self, a: Tile, b: Tile, dtype: str) -> Tile:
        """See :func:`matmul`."""
        extents = (a.extents[0], b.extents[1])
        result = self.fill(extents, dtype, lambda _: as_element(0, dtype))
        buffer = _buffer(result)
        grid = (extents[0], a.extents[1], extents[1])

        def step(at: list[Expr]) -> None:
            i, k, j = at
            one, other = (as_element(x, dtype) for x in (a.element([i, k]), b.element([k, j])))
            put(buffer, dtype, got(buffer, dtype, [i, j]) + one * other, [i, j])

        for_each(grid, step)
        return result

    def reduce(
        self, tile: Tile, axis: int, combine: Callable[[Expr, Expr], Expr], identity: Number
    ) -> Tile:
        """See :func:`reduce`."""
        extents = (*tile.extents[:axis], *tile.extents[axis + 1 :])
        result = self.fill(extents, tile.dtype, lambda _: as_element(identity, tile.dtype))
        buffer = _buffer(result)

        def step(at: list[Expr]) -> None:
            *kept, along = at
            place = kept or [_index(0)]
            element = tile.element([*kept[:axis], along, *kept[axis:]])
            put(buffer, tile.dtype, combine(got(buffer, tile.dtype, place), element), place)

        for_each((*extents, tile.extents[axis]), step)
        return result


def for_each(extents: Sequence[Expr], body: Callable[[list[Expr]], None]) -> None:
    """``body`` at every position, in order."""

    def nest(at: list[Expr]) -> None:
        if len(at) == len(extents):
            body(at)
            return
        with I.serial(_index(0), extents[len(at)]) as loop:
            nest([*at, loop])

    nest([])


def in_memory(buffer: Any, extents: Sequence[Expr], dtype: str) -> Tile:
    """A tile that is a whole buffer."""
    zeros = tuple(_index(0) for _ in extents)
    return Tile(
        tuple(extents), dtype, lambda at: got(buffer, dtype, at or [_index(0)]), (buffer, zeros)
    )


def _buffer(tile: Tile) -> Any:
    """Buffer of a tile in memory."""
    assert tile.source is not None
    return tile.source[0]


_current: ContextVar[TileBuilder | None] = ContextVar("tile_builder", default=None)


@contextmanager
def building(builder: TileBuilder) -> Iterator[None]:
    """While a region runs: what its tiles are computed by."""
    token = _current.set(builder)
    try:
        yield
    finally:
        _current.reset(token)


def _builder(what: Literal["tiles", "iree_linalg_ext.index"] = "tiles") -> TileBuilder:
    builder = _current.get()
    if builder is None:
        raise OpError(f"{what}: used outside the region of {CUSTOM_OP}")
    return builder


def _index(value: Expr | int) -> Expr:
    return tirx.const(value, "int64") if isinstance(value, int) else value


def got(buffer: Any, dtype: str, at: Sequence[Expr]) -> Any:
    """The element of a type that memory holds at a place."""
    return number_words.decoded(buffer[tuple(at)], dtype)


def put(buffer: Any, dtype: str, value: Any, at: Sequence[Expr]) -> None:
    """Store an element of a type, rounded or wrapped to it."""
    I.buffer_store(buffer, number_words.encoded(as_element(value, dtype), dtype), list(at))


def as_element(value: Any, dtype: str) -> Any:
    """A number or an expression as an element of ``dtype`` is computed with.

    Raises:
        OpError: for a complex number where a real one is due.
    """
    if dtype in COMPLEX_PARTS:
        parts = number_words.parts_of(number_words.as_number(value, dtype))
        return number_words.ComplexNumber(*(_as(part, COMPLEX_PARTS[dtype]) for part in parts))
    if isinstance(value, complex | number_words.ComplexNumber):
        raise OpError(f"{CUSTOM_OP}: a complex number for an element of {dtype}")
    held = number_words.held_dtype(dtype)
    kind = (
        str(value.ty.dtype) if dtype in INTEGERS4 and not isinstance(value, int | float) else held
    )
    if kind != held and "int" in kind:  # TVM refuses to narrow what may be larger
        value = value & tirx.const(15, kind)
    return _as(value, held)


def _as(value: Any, dtype: str) -> Expr:
    """A real number or expression as an expression of ``dtype``."""
    if isinstance(value, bool | int | float):
        return tirx.const(value, dtype)
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _check_extents(what: str, left: Sequence[Expr], right: Sequence[Expr]) -> None:
    for a, b in zip(left, right, strict=True):
        if isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and int(a) != int(b):
            raise OpError(f"{CUSTOM_OP}: {what} of tiles with extents {int(a)} and {int(b)}")
