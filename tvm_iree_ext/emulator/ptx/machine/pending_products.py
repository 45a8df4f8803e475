"""Products that go on while lanes do something else: those of ``wgmma``.

Source: PTX ISA 9.0, *Asynchronous Warpgroup Level Matrix Instructions*: until their group is waited
for, their accumulators are not to be touched, and their tiles not to be changed.  They end as late
as they may, and their registers hold noise until then; or at once (``early``).  The first shows
waits for products that are missing, the second waits for the tiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tvm_iree_ext.emulator.findings import INSTRUCTION
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value

_NOISE = 0xFFA5A5A5  # of float32 a NaN

Registers = tuple[Value, ...]


class WarpgroupProduct(Protocol):
    """A product with its operands, as they were when it began."""

    @property
    def held(self) -> Registers:
        """The accumulator's registers."""

    def result(self, lanes: Any, held: Registers) -> Registers:
        """The accumulator's registers afterwards; it reads its tiles now."""

    def some(self, chosen: np.ndarray) -> "WarpgroupProduct":
        """The same of some of its warps."""


@dataclass
class _Started:
    product: WarpgroupProduct
    rows: np.ndarray
    groups: np.ndarray  # the number of commits before, of each row
    slots: tuple[int, ...]
    lanes: Lanes


Put = Callable[[int, np.ndarray, Value], None]
"""``put(slot, rows, value)``: registers of some warps."""

Again = Callable[[Lanes, np.ndarray], Any]
"""``again(lanes, rows)``: an instruction's lanes, of these warps."""


class PendingProducts:
    """The products of some warps that have not ended, in the groups that were committed."""

    def __init__(self, size: int, *, early: bool) -> None:
        self._early, self._size = early, size
        self._committed = np.zeros(size, np.int64)
        self._fenced = np.zeros(size, bool)
        self._started: list[_Started] = []
        # Accumulators of products that have ended, to which one that has not will add.
        self._between: dict[tuple[int, ...], tuple[np.ndarray, list[np.ndarray]]] = {}

    def fence(self, lanes: Lanes) -> None:
        """*wgmma.fence*: registers that were written before may be a product's."""
        self._fenced[self._rows(lanes)] = True

    def start(self, lanes: Lanes, product: WarpgroupProduct, slots: tuple[int, ...]) -> Registers:
        """Begin a product: what its registers hold from now on.

        The first one comes after a fence; whether later ones need one is not looked at.
        """
        if not self._fenced[self._rows(lanes)].all():
            lanes.found(INSTRUCTION, "there has been no wgmma.fence")
        if self._early:
            return product.result(lanes, product.held)
        rows = self._rows(lanes)
        groups = self._committed[rows].copy()
        self._started.append(_Started(product, rows, groups, slots, lanes.part(lanes.mask)))
        kind = np.asarray(product.held[0]).dtype
        noise = np.array(_NOISE, np.uint32).view(kind)[()]
        return (noise,) * len(slots)

    def commit(self, lanes: Lanes) -> None:
        """Close a group."""
        self._committed[self._rows(lanes)] += 1

    def wait(self, lanes: Lanes, newest: int, again: Again, put: Put) -> None:
        """All groups but the newest ones end."""
        waiting = np.zeros(self._size, bool)
        waiting[self._rows(lanes)] = True
        kept: list[_Started] = []
        for place, one in enumerate(self._started):
            ending = waiting[one.rows] & (one.groups < self._committed[one.rows] - newest)
            if ending.any():
                later = self._started[place + 1 :]
                self._end(one, ending, later, again, put)
            if not ending.all():
                rest = ~ending
                kept.append(
                    _Started(
                        one.product.some(rest), one.rows[rest], one.groups[rest], one.slots,
                        one.lanes,
                    )
                )  # fmt: skip
        self._started = kept

    def _end(
        self,
        one: _Started,
        ending: np.ndarray,
        later: Sequence[_Started],
        again: Again,
        put: Put,
    ) -> None:
        whole = ending.all()
        rows = one.rows if whole else one.rows[ending]
        product = one.product if whole else one.product.some(ending)
        held = product.held
        if (before := self._between.get(one.slots)) is not None:
            known, registers = before
            held = tuple(
                np.where(known[rows][:, None], register[rows], value)
                for register, value in zip(registers, held, strict=True)
            )
            known[rows] = False
        result = product.result(again(one.lanes, rows), held)
        # Registers that a later product adds to are its own.
        taken = np.zeros(self._size, bool)
        for other in later:
            if other.slots == one.slots:
                taken[other.rows] = True
        if taken[rows].any():
            self._keep(one.slots, rows, result)
        else:
            for slot, value in zip(one.slots, result, strict=True):
                put(slot, rows, value)

    def _keep(self, slots: tuple[int, ...], rows: np.ndarray, result: Registers) -> None:
        if slots not in self._between:
            empty = [np.zeros((self._size, WARP), np.asarray(one).dtype) for one in result]
            self._between[slots] = np.zeros(self._size, bool), empty
        known, registers = self._between[slots]
        known[rows] = True
        for register, value in zip(registers, result, strict=True):
            register[rows] = value

    def _rows(self, lanes: Lanes) -> np.ndarray:
        return np.arange(self._size) if lanes.rows is None else lanes.rows
