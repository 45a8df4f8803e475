"""Sorts by digits of 8 bits, the lowest first: stable, in time proportional to the length.

    a line that fits a tile    one kernel: ranked and exchanged in shared memory, digit by digit
    longer lines               for each digit three kernels, each tile with a workgroup of its own:
        count      how many elements of each tile have which digit
        sum        over the tiles of a line, for each digit
        scatter    a tile is put in order in shared memory, and written in runs

What moves is the operand that is compared, and beside it the only other operand, or, where there
are more, the place that an element came from; they are moved with the last digit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.workgroup_prefix import WorkgroupPrefix
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import (
    WorkgroupShape,
    for_each,
    global_memory,
    wait,
    workgroups,
)
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import word_type
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGIT_BITS, DIGITS, RadixKey
from tvm_iree_ext.schedules.gpu.sort.radix_ranks import DigitRanks, shared_memory
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import SortOperands
from tvm_iree_ext.tir.tir_expressions import Expr

Columns: TypeAlias = list[Expr]
"""What moves of an element: its word, and a payload's word or its place."""

_FEW_TILES = 32  # of a line: summed by a lane for each digit, not by a workgroup
_TILES_OF_LANE = 8  # in each step of the sums


def column_types(op: Sort) -> list[str]:
    """Types of what moves of an element."""
    assert op.order is not None
    others = [dtype for at, dtype in enumerate(op.dtypes) if at != op.order.operand]
    beside = {0: [], 1: [word_type(dtype) for dtype in others]}.get(len(others), ["int32"])
    return [word_type(op.dtypes[op.order.operand]), *beside]


@dataclass(frozen=True)
class RadixShape(WorkgroupShape):
    """A workgroup, and how many elements each of its lanes has."""

    items: int

    @property
    def tile(self) -> int:
        """Elements of a workgroup."""
        return self.lanes * self.items


def radix_kernel(op: Sort, shape: RadixShape, kind: str) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, for a kind of target."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SortOperands(op)
        I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
        with I.sblock("root"):
            operands.declare()
            length = known(operands.length)
            if length is not None and length <= shape.tile:
                _emit_short(operands, shape, kind)
            else:
                _Passes(operands, shape, kind).emit()
    return builder.get()


class _Columns:
    """The operands as columns."""

    def __init__(self, operands: SortOperands) -> None:
        order = operands.op.order
        assert order is not None
        self.operands = operands
        self.key = RadixKey(operands.op.dtypes[order.operand], order.descending)
        self.types = column_types(operands.op)
        others = [at for at in range(len(operands.op.dtypes)) if at != order.operand]
        self.carried = [order.operand, *(others if len(others) == 1 else [])]
        self.has_places = len(others) > 1

    def load(self, line: Expr, position: Expr) -> Columns:
        """What moves of an element of the inputs."""
        operands = self.operands
        at = I.Bind(operands.at(line, position))
        found = [held(operands.inputs[operand][at]) for operand in self.carried]
        return [*found, tirx.Cast("int32", position)] if self.has_places else found

    def store(self, line: Expr, position: Expr, columns: Columns) -> None:
        """Write an element to the results."""
        operands = self.operands
        if self.has_places:
            operands.move(line, position, columns[1], columns[:1])
            return
        at = I.Bind(operands.at(line, position))
        for operand, word in zip(self.carried, columns, strict=True):
            I.buffer_store(operands.results[operand], word, [at])


class _Tile:
    """A workgroup's tile in registers, while emitted: each lane has ``items`` of its elements."""

    def __init__(
        self, columns: _Columns, shape: RadixShape, ids: WorkgroupIds, values: int = 1
    ) -> None:
        self.columns, self.shape, self.ids = columns, shape, ids
        self.ranks = DigitRanks(ids, values)
        run = I.Bind(ids.subgroup * (shape.items * shape.size) + ids.lane)
        self.positions = [I.Bind(run + item * shape.size) for item in range(shape.items)]
        self.shared: list[Any] = []

    def load(self, first: Expr, length: Index, load: Callable[[Expr], Columns]) -> list[Columns]:
        """A lane's elements; past the end of the line any."""
        last = I.Bind(i64(length) - 1 - first)
        inside = [I.Bind(tirx.min(wide(position), last)) for position in self.positions]
        return [load(I.Bind(first + position)) for position in inside]

    def digits(self, elements: Sequence[Columns], count: Expr, shift: Expr) -> list[Expr]:
        """Their digits; those behind the ``count`` of the tile stay there by the largest one."""
        found = []
        for position, element in zip(self.positions, elements, strict=True):
            digit = self.columns.key.digit(element[0], shift)
            last = tirx.const(DIGITS - 1, "int32")
            found.append(held(tirx.Select(position < count, digit, last)))
        return found

    def exchange(self, elements: Sequence[Columns], places: Sequence[Expr]) -> None:
        """Put the elements into shared memory, each in its place."""
        if not self.shared:
            types = enumerate(self.columns.types)
            self.shared = [shared_memory(f"column{at}", self.shape.tile, t) for at, t in types]
        for element, place in zip(elements, places, strict=True):
            for memory, word in zip(self.shared, element, strict=True):
                I.buffer_store(memory, word, [place])
        wait()

    def taken(self, position: Expr) -> Columns:
        """The element in a place."""
        return [held(memory[position]) for memory in self.shared]


def _emit_short(operands: SortOperands, shape: RadixShape, kind: str) -> None:
    """One kernel: a line for each workgroup."""
    columns, length = _Columns(operands), known(operands.length)
    assert length is not None
    count = tirx.const(length, "int32")
    with workgroups(operands.lines, shape.subgroups, shape.size, kind) as (number, ids):
        tile, line = _Tile(columns, shape, ids), I.Bind(wide(number))
        loaded = tile.load(i64(0), length, lambda position: columns.load(line, position))
        registers = [[emit.registers(1, kind) for kind in columns.types] for _ in loaded]
        _keep(registers, loaded)
        with I.serial(0, columns.key.digits) as turn:
            elements = [[cell[0] for cell in element] for element in registers]
            digits = tile.digits(elements, count, turn * DIGIT_BITS)
            ranks = tile.ranks.count(digits)
            own = [tile.ranks.digit(number) for number in range(tile.ranks.each)]
            _begin(tile.ranks, own)
            wait()
            tile.exchange(elements, tile.ranks.placed(digits, ranks))
            _keep(registers, [tile.taken(position) for position in tile.positions])
        for position, element in zip(tile.positions, registers, strict=True):
            with I.If(position < count), I.Then():
                columns.store(line, wide(position), [cell[0] for cell in element])


def _keep(registers: Sequence[Sequence[Any]], elements: Sequence[Columns]) -> None:
    for cells, element in zip(registers, elements, strict=True):
        for cell, word in zip(cells, element, strict=True):
            I.buffer_store(cell, word, [0])


def _begin(ranks: DigitRanks, own: Sequence[Expr]) -> list[Expr]:
    """Where in the tile each of the lane's digits begins."""
    totals = [(_guarded(ranks, ranks.total(digit)),) for digit in own]
    starts = [start for (start,) in ranks.prefix.sums(totals).before]
    for digit, start in zip(own, starts, strict=True):
        ranks.begin(digit, start)
    return starts


def _guarded(ranks: DigitRanks, number: Expr) -> Expr:
    """A number of the lane's digit; 0 where it has none."""
    own = ranks.own_digits()
    return number if own is None else held(tirx.Select(own, number, tirx.const(0, "int32")))


class _Passes:
    """The kernels for longer lines."""

    def __init__(self, operands: SortOperands, shape: RadixShape, kind: str) -> None:
        self.operands, self.shape, self.kind = operands, shape, kind
        self.columns = _Columns(operands)
        self.lines, self.length = operands.lines, operands.length
        self.tiles = emit.ceil_div(self.length, shape.tile)
        self.count_of_tiles = emit.product([self.lines, self.tiles])
        self.passes = self.columns.key.digits
        self.total = emit.product([self.lines, self.length])
        sides = min(2, self.passes - 1)
        self.memory = [
            global_memory(f"column{at}_memory", i64(emit.product([sides, self.total])), dtype)
            for at, dtype in enumerate(self.columns.types)
        ] if sides else []  # fmt: skip
        counts = emit.product([self.lines, DIGITS, self.tiles])
        self.counts = global_memory("counts", i64(counts), "int32")
        digits = emit.product([self.lines, DIGITS])
        self.totals = global_memory("totals", i64(digits), "int32")

    def emit(self) -> None:
        """Three kernels for each digit; those between the first and the last in a loop."""
        inputs, results = self.columns.load, self.columns.store
        last = self.passes - 1
        self._pass(tirx.const(0, "int32"), inputs, self._writer(0) if last else results)
        if last > 1:
            with I.serial(1, last) as turn:
                side = wide(turn % 2)
                self._pass(turn * DIGIT_BITS, self._reader(1 - side), self._writer(side))
        if last:
            shift = tirx.const(last * DIGIT_BITS, "int32")
            self._pass(shift, self._reader((last - 1) % 2), results)

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
        shift: Expr,
        load: Callable[[Expr, Expr], Columns],
        store: Callable[[Expr, Expr, Columns], None],
    ) -> None:
        self._count(shift, load)
        tiles = known(self.tiles)
        if tiles is not None and tiles <= _FEW_TILES:
            self._sum_few(tiles)
        else:
            self._sum()
        self._scatter(shift, load, store)

    def _entry(self, line: Expr, digit: Expr) -> Expr:
        """Index of a line's digit."""
        return line * DIGITS + wide(digit)

    def _count(self, shift: Expr, load: Callable[[Expr, Expr], Columns]) -> None:
        shape = self.shape
        launch = workgroups(self.count_of_tiles, shape.subgroups, shape.size, self.kind)
        with launch as (number, ids):
            line, part = self._tile_of(number)
            tile = _Tile(self.columns, shape, ids)
            first = I.Bind(part * shape.tile)
            elements = tile.load(first, self.length, lambda at: load(line, at)[:1])
            ranks = tile.ranks
            ranks.count(tile.digits(elements, self._inside(first), shift))
            for each in range(ranks.each):
                digit = ranks.digit(each)
                with where(ranks.own_digits()):
                    at = self._entry(line, digit) * i64(self.tiles) + part
                    I.buffer_store(self.counts, ranks.total(digit), [at])

    def _tile_of(self, number: Expr) -> tuple[Expr, Expr]:
        """A workgroup's line, and its tile there."""
        # In registers: TVM fails to bound a minimum in which it sees a quotient by an unknown.
        line, part = map(held, emit.divide(wide(number), self.tiles))
        return line, part

    def _inside(self, first: Expr) -> Expr:
        """How many elements of the line are in a tile."""
        left = tirx.min(i64(self.length) - first, i64(self.shape.tile))
        return held(tirx.Cast("int32", left))

    def _sum_few(self, tiles: int) -> None:
        """A lane for each digit: what lies before each tile, in place of its count."""
        with for_each(emit.product([self.lines, DIGITS]), self.shape) as number:
            first = I.Bind(number * tiles)
            counted = [held(self.counts[first + tile]) for tile in range(tiles)]
            total: Expr = tirx.const(0, "int32")
            for tile, one in enumerate(counted):
                I.buffer_store(self.counts, total, [first + tile])
                total = held(total + one)
            I.buffer_store(self.totals, total, [number])

    def _sum(self) -> None:
        """The same by a workgroup for each digit."""
        shape, tiles = self.shape, i64(self.tiles)
        count = emit.product([self.lines, DIGITS])
        with workgroups(count, shape.subgroups, shape.size, self.kind) as (number, ids):
            lane = I.Bind(ids.subgroup * shape.size + ids.lane)
            prefix, first = WorkgroupPrefix(ids), I.Bind(wide(number) * tiles)
            carry = emit.registers(1, "int32")
            zero = tirx.const(0, "int32")
            I.buffer_store(carry, zero, [0])
            step_tiles = shape.lanes * _TILES_OF_LANE
            steps = tirx.floordiv(tiles + (step_tiles - 1), i64(step_tiles))
            with I.serial(i64(0), steps) as step:
                begin = I.Bind((step * shape.lanes + wide(lane)) * _TILES_OF_LANE)
                places = [I.Bind(begin + each) for each in range(_TILES_OF_LANE)]
                within = [I.Bind(tirx.min(place, tiles - 1)) for place in places]
                counted = [
                    (held(tirx.Select(place < tiles, self.counts[first + at], zero)),)
                    for place, at in zip(places, within, strict=True)
                ]
                found = prefix.sums(counted)
                for place, (sums,) in zip(places, found.before, strict=True):
                    with I.If(place < tiles), I.Then():
                        I.buffer_store(self.counts, carry[0] + sums, [first + place])
                I.buffer_store(carry, carry[0] + found.total[0], [0])
                wait()
            with I.If(lane == 0), I.Then():
                I.buffer_store(self.totals, carry[0], [wide(number)])

    def _scatter(
        self,
        shift: Expr,
        load: Callable[[Expr, Expr], Columns],
        store: Callable[[Expr, Expr, Columns], None],
    ) -> None:
        shape = self.shape
        launch = workgroups(self.count_of_tiles, shape.subgroups, shape.size, self.kind)
        with launch as (number, ids):
            line, part = self._tile_of(number)
            tile = _Tile(self.columns, shape, ids, 2)
            first = I.Bind(part * shape.tile)
            elements = tile.load(first, self.length, lambda at: load(line, at))
            inside, ranks = self._inside(first), tile.ranks
            digits = tile.digits(elements, inside, shift)
            found = ranks.count(digits)
            bases = shared_memory("bases", DIGITS, "int32")
            own = [ranks.digit(each) for each in range(ranks.each)]
            numbers = []
            for digit in own:
                at = I.Bind(self._entry(line, digit))
                all_of_line = _guarded(ranks, held(self.totals[at]))
                numbers.append((_guarded(ranks, ranks.total(digit)), all_of_line))
            for digit, (start, base) in zip(own, ranks.prefix.sums(numbers).before, strict=True):
                ranks.begin(digit, start)
                at = self._entry(line, digit) * i64(self.tiles) + part
                with where(ranks.own_digits()):
                    I.buffer_store(bases, base + self.counts[at] - start, [digit])
            wait()
            tile.exchange(elements, ranks.placed(digits, found))
            for item in range(shape.items):
                place = I.Bind(tirx.const(item * shape.lanes, "int32") + ranks.lane)
                with I.If(place < inside), I.Then():
                    columns = tile.taken(place)
                    digit = self.columns.key.digit(columns[0], shift)
                    store(line, I.Bind(wide(bases[digit] + place)), columns)
