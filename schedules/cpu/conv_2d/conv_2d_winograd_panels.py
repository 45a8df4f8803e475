"""The transformed filter of a convolution by Winograd, and products with it.

For each place in a tile, panels of whole vectors of filters: the filters of a channel side by side,
then those of the next one.  Where half a vector of filters is left, or less, a vector of theirs has
several channels, and sums of these are added up at the end:

    rest[block of n channels, f, channel of the block],  n = lanes / filters, a power of two

so that 67 filters take about 67/64 of the time of 64, not 80/64.  The last block ends with the last
channel, and is zero where it overlaps the one before.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.cpu_lines import column_parts
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    RegisterTile,
    multiply_panels,
    odd_lines,
    panels,
    zeros,
)
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


def rest_of(filters: int, channels: int, lanes: int) -> tuple[int, int]:
    """How many filters, the last ones, share vectors with channels, and how many of these."""
    rest = filters % lanes
    neighbours = lanes >> (rest - 1).bit_length() if rest else 1
    return (rest, neighbours) if 1 < neighbours <= channels else (0, 1)


@dataclass(frozen=True)
class FilterRun:
    """Vectors of filters side by side; some lanes may belong to filters before, and are skipped."""

    first: int
    count: int
    lanes: int
    skipped: int = 0


class FilterPanels:
    """A group's transformed filters for each place in a tile; zeros past the last one."""

    def __init__(
        self, tile: RegisterTile, groups: int, places: int, filters: int, channels: int, dtype: str
    ) -> None:
        self.tile, self.lanes, self.dtype = tile, tile.lanes, dtype
        self.places, self.filters, self.channels = places, filters, channels
        self.rest, self.neighbours = rest_of(filters, channels, tile.lanes)
        self.whole = -(-(filters - self.rest) // self.lanes) * self.lanes
        # The rest with zeros, and a place's row of products.
        self.padded = self.lanes // self.neighbours if self.rest else 0
        self.held = self.whole + self.padded
        self.blocks = -(-channels // self.neighbours)
        size = self.whole * channels + (self.blocks * self.lanes if self.rest else 0)
        self.stride = odd_lines(size, item_bytes(dtype))
        self.memory = emit.scratch([groups * places * self.stride], dtype)

    def start(self, group: Index, place: Index) -> Expr:
        """Start of a place."""
        return (i64(group) * self.places + i64(place)) * self.stride

    def runs(self) -> list[FilterRun]:
        """Vectors to be transformed, for :meth:`put`."""
        filters, lanes = self.filters, self.lanes
        if self.rest and self.whole:
            skipped = lanes - self.rest
            whole = FilterRun(0, self.whole // lanes, lanes)
            return [whole, FilterRun(filters - lanes, 1, lanes, skipped)]
        if not self.rest:
            first, count, vectors = panels(self.whole, self.tile)[-1]
            start = filters - lanes
            if filters % lanes and start >= first + (count - 1) * vectors * lanes:
                # The last vector overlaps the one before in a panel.
                return [FilterRun(0, filters // lanes, lanes), FilterRun(start, 1, lanes)]
        return [FilterRun(*part) for part in column_parts(filters, lanes)]

    def put(
        self, start: Expr, channel: Expr, f: Expr, value: Expr, lanes: int, skipped: int
    ) -> None:
        """A vector of filters from ``f`` on, at a channel of a place, but for the skipped ones."""
        if not (self.rest and (skipped or not self.whole)):
            I.buffer_store(self.memory, value, [emit.run(start + self._at(channel, f), lanes)])
            return
        for lane in range(skipped, lanes):
            element = tirx.Shuffle([value], [lane]) if lanes > 1 else value
            place = self._in_rest(channel, i64(f) + lane - self.whole)
            I.buffer_store(self.memory, element, [start + place])

    def clear(self, start: Expr, channel: Expr) -> None:
        """Zeros for what is not there, so that no sum is of what memory held."""
        zero = tirx.const(0, self.dtype)
        with serial(self.held, self.filters) as f:
            at = self._in_rest(channel, f - self.whole) if self.rest else self._at(channel, f)
            I.buffer_store(self.memory, zero, [start + at])
        whole, over = divmod(self.channels, self.neighbours)
        if not over:
            return
        twice = channel - (self.channels - self.neighbours)  # its place in the last block, too
        there = tirx.And(twice >= 0, channel < whole * self.neighbours)
        with I.If(there), I.Then(), serial(self.padded) as f:
            I.buffer_store(self.memory, zero, [start + self._rest_at(i64(whole), f) + twice])

    def _at(self, channel: Expr, f: Expr) -> Expr:
        """Index of a filter that is in a panel."""
        panel = tirx.floordiv(f, i64(self.tile.width)) * self.tile.width
        return panel * self.channels + channel * self._width_of(f) + (f - panel)

    def _width_of(self, f: Expr) -> Index:
        """The columns of the panel of a filter: the last may be narrower."""
        *_, (first, count, vectors) = panels(self.whole, self.tile)
        if vectors == self.tile.vectors:
            return self.tile.width
        if first == 0 and count == 1:
            return vectors * self.lanes
        return tirx.Select(f >= first, i64(vectors * self.lanes), i64(self.tile.width))

    def _in_rest(self, channel: Expr, f: Expr) -> Expr:
        """Index of a filter of the rest at a channel."""
        block = tirx.floordiv(channel, i64(self.neighbours))
        return self._rest_at(block, f) + (channel - self._first_channel(block))

    def _rest_at(self, block: Expr, f: Expr) -> Expr:
        return self.whole * self.channels + block * self.lanes + i64(f) * self.neighbours

    def _first_channel(self, block: Expr) -> Expr:
        """First channel of a block of the rest."""
        first = i64(block) * self.neighbours
        if self.channels % self.neighbours == 0:
            return first
        return tirx.min(first, i64(self.channels - self.neighbours))

    def multiply(
        self,
        start: Expr,
        first: Index,
        filters: int,
        rows: Index,
        a: Callable[[Expr, Expr, int], Expr],
        finish: Callable[[Expr, Expr, Expr, int], None],
    ) -> None:
        """Products of rows with some filters at a place that begins at ``start``.

        Args:
            first: the first filter, of a panel.
            a: ``a(row, k, lanes)``: elements of a row from channel k on.
            finish: ``finish(row, filter, value, lanes)`` takes sums; filters count from the first.
        """
        if whole := min(filters, self.whole):
            begin = I.Bind(start + i64(first) * self.channels)
            multiply_panels(
                self.tile,
                rows=rows,
                columns=whole,
                depth=self.channels,
                dtype=self.dtype,
                a=lambda at, k: a(at, k, 1),
                b=lambda f, vectors, k, j: self.memory[
                    emit.run(begin + f * self.channels + (k * vectors + j) * self.lanes, self.lanes)
                ],
                start=lambda at, f: zeros(self.dtype, self.lanes),
                finish=lambda at, f, value: finish(at, f, value, self.lanes),
            )
        if not self.rest:
            return

        def channels(at: Expr, k: Expr) -> Expr:
            """Channels of a block side by side, once for each filter."""
            block = I.Bind(a(at, self._first_channel(k), self.neighbours))
            return tirx.Shuffle([block] * self.padded, list(range(self.lanes)))

        multiply_panels(
            RegisterTile(self.tile.rows, 1, self.lanes),
            rows=rows,
            columns=self.lanes,
            depth=self.blocks,
            dtype=self.dtype,
            a=channels,
            b=lambda f, vectors, k, j: self.memory[
                emit.run(start + self._rest_at(k, i64(0)), self.lanes)
            ],
            start=lambda at, f: zeros(self.dtype, self.lanes),
            finish=lambda at, f, value: finish(at, i64(whole), self._added(value), self.padded),
        )

    def _added(self, sums: Expr) -> Expr:
        """A sum for each filter of the rest, of those of its channels."""
        apart = self.neighbours // 2
        while apart:
            sums = I.Bind(sums)
            sums = sums + tirx.Shuffle([sums], [lane ^ apart for lane in range(self.lanes)])
            apart //= 2
        return tirx.Shuffle([I.Bind(sums)], list(range(0, self.lanes, self.neighbours)))
