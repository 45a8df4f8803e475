"""CPU sort of many lines at once, a line in each lane of a vector: for any comparator.

The lines are copied to a tile, next to each other, whose rows are sorted (see :mod:`.sort_rows`).
That is not stable by itself: where ties can be told apart, each element brings its place in the
line, and of two equal ones the later place goes later.  Floats alone, by a plain comparison, are
sorted as integers (see :mod:`.ordering.sort_keys`): both kinds have a minimum and a maximum, but
LLVM makes masked stores of a choice between floats, which take an AMD processor 20 cycles each.  In
vectors of 512 bits those of 4 bytes and 8 stay floats: Intel's processors take half as many minima
of integers there, and masked stores cost little; so they do in those of 128, as SSE2 has no such
minimum.
Among floats alone zeros of either sign are the one tie that can be told apart; they are rare, and
put back in their order afterwards.

Work: length x log2(length)^2 / 4 exchanges for ``vector_lanes`` lines; it beats the other forms
while a tile of that many lines stays in the second cache.  Scratch: the tile, and its places.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.ops.base.comparators import goes_before
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine, as_seen
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import Keys
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_lines import SortLines
from tvm_iree_ext.schedules.cpu.sort.sort_rows import RowSort
from tvm_iree_ext.schedules.emit import Expr, i64, product, serial

_PLACE = "int32"

# Floats of 4 bytes and 8 are sorted as integers in vectors of so many bits only.
_INTEGER_BITS = 256

# Square tiles of up to so many lanes are transposed in registers.
_TRANSPOSED = 16


def network_kernel(op: Sort, config: SortConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in this form; its length must be a number."""
    with IRBuilder() as builder, I.prim_func():
        _Network(SortLines(op), config).emit()
    return builder.get()


def shows_ties(op: Sort) -> bool:
    """Whether equal elements can be told apart by more than the sign of a zero."""
    return op.order is None or len(op.dtypes) > 1


class _Network:
    """The kernel under construction."""

    def __init__(self, lines: SortLines, config: SortConfig) -> None:
        self.lines, self.config = lines, config
        self.dtypes = lines.op.dtypes
        self.lanes = config.lanes
        self.length = int(lines.length)
        self.with_places = shows_ties(lines.op)
        order = lines.op.order
        self.keys = None
        """The integers that floats are sorted as."""
        if order is not None and not self.with_places and self.dtypes[0] in FLOATS:
            keys = Keys(self.dtypes[0], order.descending)
            suits = keys.width < 32 or keys.width * self.lanes == _INTEGER_BITS
            self.keys = keys if suits else None

    def emit(self) -> None:
        """All lines, as many at a time as a vector has lanes."""
        lines, lanes = self.lines, self.lanes
        # No block around it all: TVM would look for what it reads and writes, for seconds.
        lines.declare()
        given, goal = SortLine(lines.inputs), SortLine(lines.results)
        if self.keys:
            given, goal = self.keys.words(given), self.keys.words(goal)
        self.inputs, self.results = given.buffers, goal.buffers
        # Lanes are lines next to each other: along the inner dims, or else the outer ones.
        outer, along = (1, lines.outer) if lines.contiguous else (lines.outer, lines.inner)
        # At least one, as TVM sees a division by zero otherwise.
        groups = emit.larger(emit.ceil_div(along, lanes), 1)
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(product([outer, groups]))) as task:
            row = I.Bind(tirx.floordiv(task, i64(groups)))
            first = I.Bind(tirx.floormod(task, i64(groups)) * lanes)
            count = I.Bind(i64(emit.smaller(lanes, along - first)))
            if lines.contiguous:
                start, step, stride = first * self.length, 1, i64(self.length)
            else:
                start = row * self.length * i64(lines.inner) + first
                step, stride = lines.inner, i64(1)
            self.sort_lines(I.Bind(start), i64(step), stride, count)

    def sort_lines(self, start: Expr, step: Expr, stride: Expr, count: Expr) -> None:
        """``count`` lines, ``stride`` apart, whose elements are ``step`` apart."""
        size = [self.length * self.lanes]
        tile = [emit.scratch(size, self.keys.unsigned)] if self.keys else self.lines.scratch(size)
        places = emit.scratch(size, _PLACE) if self.with_places else None
        for source, target in zip(self.inputs, tile, strict=True):
            with I.If(count == self.lanes):
                with I.Then():
                    self.fill(source, target, start, stride, step)
                with I.Else(), serial(self.length) as i, serial(self.lanes) as c:
                    line = tirx.min(c, count - 1)
                    value = self.key(source[start + i * step + line * stride])
                    I.buffer_store(target, value, [i * self.lanes + c])
        if places is not None:
            with serial(self.length) as i, emit.vector_loop(self.lanes) as lane:
                I.buffer_store(places, tirx.Cast(_PLACE, i), [i * self.lanes + lane])
        self.sort_rows(tile, places)
        if not self.with_places and self.dtypes[0] in FLOATS:
            self.settle_zeros(tile[0], start, step, stride, count)
        for source, target in zip(tile, self.results, strict=True):
            with I.If(count == self.lanes):
                with I.Then():
                    self.empty(source, target, start, stride, step)
                with I.Else(), serial(self.length) as i, serial(count) as c:
                    value = self.element(source[i * self.lanes + c])
                    I.buffer_store(target, value, [start + i * step + c * stride])

    def key(self, value: Expr) -> Expr:
        """Sort key of an element, or of a vector of them."""
        return self.keys.key(I.Bind(value)) if self.keys else value

    def element(self, value: Expr) -> Expr:
        """The element that is sorted as a value, or a vector of them."""
        return self.keys.element(I.Bind(value)) if self.keys else value

    def fill(self, source: Any, tile: Any, start: Expr, stride: Expr, step: Expr) -> None:
        """Copy a line for each lane to a tile."""
        lanes = self.lanes
        if not self.lines.contiguous:
            with serial(self.length) as i:
                value = self.key(source[emit.run(start + i * step, lanes)])
                I.buffer_store(tile, value, [emit.run(i * lanes, lanes)])
            return
        blocks = self.length // lanes if lanes <= _TRANSPOSED else 0
        with serial(blocks) as block:
            begin = start + block * lanes
            rows = [source[emit.run(begin + lane * stride, lanes)] for lane in range(lanes)]
            for i, value in enumerate(emit.transpose(rows)):
                at = emit.run((block * lanes + i) * lanes, lanes)
                I.buffer_store(tile, self.key(value), [at])
        with serial(lanes) as lane, serial(self.length, blocks * lanes) as i:
            value = self.key(source[start + lane * stride + i])
            I.buffer_store(tile, value, [i * lanes + lane])

    def empty(self, tile: Any, target: Any, start: Expr, stride: Expr, step: Expr) -> None:
        """Copy a tile back to a line for each lane."""
        lanes = self.lanes
        if not self.lines.contiguous:
            with serial(self.length) as i:
                value = self.element(tile[emit.run(i * lanes, lanes)])
                I.buffer_store(target, value, [emit.run(start + i * step, lanes)])
            return
        blocks = self.length // lanes if lanes <= _TRANSPOSED else 0
        with serial(blocks) as block:
            rows = [tile[emit.run((block * lanes + i) * lanes, lanes)] for i in range(lanes)]
            for lane, value in enumerate(emit.transpose(rows)):
                place = start + lane * stride + block * lanes
                I.buffer_store(target, self.element(value), [emit.run(place, lanes)])
        with serial(lanes) as lane, serial(self.length, blocks * lanes) as i:
            value = self.element(tile[i * lanes + lane])
            I.buffer_store(target, value, [start + lane * stride + i])

    def sort_rows(self, tile: Sequence[Any], places: Any) -> None:
        """Sort the line in each lane of a tile."""
        buffers = [*tile, *([] if places is None else [places])]
        block = self.config.rows
        RowSort(buffers, self.length, self.lanes, block, self.swaps).emit()

    def swaps(self, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
        """Whether elements that stand right must go before those that stand left."""
        if self.keys:
            return right[0] < left[0]
        seen = [
            [as_seen(value, dtype) for value, dtype in zip(side, self.dtypes, strict=False)]
            for side in (left, right)
        ]
        swap = goes_before(self.lines.op.region, *seen)
        if not self.with_places:
            return swap
        kept = goes_before(self.lines.op.region, *seen[::-1])
        return tirx.Or(swap, tirx.And(tirx.Not(kept), left[-1] > right[-1]))

    def settle_zeros(self, tile: Any, start: Expr, step: Expr, stride: Expr, count: Expr) -> None:
        """Put zeros back in the order in which they came, where one of them is negative."""
        lanes, source = self.lanes, self.inputs[0]
        words = Keys(self.dtypes[0], descending=False)
        zeros = words.sign, words.number(0)
        negative, positive = (self.keys.key(zero) for zero in zeros) if self.keys else zeros

        def bits_of(value: Expr) -> Expr:
            same = str(value.ty.dtype) == words.unsigned
            return value if same else tirx.reinterpret(words.unsigned, value)

        found = emit.registers(lanes, "int32")
        with emit.vector_loop(lanes) as lane:
            I.buffer_store(found, tirx.const(0, "int32"), [lane])
        with serial(self.length) as i, emit.vector_loop(lanes) as lane:
            is_negative = bits_of(tile[i * lanes + lane]) == negative
            one = tirx.Select(is_negative, tirx.const(1, "int32"), tirx.const(0, "int32"))
            I.buffer_store(found, found[lane] | one, [lane])
        hole = emit.registers(1, "int64")
        at = hole[0]

        def is_zero(value: Expr) -> Expr:
            bits = bits_of(value)
            return tirx.Or(bits == negative, bits == positive)

        for lane in range(lanes):
            with I.If(tirx.all(found[lane] != 0, lane < count)), I.Then():
                I.buffer_store(hole, i64(0), [0])
                with serial(self.length) as i:
                    value = I.Bind(self.key(source[start + i * step + lane * stride]))
                    with I.If(is_zero(value)), I.Then():
                        # Of floats among NaN, the zeros of a tile need not be next to each other.
                        with I.While(tirx.Not(is_zero(tile[at * lanes + lane]))):
                            I.buffer_store(hole, at + 1, [0])
                        I.buffer_store(tile, value, [at * lanes + lane])
                        I.buffer_store(hole, at + 1, [0])
