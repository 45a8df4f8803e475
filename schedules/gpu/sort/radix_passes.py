"""The kernels of a sort by digits for lines of several tiles.

One pass over memory for each digit, after Adinets and Merrill, "Onesweep: A Faster Least
Significant Digit Radix Sort for GPUs" (NVIDIA, 2022):

    clear       what workgroups count and hand one another
    histogram   of all digits, from one pass over the keys: see :mod:`.radix_histogram`
    a digit     a workgroup ranks a tile's elements, puts them in order in shared memory, learns how
                many of each digit the tiles before have, and writes them in runs

For each digit a workgroup publishes how many its tile has, and walks back along the tiles before,
adding what these have, up to one that knows what all up to it have; then it publishes that.  Sums
of integers are the same however they are added.  A word is

    0                     nothing is known yet
    1 + count             of the tile, below 2**31
    2**31 + count         of all tiles up to this one, with all smaller digits of the line

Each pass clears the words of the next one.
"""

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.handed_words import awaited, publish, seen
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.look_back import take_ticket
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import for_each, global_memory, wait, workgroups
from tvm_iree_ext.schedules.gpu.sort.radix_histogram import Histogram
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGIT_BITS, DIGITS
from tvm_iree_ext.schedules.gpu.sort.radix_ranks import shared_memory
from tvm_iree_ext.schedules.gpu.sort.radix_tile import Columns, RadixColumns, RadixShape, RadixTile
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import SortOperands
from tvm_iree_ext.tir.tir_expressions import Expr

_ALL = 1 << 31  # the bit of a word that counts all tiles up to one


class RadixPasses:
    """The kernels, while emitted.

    Args:
        operands: of the sort.
        shape: of a tile.
        kind: of the target.
        sharing: how many workgroups share what needs no tiles.
    """

    def __init__(self, operands: SortOperands, shape: RadixShape, kind: str, sharing: int) -> None:
        self.shape, self.kind = shape, kind
        self.columns = RadixColumns(operands)
        self.lines, self.length = operands.lines, operands.length
        self.tiles = emit.ceil_div(self.length, shape.tile)
        self.passes = self.columns.key.digits
        self.total = emit.product([self.lines, self.length])
        sides = min(2, self.passes - 1)
        self.memory = [
            global_memory(f"column{at}_memory", i64(emit.product([sides, self.total])), dtype)
            for at, dtype in enumerate(self.columns.types)
        ] if sides else []  # fmt: skip
        self.words_of_pass = emit.product([self.lines, self.tiles, DIGITS])
        words = emit.product([self.words_of_pass, min(2, self.passes)])
        self.words = global_memory("words_of_tiles", i64(words), "uint32")
        self.tickets = global_memory("tickets", i64(self.passes), "int32")
        self.count_of_counts = emit.product([self.lines, DIGITS, self.passes])
        self.counts = global_memory("counts", i64(self.count_of_counts), "int32")
        self.histogram = Histogram(self.columns, kind, shape, sharing, self.counts)

    def emit(self) -> None:
        """All kernels; those of the digits between the first and the last in a loop."""
        self._clear()
        self.histogram.emit()
        inputs, results = self.columns.load, self.columns.store
        last = self.passes - 1
        self._pass(tirx.const(0, "int32"), inputs, self._writer(0) if last else results)
        if last > 1:
            with I.serial(1, last) as turn:
                side = wide(turn % 2)
                self._pass(turn, self._reader(1 - side), self._writer(side))
        if last:
            self._pass(tirx.const(last, "int32"), self._reader((last - 1) % 2), results)

    def _clear(self) -> None:
        """The words of the first pass, the counts, and the tickets."""
        words, counts = i64(self.words_of_pass), i64(self.count_of_counts)
        with for_each(words + counts, self.shape) as at:
            with I.If(at < words):
                with I.Then():
                    I.buffer_store(self.words, tirx.const(0, "uint32"), [at])
                with I.Else():
                    I.buffer_store(self.counts, tirx.const(0, "int32"), [at - words])
            with I.If(at < self.passes), I.Then():
                I.buffer_store(self.tickets, tirx.const(0, "int32"), [at])

    def _at(self, side: Index, line: Expr, position: Expr) -> Expr:
        return I.Bind(i64(side) * i64(self.total) + line * i64(self.length) + position)

    def _reader(self, side: Index) -> Callable[[Expr, Expr], Columns]:
        def load(line: Expr, position: Expr) -> Columns:
            at = self._at(side, line, position)
            return [held(memory[at]) for memory in self.memory]

        return load

    def _writer(self, side: Index) -> Callable[[Expr, Expr, Columns], None]:
        def store(line: Expr, position: Expr, columns: Columns) -> None:
            at = self._at(side, line, position)
            for memory, word in zip(self.memory, columns, strict=True):
                I.buffer_store(memory, word, [at])

        return store

    def _pass(
        self,
        turn: Expr,
        load: Callable[[Expr, Expr], Columns],
        store: Callable[[Expr, Expr, Columns], None],
    ) -> None:
        shape, shift = self.shape, turn * DIGIT_BITS
        count = emit.product([self.lines, self.tiles])
        with workgroups(count, shape.subgroups, shape.size, self.kind) as (_, ids):
            number = wide(take_ticket(ids, self.tickets, wide(turn), wait))
            part, line = self._divided(number)
            tile = RadixTile(self.columns, shape, ids, overlaid=True)
            first = I.Bind(part * shape.tile)
            elements = tile.load(first, self.length, lambda at: load(line, at))
            inside, ranks = self._inside(first), tile.ranks
            found = ranks.count(tile.digits(elements, inside, shift))
            look = _LookBack(self, turn, line, part)
            own = [ranks.digit(each) for each in range(ranks.each)]
            totals = [ranks.guarded(ranks.total(digit)) for digit in own]
            with where(ranks.own_digits()):
                look.publish(own, totals)
            starts = ranks.start(own, totals)
            wait()
            places = ranks.placed(found)
            wait()  # until all have read the counters, over which the elements go
            tile.exchange(elements, places)
            bases = shared_memory("bases", DIGITS, "int32")
            with where(ranks.own_digits()):
                for digit, start, total in zip(own, starts, totals, strict=True):
                    I.buffer_store(bases, look.before(digit, total) - start, [digit])
            wait()
            for item in range(shape.items):
                place = I.Bind(tirx.const(item * shape.lanes, "int32") + ranks.lane)
                with I.If(place < inside), I.Then():
                    columns = tile.taken(place)
                    digit = self.columns.key.digit(columns[0], shift)
                    store(line, I.Bind(wide(bases[digit] + place)), columns)

    def _divided(self, number: Expr) -> tuple[Expr, Expr]:
        """A workgroup's tile and its line: the same tile of all lines first."""
        part, line = tirx.truncdiv(number, i64(self.lines)), tirx.truncmod(number, i64(self.lines))
        if known(self.lines) is not None:
            return I.Bind(part), I.Bind(line)
        # In registers: TVM fails to bound a minimum in which it sees a quotient by an unknown.
        return held(part), held(line)

    def _inside(self, first: Expr) -> Expr:
        """How many elements of the line are in a tile."""
        left = tirx.min(i64(self.length) - first, i64(self.shape.tile))
        return held(tirx.Cast("int32", left))


class _LookBack:
    """A tile's words, and what the tiles before have of the lane's digits, while emitted."""

    def __init__(self, passes: RadixPasses, turn: Expr, line: Expr, part: Expr) -> None:
        self.passes, self.turn, self.line, self.part = passes, turn, line, part
        self.kind, self.words = passes.kind, passes.words
        self.alternates = passes.passes > 1
        side = wide(turn % 2) if self.alternates else i64(0)
        in_side = (line * i64(passes.tiles) + part) * DIGITS
        self.mine = held(side * i64(passes.words_of_pass) + in_side)
        self.next = held((1 - side) * i64(passes.words_of_pass) + in_side)

    def publish(self, digits: Sequence[Expr], totals: Sequence[Expr]) -> None:
        """Publish what the tile has, and clear its words of the next pass."""
        for digit, total in zip(digits, totals, strict=True):
            word = tirx.Cast("uint32", total + 1)
            with I.If(self.part > 0), I.Then():
                I.evaluate(publish(self.kind, self.words, I.Bind(self.mine + wide(digit)), word))
            if self.alternates:
                I.buffer_store(self.words, tirx.const(0, "uint32"), [self.next + wide(digit)])

    def before(self, digit: Expr, total: Expr) -> Expr:
        """How many elements go before the tile's of a digit; what is known then is published."""
        mine = I.Bind(self.mine + wide(digit))
        before, at, walks = (emit.registers(1, kind) for kind in ("int32", "int64", "int32"))
        I.buffer_store(before, tirx.const(0, "int32"), [0])
        I.buffer_store(at, mine, [0])
        I.buffer_store(walks, tirx.Cast("int32", self.part > 0), [0])
        with I.If(self.part == 0), I.Then():
            base = self.passes.histogram.place(wide(self.turn), self.line, digit)
            I.buffer_store(before, self.passes.counts[base], [0])
        with I.While(walks[0] != 0):
            I.buffer_store(at, at[0] - DIGITS, [0])
            word = held(seen(self.kind, self.words, at[0]))
            number = held(tirx.Cast("int32", awaited(self.kind, self.words, at[0], word)))
            known_to_all = number < 0
            count = tirx.Select(known_to_all, number & (_ALL - 1), number - 1)
            I.buffer_store(before, before[0] + count, [0])
            I.buffer_store(walks, tirx.Cast("int32", number > 0), [0])
        found = held(before[0])
        word = tirx.Cast("uint32", found + total) | tirx.const(_ALL, "uint32")
        I.evaluate(publish(self.kind, self.words, mine, word))
        return found
