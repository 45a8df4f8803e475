"""Cycles of a core's parts that every vendor's chips have."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tvm_iree_ext.base.errors import TargetError

Timing = TypeVar("Timing", bound="CoreTiming")
Figure = TypeVar("Figure")


@dataclass(frozen=True, kw_only=True)
class CoreTiming:
    """Cycles and widths of a core's parts.

    Attributes:
        issue_cycles: from one instruction of a subgroup to its next, and of a scheduler to its
            next turn.
        one_issue: whether a scheduler issues one instruction in a turn, of the subgroup that had
            the last one if it can; else one for each unit.
        lds_ports: to shared memory; schedulers share them evenly.
        lds_answer_cycles: of a read, beyond its turn.
        memory_bytes: to and from global memory of a core, a cycle.
        memory_answer_cycles: of a load, beyond its turn.
        branch_cycles: of a branch that is taken.
        most: that a subgroup may wait for, by counter.
        of_peak: the share of the data sheet's peak that the matrix instructions at hand have.
    """

    issue_cycles: int
    one_issue: bool
    lds_ports: int
    lds_answer_cycles: int
    memory_bytes: int
    memory_answer_cycles: int
    branch_cycles: int
    most: Mapping[str, int]
    of_peak: float = 1.0

    def with_answers(self: Timing, factor: float) -> Timing:
        """With slower or faster answers of LDS and global memory: they are the least certain."""
        return replace(
            self,
            lds_answer_cycles=round(self.lds_answer_cycles * factor),
            memory_answer_cycles=round(self.memory_answer_cycles * factor),
        )


def of_mnemonic(table: Iterable[tuple[str, Figure]], mnemonic: str) -> Figure:
    """What a table has for the first pattern that an instruction's name begins with.

    Raises:
        TargetError: for one that no pattern matches.
    """
    for pattern, figure in table:
        if re.match(pattern, mnemonic):
            return figure
    raise TargetError(f"{mnemonic}: its cycles are not known")
