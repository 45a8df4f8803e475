"""Tensors some axes of which lie last in memory, and functions that read and write such ones."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.programs.fusion.nest_reads import regrouping
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, nests_of, uses
from tvm_iree_ext.tir.buffers import Arranged, with_parameters
from tvm_iree_ext.tir.tir_expressions import known

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class MovedAxes:
    """Neighbouring axes of a tensor, such as its channels, that are moved behind the others."""

    first: int
    count: int = 1

    @property
    def range(self) -> tuple[int, ...]:
        """The axes, as they were."""
        return tuple(range(self.first, self.first + self.count))

    def order(self, rank: int) -> tuple[int, ...]:
        """For each axis of the tensor as it lies, the axis that it was."""
        return (*(axis for axis in range(rank) if axis not in self.range), *self.range)

    def of(self, items: Sequence[_Item]) -> list[_Item]:
        """Items of a tensor's axes, as the tensor lies."""
        return [items[axis] for axis in self.order(len(items))]

    def reshaped(self, before: Sequence[Any], after: Sequence[Any]) -> "MovedAxes | None":
        """The same axes after a reshape; None where they are joined with others."""
        found = regrouping(before, after)
        if found is None:
            return None
        units = {axis for axis in self.range if known(before[axis]) == 1}
        groups = [group for group in found.groups if {*group[0]} & {*self.range}]
        joined = [axis for group in groups for axis in group[0]]
        if not joined or {*joined} | units != {*self.range}:
            return None
        moved = [axis for group in groups for axis in group[1]]
        return MovedAxes(moved[0], moved[-1] - moved[0] + 1)


def with_moved_axes(function: tirx.PrimFunc, moved: Mapping[int, MovedAxes]) -> tirx.PrimFunc:
    """The function whose parameters of these numbers lie so; it computes the same."""

    def arranged(axes: MovedAxes) -> Arranged:
        return lambda items, _: axes.of(items)

    return with_parameters(function, {number: arranged(axes) for number, axes in moved.items()})


def moved_result(function: tirx.PrimFunc, moved: Mapping[int, MovedAxes]) -> MovedAxes | None:
    """The axes of a function's result that go along the moved ones of its parameters.

    None where there are none, or parameters differ in what they are.  One whose moved axes were its
    last ones lies as it did: it decides only where no other does.
    """
    return _moved_result(function, tuple(moved.items()))


@functools.lru_cache(maxsize=1024)
def _moved_result(
    function: tirx.PrimFunc, moved: tuple[tuple[int, MovedAxes], ...]
) -> MovedAxes | None:
    nest = _only_nest(function)
    if nest is None:
        return None
    by_tensor = {function.params[number]: axes for number, axes in moved}
    found: set[MovedAxes | None] = set()
    unmoved: set[MovedAxes | None] = set()

    def note(load: ir.TensorLoad) -> None:
        if load.source in by_tensor:
            axes, rank = by_tensor[load.source], len(load.indices)
            lies_as_it_did = axes.order(rank) == tuple(range(rank))
            (unmoved if lies_as_it_did else found).add(_along(nest, load, axes))

    for store in nest.stores:
        tvm_ffi.structural_walk(store.value, (ir.TensorLoad, note))
    found = found or unmoved
    return found.pop() if len(found) == 1 else None


@functools.lru_cache(maxsize=1024)
def moved_operands(function: tirx.PrimFunc, end: MovedAxes) -> Mapping[int, MovedAxes] | None:
    """The axes of a function's parameters that go along the moved ones of its result.

    None for a function whose result cannot be moved; a parameter without such axes is left out.
    """
    nest = _only_nest(function)
    if nest is None:
        return None
    wanted = [nest.stores[0].indices[axis] for axis in end.range]
    if not all(isinstance(one, ir.Var) for one in wanted):
        return None
    found: dict[ir.Var, set[MovedAxes | None]] = {}

    def note(load: ir.TensorLoad) -> None:
        used = [n for n, index in enumerate(load.indices) if uses(index, wanted)]
        axes = MovedAxes(used[0], len(used)) if used else None
        is_so = axes is not None and _along(nest, load, axes) == end
        found.setdefault(load.source, set()).add(axes if is_so else None)

    tvm_ffi.structural_walk(nest.stores[0].value, (ir.TensorLoad, note))
    moved = {}
    for number, parameter in enumerate(function.params[:-1]):
        (axes, *others) = found.get(parameter, {None})
        if axes is not None and not others:
            moved[number] = axes
    return moved


def _along(nest: LoopNest, load: ir.TensorLoad, axes: MovedAxes) -> MovedAxes | None:
    """The axes of the store that a load's moved axes go along, and none of its others."""
    stored = nest.stores[0].indices
    spatial = [axis.var for axis in nest.spatial]
    moved = [index for axis, index in enumerate(load.indices) if axis in axes.range]
    others = [index for axis, index in enumerate(load.indices) if axis not in axes.range]
    found = [
        place
        for place, index in enumerate(stored)
        if isinstance(index, ir.Var)
        and index in spatial
        and any(uses(one, [index]) for one in moved)
        and not any(uses(one, [index]) for one in others)
    ]
    if not found or found != list(range(found[0], found[-1] + 1)):
        return None
    return MovedAxes(found[0], len(found))


def _only_nest(function: tirx.PrimFunc) -> LoopNest | None:
    """The only nest of a function, with one store to its last parameter."""
    form = nests_of(function)
    if form is None or len(form.nests) != 1 or form.buffers:
        return None
    (nest,) = form.nests
    stores = [*nest.stores, *nest.init]
    if nest.cells or len(nest.stores) != 1 or len(nest.init) > 1:
        return None
    return nest if all(one.buffer.same_as(function.params[-1]) for one in stores) else None
