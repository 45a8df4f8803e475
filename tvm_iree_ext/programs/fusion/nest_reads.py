"""What an elementwise function reads, and by which of another function's dims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_iree_ext.schedules.shared.loops.loops_nests import FunctionNests, LoopNest, nests_of, uses
from tvm_iree_ext.tir.tir_expressions import known

Axes = tuple[tuple[int, ...], ...]
"""The dims that each axis of an operand goes along: one, or none where its extent is 1."""

Places = tuple[int | None, ...]
"""For each axis of an operand the axis that it is of another tensor; None for an extent of 1."""


def nest_of(function: tirx.PrimFunc) -> LoopNest | None:
    """The only nest of a function, with one store, at the place that its loops name."""
    form: FunctionNests | None = nests_of(function)
    if form is None or len(form.nests) != 1 or form.buffers:
        return None
    (nest,) = form.nests
    if nest.reduced or nest.cells or len(nest.stores) != 1:
        return None
    store = nest.stores[0]
    places = [index for index in store.indices if isinstance(index, ir.Var)]
    rest = [index for index in store.indices if not isinstance(index, ir.Var)]
    sound = len(set(places)) == len(places) == len(nest.axes)
    return nest if sound and all(_is_zero(index) for index in rest) else None


def _is_zero(index: Any) -> bool:
    return isinstance(index, tirx.IntImm) and int(index) == 0


def axes_of(load: ir.TensorLoad, nest: LoopNest, result: Axes) -> Axes | None:
    """The dims by which a load of a nest reads, where ``result`` are those of its store.

    None for one that is not read by single dims, or not all of which is read.
    """
    store = nest.stores[0]
    places = {index: place for place, index in enumerate(store.indices)}
    axes: list[tuple[int, ...]] = []
    for index, extent in zip(load.indices, load.source.ty.shape, strict=True):
        if isinstance(index, ir.Var) and index in places:
            if not tvm_ffi.structural_equal(extent, store.buffer.ty.shape[places[index]]):
                return None
            axes.append(result[places[index]])
        elif _is_zero(index) and _is_unit(extent):
            axes.append(())
        else:
            return None
    used = [axis for axis in axes if axis]
    return tuple(axes) if len(set(used)) == len(used) else None


def elementwise_loads(value: ir.Expr) -> list[ir.TensorLoad] | None:
    """What a value loads; None for one that depends on where the elements are."""
    loads: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    positions = {v for load in loads for v in load.indices if isinstance(v, ir.Var)}
    blank = tvm_ffi.structural_map(
        value, (ir.TensorLoad, lambda load: tirx.Var("element", str(load.source.ty.dtype)))
    )
    return None if uses(blank, list(positions)) else loads


def _is_unit(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


@dataclass(frozen=True)
class Regrouping:
    """A reshape as groups of axes of equal size, ``before`` and ``after``; none of extent 1."""

    groups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def read_before(self, axes: Axes) -> Places | None:
        """The axes before the reshape in place of those after it, None for one of extent 1.

        None where an operand goes along a part of a group, or along it in another order.
        """
        group_of = {axis: group for group in self.groups for axis in group[1]}
        found: list[int | None] = []
        wanted = [axis[0] if axis else None for axis in axes]
        while wanted:
            first = wanted[0]
            if first is None:
                found.append(wanted.pop(0))
                continue
            before, after = group_of[first]
            if tuple(wanted[: len(after)]) != after:
                return None
            found.extend(before)
            del wanted[: len(after)]
        return tuple(found)


def regrouping(before: Sequence[Any], after: Sequence[Any]) -> Regrouping | None:
    """A reshape that joins neighbouring axes, or splits them; None for any other."""
    analyzer = Analyzer()
    left = [axis for axis, extent in enumerate(before) if not _is_unit(extent)]
    right = [axis for axis, extent in enumerate(after) if not _is_unit(extent)]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def size(extents: Sequence[Any], axes: Sequence[int]) -> Any:
        total: Any = tirx.const(1, "int64")
        for axis in axes:
            total = total * extents[axis]
        return total

    while left and right:
        lengths = [(1, 1), *((1, n) for n in range(2, len(right) + 1))]
        lengths += [(n, 1) for n in range(2, len(left) + 1)]
        for one, other in lengths:
            if analyzer.can_prove_equal(size(before, left[:one]), size(after, right[:other])):
                groups.append((tuple(left[:one]), tuple(right[:other])))
                del left[:one], right[:other]
                break
        else:
            return None
    return None if left or right else Regrouping(tuple(groups))


def units_moved(axes: Axes, before: Sequence[Any], after: Sequence[Any]) -> Axes | None:
    """The dims of an operand's axes before a reshape that adds and takes away extents of 1."""
    found = regrouping(before, after)
    if found is None or any(len(left) != 1 or len(right) != 1 for left, right in found.groups):
        return None
    moved: Mapping[int, int] = {left[0]: right[0] for left, right in found.groups}
    return tuple(axes[moved[axis]] if axis in moved else () for axis in range(len(before)))


def unit_places(before: Sequence[Any], after: Sequence[Any]) -> Places | None:
    """For each axis after a reshape the axis that it was; None for one of extent 1 that is new.

    None where the reshape does more than to add and take away extents of 1.
    """
    old = [axis for axis, extent in enumerate(before) if known(extent) != 1]
    new = [axis for axis, extent in enumerate(after) if known(extent) != 1]
    extents = [before[axis] for axis in old], [after[axis] for axis in new]
    if not tvm_ffi.structural_equal(*extents):
        return None
    was = dict(zip(new, old, strict=True))
    return tuple(was.get(axis) for axis in range(len(after)))
