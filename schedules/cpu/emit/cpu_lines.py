"""Lines on a CPU: in the lanes of a vector, and side by side in tiles of columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.shared.lines import Lines


def rows_in_lanes(task: Expr, lanes: int, count: Index) -> list[Expr]:
    """The lines in the lanes of a task; past the end, the last one, which then is done twice."""
    rows = [task * lanes + lane for lane in range(lanes)]
    if (known(count) or 1) % lanes:
        rows = [i64(emit.smaller(row, i64(count) - 1)) for row in rows]
    return [I.Bind(row) for row in rows]


@dataclass(frozen=True)
class ColumnTile:
    """Neighbouring lines of one outer position: a task's share of lines that lie side by side.

    Attributes:
        outer, first: where they are; ``first`` is the inner position of the first one.
        size: how many there are in a whole tile.
        columns: how many there are in this one.
    """

    outer: Expr
    first: Expr
    size: int
    columns: Index


@contextmanager
def column_tiles(lines: Lines, size: int, parallel: bool) -> Iterator[ColumnTile]:
    """The body of a kernel with a task for each tile of ``size`` columns."""
    number = known(lines.inner)
    if number is not None:
        size = min(size, number)
    # At least one, which TVM cannot see where the number is dynamic: it divides by it.
    tiles = emit.larger(emit.ceil_div(lines.inner, size), 1)
    loop = I.parallel if parallel else I.serial
    tasks = i64(emit.product([lines.outer, tiles]))
    with I.sblock("root"), loop(i64(0), tasks) as task:
        outer = I.Bind(tirx.floordiv(task, i64(tiles)))
        first = I.Bind(tirx.floormod(task, i64(tiles)) * size)
        columns: Index = size
        if number is None or number % size:
            columns = I.Bind(emit.smaller(size, i64(lines.inner) - first))
        yield ColumnTile(outer, first, size, columns)


def column_parts(columns: Index, lanes: int) -> list[tuple[Index, Index, int]]:
    """Runs of vectors that cover ``columns``: first column, how many vectors, their lanes.

    What is left after whole vectors is covered by ever shorter ones where the number is known.
    """
    number = known(columns)
    if number is None:
        whole = I.Bind(tirx.floordiv(i64(columns), i64(lanes)))
        return [(0, whole, lanes), (whole * lanes, i64(columns) - whole * lanes, 1)]
    parts: list[tuple[Index, Index, int]] = []
    first = 0
    while lanes:
        count = (number - first) // lanes
        if count:
            parts.append((first, count, lanes))
        first += count * lanes
        lanes //= 2
    return parts
