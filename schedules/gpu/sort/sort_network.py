"""Short lines, sorted in shared memory: several lines a workgroup, one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, workgroup
from tvm_iree_ext.schedules.gpu.sort.sort_tile import (
    Order,
    RegionOrder,
    SortTile,
    compared,
    line_position,
)
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
    """What is sorted, while a PrimFunc is emitted.

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
    order: Order
    is_weak: bool

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words that are compared, and the place."""

    def move(self, line: Expr, to: Expr, place: Expr, words: Sequence[Expr]) -> None:
        """Write the element of a place, of whose words some are at hand, to the results."""


class SortOperands:
    """The operands of a sort as words, while a PrimFunc is emitted."""

    def __init__(self, op: Sort) -> None:
        self.op = op
        parameters = Parameters.declare(op)
        shape = [parameters.extent(extent) for extent in op.shape]
        self.length: Index = shape[op.dimension]
        self.kept = self.length
        self.inner = emit.product(shape[op.dimension + 1 :])
        self.beside = known(self.inner) != 1
        self.lines = emit.product([emit.product(shape[: op.dimension]), self.inner])
        self.order: Order = RegionOrder(op.region, op.dtypes, compared(op.region))
        self.is_weak = op.order is not None
        self._buffers = list(parameters.buffers.values())

    def declare(self) -> None:
        """Flat views; called inside the root block."""
        flat = [named_words(buffer) for buffer in self._buffers]
        count = len(self.op.dtypes)
        self.inputs, self.results = flat[:count], flat[count:]

    def _at(self, line: Expr, position: Expr) -> Expr:
        return line_position(line, position, self.length, self.inner)

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words that are compared, and the place."""
        at = I.Bind(self._at(line, position))
        words = [self.inputs[operand][at] for operand in self.order.operands]
        return words, tirx.Cast("int32", position)

    def move(self, line: Expr, to: Expr, place: Expr, words: Sequence[Expr]) -> None:
        """Write all operands' elements of a place."""
        known_words = dict(zip(self.order.operands, words, strict=True))
        target = I.Bind(self._at(line, to))
        source = I.Bind(self._at(line, wide(place)))
        for operand, (given, result) in enumerate(zip(self.inputs, self.results, strict=True)):
            word = known_words[operand] if operand in known_words else given[source]
            I.buffer_store(result, word, [target])


def named_words(buffer: Any) -> Any:
    """A buffer's elements as words, by its name."""
    words = emit.flat_words(buffer)
    IRBuilder.name(str(buffer.name), words)
    return words


def network_kernel(op: Sort, shape: SortShape) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, whose lines fit a tile."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SortOperands(op)
        I.func_attr({OWN_BARRIERS: True})
        with I.sblock("root"):
            operands.declare()
            emit_network(operands, shape)
    return builder.get()


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
