"""Rows of groups as tiles of rows of one group, found from where groups end alone.

The tiles of group g begin at the number

    offsets[g - 1] // height + g

which ascends with g, and leaves a group as many as its rows take, or one more.  So the group of a
tile is found by halving, without a table.  Rows of no group are those of one more group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_iree_ext.tir.tir_expressions import convert

_MOST_GROUPS = 31  # as a power of two, where their number is known at call time


@dataclass(frozen=True)
class GroupedRows:
    """``rows`` of ``groups``, numbers or expressions, in tiles of ``height`` rows.

    ``offset(g)`` is the row before which group g ends, as the caller gives it; ``dtype`` the type
    of all indices.
    """

    rows: Any
    groups: Any
    height: int
    offset: Callable[[Any], Any]
    dtype: str

    @property
    def tiles(self) -> Any:
        """How many numbers of tiles there are; some have no rows."""
        return self.rows // self.height + self.groups + 1

    @property
    def halvings(self) -> int:
        """The steps of :meth:`group`, each of half the groups of the one before."""
        known = isinstance(self.groups, int)
        return self.groups.bit_length() if known else _MOST_GROUPS

    def end(self, group: Any) -> Any:
        """The row before which a group ends.

        One of the rows, or behind the last, whatever the offset: before anything is computed with
        it, so that nothing overflows and no memory beyond the operands is reached.
        """
        rows, offset = (
            convert(self._index(self.rows), "int64"),
            convert(self.offset(group), "int64"),
        )
        return convert(tirx.max(tirx.min(offset, rows), tirx.const(0, "int64")), self.dtype)

    def halved(self, found: Any, step: Any, tile: Any) -> Any:
        """The group that is found to be no later than the tile's: ``step`` further, or the same.

        Begins with 0, with steps of ``2 ** (halvings - 1)`` down to 1.
        """
        group = found + step
        end = self.end(tirx.min(group, self._index(self.groups)) - 1)
        fits = tirx.And(group <= self.groups, tirx.floordiv(end, self.height) + group <= tile)
        return tirx.Select(fits, group, found)

    def range(self, group: Any, tile: Any) -> tuple[Any, Any]:
        """The first row of a tile of a group, and the row before which the group ends."""
        zero = self._index(0)
        before = self.end(tirx.max(group - 1, zero))
        begin = tirx.Select(group == 0, zero, before)
        last = self.end(tirx.min(group, self._index(self.groups) - 1))
        end = tirx.Select(group < self.groups, last, self._index(self.rows))
        first = tirx.Select(group == 0, zero, tirx.floordiv(before, self.height) + group)
        return begin + (tile - first) * self.height, end

    def _index(self, value: Any) -> Any:
        return tirx.const(value, self.dtype) if isinstance(value, int) else value
