"""A workgroup's tile of a sort by digits: its elements in registers, and their exchange.

What moves is the operand that is compared, and beside it the only other operand, or, where there
are more, the place that an element came from; they are moved with the last digit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import word_type
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGITS, RadixKey
from tvm_iree_ext.schedules.gpu.sort.radix_ranks import (
    DigitRanks,
    base_bytes,
    counter_bytes,
    shared_memory,
)
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import SortOperands
from tvm_iree_ext.tir.tir_expressions import Expr

Columns: TypeAlias = list[Expr]
"""What moves of an element: its word, and a payload's word or its place."""

MOST_PLAIN_ITEMS = 8
"""Of a lane that has a part of a whole line: with more, elements go where the counters were."""
_OVERLAID = ("uint32", "uint64")  # words that may lie where counters were


def column_types(op: Sort) -> list[str]:
    """Types of what moves of an element."""
    assert op.order is not None
    others = [dtype for at, dtype in enumerate(op.dtypes) if at != op.order.operand]
    beside = {0: [], 1: [word_type(dtype) for dtype in others]}.get(len(others), ["int32"])
    return [word_type(op.dtypes[op.order.operand]), *beside]


@dataclass(frozen=True)
class RadixShape(WorkgroupShape):
    """A workgroup, and how many elements each of its lanes has."""

    items: int

    @property
    def tile(self) -> int:
        """Elements of a workgroup."""
        return self.lanes * self.items


def shared_bytes(op: Sort, elements: int, shape: WorkgroupShape) -> int:
    """Bytes of shared memory for a tile of so many elements."""
    first, *others = (elements * item_bytes(dtype) for dtype in column_types(op))
    length, counters = op.shape[op.dimension], counter_bytes(shape.subgroups)
    short = isinstance(length, int) and length <= elements
    plain = short and elements // shape.lanes <= MOST_PLAIN_ITEMS
    over = not plain and column_types(op)[0] in _OVERLAID
    kept = max(first, counters) if over else first + counters
    return kept + sum(others) + base_bytes(shape.subgroups)


class RadixColumns:
    """The operands as columns."""

    def __init__(self, operands: SortOperands) -> None:
        order = operands.op.order
        assert order is not None
        self.operands = operands
        self.key = RadixKey(operands.op.dtypes[order.operand], order.descending)
        self.types = column_types(operands.op)
        others = [at for at in range(len(operands.op.dtypes)) if at != order.operand]
        self.carried = [order.operand, *(others if len(others) == 1 else [])]
        self.has_places = len(others) > 1

    def load(self, line: Expr, position: Expr) -> Columns:
        """What moves of an element of the inputs."""
        operands = self.operands
        at = I.Bind(operands.at(line, position))
        found = [held(operands.inputs[operand][at]) for operand in self.carried]
        return [*found, tirx.Cast("int32", position)] if self.has_places else found

    def load_key(self, line: Expr, position: Expr) -> Expr:
        """The word of an element that is compared."""
        operands = self.operands
        return held(operands.inputs[self.carried[0]][operands.at(line, position)])

    def store(self, line: Expr, position: Expr, columns: Columns) -> None:
        """Write an element to the results."""
        operands = self.operands
        if self.has_places:
            operands.move(line, position, columns[1], columns[:1])
            return
        at = I.Bind(operands.at(line, position))
        for operand, word in zip(self.carried, columns, strict=True):
            I.buffer_store(operands.results[operand], word, [at])


class RadixTile:
    """A workgroup's tile in registers, while emitted: each lane has ``items`` of its elements.

    Where it is ``overlaid``, elements are exchanged where the counters of digits were before.
    """

    def __init__(
        self,
        columns: RadixColumns,
        shape: RadixShape,
        ids: WorkgroupIds,
        *,
        overlaid: bool = False,
    ) -> None:
        self.columns, self.shape, self.ids = columns, shape, ids
        self.overlaid = overlaid
        over = overlaid and columns.types[0] in _OVERLAID
        self.ranks = DigitRanks(ids, shape.tile * item_bytes(columns.types[0]) if over else 0)
        self.run = run = I.Bind(ids.subgroup * (shape.items * shape.size) + ids.lane)
        self.positions = [I.Bind(run + item * shape.size) for item in range(shape.items)]
        self.shared: list[_Column] = []

    def load(self, first: Expr, length: Index, load: Callable[[Expr], Columns]) -> list[Columns]:
        """A lane's elements; past the end of the line any."""
        size, columns = self.shape.size, self.columns.types
        cells = [[emit.registers(1, dtype) for dtype in columns] for _ in self.positions]
        begin = I.Bind(first + wide(self.run))
        whole = [begin + item * size for item in range(self.shape.items)]
        if (known(length) or 1) % self.shape.tile == 0:
            self._load(cells, whole, load)
        else:
            last = I.Bind(i64(length) - 1)
            with I.If(first + self.shape.tile <= i64(length)):
                with I.Then():  # one address for all
                    self._load(cells, whole, load)
                with I.Else():
                    self._load(cells, [tirx.min(one, last) for one in whole], load)
        return [[cell[0] for cell in element] for element in cells]

    def _load(
        self,
        cells: Sequence[Sequence[Any]],
        positions: Sequence[Expr],
        load: Callable[[Expr], Columns],
    ) -> None:
        for element, position in zip(cells, positions, strict=True):
            for cell, word in zip(element, load(I.Bind(position)), strict=True):
                I.buffer_store(cell, word, [0])

    def digits(self, elements: Sequence[Columns], count: Expr, shift: Expr) -> Iterator[Expr]:
        """Their digits; those behind the ``count`` of the tile stay there by the largest one.

        Each is computed where it is asked for.
        """
        for position, element in zip(self.positions, elements, strict=True):
            digit = self.columns.key.digit(element[0], shift)
            last = tirx.const(DIGITS - 1, "int32")
            yield held(tirx.Select(position < count, digit, last))

    def exchange(self, elements: Sequence[Columns], places: Sequence[Expr]) -> None:
        """Put the elements into shared memory, each in its place; then all must wait."""
        if not self.shared:
            self.shared = [self._column(at) for at in range(len(self.columns.types))]
        for element, place in zip(elements, places, strict=True):
            for column, word in zip(self.shared, element, strict=True):
                column.store(word, place)

    def _column(self, at: int) -> "_Column":
        size, dtype = self.shape.tile, self.columns.types[at]
        if at == 0 and self.overlaid and dtype in _OVERLAID:
            return _Column(self.ranks.counters, dtype, size)
        return _Column(shared_memory(f"column{at}", size, dtype), dtype, size)

    def taken(self, position: Expr) -> Columns:
        """The element in a place."""
        return [column.load(position) for column in self.shared]


@dataclass(frozen=True)
class _Column:
    """Words of a tile in shared memory, maybe that of counters: those of 64 bits as two halves."""

    memory: Any
    dtype: str
    size: int

    def store(self, word: Expr, place: Expr) -> None:
        """Store a word."""
        own = str(self.memory.dtype)
        if own == self.dtype:
            I.buffer_store(self.memory, word, [place])
            return
        I.buffer_store(self.memory, tirx.Cast(own, word), [place])
        if self.dtype == "uint64":
            high = word >> tirx.const(32, "uint64")
            I.buffer_store(self.memory, tirx.Cast(own, high), [place + self.size])

    def load(self, place: Expr) -> Expr:
        """The word in a place."""
        if str(self.memory.dtype) == self.dtype:
            return held(self.memory[place])
        low = tirx.Cast("uint32", self.memory[place])
        if self.dtype == "uint32":
            return held(low)
        high = tirx.Cast("uint64", tirx.Cast("uint32", self.memory[place + self.size]))
        return held((high << tirx.const(32, "uint64")) | tirx.Cast("uint64", low))
