"""An instruction of a hot loop as a core's scheduler sees it, whoever's chip it is."""

from dataclasses import dataclass, field

Register = tuple[str, int]
Registers = frozenset[Register]

MATRIX, VECTOR, SCALAR, LDS, MEMORY = "matrix", "vector", "scalar", "lds", "memory"
WAIT, BARRIER, PRIORITY, BRANCH = "wait", "barrier", "priority", "branch"


@dataclass(frozen=True)
class LoopStep:
    """An instruction.

    Attributes:
        unit: that executes it; a wait, a barrier and a priority have none.
        cycles: for which it occupies the unit.
        kept: cycles for which a matrix unit waits for shared memory beyond that.
        beside: other units that it occupies, and for how many cycles.
        ahead: cycles of turns that may wait at its units when it is issued.
        stall: cycles until the subgroup's next instruction, if more than an issue.
        answer: cycles until its result is there, beyond its turn.
        reads: registers of lanes that must be there.
        adds: those that a matrix instruction adds to, which it may have from the one before it.
        writes: registers of lanes that it makes.
        counters: that it counts in, and the cycles beyond its turn until it is done there.
        held: likewise, and the cycles from its issue.
        bytes: of a subgroup, to or from shared or global memory.
        left: how many of each counter may be under way when it is issued.
        level: of a priority.
    """

    unit: str
    cycles: int = 0
    answer: int = 0
    reads: Registers = frozenset()
    adds: Registers = frozenset()
    writes: Registers = frozenset()
    counters: tuple[tuple[str, int], ...] = ()
    held: tuple[tuple[str, int], ...] = ()
    bytes: int = 0
    left: tuple[tuple[str, int], ...] = ()
    level: int = 0
    stall: int = 0
    ahead: int = 0
    kept: int = 0
    beside: tuple[tuple[str, int], ...] = ()
    text: str = field(default="", compare=False)

    @property
    def units(self) -> tuple[tuple[str, int], ...]:
        """All units that it occupies, its own first, and for how many cycles."""
        return ((self.unit, self.cycles + self.kept), *self.beside)
