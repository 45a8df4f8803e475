"""CPU sort of single lines in vectors: plain comparisons of one operand, lengths of some thousand.

    1.  The line lies in a tile, one vector a row; each column is sorted (see :mod:`.sort_rows`).
    2.  The tile is transposed, so that each column is a run of vectors.
    3.  Runs are merged two by two: the second is compared backwards with the first, then rows at
        ever smaller distances, and at last, in square tiles that are transposed in registers and
        back, the elements of each vector.

Elements are compared by their keys (see :mod:`.ordering.sort_keys`); the largest fills up the tile.

Work: length x log2(length)^2 / 4 exchanges, of a power of two of elements.  Scratch: two tiles.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.batcher_network import cleaner
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import Keys
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import SortLines
from tvm_iree_ext.schedules.cpu.sort.sort_rows import RowSort
from tvm_iree_ext.schedules.emit import Expr, i64, serial

# Rows that are held in registers.
_BLOCK = 16


def columns_kernel(op: Sort, config: SortConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form, for one operand, a plain comparison, a static length."""
    with IRBuilder() as builder, I.prim_func():
        _Columns(SortLines(op), config).emit()
    return builder.get()


class _Columns:
    """The kernel under construction."""

    def __init__(self, lines: SortLines, config: SortConfig) -> None:
        assert lines.op.order is not None
        self.lines, self.config, self.lanes = lines, config, config.lanes
        self.length = int(lines.length)
        self.keys = Keys(lines.op.dtypes[0], lines.op.order.descending)
        run = 1
        while run * self.lanes * self.lanes < self.length:
            run *= 2
        self.run = run
        """Vectors of a sorted column."""

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.lines.declare()
            self.lines.each(self.config.parallel, self.sort_line)

    def sort_line(self, source: SortLine, target: SortLine) -> None:
        """One line by one task."""
        lanes, rows, keys = self.lanes, self.run * self.lanes, self.keys
        source, target = keys.words(source), keys.words(target)
        columns, runs = (emit.scratch([rows * lanes], keys.unsigned) for _ in range(2))
        with serial(self.length) as i:
            I.buffer_store(columns, keys.key(source.load(0, i)), [i])
        with serial(rows * lanes, self.length) as i:
            I.buffer_store(columns, keys.ones, [i])
        self.rows_of(columns, _BLOCK).emit()
        with serial(self.run) as number:
            block = [columns[self.row(number * lanes + i)] for i in range(lanes)]
            for column, vector in enumerate(emit.transpose(block)):
                I.buffer_store(runs, vector, [self.row(number + column * self.run)])
        self.merge_runs(runs)
        with serial(self.length) as i:
            target.store(0, i, keys.element(runs[i]))
        keys.settle_zeros(source, target, self.length)

    def row(self, number: Expr) -> Expr:
        """Index of a vector of a tile."""
        return emit.run(number * self.lanes, self.lanes)

    def rows_of(self, tile: Any, block: int) -> RowSort:
        """Exchanges of the rows of a tile."""
        rows = self.run * self.lanes
        return RowSort([tile], rows, self.lanes, block, lambda left, right: right[0] < left[0])

    def merge_runs(self, runs: Any) -> None:
        """Merge sorted runs of vectors two by two."""
        rows = self.run * self.lanes
        # No more than two runs.
        network = self.rows_of(runs, min(_BLOCK, 2 * self.run))
        base, count = i64(0), i64(rows)
        half, distance = emit.registers(1, "int64"), emit.registers(1, "int64")
        I.buffer_store(half, i64(self.run), [0])
        with I.While(half[0] < rows):
            with network.runs(base, count, 2 * half[0]) as (low, _), serial(half[0]) as i:
                places = self.row(low + i), self.row(low + (2 * half[0] - 1 - i))
                one, other = I.Bind(runs[places[0]]), I.Bind(self.backwards(runs[places[1]]))
                I.buffer_store(runs, tirx.min(one, other), [places[0]])
                I.buffer_store(runs, self.backwards(tirx.max(one, other)), [places[1]])
            I.buffer_store(distance, tirx.floordiv(half[0], i64(2)), [0])
            network.clean(base, count, distance)
            with serial(self.run) as number:
                self.sort_vectors(runs, number)
            I.buffer_store(half, half[0] * 2, [0])

    def backwards(self, vector: Expr) -> Expr:
        """The elements of a vector, the last one first."""
        return tirx.Shuffle([vector], list(reversed(range(self.lanes))))

    def sort_vectors(self, runs: Any, number: Expr) -> None:
        """Sort each of a block of vectors that are bitonic."""
        lanes = self.lanes
        places = [self.row(number * lanes + i) for i in range(lanes)]
        tiles = [emit.registers(lanes, self.keys.unsigned) for _ in range(lanes)]
        whole = emit.run(0, lanes)
        for tile, vector in zip(tiles, emit.transpose([runs[p] for p in places]), strict=True):
            I.buffer_store(tile, vector, [whole])
        for left, right in cleaner(lanes, lanes // 2):
            one, other = I.Bind(tiles[left][whole]), I.Bind(tiles[right][whole])
            I.buffer_store(tiles[left], tirx.min(one, other), [whole])
            I.buffer_store(tiles[right], tirx.max(one, other), [whole])
        vectors = emit.transpose([tile[whole] for tile in tiles])
        for place, vector in zip(places, vectors, strict=True):
            I.buffer_store(runs, vector, [place])
