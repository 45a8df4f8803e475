"""The loops of a nest as they run on a CPU: tasks for threads, pieces of a line."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.parallel import SERIAL_WORK, outweighs_launch
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis

_CHUNK = 1 << 12  # elements of a long line that one task takes
_TASKS_PER_CORE = 4

ALONE = 0
"""The number of cores for loops within a task, which are not shared."""


def tasks(
    axes: Sequence[Axis],
    cost: int,
    within: "int | Expr",
    cores: int,
    body: Callable[[Mapping[ir.Var, Expr]], None],
) -> None:
    """``body(at)`` for all values of ``axes``, by the threads where there is enough to do.

    A value of the axes takes ``within`` steps of ``cost`` simple operations.
    """
    total = emit.product([*(axis.count for axis in axes), within, cost])
    whole = known(total)
    if (
        not axes
        or cores == ALONE
        or (whole is not None and not outweighs_launch("cpu.loops", whole))
    ):
        _nested(axes, {}, body)
        return
    if whole is not None:
        _shared(axes, cores, body)
        return
    with I.If(i64(total) < SERIAL_WORK["cpu.loops"].most + 1):
        with I.Then():
            _nested(axes, {}, body)
        with I.Else():
            _shared(axes, cores, body)


def _shared(
    axes: Sequence[Axis], cores: int, body: Callable[[Mapping[ir.Var, Expr]], None]
) -> None:
    """The first axes as tasks, as many as make the threads' shares even; the rest in order."""
    first = 1
    while first < len(axes) and _is_few(axes[:first], cores):
        first += 1
    outer, inner = axes[:first], axes[first:]
    with I.parallel(i64(0), i64(emit.product([axis.count for axis in outer]))) as task:
        at: dict[ir.Var, Expr] = {}
        flat: Index = task
        for axis in reversed(outer[1:]):
            flat, value = emit.divide(flat, axis.extent)
            at[axis.var] = value
        at[outer[0].var] = i64(flat)
        _nested(inner, {var: emit.held_index(value) for var, value in at.items()}, body)


def _is_few(axes: Sequence[Axis], cores: int) -> bool:
    count = known(emit.product([axis.count for axis in axes]))
    return count is not None and count < _TASKS_PER_CORE * cores


def _nested(
    axes: Sequence[Axis],
    at: Mapping[ir.Var, Expr],
    body: Callable[[Mapping[ir.Var, Expr]], None],
) -> None:
    if not axes:
        body(at)
        return
    with serial(axes[0].extent) as value:
        _nested(axes[1:], {**at, axes[0].var: value}, body)


def chunked(line: Axis, rows: "int | Expr", cores: int) -> tuple[Axis | None, int]:
    """An axis of chunks of a line, and their length, where there are too few rows for threads."""
    count, length = known(rows), known(line.extent)
    if cores == ALONE:
        return None, 0
    if count is not None and count >= _TASKS_PER_CORE * cores:
        return None, 0
    if length is not None and length < 2 * _CHUNK:
        return None, 0
    chunks = emit.ceil_div(line.count, _CHUNK)
    return Axis(tirx.Var("chunk", "int64"), i64(chunks), False), _CHUNK


def pieces(
    length: Index,
    lanes: int,
    start: Index,
    piece: Callable[[Index, int], Any],
    *,
    may_overlap: bool = True,
) -> None:
    """``piece(place, lanes)`` for a run from ``start`` on, in vectors.

    The last may overlap the one before: what is computed twice is the same.  A run shorter than a
    vector is taken in smaller ones, or one by one.
    """
    exact = known(length)
    if lanes == 1 or (exact is None and not may_overlap):
        with serial(length) as place:
            piece(i64(start) + place, 1)
    elif exact is None:
        whole = emit.held_index(tirx.truncdiv(i64(length) + (lanes - 1), i64(lanes)))
        with I.If(i64(length) >= lanes):
            with I.Then(), serial(whole) as block:
                last = i64(length) - lanes
                piece(i64(start) + emit.held_index(tirx.min(block * lanes, last)), lanes)
            with I.Else(), serial(length) as place:
                piece(i64(start) + place, 1)
    elif not may_overlap or exact % lanes == 0:
        _split(exact, lanes, start, piece)
    else:
        while lanes > exact:
            lanes //= 2
        with serial(-(-exact // lanes)) as block:
            place = tirx.min(block * lanes, i64(exact - lanes)) if exact % lanes else block * lanes
            piece(i64(start) + emit.held_index(place), lanes)


def _split(exact: int, lanes: int, start: Index, piece: Callable[[Index, int], Any]) -> None:
    """In vectors, and the rest in smaller ones."""
    at = 0
    while at < exact:
        blocks = (exact - at) // lanes
        with serial(blocks) as block:
            piece(i64(start) + at + block * lanes, lanes)
        at += blocks * lanes
        lanes //= 2
