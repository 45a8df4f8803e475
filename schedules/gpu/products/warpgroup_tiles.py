"""Tiles in the slots of a product by warpgroups, and its sums on their way to the result."""

from dataclasses import dataclass
from math import prod

from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.layout.nested import Ints

SUBGROUPS = 4
"""Of a warpgroup."""


@dataclass(frozen=True)
class WarpgroupTile:
    """A tile of ``lhs`` or ``rhs`` in a slot: instructions' tiles one after the other.

    Attributes:
        operand: how an instruction's tile lies.
        count: of them.
        offset: of the first byte in a slot.
    """

    operand: SharedOperand
    count: int
    offset: int

    @property
    def bytes_each(self) -> int:
        """Bytes of an instruction's tile."""
        return prod(self.operand.tile) * self.operand.bits // 8

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return self.count * self.bytes_each

    @property
    def boxes(self) -> list[tuple[Ints, Ints, int]]:
        """Boxes that are copied at once: first row and column, extents, first byte.

        Rows and columns are those of the operand in memory, from the tile's first on.
        """
        rows, columns = self.operand.tile
        width = self.operand.width
        if self.operand.k_major and columns == width:  # one below the other without a gap
            return _cut((self.count * rows, width), self.operand.swizzle_bytes)
        size = rows * self.operand.swizzle_bytes
        found: list[tuple[Ints, Ints, int]] = []
        for number in range(self.count):
            first = number * (rows if self.operand.k_major else columns)
            for atom in range(columns // width):
                corner = (
                    (first, atom * width) if self.operand.k_major else (0, first + atom * width)
                )
                place = number * self.bytes_each + atom * size
                found.append((corner, (rows, width), place))
        return found


def _cut(extents: Ints, row_bytes: int) -> list[tuple[Ints, Ints, int]]:
    """Boxes of equally many rows, of at most 256."""
    rows, width = extents
    count = next(n for n in range(1, rows + 1) if rows % n == 0 and rows // n <= 256)
    each = rows // count
    return [((at * each, 0), (each, width), at * each * row_bytes) for at in range(count)]


@dataclass(frozen=True)
class AccumulatorStaging:
    """Accumulators in shared memory on their way to the result: a part for each subgroup.

    Attributes:
        columns: of an instruction's that are there at once.
        parts: in which an instruction's columns come.
        itemsize: of an accumulator.
        offset: of the first byte.
        rows: of a subgroup.
        run: columns that a lane has side by side, and writes at once.
        pad: elements behind a row, such that what lanes write lies in different banks: two columns
            of each of eight rows, or four of each of 32.
    """

    columns: int
    parts: int
    itemsize: int
    offset: int
    rows: int
    run: int
    pad: int

    @property
    def pitch(self) -> int:
        """Elements from a row to the next."""
        return self.columns + self.pad

    def nbytes(self, consumers: int) -> int:
        """Bytes of all subgroups."""
        return consumers * SUBGROUPS * self.rows * self.pitch * self.itemsize
