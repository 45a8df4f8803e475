"""Software prefetches of the lanes form of attention: a few lines beside each step of other work.

Rows of a mask, of key and value and of the output are far from each other, and more than the
hardware follows.  All lines at once would keep a core waiting, which can await 16.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.attention.attention_mask import fetch_mask
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands


@dataclass
class Ahead:
    """Fetching for one task: of ``groups`` vectors of rows, ``width`` rows of them in a part.

    ``row_at`` gives the batch point and row at a lane of the task, ``tile_k2`` is the keys of a
    tile, ``in_place`` which of key and value products read where they are, and ``mask_by_row``
    whether there is a mask that differs from row to row.
    """

    operands: AttentionOperands
    outer: At
    row_at: Callable[[Index], At]
    groups: int
    width: int
    tile_k2: int
    in_place: Sequence[str]
    mask_by_row: bool
    next_base: Expr = field(init=False)
    next_key: Expr = field(init=False)
    later_key: Expr = field(init=False)
    base: Expr = field(init=False)

    def locate(self, first_key: Expr, part: Expr, parts: Index) -> None:
        """Set where the mask is read next: of the next part, or of the first at the next keys."""
        self.base, self.later_key = I.Bind(part * self.width), first_key + self.tile_k2
        if self.mask_by_row:
            follows = part + 1 < i64(parts)
            self.next_base = I.Bind(tirx.Select(follows, (part + 1) * self.width, i64(0)))
            self.next_key = I.Bind(tirx.Select(follows, first_key, self.later_key))

    def mask(self, step: Expr, steps: int) -> None:
        """The share of a step of the next mask."""
        if not self.mask_by_row:
            return

        def fetch(row: At) -> None:
            fetch_mask(self.operands, row, self.next_key, self.tile_k2)

        self._share(self.next_base, step, steps, fetch)

    def mask_of(self, keys: int, first: Expr, lane: Expr) -> None:
        """The next mask of so many keys of a tile, from one on, at a row of the next part."""
        if not self.mask_by_row:
            return
        row = emit.bound(self.row_at(self.next_base + lane))
        # The last line of these keys is the first one of the next, or nearly so.
        for key in emit.line_starts(keys, self.operands.views["mask"].dtype)[:-1]:
            fetch_mask(self.operands, row, self.next_key + first + key, 1)

    def output(self, step: Expr, steps: int) -> None:
        """The share of a step of a part's lines of the output, to be written."""
        operands = self.operands
        view, dims = operands.views["output"], operands.op.dims["n"]
        columns = known(view.along(dims))
        if not columns:
            return

        def fetch(row: At) -> None:
            for column in emit.line_starts(columns, view.dtype):
                at = {**row, **operands.space.spread(column, dims)}
                emit.prefetch(view.buffer, *view.index(at), write=True)

        self._share(self.base, step, steps, fetch)

    def _share(self, base: Expr, step: Expr, steps: int, use: Callable[[At], None]) -> None:
        rows = -(-self.width // steps)
        with serial(rows) as row:
            lane = emit.smaller(step * rows + row, self.width - 1)
            use(emit.bound(self.row_at(base + lane)))

    def keys(self, key: Expr, vector: Expr) -> None:
        """Lines of a key of the next tile, and of its value, to the second cache.

        ``key`` counts from the tile's first; the task's vectors of rows share the lines.  What is
        copied a tile at a time has lines in their order, which the hardware follows.
        """
        share = -(-sum(map(self._lines, self.in_place)) // self.groups)
        for i in range(share):
            self._fetch_key(self.later_key + key, I.Bind(vector * share + i), self.in_place)

    def _lines(self, name: str) -> int:
        """The lines of a row of key or value, where that is a run of memory."""
        view = self.operands.views[name]
        columns = known(view.along(self.operands.columns(name))) or 0
        # The last line of a row is the first one of the next, or nearly so.
        return len(emit.line_starts(columns, view.dtype)[:-1]) if columns else 0

    def _fetch_key(self, key: Expr, line: Expr, names: Sequence[str]) -> None:
        """A line of the rows of some operands, one after the other."""
        if not names:
            return
        name, *others = names
        operands, lines = self.operands, self._lines(name)
        with I.If(line < lines):
            with I.Then():
                view, dims = operands.views[name], operands.columns(name)
                column = line * (emit.LINE_BYTES // item_bytes(view.dtype))
                at = {**self.outer, **operands.key_at(key), **operands.space.spread(column, dims)}
                emit.prefetch(view.buffer, *view.index(at), nearest=False)
            with I.Else():
                self._fetch_key(key, line - lines, others)
