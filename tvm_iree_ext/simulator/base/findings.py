"""Findings of a simulation: races, divergence, memory that nobody wrote, and where."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

RACE = "race"
BARRIER = "divergent barrier"
SHUFFLE = "divergent shuffle"
UNINITIALISED = "uninitialised"
BOUNDS = "out of bounds"
DISAGREEMENT = "disagreement"
UNWAITED = "unwaited copy"
MISALIGNED = "misaligned"
INSTRUCTION = "instruction"

KINDS = {
    RACE: "two lanes, one element, no barrier between, one of them writes",
    BARRIER: "some lanes of the workgroup do not reach a barrier, or wait for ever",
    SHUFFLE: "a subgroup operation takes from, or names, lanes that do not take part",
    UNINITIALISED: "a branch, an address or a result depends on memory that nobody wrote",
    BOUNDS: "an index is outside its buffer",
    DISAGREEMENT: "lanes store different values into one element in one statement",
    UNWAITED: "memory or registers are used while an asynchronous operation has them",
    MISALIGNED: "an access is not aligned to its width",
    INSTRUCTION: "an instruction's rule about its operands is broken",
}
"""Every kind of finding, and what it means."""


@dataclass(frozen=True)
class Finding:
    """One kind of fault in one statement; the first of its kind there stands for all."""

    kind: str
    message: str
    statement: str
    lanes: tuple[int, ...]
    workgroup: tuple[int, int, int]
    buffer: str | None = None
    element: int | None = None
    count: int = 1

    def __str__(self) -> str:
        more = f" ({self.count} times)" if self.count > 1 else ""
        where = f"in workgroup {self.workgroup}, at {self.statement}"
        return f"{self.kind}: {self.message}{more}\n  {where}"


class Findings:
    """Collects what is found; the same kind in the same statement and buffer is counted."""

    def __init__(self, statement_text: Callable[[int], str]) -> None:
        self.statement_text = statement_text
        self._tally: dict[tuple[str, int, str | None], tuple[Finding, int]] = {}

    def add(
        self,
        kind: str,
        statement: int,
        workgroup: tuple[int, int, int],
        lanes: Iterable[int],
        message: str,
        buffer: str | None = None,
        element: int | None = None,
    ) -> None:
        """One more; ``statement`` is its number in the kernel."""
        key = (kind, statement, buffer)
        if key in self._tally:
            first, count = self._tally[key]
            self._tally[key] = (first, count + 1)
            return
        text = self.statement_text(statement)
        finding = Finding(kind, message, text, tuple(map(int, lanes)), workgroup, buffer, element)
        self._tally[key] = (finding, 1)

    def list(self) -> list[Finding]:
        """All, in the order in which they were found."""
        return [
            Finding(**(vars(finding) | {"count": count})) for finding, count in self._tally.values()
        ]


def some(lanes: Iterable[int], most: int = 6) -> str:
    """Lanes in words: ``lane 3``, ``lanes 0, 1, 2 and 29 more``."""
    numbers = list(map(int, lanes))
    shown = ", ".join(map(str, numbers[:most]))
    rest = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"lane {shown}" if len(numbers) == 1 else f"lanes {shown}{rest}"
