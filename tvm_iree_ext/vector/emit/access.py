"""Vectors between registers and memory: runs, masked runs, lane by lane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known, run, splat
from tvm_iree_ext.vector.emit.context import BufferBox
from tvm_iree_ext.vector.emit.registers import LocalVector, typed

_MASKED = ("float32", "float64", "int32", "int64", "index")
"""Element types whose runs can be masked in one instruction."""

_TRUE = tirx.const(True, "bool")


@dataclass(frozen=True)
class LanesInMemory:
    """Memory addresses of the lanes of a register.

    Attributes:
        index: of the first lane.
        axis: along which the lanes follow one another; None where they are one element.
        row: a condition for all lanes; None where it always holds.
        lane: conditions for each lane, as a function of the lane, and of all as a vector.
    """

    index: tuple[Index, ...]
    axis: int | None
    row: Expr | None = None
    lane: tuple["LaneCondition", ...] = ()


@dataclass(frozen=True)
class LaneCondition:
    """A condition lane by lane."""

    of: Callable[[int], Expr]
    all: Callable[[], Expr]


def nearest(start: Index, extent: Index, size: int) -> Index:
    """A start near an extent from which the same of ``size`` positions are inside.

    From there nothing overflows, neither in conditions nor in what stands for a place in memory.
    """
    if known(start) is not None:
        return start
    return I.Bind(tirx.min(tirx.max(start, i64(-size)), i64(extent)))


def inside(start: Index, extent: Index, lanes: int) -> LaneCondition:
    """Whether positions from ``start`` on are in an extent."""

    def of(at: Expr, count: int) -> Expr:
        return tirx.And(at >= splat(i64(0), count), at < splat(i64(extent), count))

    return LaneCondition(
        lambda lane: of(i64(start) + i64(lane), 1), lambda: of(run(start, lanes), lanes)
    )


def masked(mask: Callable[[Sequence[int]], Expr], lanes: int) -> LaneCondition:
    """The condition of a mask; ``mask`` takes numbers of lanes."""
    return LaneCondition(lambda lane: mask([lane]), lambda: mask(range(lanes)))


def both(conditions: Sequence[Expr | None]) -> Expr | None:
    """All of some conditions; None where there is none."""
    every = [one for one in conditions if one is not None]
    if not every:
        return None
    result = every[0]
    for one in every[1:]:
        result = tirx.And(result, one)
    return result


def read(
    place: BufferBox,
    lanes: LanesInMemory,
    target: LocalVector,
    start: int,
    other: Callable[[int, int], Expr],
) -> None:
    """Read a register; ``other(lane, lanes)`` stands for what is not to be read."""
    count = target.lanes
    is_run = count == 1 or lanes.axis == len(place.shape) - 1
    if lanes.row is None and not lanes.lane and (is_run or lanes.axis is None):
        value = place.load(lanes.index, count if is_run and lanes.axis is not None else 1)
        target.write(start, value if is_run and lanes.axis is not None else splat(value, count))
        return
    if is_run and count > 1 and place.dtype in _MASKED:
        condition = _vector_condition(lanes, count)
        at = place.at(lanes.index)
        at[-1] = run(at[-1], count)
        dtype = "int64" if place.dtype == "index" else place.dtype
        loaded = I.masked_load(typed(dtype, count), place.buffer, *at, condition)
        target.write(start, loaded)
        target.write(start, tirx.Select(condition, target.run(start, count), other(0, count)))
        return
    for lane in range(count):
        condition = both([lanes.row, *(one.of(lane) for one in lanes.lane)])
        at = _lane_index(lanes, lane)
        if condition is None:
            target.write(start + lane, place.load(at))
            continue
        with I.If(condition):
            with I.Then():
                target.write(start + lane, place.load(at))
            with I.Else():
                target.write(start + lane, other(lane, 1))


def write(
    place: BufferBox, lanes: LanesInMemory, source: Callable[[int, int], Expr], count: int
) -> None:
    """Write a register, ``source(lane, lanes)``; lanes whose conditions fail are left out."""
    is_run = count == 1 or lanes.axis == len(place.shape) - 1
    if lanes.row is None and not lanes.lane and is_run:
        place.store(lanes.index, source(0, count), count)
        return
    if is_run and count > 1 and place.dtype in _MASKED:
        at = place.at(lanes.index)
        at[-1] = run(at[-1], count)
        condition = _vector_condition(lanes, count)
        I.evaluate(I.masked_store(place.buffer, source(0, count), *at, condition))
        return
    for lane in range(count):
        condition = both([lanes.row, *(one.of(lane) for one in lanes.lane)])
        at = _lane_index(lanes, lane)
        if condition is None:
            place.store(at, source(lane, 1))
            continue
        with I.If(condition), I.Then():
            place.store(at, source(lane, 1))


def _vector_condition(lanes: LanesInMemory, count: int) -> Expr:
    row = None if lanes.row is None else splat(lanes.row, count)
    condition = both([row, *(one.all() for one in lanes.lane)])
    return splat(_TRUE, count) if condition is None else condition


def _lane_index(lanes: LanesInMemory, lane: int) -> list[Index]:
    index = list(lanes.index)
    if lanes.axis is not None and lane:
        at = known(index[lanes.axis])
        index[lanes.axis] = at + lane if at is not None else index[lanes.axis] + i64(lane)
    return index
