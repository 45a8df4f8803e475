"""Transposes in registers, by shuffles of vectors, and the moves that use them."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.emit.index_arithmetic import divide
from tvm_iree_ext.schedules.emit.iteration_space import At, OperandView
from tvm_iree_ext.schedules.emit.vector_loops import serial
from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, run


def transpose(vectors: Sequence[Expr]) -> list[Expr]:
    """The columns of a square tile given by its rows, in registers.

    log2(n) rounds of exchanges between rows d apart: lane l of row i goes to lane i of row l.
    """
    n = len(vectors)
    rows = list(vectors)
    distance = 1
    while distance < n:
        low = [lane if not lane & distance else n + lane - distance for lane in range(n)]
        high = [lane + distance if not lane & distance else n + lane for lane in range(n)]
        rows = [I.Bind(row) for row in rows]
        for i in range(n):
            if not i & distance:
                pair = [rows[i], rows[i + distance]]
                rows[i], rows[i + distance] = (tirx.Shuffle(pair, order) for order in (low, high))
        distance *= 2
    return rows


def interleaved(rows: Sequence[Expr], lanes: int) -> list[Expr]:
    """The columns of a power of two of rows of ``lanes``, in vectors, one after the other.

    log2(n) rounds: in each, the elements of one half of the rows go between those of the other.
    """
    count, vectors = len(rows), list(rows)
    order = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
    for _ in range(count.bit_length() - 1):
        vectors = [I.Bind(vector) for vector in vectors]
        vectors = [
            tirx.Shuffle([vectors[i], vectors[i + count // 2]], order[side : side + lanes])
            for i in range(count // 2)
            for side in (0, lanes)
        ]
    return vectors


def move_transposed(
    target: Any, targets: Sequence[Index], source: Any, sources: Sequence[Index]
) -> None:
    """A square of flat buffers: element j of run i goes to element i of run j; runs by starts."""
    lanes = len(sources)
    square = transpose([source[run(start, lanes)] for start in sources])
    for start, value in zip(targets, square, strict=True):
        I.buffer_store(target, value, [run(start, lanes)])


def load_transposed(
    target: Any,
    view: OperandView,
    rows: Sequence[At],
    column: Callable[[Index], At],
    columns: Index,
    vector_columns: Index,
    *,
    convert: Callable[[Expr], Expr],
    line_base: Index = 0,
    lane_base: Index = 0,
) -> None:
    """``target[c, l] = convert(view[rows[l], column(c)])`` for c below ``columns``.

    Lines and lanes of ``target`` count from ``line_base`` and ``lane_base``.

    ``convert`` takes an element, or a vector of them, to the type of ``target``.  Of the columns,
    ``vector_columns`` from 0 on lie next to each other in memory.
    """
    lanes = len(rows)
    blocks = divide(vector_columns, lanes)[0]
    with serial(blocks) as block:
        first = column(block * lanes)
        values = [convert(view.load({**row, **first}, view.loaded, lanes)) for row in rows]
        for j, value in enumerate(transpose(values)):
            I.buffer_store(target, value, [line_base + block * lanes + j, run(lane_base, lanes)])
    with serial(columns, blocks * lanes) as c:
        for lane, row in enumerate(rows):
            value = convert(view.load({**row, **column(c)}, view.loaded))
            I.buffer_store(target, value, [line_base + c, i64(lane_base) + lane])


def store_transposed(
    view: OperandView,
    rows: Sequence[At],
    column: Callable[[Index], At],
    columns: Index,
    vector_columns: Index,
    *,
    vector: Callable[[Index], Expr],
    element: Callable[[Index, int], Expr],
) -> None:
    """``view[rows[l], column(c)] = element(c, l)`` for c below ``columns``.

    ``vector(c)`` is the same for all lanes at once.  Of the columns, ``vector_columns`` from 0 on
    lie next to each other in memory.
    """
    lanes = len(rows)
    blocks = divide(vector_columns, lanes)[0]
    with serial(blocks) as block:
        values = transpose([vector(block * lanes + j) for j in range(lanes)])
        for row, value in zip(rows, values, strict=True):
            view.store({**row, **column(block * lanes)}, value, lanes)
    with serial(columns, blocks * lanes) as c:
        for lane, row in enumerate(rows):
            view.store({**row, **column(c)}, element(c, lane))
