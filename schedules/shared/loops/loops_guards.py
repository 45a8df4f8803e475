"""Conditions that guard what a nest reads, as those of pads and concatenations do.

Most compare an axis with a number: such an axis is cut into parts in which they are decided.
"""

from collections.abc import Sequence
from math import ceil, floor
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer, detect_linear_equation

from tvm_iree_ext.schedules.emit import Expr, i64, known
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, loads_of
from tvm_iree_ext.tir.purity import is_guard

_COMPARE = {
    tirx.LT: lambda difference: difference < 0,
    tirx.LE: lambda difference: difference <= 0,
    tirx.GT: lambda difference: difference > 0,
    tirx.GE: lambda difference: difference >= 0,
    tirx.EQ: lambda difference: difference == 0,
    tirx.NE: lambda difference: difference != 0,
}


def has_guard(value: Expr) -> bool:
    """Whether a condition guards part of an expression."""
    calls: list[ir.Call] = []
    tvm_ffi.structural_walk(value, (ir.Call, calls.append))
    return any(map(is_guard, calls))


class Bounds:
    """Bounds of a nest's axes: of ``axis`` a part of its extent, of the others all."""

    def __init__(self, axes: Sequence[Axis], axis: Axis, first: int, stop: int) -> None:
        self._analyzer = Analyzer()
        for one in axes:
            part = ir.Range(i64(0), one.extent)
            if one.var.same_as(axis.var):
                part = ir.Range(i64(first), i64(stop))
            self._analyzer.bind(one.var, part)

    def decide(self, condition: Expr) -> bool | None:
        """Whether a condition holds everywhere, or nowhere; None where that is not known."""
        if loads_of(condition):
            return None
        if self._analyzer.can_prove(condition):
            return True
        return False if self._analyzer.can_prove(tirx.Not(condition)) else None


def cuts(conditions: Sequence[Expr], axis: Axis) -> list[int]:
    """Where along an axis of a known extent conditions change, as far as they are comparisons."""
    places: set[int] = set()
    for condition in conditions:
        places.update(_changes(condition, axis))
    extent = known(axis.extent)
    assert extent is not None
    return sorted(place for place in places if 0 < place < extent)


def _changes(condition: Any, axis: Axis) -> list[int]:
    if isinstance(condition, tirx.And | tirx.Or):
        return [*_changes(condition.a, axis), *_changes(condition.b, axis)]
    if isinstance(condition, tirx.Not):
        return _changes(condition.a, axis)
    holds = _COMPARE.get(type(condition))
    if holds is None or "int" not in str(condition.a.ty.dtype) or loads_of(condition):
        return []
    line = detect_linear_equation(condition.a - condition.b, [axis.var])
    step, start = (known(Analyzer().simplify(one)) for one in line or (i64(0), i64(0)))
    if not step or start is None:
        return []
    root = -start / step
    near = {floor(root), floor(root) + 1, ceil(root), ceil(root) + 1}
    return [at for at in near if holds(step * at + start) != holds(step * (at - 1) + start)]
