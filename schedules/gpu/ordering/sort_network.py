"""Short lines, sorted in shared memory: several lines a workgroup, one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, workgroup
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import SortOrder, SortTile
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class SortShape(WorkgroupShape):
    """A workgroup and its tile.

    Attributes:
        elements: of a tile, a power of two.
        length: of a line in the tile, a power of two.
    """

    elements: int
    length: int


class Sorted(Protocol):
    """Operands that are sorted, while a PrimFunc is emitted.

    Attributes:
        lines, length: how many lines there are, and elements of each.
        kept: how many of a line's elements are wanted, the first ones.
        beside: whether the lines lie side by side in memory.
        order: of the elements.
        is_weak: whether the order is known to be a weak one.
    """

    lines: Index
    length: Index
    kept: Index
    beside: bool
    order: SortOrder
    is_weak: bool

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words that are compared, and the place."""

    def move(self, line: Expr, to: Expr, place: Expr, words: Sequence[Expr]) -> None:
        """Write the element of a place, of whose words some are at hand, to the results."""


def named_words(buffer: Any) -> Any:
    """A buffer's elements as words, by its name."""
    words = emit.flat_words(buffer)
    IRBuilder.name(str(buffer.name), words)
    return words


def emit_network(operands: Sorted, shape: SortShape) -> None:
    """One kernel, for lines that fit a tile."""
    each = shape.elements // shape.length
    with workgroup(emit.ceil_div(operands.lines, each), shape) as (number, lane):
        tile = SortTile(
            operands.order,
            shape.elements,
            shape.length,
            lane,
            shape.lanes,
            side_by_side=operands.beside,
        )
        first = I.Bind(wide(number) * each)
        with tile.each() as (line, position, at):
            whole = I.Bind(first + wide(line))
            inside = whole < i64(operands.lines)
            with I.If(tirx.And(inside, wide(position) < i64(operands.length))):
                with I.Then():
                    tile.put(at, *operands.load(whole, wide(position)))
                with I.Else():
                    tile.put_none(at)
        tile.sort()
        with tile.each() as (line, position, at):
            whole = I.Bind(first + wide(line))
            inside = whole < i64(operands.lines)
            with I.If(tirx.And(inside, wide(position) < i64(operands.kept))), I.Then():
                words = [memory[at] for memory in tile.words]
                operands.move(whole, wide(position), tile.places[at], words)
