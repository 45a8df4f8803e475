"""CPU top-k in batches: plain comparisons, few kept, and a CPU that packs lanes.

A line is walked in blocks, as by :mod:`.topk_scan`.  Elements as good as the worst that is kept go
to a candidate buffer: those of a vector are packed together, so that a block costs the same however
many they are.  When the buffer is full it is sorted, with those that are kept, in registers (see
:mod:`.ordering.sort_registers`), and the first K are kept.

An element is one number of 64 bits: its key (see :mod:`.topk_keys`) above its index.  So the order
of numbers settles ties, and a number says which element it is, but for zeros, of which the sign is
not in the key, and NaN among the inits: these are read again.

Where there are fewer lines than cores, a line is walked in ``splits`` parts, and what they keep is
sorted at the end.

Work: N, and log2(tile)^2 / 2 steps of a comparison for each vector of buffered candidates.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.line_elements import as_seen, stored
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import Keys
from tvm_iree_ext.schedules.cpu.ordering.sort_registers import RegisterSort
from tvm_iree_ext.schedules.cpu.topk.topk_config import TopkConfig
from tvm_iree_ext.schedules.cpu.topk.topk_keys import TopkKeys
from tvm_iree_ext.schedules.cpu.topk.topk_lines import TopkLines
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, product, serial

_PREFETCHED_BYTES = 4096


def kept_rows(k: int, piece: int) -> int:
    """The vectors of what is kept: of numbers twice as wide as those of which one has ``piece``."""
    return -(-k // (piece // 2))


def batches_kernel(op: Topk, config: TopkConfig, piece: int) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form: a plain comparison, along the innermost dim.

    ``piece`` elements are looked at singly for candidates: the words of 4 bytes of which the target
    packs a vector.
    """
    with IRBuilder() as builder, I.prim_func():
        _Batches(op, config, piece).emit()
    return builder.get()


def _put(cell: Any, value: Expr) -> None:
    I.buffer_store(cell, value, [0])


class _Batches(TopkLines):
    """The kernel under construction."""

    def __init__(self, op: Topk, config: TopkConfig, piece: int) -> None:
        super().__init__(op, config)
        self.piece, self.row = piece, piece // 2
        self.keys = TopkKeys(op)
        self.numbers = Keys("uint64", descending=False)
        self.compress = Compress(32, piece, or_equal=True)
        self.splits = config.splits
        self.kept_rows = kept_rows(int(op.k), piece)
        self.room = (config.rows - self.kept_rows) * self.row
        # Indices are compared as signed numbers of 32 bits.
        self.index_bias = 0 if self.index_dtype == "uint32" else 1 << 31

    def emit(self) -> None:
        """All lines, each in one or several parts."""
        with I.sblock("root"), self.compress.declared():
            self.declare()
            size = self.kept_rows * self.row
            tasks = product([self.outer, self.splits])
            share = I.Bind(i64(emit.ceil_div(self.candidates, self.splits)))
            if self.splits > 1:
                shared = emit.scratch([product([tasks, size])], "uint64")
                ordered = emit.scratch([self.outer], "int32")
            loop = I.parallel if self.config.parallel else I.serial
            with loop(i64(0), i64(tasks)) as task:
                line = I.Bind(tirx.floordiv(task, i64(self.splits)))
                part = I.Bind(tirx.floormod(task, i64(self.splits)))
                self.begin_line(line)
                is_ordered = self.check_order(self.slots(None, None, i64(0)), self.outputs_at, 1)
                if self.splits == 1:
                    self.kept, self.kept_at = emit.scratch([size], "uint64"), i64(0)
                else:
                    self.kept, self.kept_at = shared, I.Bind(task * size)
                    with I.If(part == 0), I.Then():
                        I.buffer_store(ordered, is_ordered[0], [line])
                begin = I.Bind(i64(emit.smaller(part * share, self.candidates)))
                end = I.Bind(i64(emit.smaller(begin + share, self.candidates)))

                def select() -> None:
                    self.start(part)
                    self.walk(begin, end)
                    if self.splits == 1:
                        self.hand_out_line()

                def follow() -> None:
                    with I.If(part == 0), I.Then():
                        self.follow(self.inputs_at, self.outputs_at)

                self.choose(is_ordered, select, follow)
            if self.splits > 1 and self.is_selective:
                with serial(self.outer) as line, I.If(ordered[line] == 1), I.Then():
                    self.begin_line(line)
                    self.kept, self.kept_at = shared, I.Bind(line * (self.splits * size))
                    self.gather_parts(size)
                    self.hand_out_line()

    def begin_line(self, line: Expr) -> None:
        """Set the offsets of a line's operands and results."""
        self.inputs_at = I.Bind(line * i64(self.candidates))
        self.outputs_at = I.Bind(line * i64(self.k))

    def numbered(self, key: Expr, index: Expr) -> Expr:
        """The number of an element by its key and its biased index."""
        lanes = int(key.ty.dtype.lanes)
        high = emit.cast(key, "uint64") << emit.splat(tirx.const(32, "uint64"), lanes)
        return high | emit.cast(index, "uint64")

    def biased(self, index: Expr) -> Expr:
        """An index as an unsigned number of 32 bits in the same order."""
        word = emit.cast(index, "int64") + self.index_bias
        return tirx.Cast("uint32", word & i64(0xFFFFFFFF))

    def index_of(self, number: Expr) -> Expr:
        """The index that a number holds."""
        bias = tirx.const(self.index_bias, "uint32")
        biased = tirx.Cast("uint32", number & tirx.const(0xFFFFFFFF, "uint64")) ^ bias
        return tirx.reinterpret("int32", biased) if self.index_bias else biased

    def init(self, k: Index) -> tuple[Expr, Expr]:
        """The key of an init, and its biased index."""
        raw = self.flat["output_values_init"][self.outputs_at + k]
        if self.op.has_output_indices:
            index = self.flat["output_indices_init"][self.outputs_at + k]
        else:
            index = i64(k) - i64(self.k)  # before all candidates
        return self.keys.key(I.Bind(raw), init=True), self.biased(index)

    def start(self, part: Expr) -> None:
        """The first part keeps the inits, the others what goes behind all."""
        with I.If(part == 0):
            with I.Then(), serial(self.k) as k:
                self.keep(k, self.numbered(*self.init(k)))
            with I.Else(), serial(self.k) as k:
                self.keep(k, self.numbers.ones)

    def keep(self, k: Index, number: Expr) -> None:
        """Store one of those that are kept."""
        I.buffer_store(self.kept, number, [self.kept_at + k])

    def kept_rows_at(self, at: Index) -> list[Expr]:
        """Vectors of those that are kept; what is in none of K lanes goes last."""
        rows = []
        for row in range(self.kept_rows):
            numbers = I.Bind(self.kept[emit.run(at + row * self.row, self.row)])
            rest = int(self.op.k) - row * self.row
            if rest < self.row:
                lanes = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), self.row)
                inside = lanes < emit.splat(tirx.const(rest, "int32"), self.row)
                numbers = I.Bind(
                    tirx.Select(inside, numbers, emit.splat(self.numbers.ones, self.row))
                )
            rows.append(numbers)
        return rows

    def sort(self, rows: Sequence[Expr]) -> None:
        """Keep the first of what is in vectors."""
        whole = emit.run(0, self.row)
        tiles = [emit.registers(self.row, "uint64") for _ in rows]
        for tile, numbers in zip(tiles, rows, strict=True):
            I.buffer_store(tile, numbers, [whole])
        ordered = RegisterSort(tiles, self.row, self.numbers.ones).emit()
        for row, tile in enumerate(ordered[: self.kept_rows]):
            at = [emit.run(self.kept_at + row * self.row, self.row)]
            I.buffer_store(self.kept, tile[whole], at)

    def walk(self, begin: Expr, end: Expr) -> None:
        """Have the candidates ``begin .. end - 1`` compete with those that are kept."""
        self.buffered = emit.registers(1, "int64")
        self.bound, self.is_open = emit.registers(1, "uint32"), emit.registers(1, "int32")
        self.threshold = emit.registers(1, self.seen_dtype)
        room = self.room + self.piece
        self.buffer_keys, self.buffer_places = (emit.scratch([room], "uint32") for _ in range(2))
        size = self.config.vectors * self.lanes
        whole = I.Bind(tirx.floordiv(end - begin, i64(size)))
        _put(self.buffered, i64(0))
        worst = emit.registers(1, "uint64")
        _put(worst, self.kept[self.kept_at])
        with serial(self.k) as k:
            _put(worst, tirx.max(worst[0], self.kept[self.kept_at + k]))
        self.take_bound(I.Bind(worst[0]), begin)

        def candidate(i: Index, lanes: int = 1) -> Expr:
            return self.flat["values"][emit.run(self.inputs_at + i, lanes)]

        # What is left of whole blocks has code of its own: a copy of some elements is a call, which
        # leaves nothing in vector registers.
        stop = I.Bind(begin + whole * size)
        with serial(whole) as block:
            first = I.Bind(begin + block * size)
            for element in range(0, size, self.piece):
                ahead = first + element + _PREFETCHED_BYTES // item_bytes(self.dtype)
                emit.prefetch(self.flat["values"], self.inputs_at + ahead)
            best = self.best_of_block(candidate, first)
            gets_in = tirx.And(tirx.Not(self.loses(best, self.threshold[0])), self.is_open[0] == 1)
            is_asked = tirx.Or(gets_in, first + size >= end)
            with I.If(is_asked), I.Then(), serial(size // self.piece) as piece:
                self.offer(I.Bind(first + piece * self.piece), self.piece, end)
        with serial(emit.ceil_div(end - stop, self.piece)) as piece:
            at = I.Bind(stop + piece * self.piece)
            self.offer(at, I.Bind(tirx.min(end - at, i64(self.piece))), end)

    def offer(self, at: Expr, count: Index, end: Expr) -> None:
        """Buffer candidates; keep the first of all where there is no more room, or no element."""
        self.buffer_piece(at, count)
        after = I.Bind(at + self.piece)
        is_full = self.buffered[0] > self.room - self.piece
        with I.If(tirx.Or(is_full, after >= end)), I.Then():
            self.sort_batch()
            self.take_bound(I.Bind(self.kept[self.kept_at + (int(self.op.k) - 1)]), after)

    def buffer_piece(self, at: Expr, count: Index) -> None:
        """Buffer those of ``count`` elements, a piece at most, that may be among the first."""
        keys = emit.registers(self.piece, "uint32")
        words = emit.scratch([self.piece], stored(self.dtype))
        if known(count) == self.piece:
            source = self.flat["values"][emit.run(self.inputs_at + at, self.piece)]
            I.buffer_store(words, source, [emit.run(0, self.piece)])
        else:
            with serial(count) as i:
                I.buffer_store(words, self.flat["values"][self.inputs_at + at + i], [i])
        with emit.vector_loop(self.piece) as lane:
            key = self.keys.key(words[lane], init=False)
            I.buffer_store(keys, tirx.Cast("uint32", key), [lane])
        found = I.Bind(keys[emit.run(0, self.piece)])
        bound = emit.splat(self.bound[0], self.piece)
        first = I.Bind(self.biased(at))
        places = emit.splat(first, self.piece) + emit.cast(
            tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), self.piece), "uint32"
        )
        to = I.Bind(self.buffered[0])
        for buffer, values in ((self.buffer_keys, found), (self.buffer_places, places)):
            packed = self.compress.packed(values, found, bound, count)
            I.buffer_store(buffer, packed, [emit.run(to, self.piece)])
        _put(self.buffered, to + self.compress.count(found, bound, count))

    def sort_batch(self) -> None:
        """Keep the first of those kept and those in the candidate buffer."""
        rows = self.kept_rows_at(self.kept_at)
        count = I.Bind(tirx.Cast("int32", self.buffered[0]))
        for row in range(self.room // self.row):
            at = emit.run(row * self.row, self.row)
            number = I.Bind(self.numbered(self.buffer_keys[at], self.buffer_places[at]))
            lanes = tirx.Ramp(tirx.const(row * self.row, "int32"), tirx.const(1, "int32"), self.row)
            inside = lanes < emit.splat(count, self.row)
            rows.append(
                I.Bind(tirx.Select(inside, number, emit.splat(self.numbers.ones, self.row)))
            )
        self.sort(rows)
        _put(self.buffered, i64(0))

    def take_bound(self, worst: Expr, place: Expr) -> None:
        """Set the bound that candidates from a place on have to reach, by the worst that is kept.

        One as good wins where its index is the smaller.  So a key may have to be smaller, and where
        there is none ``is_open`` is 0.
        """
        key, index = (
            I.Bind(tirx.Cast("int64", part))
            for part in (
                worst >> tirx.const(32, "uint64"),
                worst & tirx.const(0xFFFFFFFF, "uint64"),
            )
        )
        wins_ties = index > place + self.index_bias
        reached = tirx.min(key + tirx.Cast("int64", wins_ties) - 1, i64(self.keys.last))
        bound = I.Bind(tirx.Cast("uint32", tirx.max(reached, i64(0))))
        _put(self.is_open, tirx.Cast("int32", reached >= 0))
        _put(self.bound, bound)
        _put(self.threshold, as_seen(self.element(bound), self.dtype))

    def element(self, key: Expr) -> Expr:
        """The element of a key of 32 bits, as it lies in memory."""
        word = self.keys.word(I.Bind(tirx.Cast(self.keys.dtype, key)))
        kind = stored(self.dtype)
        return word if kind == self.keys.dtype else tirx.reinterpret(kind, word)

    def gather_parts(self, size: int) -> None:
        """Keep the first of what all parts of a line keep."""
        with serial(self.splits, 1) as part:
            other = self.kept_rows_at(I.Bind(self.kept_at + part * size))
            self.sort([*self.kept_rows_at(self.kept_at), *other])

    def hand_out_line(self) -> None:
        """Write the results of a line."""
        with serial(self.k) as k:
            number = I.Bind(self.kept[self.kept_at + k])
            key = I.Bind(tirx.Cast(self.keys.dtype, number >> tirx.const(32, "uint64")))
            word = emit.registers(1, self.keys.dtype)
            _put(word, self.keys.word(key))
            with I.If(self.keys.is_shared(key)), I.Then():
                self.read_again(k, number, word)
            kind = stored(self.dtype)
            value = word[0] if kind == self.keys.dtype else tirx.reinterpret(kind, word[0])
            index = tirx.Cast(self.index_dtype, self.index_of(number))
            self.put(self.outputs_at + k, value, index)

    def read_again(self, k: Expr, number: Expr, word: Any) -> None:
        """The bits of the candidate or the init that a number stands for.

        Of two that are alike, the init goes first.
        """
        place = I.Bind(tirx.Cast("int64", self.index_of(number)))
        with I.If(tirx.And(place >= i64(0), place < i64(self.candidates))), I.Then():
            raw = I.Bind(self.word_of(self.flat["values"][self.inputs_at + place]))
            same = self.numbered(self.keys.key(raw, init=False), self.biased(place)) == number
            with I.If(same), I.Then():
                _put(word, raw)
        before = self.kept[self.kept_at + tirx.max(k - 1, i64(0))]
        is_first = tirx.Or(k == 0, before != number)
        with serial(self.k) as init:
            is_init = self.numbered(*self.init(init)) == number
            with I.If(tirx.And(is_init, is_first)), I.Then():
                raw = self.flat["output_values_init"][self.outputs_at + init]
                _put(word, self.word_of(raw))

    def word_of(self, raw: Expr) -> Expr:
        """The bits of an element as it lies in memory."""
        same = str(raw.ty.dtype) == self.keys.dtype
        return raw if same else tirx.reinterpret(self.keys.dtype, raw)
