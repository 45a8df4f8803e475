"""Strides of a loop nest: the step of each axis through each operand, and axes that merge."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir
from tvm.sym import Analyzer

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, i64
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, LoopNest, step, uses


@dataclass(frozen=True)
class Steps:
    """The strides of a nest's positions along its axes; None where an axis moves one unevenly."""

    positions: tuple[Expr, ...]
    axes: tuple[Axis, ...]

    def of(self, axis: Axis) -> list["int | Expr | None"]:
        """The step of each position."""
        return [step(position, axis, self.axes) for position in self.positions]


def merged(axes: Sequence[Axis], steps: Steps, named: Sequence[Expr]) -> list[Axis]:
    """The axes, neighbours of which every position passes through in one go put together.

    The one that is put together has the variable of its last axis; the others are 0.
    """
    result: list[Axis] = []
    for axis in axes:
        if result and _is_one(result[-1], axis, steps, named):
            extent = emit.product([result[-1].count, axis.count])
            result[-1] = Axis(axis.var, i64(extent), axis.is_reduced)
        else:
            result.append(axis)
    return result


def _is_one(outer: Axis, inner: Axis, steps: Steps, named: Sequence[Expr]) -> bool:
    if outer.is_reduced != inner.is_reduced:
        return False
    if any(uses(value, [outer.var, inner.var]) for value in named):
        return False
    analyzer = Analyzer()
    for far, near in zip(steps.of(outer), steps.of(inner), strict=True):
        if far is None or near is None:
            return False
        if not analyzer.can_prove_equal(i64(far), i64(near) * inner.extent):
            return False
    return True


def in_order(nest: LoopNest) -> list[Axis]:
    """The spatial axes in the order in which the first store's positions grow."""
    places: dict[ir.Var, int] = {}
    for place, index in enumerate(nest.stores[0].indices):
        for axis in nest.spatial:
            if uses(index, [axis.var]):
                places.setdefault(axis.var, place)
    return sorted(nest.spatial, key=lambda axis: places.get(axis.var, -1))
