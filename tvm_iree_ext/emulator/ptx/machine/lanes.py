"""Warps that are executed together, and those of their lanes that execute an instruction."""

import copy
from typing import Any, TypeVar

import numpy as np

from tvm_iree_ext.emulator.findings import Faults, Site, Where
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction

SomeLanes = TypeVar("SomeLanes", bound="Lanes")

WARP = 32
"""Lanes of a warp."""


class Warps:
    """Some warps of each of several workgroups.

    Attributes:
        groups: the workgroup of each warp, by its number among ``places``.
        numbers: of each warp in its workgroup.
        faults: what is found goes there.
    """

    def __init__(
        self, places: list[tuple[int, int, int]], numbers: np.ndarray, faults: Faults
    ) -> None:
        self._places, self.faults = places, faults
        self.groups = np.repeat(np.arange(len(places)), len(numbers))
        self.numbers = np.tile(numbers, len(places))

    @property
    def size(self) -> int:
        """How many warps."""
        return len(self.groups)

    def where(self, index: tuple[int, ...]) -> Where:
        """A lane by its warp here and its number."""
        row, lane = index
        return Where(self._places[self.groups[row]], int(self.numbers[row]), int(lane))

    def alive(self) -> np.ndarray:
        """[warps, 32]: lanes that there are and that have not ended."""
        return np.ones((self.size, WARP), bool)


class Lanes:
    """The lanes that execute an instruction, of some warps.

    Attributes:
        warps: whose lanes they are.
        rows: which of the warps; None for all.
        mask: [warps, 32], which lanes take part; None for all.
        count: how many warps.
        groups: the workgroup of each warp, [warps].
        instruction: that is executed.
    """

    def __init__(self, warps: Warps, rows: np.ndarray | None, mask: np.ndarray | None) -> None:
        self.warps, self.rows, self.mask = warps, rows, mask
        self.groups: np.ndarray = warps.groups if rows is None else warps.groups[rows]
        self.count = len(self.groups)
        self.instruction: PtxInstruction | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """[warps, 32]."""
        return self.count, WARP

    @property
    def active(self) -> np.ndarray:
        """The mask, as an array in any case."""
        return np.ones(self.shape, bool) if self.mask is None else self.mask

    def alive(self) -> np.ndarray:
        """Lanes of these warps that have not ended."""
        whole = self.warps.alive()
        return whole if self.rows is None else whole[self.rows]

    def part(self: SomeLanes, mask: np.ndarray | None) -> SomeLanes:
        """Other lanes of the same warps, at the same instruction."""
        found = copy.copy(self)
        found.mask = mask
        return found

    def full(self, value: Value) -> np.ndarray:
        """A value as an array [warps, 32]."""
        return np.broadcast_to(value, self.shape)

    def over_warps(self, mask: np.ndarray) -> np.ndarray:
        """A mask of these warps as one of all warps."""
        if self.rows is None:
            return mask
        whole = np.zeros((self.warps.size, WARP), bool)
        whole[self.rows] = mask
        return whole

    def of_warps(self, mask: np.ndarray) -> np.ndarray:
        """The inverse: of a mask of all warps that of these."""
        return mask if self.rows is None else mask[self.rows]

    @property
    def site(self) -> Site:
        """The instruction, for findings."""
        return Site(self.instruction.text if self.instruction else "", self._where)

    def _where(self, index: tuple[int, ...]) -> Where:
        row, lane = index[-2:]
        return self.warps.where((row if self.rows is None else int(self.rows[row]), lane))

    def found(
        self, kind: str, message: str, lanes: Any = None, addresses: np.ndarray | None = None
    ) -> None:
        """A finding of those lanes for which ``lanes`` is true; by default of all."""
        wrong = self.active if lanes is None else self.full(lanes) & self.active
        self.warps.faults.add_lanes(kind, message, self.site, wrong, addresses)

    def uniform(self, value: Value) -> np.ndarray:
        """The values that active lanes have, each once."""
        if np.ndim(value) == 0:
            return np.asarray(value).reshape(1)
        whole = self.full(value)
        return np.unique(whole if self.mask is None else whole[self.mask])
