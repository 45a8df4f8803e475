"""Values combined over the lanes and subgroups of a workgroup, by any function.

A layout says which lanes and subgroups share what lies along one of its dimensions.  Lanes of a
subgroup exchange values by shuffles; what each subgroup found goes through shared memory:

    reduce   lane ^ 1, lane ^ 2, ...; then every lane combines what the subgroups left there
    scan     from 1, 2, 4, ... lanes before; then what the subgroups before left there

Values are tuples, so that a value travels with its index, or a maximum with its sum; a lane may
have several of them, its *slots*, each of another line.  Neighbours are combined with the earlier
one first, which is all that a function needs that does not commute.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import shuffled
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.tir.tir_expressions import Expr

Values: TypeAlias = tuple[Expr, ...]
Combine: TypeAlias = Callable[[Values, Values], Values]
"""Combination of two neighbouring parts: the earlier and the later one."""


def digits(layout: NestedLayout, workgroup: WorkgroupIds) -> tuple[list[Expr], list[Expr]]:
    """The subgroup's and the lane's digit of each dimension of a layout."""

    def digit(number: Any, tile: int, stride: int, count: int) -> Expr:
        if tile == 1:
            return tirx.const(0, "int32")
        shifted = number // stride if stride > 1 else number
        return shifted % tile if tile * stride < count else shifted

    count, size = workgroup.hardware
    tiles = zip(layout.subgroup_tile, layout.subgroup_strides, strict=True)
    subgroup = [digit(workgroup.subgroup, *one, count) for one in tiles]
    tiles = zip(layout.thread_tile, layout.thread_strides, strict=True)
    return subgroup, [digit(workgroup.lane, *one, size) for one in tiles]


class Across:
    """The lanes and subgroups over which a layout spreads one dimension, while code is emitted.

    Every lane of the workgroup takes part in all that is emitted.

    Args:
        workgroup: whose lanes these are.
        layout: of what the workgroup holds.
        dim: the dimension.
        dtypes: of a tuple's values, none of them a bool.
        slots: how many tuples each lane has.
        commutes: whether functions may be given the later part first.
    """

    def __init__(
        self,
        workgroup: WorkgroupIds,
        layout: NestedLayout,
        dim: int,
        dtypes: Sequence[str],
        slots: int = 1,
        *,
        commutes: bool = False,
    ) -> None:
        self.workgroup, self.slots, self.commutes = workgroup, slots, commutes
        self.lanes, self.stride = layout.thread_tile[dim], layout.thread_strides[dim]
        self.parts = layout.subgroup_tile[dim]
        subgroup, lane = digits(layout, workgroup)
        self.digit, self.part = lane[dim], subgroup[dim]
        others = [at for at in range(layout.rank) if at != dim]
        self.apart = _row_major([subgroup[at] for at in others] + [lane[at] for at in others], (
            *(layout.subgroup_tile[at] for at in others), *(layout.thread_tile[at] for at in others)
        ))  # fmt: skip
        self.groups = prod(layout.subgroup_tile + layout.thread_tile) // (self.lanes * self.parts)
        self.shared = []
        if self.parts > 1:
            self.shared = [
                I.alloc_buffer((slots * self.parts * self.groups,), dtype, scope="shared")
                for dtype in dtypes
            ]

    def reduce(self, values: Sequence[Values], combine: Combine) -> list[Values]:
        """Reduce the whole dimension, for each slot, in each of its lanes."""
        found = [self._reduced(each, combine) for each in values]
        if self.parts == 1:
            return found
        self.leave(found, self.digit == 0 if self.lanes > 1 else None)
        totals = []
        for slot in range(self.slots):
            total = self.left(slot, 0)
            for part in range(1, self.parts):
                total = _held(combine(total, self.left(slot, part)))
            totals.append(total)
        return totals

    def _reduced(self, values: Values, combine: Combine) -> Values:
        step = 1
        while step < self.lanes:
            mask = tirx.const(step * self.stride, "int32")
            others = self.taken(values, tirx.bitwise_xor(self.workgroup.lane, mask))
            if self.commutes:
                values = _held(combine(values, others))
            else:
                upper = (self.digit // step) % 2 == 1
                earlier = _chosen(upper, others, values)
                values = _held(combine(earlier, _chosen(upper, values, others)))
            step *= 2
        return values

    def scan_lanes(self, values: Values, combine: Combine) -> Values:
        """Inclusive scan over the lanes of a subgroup."""
        values, step = _held(values), 1
        while step < self.lanes:
            before = self.taken(values, self._lane(-step))
            both = _held(combine(before, values))
            values = _held(_chosen(self.digit >= step, both, values))
            step *= 2
        return values

    def before(self, values: Values) -> Values:
        """The values of the lane before; of the first lane, whatever."""
        return self.taken(values, self._lane(-1)) if self.lanes > 1 else values

    def last(self, values: Values) -> Values:
        """The values of the last lane."""
        return self.taken(values, self._lane(self.lanes - 1 - self.digit))

    def of_digit(self, values: Values, digit: Expr) -> Values:
        """The values of the lane of a digit."""
        return self.taken(values, self._lane(digit - self.digit))

    def _lane(self, distance: Any) -> Expr:
        """The lane so many digits on; this one where there is none."""
        lane = self.workgroup.lane + distance * self.stride
        if isinstance(distance, int):
            return tirx.Select(self.digit >= -distance, lane, self.workgroup.lane)
        return lane

    def taken(self, values: Values, lane: Expr) -> Values:
        """The values of another lane."""
        if self.lanes == 1:
            return values
        source = held(lane)
        return _held(tuple(shuffled(one, source, self.workgroup) for one in values))

    def leave(self, values: Sequence[Values], condition: Expr | None) -> None:
        """Each subgroup's values to shared memory, by the lanes for which the condition holds."""
        for slot, each in enumerate(values):
            for memory, value in zip(self.shared, each, strict=True):
                place = [self._place(slot, self.part)]
                if condition is None:
                    I.buffer_store(memory, value, place)
                else:
                    with I.If(condition), I.Then():
                        I.buffer_store(memory, value, place)

    def left(self, slot: int, part: int) -> Values:
        """Values that a subgroup has left in shared memory."""
        return _held(tuple(memory[self._place(slot, part)] for memory in self.shared))

    def _place(self, slot: int, part: Any) -> Expr:
        """Neighbours in memory are of neighbouring lanes."""
        return (slot * self.parts + part) * self.groups + self.apart


def _held(values: Values) -> Values:
    return tuple(map(held, values))


def _chosen(condition: Expr, yes: Values, no: Values) -> Values:
    return tuple(tirx.Select(condition, a, b) for a, b in zip(yes, no, strict=True))


def _row_major(index: Sequence[Expr], extents: Ints) -> Expr:
    flat: Expr = tirx.const(0, "int32")
    for at, extent in zip(index, extents, strict=True):
        flat = flat * extent + at
    return flat
