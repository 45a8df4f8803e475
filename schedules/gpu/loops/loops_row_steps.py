"""The nests of a row, in the order of passes, and their elements in axes of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tvm import ir

from tvm_iree_ext.schedules.emit import Expr, i64
from tvm_iree_ext.schedules.gpu.loops.loops_lanes import At, spread
from tvm_iree_ext.schedules.shared.loops.loops_combiners import Combiner, combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, LoopNest, linear_index, loads_of
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, merged


@dataclass
class RowMemory(NestMemory):
    """The function's memory, and the values of what it writes at the elements of a lane."""

    values: dict[ir.Var, Expr] = field(default_factory=dict)

    def load(self, buffer: ir.Var, position: Expr) -> Expr:
        """The element of a buffer: its value here, where it has one."""
        found = self.values.get(buffer)
        return super().load(buffer, position) if found is None else found


@dataclass(frozen=True)
class RowStep:
    """A nest of a row, as often as it is planned or emitted."""

    nest: LoopNest
    level: int  # the pass in which all that it reads is known

    @property
    def buffer(self) -> ir.Var:
        """What it writes."""
        buffer: ir.Var = self.nest.stores[0].buffer
        return buffer

    @property
    def is_single(self) -> bool:
        """Whether it computes one element of a row of others."""
        return not self.nest.axes

    @cached_property
    def read(self) -> frozenset[ir.Var]:
        """What it reads."""
        return frozenset(one for value in self.nest.values() for one in loads_of(value))

    @cached_property
    def combiner(self) -> Combiner:
        """How it reduces, where it does."""
        found = combiner_of(self.nest.stores[0].value, self.buffer)
        assert found is not None, "a chain of rows reduces by combiners"
        return found

    @property
    def element(self) -> Expr:
        """What is computed at a point of its axes: its value, or what it adds to one."""
        return self.combiner.element if self.nest.reduced else self.nest.stores[0].value


def row_steps(nests: Sequence[LoopNest]) -> list[RowStep]:
    """The nests, each with the pass in which all that it reads is known."""
    levels: dict[ir.Var, int] = {}  # from which pass on a buffer is known
    steps = []
    for nest in nests:
        read = [one for value in nest.values() for one in loads_of(value)]
        (store,) = nest.stores
        level = max((levels.get(one, 0) for one in read if one is not store.buffer), default=0)
        steps.append(RowStep(nest, level))
        levels[store.buffer] = level + bool(nest.reduced)
    return steps


@dataclass(frozen=True)
class RowLine:
    """A nest's elements in its own axes: what is read, and what in runs along the last axis."""

    axes: tuple[Axis, ...]
    gone: dict[ir.Var, Expr]
    look: NestPoint
    cells: Cells

    @staticmethod
    def of(step: RowStep, memory: RowMemory) -> "RowLine":
        """The line of a nest with axes."""
        nest, cells = step.nest, Cells()
        look = NestPoint(memory, {}, nest, cells)
        look.value(step.element)
        stored = [
            linear_index(s.buffer, list(s.indices))
            for s in nest.stores
            if not nest.reduced and s.buffer in memory.flat
        ]
        read = [one.position for one in look.accesses if one.buffer in memory.flat]
        steps = Steps((*stored, *read), nest.axes)
        axes = tuple(merged(nest.axes, steps, look.named))
        return RowLine(axes, {axis.var: i64(0) for axis in nest.axes}, look, cells)

    def at(self, element: Expr) -> At:
        """The values of the axes at an element of the row."""
        return {**self.gone, **spread(element, self.axes)}
