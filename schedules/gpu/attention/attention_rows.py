"""Rows of an accumulator by lane, and the registers that are neighbours in a row."""

from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.layout.nested import Ints


@dataclass(frozen=True)
class LaneRows:
    """The rows of an instruction's tile that each lane has.

    Attributes:
        held: ``[lanes, slots]``: the rows.
        slots: of each register of the accumulator.
        masks: lanes that differ by an exclusive or with these have the same rows.
    """

    held: np.ndarray
    slots: Ints
    masks: Ints

    @property
    def count(self) -> int:
        """Of a lane."""
        return self.held.shape[1]


def rows_of(coordinates: np.ndarray) -> LaneRows:
    """The rows of an accumulator's coordinates ``[lanes, registers, 2]``."""
    rows = coordinates[..., 0]
    slots: list[int] = []
    firsts: list[int] = []
    for register in range(rows.shape[1]):
        same = (
            at for at, first in enumerate(firsts) if (rows[:, first] == rows[:, register]).all()
        )
        slot = next(same, len(firsts))
        if slot == len(firsts):
            firsts.append(register)
        slots.append(slot)
    held = rows[:, firsts]
    lanes = np.arange(len(held))
    bits = (1 << bit for bit in range(len(held).bit_length() - 1))
    masks = tuple(mask for mask in bits if (held[lanes ^ mask] == held).all())
    return LaneRows(held, tuple(slots), masks)


def side_by_side(columns: np.ndarray, slots: Ints, most: int) -> list[tuple[int, int]]:
    """Registers of one row whose columns follow each other in every lane: first and count.

    Counts are powers of two, at most ``most``, and the first column a multiple of the count.
    """
    found, at = [], 0
    while at < len(slots):
        count = 1
        while 2 * count <= most and at + 2 * count <= len(slots):
            both = slice(at, at + 2 * count)
            run = columns[:, both] - columns[:, at : at + 1]
            aligned = not (columns[:, at] % (2 * count)).any()
            if (run != np.arange(2 * count)).any() or len(set(slots[both])) > 1 or not aligned:
                break
            count *= 2
        found.append((at, count))
        at += count
    return found
