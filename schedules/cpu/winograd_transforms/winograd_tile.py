"""Winograd tiles: products with the constant matrix of a transform, for vectors of channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.ops.families.winograd.winograd_matrices import Matrix
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.shared.winograd_products import multiply


@dataclass(frozen=True)
class ChannelVectors:
    """Vectors of channels or filters: how many, their lanes, and what each begins with."""

    blocks: Index
    lanes: int
    first: Callable[[Index], Expr]

    @staticmethod
    def piece(
        piece: Index, most: int, count: Index, blocks: Index, lanes: int, origin: Index = 0
    ) -> "ChannelVectors":
        """A piece, of ``most`` vectors, of ``count`` channels from ``origin`` on.

        ``blocks`` and ``lanes`` are :func:`over_channels`'s.
        """
        begin = I.Bind(i64(piece) * most)
        here = emit.part(most, blocks, begin)
        return ChannelVectors(
            here, lanes, lambda block: origin + first_channel(begin + block, count, lanes)
        )


class TileTransform:
    """The base of transforms of tiles; elements of ``source`` are read by flat position."""

    def __init__(self, op: Winograd, source: Any) -> None:
        self.op, self.source = op, source
        self.dtype = op.compute_dtype
        self.down, self.across = op.factors

    def load(self, at: Expr, lanes: int) -> Expr:
        """Elements from a position on, in the compute type."""
        return emit.cast(self.source[emit.run(at, lanes)], self.dtype)

    def zero(self, lanes: int) -> Expr:
        """Zeros in the compute type."""
        return emit.splat(tirx.const(0.0, self.dtype), lanes)

    def product(self, matrix: Matrix, vectors: Sequence[Expr]) -> list[Expr]:
        """A constant matrix times a column of vectors."""
        # Through registers: the compiler expands what is bound to variables, and loads are long.
        _, _, text = str(vectors[0].ty.dtype).partition("x")
        lanes = int(text or 1)
        column = emit.registers(len(vectors) * lanes, self.dtype)
        places = [emit.run(j * lanes, lanes) for j in range(len(vectors))]
        for place, vector in zip(places, vectors, strict=True):
            I.buffer_store(column, vector, [place])
        return multiply(matrix, [column[place] for place in places])


def store(result: Any, at: Expr, value: Expr, lanes: int) -> None:
    """Write elements from a flat position on, rounded to the type of ``result``."""
    I.buffer_store(result, emit.cast(value, str(result.dtype)), [emit.run(at, lanes)])


def over_channels(count: Index, lanes: int, body: Callable[[int, Index], None]) -> None:
    """``body(lanes, blocks)``: with vectors of channels where there are as many.

    Fewer lanes where there are fewer channels.  Block b is to take channels from
    :func:`first_channel` on: the last block overlaps the one before, and both write the same.
    """
    exact = known(count)
    if exact is not None:
        while lanes > exact:
            lanes //= 2
        body(lanes, emit.ceil_div(count, lanes))
        return
    with I.If(i64(count) >= lanes):
        with I.Then():
            body(lanes, emit.ceil_div(count, lanes))
        with I.Else():
            body(1, count)


def first_channel(block: Index, count: Index, lanes: int) -> Expr:
    """First channel of a block."""
    exact = known(count)
    if lanes == 1 or (exact is not None and exact % lanes == 0):
        return i64(block) * lanes
    return i64(emit.smaller(i64(block) * lanes, i64(count) - lanes))


def tasks(count: Index, parallel: bool) -> Any:
    """A loop whose steps are independent."""
    return (I.parallel if parallel else I.serial)(i64(0), i64(count))
