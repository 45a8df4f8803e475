"""Stream-K: tiles and their steps of K shared out evenly to a fixed number of workgroups.

    rounds of whole tiles:  workgroup w has the tiles w, w + P, w + 2P, ...
    what is left:           fewer than P tiles, whose steps are one line; w has the w-th part of it

so that all P workgroups, which are as many as the chip holds at once, end together, where a grid of
a workgroup for each tile would end with a round for few.  A workgroup's part of the line touches
two tiles at most.  Where a tile is not all of one workgroup, each leaves what it has of its sums;
a second kernel adds them, in the order of K: no waiting, no atomics, the same result in each run.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import tirx

BAND = 8
"""Rows of square tiles that workgroups near in time share columns of: they go column by column."""

_MOST_PARTS = 8  # a tile is left in about so many at most, which one lane reads at once


@dataclass(frozen=True)
class Segment:
    """Steps of one tile that a workgroup multiplies without a break.

    Attributes:
        tile: which of all.
        first: of its steps.
        steps: how many.
        whole: whether they are all of the tile's; None where that is known to be so.
        part: the number of what is left of the sums, if they are not.
    """

    tile: Any
    first: Any
    steps: Any
    whole: Any | None
    part: Any


@dataclass(frozen=True)
class Shares:
    """The shares of ``workgroups`` in ``tiles`` of ``steps`` each; numbers or expressions."""

    workgroups: int
    tiles: Any
    steps: Any

    @cached_property
    def rounds(self) -> Any:
        """Rounds of whole tiles."""
        return self.tiles // self.workgroups

    @cached_property
    def left(self) -> Any:
        """The tiles after those."""
        return self.tiles % self.workgroups

    @cached_property
    def each(self) -> Any:
        """Steps of a workgroup's part of what is left."""
        even = _ceil_div(self.left * self.steps, self.workgroups)
        return _most(even, _ceil_div(self.steps, _MOST_PARTS))

    @property
    def parts(self) -> Any:
        """At least as many as tiles are left in.

        Along the line, the next segment is of the next workgroup, or of the next tile: the sum of
        both numbers is a segment's own.
        """
        return self.workgroups + (self.left if isinstance(self.left, int) else self.workgroups)

    @property
    def parts_of_tile(self) -> int:
        """The most that a tile is left in."""
        if not (isinstance(self.steps, int) and isinstance(self.each, int)):
            return _MOST_PARTS + 1
        aligned = self.steps % self.each == 0
        return self.steps // self.each if aligned else (self.steps - 2) // self.each + 2

    def _range(self, workgroup: Any) -> tuple[Any, Any]:
        line = self.left * self.steps
        begin = _least(workgroup * self.each, line)
        return begin, _least(begin + self.each, line)

    def segments(self, workgroup: Any) -> Any:
        """How many a workgroup has."""
        if _is(self.left, 0):
            return self.rounds
        begin, end = self._range(workgroup)
        return self.rounds + _ceil_div(end, self.steps) - begin // self.steps

    def segment(self, workgroup: Any, number: Any) -> Segment:
        """One of a workgroup's."""
        round_tile = number * self.workgroups + workgroup
        if _is(self.left, 0):
            return Segment(round_tile, 0, self.steps, None, 0)
        begin, end = self._range(workgroup)
        within = begin // self.steps + (number - self.rounds)
        tile = self.rounds * self.workgroups + within
        first = _most(begin - within * self.steps, 0)
        steps = _least(end - within * self.steps, self.steps) - first
        if not _is(self.rounds, 0):
            in_round = number < self.rounds
            tile = tirx.Select(in_round, round_tile, tile)
            first = tirx.Select(in_round, first * 0, first)
            steps = tirx.Select(in_round, first * 0 + self.steps, steps)
        return Segment(tile, first, steps, steps >= self.steps, workgroup + within)

    def workgroups_of(self, left: Any) -> tuple[Any, Any]:
        """The first and the last workgroup that have steps of one of the tiles that are left."""
        return left * self.steps // self.each, ((left + 1) * self.steps - 1) // self.each


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


def _ceil_div(value: Any, by: Any) -> Any:
    return -(-value // by) if isinstance(value, int) else (value + (by - 1)) // by


def _least(first: Any, second: Any) -> Any:
    known = isinstance(first, int) and isinstance(second, int)
    return min(first, second) if known else tirx.min(first, second)


def _most(first: Any, second: Any) -> Any:
    known = isinstance(first, int) and isinstance(second, int)
    return max(first, second) if known else tirx.max(first, second)
