"""Long lines, sorted by merging: what is compared, and places, go through global memory.

    tiles     every tile of a line, by a network in shared memory
    then, with runs of twice the length each time:
    cuts      where each tile of a pair's output begins in the two runs, by binary search
    merge     each tile of the output: its parts of both runs, one backwards, by a network
    move      all operands by the places that were found

Cuts that are searched for one by one could cross where a comparator is no weak order, and elements
be lost: where one is not known to be, each cut is put between its neighbours, one after another.
"""

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64, known
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import for_each, global_memory, workgroup
from tvm_iree_ext.schedules.gpu.ordering.sort_network import Sorted, SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import PLACE_BITS, SortTile
from tvm_iree_ext.tir.tir_expressions import Expr


def emit_merges(operands: Sorted, shape: SortShape) -> None:
    """The kernels for lines of any length."""
    _Merge(operands, shape).emit()


class _Merge:
    def __init__(self, operands: Sorted, shape: SortShape) -> None:
        self.operands, self.shape, self.order = operands, shape, operands.order
        self.tile = shape.elements
        self.length, self.lines = operands.length, operands.lines
        self.tiles = emit.ceil_div(self.length, self.tile)
        self.total = emit.product([self.lines, self.length])
        # Two of each: what is read and what is written take turns.
        both = i64(emit.product([2, self.total]))
        self.keys = [
            global_memory(f"key{at}_memory", both, dtype)
            for at, dtype in enumerate(self.order.word_types)
        ]
        self.places = global_memory("places_memory", both, "int32")
        self.cuts = global_memory("cuts", i64(emit.product([self.lines, self.tiles])), "int32")
        self.first_bit = int(math.log2(self.tile))

    def emit(self) -> None:
        self._sort_tiles()
        whole = known(self.length)
        rounds = PLACE_BITS - self.first_bit
        if whole is not None:
            rounds = max(0, (whole - 1).bit_length() - self.first_bit)
        if rounds:
            with I.serial(0, rounds) as turn:
                run = tirx.const(self.tile, "int32") << turn
                if whole is not None:
                    self._round(turn, run)
                else:
                    with I.If(wide(run) < i64(self.length)), I.Then():
                        self._round(turn, run)
        last: Any = tirx.const(rounds % 2, "int64")
        if whole is None:
            last = tirx.const(0, "int64")
            for turn in range(rounds):
                more = tirx.const(self.tile << turn, "int64") < i64(self.length)
                last = last + tirx.Select(more, tirx.const(1, "int64"), tirx.const(0, "int64"))
            last = last % 2
        self._move(last)

    def _round(self, turn: Expr, run: Expr) -> None:
        source = wide(turn % 2)
        self._find_cuts(turn, run, source)
        if not self.operands.is_weak:
            self._order_cuts(run)
        self._merge_tiles(run, source)

    def _place(self, side: Expr, line: Expr, position: Expr) -> Expr:
        """Index of an element in the memory of a side."""
        return side * i64(self.total) + line * i64(self.length) + position

    def _sort_tiles(self) -> None:
        count = emit.product([self.lines, self.tiles])
        with workgroup(count, self.shape) as (number, lane):
            line, part = map(I.Bind, emit.divide(wide(number), self.tiles))
            tile = SortTile(self.order, self.tile, self.tile, lane, self.shape.lanes)
            first = I.Bind(part * self.tile)
            with tile.each() as (_, position, at):
                whole = I.Bind(first + wide(position))
                with I.If(whole < i64(self.length)):
                    with I.Then():
                        tile.put(at, *self.operands.load(line, whole))
                    with I.Else():
                        tile.put_none(at)
            tile.sort()
            self._write(tile, i64(0), line, first)

    def _write(self, tile: SortTile, side: Expr, line: Expr, first: Expr) -> None:
        """Write a tile to a line of a side."""
        with tile.each() as (_, position, at):
            whole = I.Bind(first + wide(position))
            with I.If(whole < i64(self.length)), I.Then():
                target = I.Bind(self._place(side, line, whole))
                for memory, words in zip(self.keys, tile.words, strict=True):
                    I.buffer_store(memory, words[at], [target])
                I.buffer_store(self.places, tile.places[at], [target])

    def _find_cuts(self, turn: Expr, run: Expr, side: Expr) -> None:
        """For each tile of the output, how many of the first run's elements lie before it."""
        with for_each(emit.product([self.lines, self.tiles]), self.shape) as number:
            line, part = map(I.Bind, emit.divide(number, self.tiles))
            pair, before, first, second = self._pair(part, run)
            ours = I.Bind(self._place(side, line, pair))
            theirs = I.Bind(ours + first)
            low, high = emit.registers(1, "int64"), emit.registers(1, "int64")
            zero = i64(0)
            I.buffer_store(low, tirx.max(zero, before - second), [0])
            I.buffer_store(high, tirx.min(before, first), [0])
            with I.serial(0, turn + (self.first_bit + 1)), I.If(low[0] < high[0]), I.Then():
                middle = held((low[0] + high[0]) >> 1)
                one, other = I.Bind(ours + middle), I.Bind(theirs + (before - 1 - middle))
                left, right = ([held(m[at]) for m in self.keys] for at in (one, other))
                here, there = held(self.places[one]), held(self.places[other])
                with I.If(self.order.swaps(left, here, right, there)):
                    with I.Then():
                        I.buffer_store(high, middle, [0])
                    with I.Else():
                        I.buffer_store(low, middle + 1, [0])
            I.buffer_store(self.cuts, tirx.Cast("int32", low[0]), [number])

    def _pair(self, part: Expr, run: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        """Pair of runs of a tile: its start, elements before the tile in it, both lengths."""
        position = I.Bind(part * self.tile)
        span = wide(run) * 2
        pair = I.Bind((position // span) * span)
        length = i64(self.length)
        first = I.Bind(tirx.min(wide(run), length - pair))
        second = I.Bind(tirx.min(wide(run), length - pair - first))
        return pair, I.Bind(position - pair), first, second

    def _order_cuts(self, run: Expr) -> None:
        """Each cut between the one before it and a tile further, a lane for each pair of runs."""
        span = wide(run) * 2
        pairs = tirx.floordiv(i64(self.length) + (span - 1), span)
        each = I.Bind(tirx.floordiv(span, i64(self.tile)))
        with for_each(i64(self.lines) * pairs, self.shape) as number:
            line = I.Bind(number // pairs)
            start = I.Bind((number % pairs) * each)
            base = I.Bind(line * i64(self.tiles))
            stop = I.Bind(tirx.min(start + each, i64(self.tiles)))
            before = emit.registers(1, "int32")
            I.buffer_store(before, tirx.const(0, "int32"), [0])
            with I.serial(i64(1), stop - start) as part:
                at = I.Bind(base + start + part)
                inside = tirx.min(tirx.max(self.cuts[at], before[0]), before[0] + self.tile)
                I.buffer_store(before, inside, [0])
                I.buffer_store(self.cuts, before[0], [at])

    def _merge_tiles(self, run: Expr, side: Expr) -> None:
        count = emit.product([self.lines, self.tiles])
        with workgroup(count, self.shape) as (number, lane):
            line, part = map(I.Bind, emit.divide(wide(number), self.tiles))
            tile = SortTile(self.order, self.tile, self.tile, lane, self.shape.lanes)
            pair, before, first, second = self._pair(part, run)
            held_here = I.Bind(tirx.min(i64(self.tile), first + second - before))
            begin = held(wide(self.cuts[wide(number)]))
            is_last = before + self.tile >= first + second
            following = I.Bind(tirx.min(wide(number) + 1, i64(count) - 1))
            end = held(tirx.Select(is_last, first, wide(self.cuts[following])))
            ours = I.Bind(self._place(side, line, pair) + begin)
            of_first = I.Bind(end - begin)
            theirs = I.Bind(self._place(side, line, pair) + first + (before - begin))
            of_second = I.Bind(held_here - of_first)
            with tile.each() as (_, position, at):
                rising = wide(position)
                falling = I.Bind(tirx.const(self.tile - 1, "int64") - rising)
                with I.If(rising < of_first):
                    with I.Then():
                        self._take(tile, at, ours + rising)
                    with I.Else(), I.If(falling < of_second):
                        with I.Then():
                            self._take(tile, at, theirs + falling)
                        with I.Else():
                            tile.put_none(at)
            tile.merge()
            self._write(tile, 1 - side, line, I.Bind(part * self.tile))

    def _take(self, tile: SortTile, at: Expr, source: Expr) -> None:
        place = I.Bind(source)
        tile.put(at, [memory[place] for memory in self.keys], self.places[place])

    def _move(self, side: Expr) -> None:
        kept = self.operands.kept
        with for_each(emit.product([self.lines, kept]), self.shape) as number:
            line, position = map(I.Bind, emit.divide(number, kept))
            source = I.Bind(self._place(side, line, position))
            words = [memory[source] for memory in self.keys]
            self.operands.move(line, position, held(self.places[source]), words)
