"""Nests that move elements from runs along one axis to runs along another: transposes.

Squares of vectors are turned in registers, so that every line of memory that is touched is used
whole at once, in the source and in the target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.loops.loops_axes import tasks
from tvm_iree_ext.schedules.emit import Expr, i64, known
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, LoopNest, substitute
from tvm_iree_ext.schedules.shared.loops.loops_point import NestMemory
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps
from tvm_iree_ext.targets.cpu import CpuFeatures

_LEAST = 4  # a smaller square is not worth its shuffles


@dataclass(frozen=True)
class TransposedMove:
    """A move whose target runs along the axis ``line`` and whose source along ``run``."""

    source: ir.Var
    target: ir.Var
    line: Axis
    run: Axis
    rest: list[Axis]
    lanes: int


def transpose_of(
    nest: LoopNest, memory: NestMemory, axes: Sequence[Axis], steps: Steps, features: CpuFeatures
) -> TransposedMove | None:
    """The transpose that a nest is, of which ``steps`` has first the store and then the load."""
    (store, *others), value = nest.stores, nest.stores[0].value
    if others or nest.cells or not isinstance(value, ir.TensorLoad) or len(axes) < 2:
        return None
    if value.source in memory.producers or len(steps.positions) != 2:
        return None
    line = axes[-1]
    there = {axis.var: steps.of(axis) for axis in axes}
    runs = [axis for axis in axes[:-1] if there[axis.var][1] == 1]
    if there[line.var][0] != 1 or there[line.var][1] in (0, 1, None) or len(runs) != 1:
        return None
    if any(None in there[axis.var] for axis in axes):
        return None
    lanes = features.vector_bits // (8 * item_bytes(str(store.buffer.ty.dtype)))
    for axis in (line, runs[0]):
        length = known(axis.extent)
        while length is not None and lanes > length:
            lanes //= 2
    if not _LEAST <= lanes <= features.vector_registers // 2:
        return None
    rest = [axis for axis in axes[:-1] if axis is not runs[0]]
    return TransposedMove(value.source, store.buffer, line, runs[0], rest, lanes)


def emit_transpose(
    move: TransposedMove,
    steps: Steps,
    memory: NestMemory,
    gone: Mapping[ir.Var, Expr],
    features: CpuFeatures,
) -> None:
    """The loops of a transpose, each of whose two axes is no shorter than a square."""
    lanes = move.lanes
    target, source = (emit.flat_words(memory.given[b]) for b in (move.target, move.source))
    blocks = {
        axis.var: Axis(tirx.Var("block", "int64"), i64(emit.ceil_div(axis.count, lanes)), False)
        for axis in (move.line, move.run)
    }

    def start(at: Mapping[ir.Var, Expr], axis: Axis) -> Expr:
        place = at[blocks[axis.var].var] * lanes
        if known(axis.extent) is not None and known(axis.extent) % lanes == 0:  # type: ignore[operator]
            return place
        return emit.held_index(tirx.min(place, axis.extent - lanes))

    def square(at: Mapping[ir.Var, Expr]) -> None:
        here: dict[ir.Var, Any] = {**gone, **at}
        here |= {axis.var: start(at, axis) for axis in (move.line, move.run)}
        to, come = (substitute(position, here) for position in steps.positions)
        to_step = steps.of(move.run)[0]
        come_step = steps.of(move.line)[1]
        emit.move_transposed(
            target,
            [to + i64(to_step) * place for place in range(lanes)],
            source,
            [come + i64(come_step) * place for place in range(lanes)],
        )

    # The run's blocks last: its tiles are next to each other in the source.
    loops = [*move.rest, blocks[move.line.var], blocks[move.run.var]]
    tasks(loops, 1, lanes * lanes, features.cores, square)


def fits(move: TransposedMove) -> Expr | None:
    """The condition that both axes are no shorter than a square; None where that is known."""
    unknown = [a.extent >= move.lanes for a in (move.line, move.run) if known(a.extent) is None]
    condition: Expr | None = None
    for one in unknown:
        condition = one if condition is None else tirx.And(condition, one)
    return condition
