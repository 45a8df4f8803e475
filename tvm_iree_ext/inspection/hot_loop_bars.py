"""What is asked of hot loops: shares of the matrix units' time, IREE's figures, exceptions.

``hot_loops.json`` has the shares that are asked for, and what IREE's code has in the same model and
in counts; ``hot_loop_exceptions.json`` the cells that are known to be below, each with its reason.
No GPU was used for any of these.
"""

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

REACHED, NAMED, BELOW = "reached", "named", "below"

_SLACK = 0.02  # by which shares of one loop differ with the moments at which memory answers

Cell = tuple[str, str, str]
"""A case, a chip, an order of B."""


@dataclass(frozen=True)
class Bar:
    """Counts of IREE's code; None where they were not taken, or say nothing of a useful operation.

    Of attention FLOP are useful ones: IREE computes some of them several times.
    """

    per_mma: float | None = None
    flops_per_instruction: float | None = None
    narrowest_shared: int | None = None
    spills: int = 0


@dataclass(frozen=True)
class NamedException:
    """A cell that is below its bar: the share that it has, what it spills, and why."""

    share: float
    reason: str
    spills: int = 0


@dataclass(frozen=True)
class ShareBar:
    """The least share of the matrix units' time of a cell: the case's, and IREE's if known."""

    wanted: float
    iree: float | None
    exception: NamedException | None

    def verdict(self, share: float, spills: int = 0) -> str:
        """Of a share: reached, without spills; below as it is known to be; or below."""
        if not spills and round(share, 2) >= max(self.wanted, self.iree or 0.0):
            return REACHED
        known = self.exception
        if known and share >= known.share - _SLACK and spills <= known.spills:
            return NAMED
        return BELOW


def _data(name: str) -> Any:
    return json.loads(files("tvm_iree_ext.inspection").joinpath(name).read_text())


@functools.cache
def bars() -> dict[Cell, Bar]:
    """IREE's counts."""
    return {cell: Bar(**figures) for cell, figures in _cells(_data("hot_loops.json")["figures"])}


@functools.cache
def exceptions() -> dict[Cell, NamedException]:
    """The cells that are known to be below their bar."""
    data = _data("hot_loop_exceptions.json")
    return {
        cell: NamedException(one["share"], data["reasons"][one["reason"]], one.get("spills", 0))
        for cell, one in _cells(data["cells"])
    }


def _cells(nested: Any) -> list[tuple[Cell, Any]]:
    return [
        ((case, chip, order), figures)
        for case, chips in nested.items()
        for chip, orders in chips.items()
        for order, figures in orders.items()
    ]


@functools.cache
def _shares() -> tuple[dict[str, float], dict[Cell, float]]:
    data = _data("hot_loops.json")
    return data["wanted_shares"], dict(_cells(data["shares"]))


def share_bar(case: str, chip: str, order: str) -> ShareBar | None:
    """What is asked of a cell; None of cases that memory bounds, or for which nothing is asked.

    >>> share_bar("matmul-f16", "gfx950", "NxK").wanted
    0.9
    """
    wanted, shares = _shares()
    if case not in wanted:
        return None
    cell = (case, chip, order)
    return ShareBar(wanted[case], shares.get(cell), exceptions().get(cell))
