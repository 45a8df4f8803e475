"""CPU top-k by selection: for plain comparisons, where many of a line's elements are kept.

    1.  Count the first digits of a sample, inits and candidates; so many as the K best of all are
        of the sample, and some more, end in one bucket, which the counts tell.
    2.  List what is in that bucket and before it; all, should this be less than K.
    3.  Count the digits of what is in the list, the first one first, each in the bucket where the
        K best end, until all of one are taken.
    4.  Drop from the list what is not among the K best: of equal keys, those with larger indices.
    5.  Sort the list by its keys; no pass changes the order of equal ones.

Elements are numbered, the inits before the candidates, and listed by number.  Candidates that are
numbered by the dialect come so in the order of their indices; where they bring indices, or inits
are in the list, it is sorted by indices before step 4.

Keys are those of the sort by digits; a NaN among the candidates goes behind all others, and one
among the inits before.  Where there are fewer lines than cores, steps 1 and 2 of a line are done in
``splits`` parts.

Work: N, and some passes over what is listed.  Scratch: two lists, of N + K elements each at worst,
and a counter for each digit of each part.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.cpu.ordering.radix_digits import RadixDigits, count
from tvm_iree_ext.schedules.cpu.topk.topk_config import TopkConfig
from tvm_iree_ext.schedules.cpu.topk.topk_keys import TopkKeys
from tvm_iree_ext.schedules.cpu.topk.topk_lines import TopkLines
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, product, serial

_KEY, _NUMBER = range(2)

# Of each stretch of elements the first ones are the sample.
_STRETCH, _SAMPLED = 256, 16

# Listing some more than needed costs less than doing it again: by an eighth of the sample's share
# and this, 3.5 standard deviations at least of how many of random elements are in the sample.
_SPARE = 24


def select_kernel(op: Topk, config: TopkConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form: a plain comparison, along the innermost dim."""
    with IRBuilder() as builder, I.prim_func():
        _Select(op, config).emit()
    return builder.get()


class _Select(TopkLines):
    """The kernel under construction."""

    def __init__(self, op: Topk, config: TopkConfig) -> None:
        super().__init__(op, config)
        self.keys = TopkKeys(op)
        self.key_bits, self.key_dtype = self.keys.bits, self.keys.dtype
        self.as_key = self.keys.number
        self.digit_bits = min(config.digit_bits, self.key_bits)
        self.total = emit.total([self.k, self.candidates])
        most = known(self.total)
        self.number_dtype = "int32" if most is not None and most < 1 << 31 else "int64"
        self.splits = config.splits
        # An element more than there can be: what is no candidate is written, too, and overwritten.
        self.room = emit.total([emit.ceil_div(self.total, self.splits), 1])

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.declare()
            loop = I.parallel if self.config.parallel and self.splits == 1 else I.serial
            with loop(i64(0), i64(self.outer)) as line:
                self.inputs_at = I.Bind(line * i64(self.candidates))
                self.outputs_at = I.Bind(line * i64(self.k))
                orderly = self.check_order(self.slots(None, None, i64(0)), self.outputs_at, 1)
                self.choose(
                    orderly, self.select, lambda: self.follow(self.inputs_at, self.outputs_at)
                )

    def select(self) -> None:
        """The results of a line whose inits are in order, or need not be."""
        self.counts = emit.scratch([self.splits, 1 << self.digit_bits], "int64")
        self.low, self.high = (emit.registers(1, self.key_dtype) for _ in range(2))
        self.needed, self.listed_count = (emit.registers(1, "int64") for _ in range(2))
        capacity = product([self.splits, self.room])
        listed, other = (
            SortLine([emit.scratch([capacity], t) for t in (self.key_dtype, self.number_dtype)])
            for _ in range(2)
        )
        self.find_bucket()
        length = I.Bind(self.list_all(listed))
        I.buffer_store(self.needed, i64(self.k), [0])
        I.buffer_store(self.listed_count, length, [0])
        I.buffer_store(self.low, self.as_key(0), [0])
        shift = self.key_bits
        while shift > 0:
            bits = min(self.digit_bits, shift)
            shift -= bits
            with I.If(self.listed_count[0] > self.needed[0]), I.Then():
                self.narrow(listed, length, shift, bits)
        self.order_by_index(listed, other, length, capacity)
        self.drop(listed, length)
        if self.op.in_order:
            dtypes = self.key_dtype, self.number_dtype
            digits = RadixDigits(dtypes, _KEY, False, self.digit_bits)
            listed = digits.sort_between(listed, other, self.k)
        with serial(self.k) as k:
            number = I.Bind(tirx.Cast("int64", listed.load(_NUMBER, k)))
            value = tirx.if_then_else(
                number < self.k,
                self.flat["output_values_init"][self.outputs_at + number],
                self.flat["values"][self.inputs_at + number - self.k],
            )
            self.put(self.outputs_at + k, value, self.index_of(number))

    def index_of(self, number: Expr) -> Expr:
        """The index of an init or a candidate, from its number."""
        if not self.op.has_output_indices:
            return number - self.k
        init = self.flat["output_indices_init"][self.outputs_at + number]
        return tirx.if_then_else(number < self.k, init, self.index(self.inputs_at, number - self.k))

    def digit(self, key: Expr, shift: int, bits: int) -> Expr:
        """A digit of a key, by which it is counted."""
        mask = self.as_key((1 << bits) - 1)
        return tirx.Cast("int64", (key >> self.as_key(shift)) & mask)

    def part(self, part: Expr) -> tuple[Expr, Expr]:
        """The numbers of the first element of a part, and of the first one after it."""
        share = i64(self.room) - 1
        begin = I.Bind(i64(emit.smaller(part * share, self.total)))
        return begin, I.Bind(i64(emit.smaller(begin + share, self.total)))

    def init_key(self, number: Expr) -> Expr:
        """The key of an init."""
        init = self.flat["output_values_init"][self.outputs_at + number]
        return self.keys.key(init, init=True)

    def candidate_key(self, number: Expr) -> Expr:
        """The key of a candidate."""
        at = self.inputs_at + (number - self.k)
        return self.keys.key(self.flat["values"][at], init=False)

    def each_part(self) -> Any:
        """A loop over the parts."""
        loop = I.parallel if self.config.parallel and self.splits > 1 else I.serial
        return loop(i64(0), i64(self.splits))

    def find_bucket(self) -> None:
        """Step 1; which keys are listed ends in ``high``."""
        bits, shift = self.digit_bits, self.key_bits - self.digit_bits
        with self.each_part() as part:
            with serial(1 << bits) as d:
                I.buffer_store(self.counts, i64(0), [part, d])
            begin, end = self.part(part)
            for first, stop, key in (
                (begin, i64(emit.smaller(end, self.k)), self.init_key),
                (I.Bind(i64(emit.larger(begin, self.k))), end, self.candidate_key),
            ):
                stretches = emit.ceil_div(tirx.max(stop - first, i64(0)), _STRETCH)
                with serial(stretches) as stretch:
                    start = I.Bind(first + stretch * _STRETCH)
                    with serial(emit.smaller(start + _SAMPLED, stop), start) as number:
                        digit = self.digit(I.Bind(key(number)), shift, bits)
                        count(self.counts, [part, I.Bind(digit)])
        with serial(self.splits, 1) as part, serial(1 << bits) as d:
            I.buffer_store(self.counts, self.counts[0, d] + self.counts[part, d], [i64(0), d])
        share = i64(emit.ceil_div(self.k, _STRETCH // _SAMPLED))
        I.buffer_store(self.needed, share + emit.ceil_div(share, 8) + _SPARE, [0])
        I.buffer_store(self.low, self.as_key(0), [0])
        self.walk(shift, bits)

    def walk(self, shift: int, bits: int) -> None:
        """Go to the bucket where the best that are needed end; note which keys are in it."""
        at = emit.registers(1, "int64")
        I.buffer_store(at, i64(0), [0])

        def here() -> Expr:
            return self.counts[0, at[0]]

        last = i64((1 << bits) - 1)
        with I.While(tirx.And(at[0] < last, self.needed[0] > here())):
            I.buffer_store(self.needed, self.needed[0] - here(), [0])
            I.buffer_store(at, at[0] + 1, [0])
        I.buffer_store(self.listed_count, here(), [0])
        first = I.Bind(self.low[0] | (self.as_key(at[0]) << self.as_key(shift)))
        I.buffer_store(self.low, first, [0])
        I.buffer_store(self.high, first | self.as_key((1 << shift) - 1), [0])

    def list_all(self, listed: SortLine) -> Expr:
        """Step 2; the length of the list."""
        length = emit.registers(1, "int64")
        taken = emit.scratch([self.splits], "int64")
        I.buffer_store(length, i64(0), [0])
        with serial(2) as attempt, I.If(length[0] < self.k), I.Then():
            with I.If(attempt == 1), I.Then():
                I.buffer_store(self.high, self.as_key((1 << self.key_bits) - 1), [0])
            limit = I.Bind(self.high[0])
            with self.each_part() as part:
                self.list_part(listed, part, limit, taken)
            I.buffer_store(length, taken[0], [0])
            for part in range(1, self.splits):
                begin = i64(self.room) * part
                with serial(taken[part]) as i:
                    for field in (_KEY, _NUMBER):
                        listed.store(field, length[0] + i, listed.load(field, begin + i))
                I.buffer_store(length, length[0] + taken[part], [0])
        return length[0]

    def list_part(self, listed: SortLine, part: Expr, limit: Expr, taken: Any) -> None:
        """List the elements of a part; how many they are, in ``taken``."""
        lanes, vectors = self.lanes, self.config.vectors
        size = vectors * lanes
        length = emit.registers(1, "int64")
        tile = emit.scratch([size], self.key_dtype)
        least = emit.registers(lanes, self.key_dtype)
        start = I.Bind(part * i64(self.room))
        I.buffer_store(length, start, [0])

        def append(key: Expr, number: Expr) -> None:
            """Append a candidate; one not listed is overwritten by the next."""
            at = I.Bind(length[0])
            listed.store(_KEY, at, key)
            listed.store(_NUMBER, at, tirx.Cast(self.number_dtype, number))
            I.buffer_store(length, at + tirx.Cast("int64", key <= limit), [0])

        begin, end = self.part(part)
        with serial(emit.smaller(end, self.k), begin) as number:
            append(I.Bind(self.init_key(number)), number)
        first = I.Bind(i64(emit.larger(begin, self.k)))
        blocks = I.Bind(tirx.floordiv(tirx.max(end - first, i64(0)), i64(size)))
        with serial(blocks) as block:
            base = I.Bind(first + block * size)
            for vector in range(vectors):
                at = vector * lanes
                with emit.vector_loop(lanes) as lane:
                    I.buffer_store(tile, self.candidate_key(base + at + lane), [at + lane])
                keys = I.Bind(tile[emit.run(at, lanes)])
                if vector:
                    keys = tirx.min(I.Bind(least[emit.run(0, lanes)]), keys)
                I.buffer_store(least, keys, [emit.run(0, lanes)])
            width = lanes
            while width > 1:
                width //= 2
                halves = [I.Bind(least[emit.run(place, width)]) for place in (0, width)]
                I.buffer_store(least, tirx.min(*halves), [emit.run(0, width)])
            with I.If(least[0] <= limit), I.Then(), serial(vectors) as vector:
                at = I.Bind(vector * lanes)
                with I.unroll(i64(0), i64(lanes)) as lane:
                    append(I.Bind(tile[at + lane]), base + at + lane)
        with serial(end, first + blocks * size) as number:
            append(I.Bind(self.candidate_key(number)), number)
        I.buffer_store(taken, length[0] - start, [part])

    def narrow(self, listed: SortLine, length: Expr, shift: int, bits: int) -> None:
        """Step 3, for one digit."""
        with serial(1 << bits) as d:
            I.buffer_store(self.counts, i64(0), [i64(0), d])
        low, high = I.Bind(self.low[0]), I.Bind(self.high[0])
        with serial(length) as i:
            key = I.Bind(listed.load(_KEY, i))
            at = [i64(0), I.Bind(self.digit(key, shift, bits))]
            inside = tirx.Cast("int64", tirx.And(key >= low, key <= high))
            I.buffer_store(self.counts, self.counts[tuple(at)] + inside, at)
        self.walk(shift, bits)

    def order_by_index(
        self, listed: SortLine, other: SortLine, length: Expr, capacity: Index
    ) -> None:
        """Bring the list into the order of indices, where it is not."""
        if not self.op.has_output_indices:
            return
        dtypes = self.index_dtype, self.key_dtype, self.number_dtype

        def sort() -> None:
            ranks = [emit.scratch([capacity], self.index_dtype) for _ in range(2)]
            here, there = (
                SortLine([rank, *line.buffers])
                for rank, line in zip(ranks, (listed, other), strict=True)
            )
            with serial(length) as i:
                number = I.Bind(tirx.Cast("int64", listed.load(_NUMBER, i)))
                here.store(0, i, self.index_of(number))
            digits = RadixDigits(dtypes, 0, False, min(self.digit_bits, item_bytes(dtypes[0]) * 8))
            if digits.sort_between(here, there, length) is there:
                other.copy_to(listed, length)

        if self.op.has_indices or not self.numbers_fit():
            sort()
        else:
            with I.If(tirx.Cast("int64", listed.load(_NUMBER, 0)) < self.k), I.Then():
                sort()

    def numbers_fit(self) -> bool:
        """Whether numbers of candidates keep their order in the type of indices."""
        bits = item_bytes(self.index_dtype) * 8 - (not self.index_dtype.startswith("u"))
        most = known(self.candidates)
        return bits >= 63 or (most is not None and most <= 1 << bits)

    def drop(self, listed: SortLine, length: Expr) -> None:
        """Step 4."""
        low, high = I.Bind(self.low[0]), I.Bind(self.high[0])
        kept = emit.registers(1, "int64")
        I.buffer_store(kept, i64(0), [0])
        with serial(length) as i:
            key, number = (I.Bind(listed.load(field, i)) for field in (_KEY, _NUMBER))
            is_last = I.Bind(tirx.Cast("int64", tirx.And(key >= low, key <= high)))
            takes = tirx.Or(key < low, tirx.And(is_last == 1, self.needed[0] > 0))
            at, taken = I.Bind(kept[0]), I.Bind(tirx.Cast("int64", takes))
            listed.store(_KEY, at, key)
            listed.store(_NUMBER, at, number)
            I.buffer_store(kept, at + taken, [0])
            I.buffer_store(self.needed, self.needed[0] - (is_last & taken), [0])
