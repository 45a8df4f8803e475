"""Data that move between two operands, each addressed by constant steps along common loops.

    near[a(i)] = far[b(i)]   or   far[b(i)] = near[a(i)]       for i over all loops

``near`` is the vector side: its last loop runs along its memory.  ``far`` may also be addressed by
symbols, which are read from tables at places of their own (the indices of a gather), and positions
may be left out by a mask, or where they pass the bounds of a smaller tensor.

Loops that every operand walks alike are merged, so rank and form of an op vanish: rows that lie
together in both operands become one run, and an index for each element a gather along one loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_iree_ext.schedules.emit import Index

Steps = tuple[Index, ...]
"""How far an operand moves with each loop."""


@dataclass(frozen=True)
class StridedLoops:
    """Extents, slow to fast, and the steps of operands by name."""

    extents: tuple[int, ...]
    steps: Mapping[str, Steps]

    def merged(self) -> "StridedLoops":
        """The same walk in as few loops as can be; there is at least one."""
        kept = [loop for loop, extent in enumerate(self.extents) if extent > 1]
        extents: list[int] = []
        steps: dict[str, list[Index]] = {name: [] for name in self.steps}
        for loop in kept:
            extent = self.extents[loop]
            here = {name: one[loop] for name, one in self.steps.items()}
            if extents and all(_follows(steps[name][-1], here[name], extent) for name in here):
                extents[-1] *= extent
                for name, step in here.items():
                    steps[name][-1] = step
                continue
            extents.append(extent)
            for name, step in here.items():
                steps[name].append(step)
        if not extents:
            return StridedLoops((1,), dict.fromkeys(steps, (0,)))
        return StridedLoops(tuple(extents), {name: tuple(one) for name, one in steps.items()})

    def step(self, name: str, loop: int) -> Index:
        """How far an operand moves with a loop; one that has no steps does not move."""
        return self.steps[name][loop] if name in self.steps else 0

    def moves(self, name: str, loop: int) -> bool:
        """Whether an operand moves with a loop."""
        step = self.step(name, loop)
        return not isinstance(step, int) or step != 0


def _follows(outer: Index, inner: Index, extent: int) -> bool:
    """Whether a loop's next step goes on where ``extent`` steps of the loop inside it end."""
    if isinstance(outer, int) and isinstance(inner, int):
        return outer == inner * extent
    return False


@dataclass(frozen=True)
class TableNumber:
    """A number read from a table, and how far it moves ``far`` and the bounds.

    The table's steps are those of ``name``; ``moves`` is by name, per unit of the number.  Where it
    ``is_summed`` in a bound, one so large that sums could overflow is taken for a smaller one.
    """

    name: str
    moves: Mapping[str, Index]
    is_summed: bool = False


@dataclass(frozen=True)
class StridedBound:
    """Positions are left out where ``name``, a coordinate, is ``limit`` or more.

    And where it is below ``least``, without which it is known to be none that is too small.
    """

    name: str
    limit: Index
    least: Index | None = None


@dataclass(frozen=True)
class Walk:
    """A walk of loops over strided operands, and what each does in them.

    The steps of ``loops`` are of ``near``, ``far``, ``mask`` (where there is one), and of each
    symbol and bound.  ``starts`` says where they begin, if not at 0.
    """

    loops: StridedLoops
    starts: Mapping[str, Index] = field(default_factory=dict)
    symbols: Sequence[TableNumber] = ()
    bounds: Sequence[StridedBound] = ()

    @property
    def last(self) -> int:
        """The loop that runs along near's memory."""
        return len(self.loops.extents) - 1

    @property
    def has_mask(self) -> bool:
        """Whether a mask leaves positions out."""
        return "mask" in self.loops.steps

    def guarded(self, loop: int) -> bool:
        """Whether what is left out depends on a loop."""
        moved = self.loops.moves("mask", loop) or bool(self.growing(loop))
        return moved or any(self.reads(one, loop) for one in self.bounds)

    def reads(self, bound: StridedBound, loop: int) -> bool:
        """Whether a coordinate depends on a symbol that changes with a loop."""
        return any(bound.name in one.moves for one in self.gathered(loop))

    def growing(self, loop: int) -> list[StridedBound]:
        """The bounds whose coordinates only grow with a loop."""
        return [
            one
            for one in self.bounds
            if self.loops.moves(one.name, loop) and not self.reads(one, loop)
        ]

    def gathered(self, loop: int) -> list[TableNumber]:
        """The symbols that change with a loop."""
        return [one for one in self.symbols if self.loops.moves(one.name, loop)]

    @property
    def crossing(self) -> int | None:
        """The loop along far's memory, where it is not the last, and tiles can be transposed.

        What is left out may depend on the last loop's symbols, by which it is asked tile by tile.
        """
        last = self.last
        far = self.loops.step("far", last)
        if isinstance(far, int) and far in (0, 1) and not self.gathered(last):
            return None
        for loop in range(last):
            if self.loops.step("far", loop) == 1 and not self.gathered(loop):
                ragged = self.loops.moves("mask", last) or self.growing(last)
                return None if self.guarded(loop) or ragged else loop
        return None
