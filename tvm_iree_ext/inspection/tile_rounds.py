"""What workgroups read through the second cache, by the order of their tiles, and their last round.

rounds      as many workgroups as all cores keep at once, one round after the other
tail        share of all rounds' places that nobody takes, which is in the last one
L2          bytes that workgroups read: each all that its tile takes
memory      of these, what the first workgroup of a round brings, if no round finds anything
            that an earlier one left
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Panels = tuple[int, int]


@dataclass(frozen=True)
class TileReads:
    """The panels of operands that workgroups read, in the order in which they are launched.

    Attributes:
        panels: of each tile: the numbers of the first operand's panel, and of the second's.
        panel_bytes: of a panel of each.
        shared_out: whether what is left of the last round is shared out to all workgroups.
    """

    panels: Sequence[Panels]
    panel_bytes: tuple[int, int]
    shared_out: bool = False

    def rounds(self, at_once: int) -> "Rounds":
        """The rounds of so many workgroups."""
        places = -(-len(self.panels) // at_once) * at_once
        first, second = self.panel_bytes
        moved = 0
        for begin in range(0, len(self.panels), at_once):
            of_round = self.panels[begin : begin + at_once]
            moved += first * len({one for one, _ in of_round})
            moved += second * len({other for _, other in of_round})
        return Rounds(
            tail=0.0 if self.shared_out else 1 - len(self.panels) / places,
            l2_bytes=(first + second) * len(self.panels),
            memory_bytes=moved,
        )


@dataclass(frozen=True)
class Rounds:
    """Figures of a kernel's rounds; see the module."""

    tail: float
    l2_bytes: int
    memory_bytes: int

    @property
    def bytes(self) -> tuple[int, int]:
        """Through the second cache, and of these from memory."""
        return self.l2_bytes, self.memory_bytes


def row_by_row(rows: int, columns: int, groups: int = 1) -> Iterator[Panels]:
    """Tiles of each group, row after row.

    >>> list(row_by_row(2, 2))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    for group in range(groups):
        for row in range(rows):
            for column in range(columns):
                yield group * rows + row, group * columns + column


def in_bands(rows: int, columns: int, band: int) -> Iterator[Panels]:
    """Tiles of bands of so many rows, each column by column.

    >>> list(in_bands(3, 2, band=2))
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    for first in range(0, rows, band):
        for column in range(columns):
            for row in range(first, min(rows, first + band)):
                yield row, column
