"""Top-k of long lines: each part of a line is read once, and what beats the K-th so far is kept.

    every part of a line          by a workgroup, with a list of candidates in shared memory
        for each of its elements: listed, if it goes before the threshold
        list full                 sorted by a network; the K first stay, the K-th is the threshold
        at the end                sorted; the K first are what the next round has
    the parts' candidates         the same, in fewer parts each round, until there is one

Of n elements in any order about ``K * ln(n / list)`` are listed after the list was full once, so
that a part is sorted twice or so.  Of elements that come worst first all are, and a part is
sorted as often as its list is filled.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.comparators import is_nan
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.votes import ballot, count, count_before
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import global_memory, launched, wait
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import NO_PLACE, SortTile, seen
from tvm_iree_ext.schedules.gpu.topk.topk_operands import TopkOperands
from tvm_iree_ext.tir.tir_expressions import Expr

_LOADS = 8  # elements of a lane that are under way at once; even, see _Part._vote
_LISTS = 8  # lists that a part of a later round has elements for


def emit_filter(operands: TopkOperands, shape: SortShape, kind: str, parts: int) -> None:
    """The kernels for lines of any length, of which ``shape.elements / 2`` or fewer are kept."""
    source: _Inputs | _Left = _Inputs(operands)
    kept = known(operands.kept)
    assert kept is not None
    for count_of_parts in rounds(parts, kept, shape.elements):
        left = None if count_of_parts == 1 else _Left(operands, count_of_parts * kept)
        lines = emit.product([operands.lines, count_of_parts])
        with launched(lines, shape.subgroups, shape.size) as (number, subgroup, lane):
            line, part = map(I.Bind, emit.divide(wide(number), count_of_parts))
            one = _Part(operands, source, shape, kind, (subgroup, lane))
            if isinstance(source, _Inputs):
                one.list_inits(line, part)
            one.list_best(line, part, count_of_parts)
            one.write(line, part, left)
        if left is not None:
            source = left


def rounds(parts: int, kept: int, elements: int) -> list[int]:
    """Into how many parts each round cuts its lines; the last one has one."""
    found = [parts]
    while found[-1] > 1:
        found.append(-(-found[-1] * kept // (_LISTS * elements)))
    return found


class _Inputs:
    """The inputs of each line."""

    def __init__(self, operands: TopkOperands) -> None:
        self.operands, self.length = operands, operands.candidates

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words of an input, and its place; a NaN has none."""
        operands = self.operands
        words = [held(word) for word in operands.input(line, position)]
        place: Expr = tirx.Cast("int32", position + i64(operands.kept))
        value = seen(words[0], operands.dtype)
        if str(value.ty.dtype).startswith("float"):
            place = tirx.Select(is_nan(value), tirx.const(NO_PLACE, "int32"), place)
        return words, place


class _Left:
    """Candidates left of each line after a round, in memory."""

    def __init__(self, operands: TopkOperands, length: int) -> None:
        self.length: Index = length
        size = i64(emit.product([operands.lines, length]))
        self.keys = [
            global_memory(f"best{at}_of_{length}", size, dtype)
            for at, dtype in enumerate(operands.order.word_types)
        ]
        self.places = global_memory(f"best_places_of_{length}", size, "int32")

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words of a candidate, and its place."""
        at = I.Bind(line * i64(self.length) + position)
        return [held(memory[at]) for memory in self.keys], held(self.places[at])

    def store(self, line: Expr, position: Expr, words: Sequence[Expr], place: Expr) -> None:
        """Write a candidate."""
        at = I.Bind(line * i64(self.length) + position)
        for memory, word in zip(self.keys, words, strict=True):
            I.buffer_store(memory, word, [at])
        I.buffer_store(self.places, place, [at])


class _Part:
    """A workgroup with the list of its part's best, while emitted.

    All lanes know how many are listed, and the threshold.
    """

    def __init__(
        self,
        operands: TopkOperands,
        source: _Inputs | _Left,
        shape: SortShape,
        kind: str,
        ids: tuple[Expr, Expr],
    ) -> None:
        self.operands, self.source, self.shape, self.kind = operands, source, shape, kind
        self.subgroup, self.own = ids
        self.lane = I.Bind(self.subgroup * shape.size + self.own)
        kept = known(operands.kept)
        assert kept is not None
        self.kept, self.order = kept, operands.order
        self.tile = SortTile(self.order, shape.elements, shape.elements, self.lane, shape.lanes)
        self.votes = [_votes(f"votes{at}", 2 * shape.subgroups) for at in range(2)]
        self.listed = emit.registers(1, "int32")
        I.buffer_store(self.listed, tirx.const(0, "int32"), [0])
        self.threshold = [emit.registers(1, dtype) for dtype in self.order.word_types]
        for cell in self.threshold:
            I.buffer_store(cell, tirx.const(0, str(cell.dtype)), [0])
        self.last = emit.registers(1, "int32")
        I.buffer_store(self.last, tirx.const(NO_PLACE, "int32"), [0])

    def list_inits(self, line: Expr, part: Expr) -> None:
        """List the inits; the first part does."""
        with I.If(part == 0), I.Then():
            with I.serial(0, -(-self.kept // self.shape.lanes)) as turn:
                k = I.Bind(turn * self.shape.lanes + self.lane)
                with I.If(k < self.kept), I.Then():
                    self.tile.put(k, self.operands.init(line, wide(k)), k)
            I.buffer_store(self.listed, tirx.const(self.kept, "int32"), [0])

    def list_best(self, line: Expr, part: Expr, parts: int) -> None:
        """Walk along the part, and list what goes before the threshold."""
        length, lanes = self.source.length, self.shape.lanes
        share = emit.ceil_div(length, parts)
        self.first = I.Bind(part * i64(share))
        self.stop = I.Bind(tirx.min(self.first + i64(share), i64(length)))
        # Of parts that lie past the end there are none.
        span = tirx.max(self.stop - self.first, i64(0))
        steps = tirx.floordiv(span + (_LOADS * lanes - 1), i64(_LOADS * lanes))
        with I.serial(i64(0), I.Bind(steps)) as step:
            rows = [I.Bind(step * _LOADS + row) for row in range(_LOADS)]
            elements = [self._load(line, row) for row in rows]
            said = [held(tirx.Cast("int8", self._beats(*one))) for one in elements]
            turn = tirx.Cast("int32", step % 2)
            words, before, total = self._vote(0, said, turn)
            with I.If(total > 0), I.Then(), I.If(self.listed[0] + total <= self.shape.elements):
                with I.Then():
                    self._list(elements, said, words, before)
                    I.buffer_store(self.listed, self.listed[0] + total, [0])
                with I.Else(), I.serial(0, _LOADS) as row:
                    self._list_row(line, I.Bind(step * _LOADS + wide(row)), row % 2)

    def _list_row(self, line: Expr, row: Expr, turn: Expr) -> None:
        """List a row of elements, for which there is always room once the list is sorted."""
        element = self._load(line, row)
        said = [held(tirx.Cast("int8", self._beats(*element)))]
        words, before, total = self._vote(1, said, turn)
        with I.If(self.listed[0] + total > self.shape.elements), I.Then():
            self._sort()
            last = self.kept - 1
            for cell, memory in zip(self.threshold, self.tile.words, strict=True):
                I.buffer_store(cell, memory[last], [0])
            I.buffer_store(self.last, self.tile.places[last], [0])
            I.buffer_store(self.listed, tirx.const(self.kept, "int32"), [0])
        self._list([element], said, words, before)
        I.buffer_store(self.listed, self.listed[0] + total, [0])

    def _load(self, line: Expr, row: Expr) -> tuple[list[Expr], Expr]:
        """A lane's element of a row: its words, and its place; none past the end of the part."""
        position = I.Bind(self.first + row * self.shape.lanes + wide(self.lane))
        # Read in any case, so that loads wait for no condition, and not one for another.
        words, place = self.source.load(line, I.Bind(tirx.min(position, self.stop - 1)))
        none = tirx.const(NO_PLACE, "int32")
        return words, held(tirx.Select(position < self.stop, place, none))

    def _beats(self, words: Sequence[Expr], place: Expr) -> Expr:
        threshold = [cell[0] for cell in self.threshold]
        return self.order.swaps(threshold, self.last[0], words, place)

    def _vote(self, number: int, said: Sequence[Expr], turn: Expr) -> tuple[list[Expr], Expr, Expr]:
        """Each row's ballots; of all rows, how many the subgroups before list, and all.

        What the turn before left is read until all have left this one's: turns alternate.
        """
        memory, subgroups = self.votes[number], self.shape.subgroups
        no = tirx.const(0, "int8")
        words = [ballot(self.kind, self.shape.size, one != no) for one in said]
        mine: Expr = tirx.const(0, "int32")
        for word in words:
            mine = mine + count(self.kind, word)
        first = I.Bind(turn * subgroups)
        with I.If(self.own == 0), I.Then():
            I.buffer_store(memory, mine, [first + self.subgroup])
        wait()
        zero = tirx.const(0, "int32")
        before, total = emit.registers(1, "int32"), emit.registers(1, "int32")
        I.buffer_store(before, zero, [0])
        I.buffer_store(total, zero, [0])
        for other in range(subgroups):
            theirs = held(memory[first + other])
            earlier = tirx.Select(tirx.const(other, "int32") < self.subgroup, theirs, zero)
            I.buffer_store(before, before[0] + earlier, [0])
            I.buffer_store(total, total[0] + theirs, [0])
        return words, before[0], total[0]

    def _list(
        self,
        elements: Sequence[tuple[list[Expr], Expr]],
        said: Sequence[Expr],
        words: Sequence[Expr],
        before: Expr,
    ) -> None:
        at = emit.registers(1, "int32")
        I.buffer_store(at, self.listed[0] + before, [0])
        for element, one, word in zip(elements, said, words, strict=True):
            with I.If(one != tirx.const(0, "int8")), I.Then():
                self.tile.put(I.Bind(at[0] + count_before(self.kind, word, self.own)), *element)
            I.buffer_store(at, at[0] + count(self.kind, word), [0])

    def _sort(self) -> None:
        with self.tile.each() as (_, position, at), I.If(position >= self.listed[0]), I.Then():
            self.tile.put_none(at)
        self.tile.sort()

    def write(self, line: Expr, part: Expr, left: _Left | None) -> None:
        """Write the first of the list to the next round's candidates, or as results."""
        self._sort()
        with self.tile.each() as (_, position, at), I.If(position < self.kept), I.Then():
            words, place = [memory[at] for memory in self.tile.words], self.tile.places[at]
            if left is None:
                self.operands.move(line, wide(position), place, words)
            else:
                left.store(line, I.Bind(part * self.kept + wide(position)), words, place)


def _votes(name: str, size: int) -> Any:
    buffer = I.alloc_buffer((size,), "int32", scope="shared")
    IRBuilder.name(name, buffer)
    return buffer
