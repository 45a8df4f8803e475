"""A workgroup's tile of lines: where its elements are, and how a lane reads and writes them.

A *run* is what one access has: neighbouring positions of a line (rows), or of one position of
neighbouring lines (columns).  Rows whose length is no multiple of a run begin at the access that
their first element lies in: positions before the line, as those behind it, are not there.  Lines
past the last one repeat it, and are not written.

Where a lane takes a line alone, its elements lie far from its neighbours'.  Promoted, they are read
and written with neighbouring lanes along the lines, and change hands through shared memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, divide, i64, known
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import (
    emit_conversion,
    shared_elements,
)
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import digits
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import LaneRegisters, WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.lines.line_plan import LinePlan
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.schedules.shared.lines import FlatOperand, Lines
from tvm_iree_ext.tir.tir_expressions import Expr, bits, cast

ALIGNMENT_BYTES = 16  # of operands, which are read in vectors


@dataclass(frozen=True)
class LineWords(FlatOperand):
    """An operand addressed by flat position, in memory as unsigned integers: no type is special."""

    of: str = ""

    @staticmethod
    def declare(buffer: Any) -> "LineWords":
        """The words of a flat buffer."""
        dtype = str(buffer.dtype)
        words = I.decl_buffer(
            buffer.shape, f"uint{8 * item_bytes(dtype)}", data=buffer.data, align=ALIGNMENT_BYTES
        )
        return LineWords(words, dtype)

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.of

    @property
    def word(self) -> str:
        """The type of words."""
        return str(self.buffer.dtype)

    def load(self, position: Index, lanes: int = 1) -> Expr:
        """An element in the held type."""
        assert lanes == 1
        return self.held_of(self.buffer[i64(position)])

    def store(self, position: Index, value: Expr, lanes: int = 1) -> None:
        """Write an element, given in the held type."""
        assert lanes == 1
        I.buffer_store(self.buffer, self.word_of(value), [i64(position)])

    def held_of(self, word: Expr) -> Expr:
        """The element that a word is, in the held type."""
        if self.of == "bool":
            return tirx.Cast("int8", word)
        if self.of == "bfloat16":
            return tirx.reinterpret("float32", tirx.Cast("uint32", word) << 16)
        return cast(word if self.of == self.word else tirx.reinterpret(self.of, word), self.held)

    def word_of(self, value: Expr) -> Expr:
        """The word for an element in the held type."""
        if self.of == "bool":
            return tirx.Cast("uint8", value)
        return value if self.of == self.word else bits(value, self.of)


class LineTile:
    """One workgroup's tiles while a kernel is emitted.

    Args:
        plan: of the tile.
        lines: of the tensor.
        workgroup: whose lanes these are.
        number: which tile of lines this is.
    """

    def __init__(self, plan: LinePlan, lines: Lines, workgroup: WorkgroupIds, number: Expr) -> None:
        self.plan, self.lines, self.workgroup = plan, lines, workgroup
        layout = plan.layout
        subgroup, lane = digits(layout, workgroup)
        self.part, self.lane = subgroup[1], lane[1]
        slots, self.held = layout.element_tile
        self.slots, self.batches = slots, layout.batch_tile[1]
        line = (subgroup[0] * layout.thread_tile[0] + lane[0]) * slots
        self.first = I.Bind(i64(number) * plan.lines)
        first = I.Bind(self.first + wide(line))
        self.count = emit.product([lines.outer, lines.inner])
        self.exists = None
        if (known(self.count) or 1) % plan.lines:
            self.exists = first < self.count
            first = tirx.min(first, i64(self.count) - slots)
        first = held(first)
        self.outer, self.inner = map(held, divide(first, lines.inner))
        self.base = held(lines.at(self.outer, 0, self.inner))
        self.ragged = plan.rows and known_factor(lines.length) % plan.run != 0
        self.shift: Any = None
        if plan.shifts(lines):
            self.shift = held(self.base % plan.run)
        along = wide(lane[1]) * self.held
        if layout.subgroup_tile[1] > 1:
            along = along + wide(self.part) * (plan.positions // layout.subgroup_tile[1])
        self.along = held(along if self.shift is None else along - self.shift)
        self.shared: Any = None

    @property
    def reach(self) -> Index:
        """The positions to be walked along: all of a line, and those before it."""
        return self.plan.reach(self.lines)

    @contextmanager
    def walk(self, first: Index, stop: Index) -> Iterator[Expr]:
        """For the first position of each tile from ``first`` to ``stop``."""
        tiles = emit.ceil_div(stop if known(first) == 0 else stop - first, self.plan.positions)
        with emit.serial(tiles) as tile:
            at = tile * self.plan.positions
            yield at if known(first) == 0 else first + at

    def line(self, slot: int) -> tuple[Expr, Expr]:
        """The outer and inner position of the line of a slot."""
        return self.outer, self.inner + slot

    def position(self, tile: Expr, batch: int, at: int = 0) -> Expr:
        """The position of one of a lane's elements along a line."""
        layout = self.plan.layout
        offset = batch * layout.thread_tile[1] * self.held + at
        return tile + self.along + offset if offset else tile + self.along

    def inside(self, position: Expr) -> Expr | None:
        """Whether a line has the position; None where it has all of every tile."""
        return self._inside(position, 1)

    def first_of_line(self) -> Expr | None:
        """For one lane of each line that there is; None for all."""
        conditions = [] if self.exists is None else [self.exists]
        layout = self.plan.layout
        for digit, tile in (
            (self.lane, layout.thread_tile[1]),
            (self.part, layout.subgroup_tile[1]),
        ):
            if tile > 1:
                conditions.append(digit == 0)
        return reduce(tirx.And, conditions) if conditions else None

    def registers(self, dtype: str) -> Any:
        """For a lane's elements of a tile."""
        shape = (self.batches * self.held * self.slots,)
        return I.alloc_buffer(shape, dtype, scope="local", align=ALIGNMENT_BYTES)

    def place(self, batch: int, at: int, slot: int) -> int:
        """Which register has an element: runs lie side by side."""
        return (batch * self.held + at) * self.slots + slot

    def load(self, source: LineWords, tile: Expr, words: Any) -> None:
        """A lane's words of a tile; 0 where there is none."""
        if self.plan.promoted is None:
            self._load(source, tile, words)
            return
        found = self.registers(source.word)
        self._load(source, tile, found)
        self._change_hands(self.plan.promoted, self.plan.layout, found, words)

    def store(self, target: LineWords, tile: Expr, words: Any) -> None:
        """A lane's words of a tile, where they are of lines."""
        if self.plan.promoted is not None:
            found = self.registers(target.word)
            self._change_hands(self.plan.layout, self.plan.promoted, words, found)
            words = found

        def run(register: int, count: int, flat: Expr) -> None:
            value = words[_run(register, count)]
            I.buffer_store(target.buffer, value, [emit.run(flat, count)])

        self._accesses(tile, run, None)

    def _change_hands(
        self, source: NestedLayout, result: NestedLayout, have: Any, want: Any
    ) -> None:
        """Words in the registers of one layout to those of another."""
        layouts, dtype = (source, result), str(have.dtype)
        if self.shared is None:
            count = shared_elements(
                *layouts, *self.workgroup.hardware, dtype, through_shared_memory=True
            )
            self.shared = I.alloc_buffer((count,), dtype, scope="shared")
        emit_conversion(
            *layouts, LaneRegisters(have), LaneRegisters(want), self.workgroup, self.shared,
            through_shared_memory=True,
        )  # fmt: skip

    def _load(self, source: LineWords, tile: Expr, words: Any) -> None:
        none = tirx.const(0, source.word)

        def run(register: int, count: int, flat: Expr) -> None:
            value = source.buffer[emit.run(flat, count)]
            I.buffer_store(words, value, [_run(register, count)])

        def absent(register: int, count: int) -> None:
            for at in range(register, register + count):
                I.buffer_store(words, none, [at])

        self._accesses(tile, run, absent)

    def _accesses(
        self,
        tile: Expr,
        run: Callable[[int, int, Expr], None],
        absent: Callable[[int, int], None] | None,
    ) -> None:
        """Each access of a tile: ``run(register, count, flat)``, or ``absent(register, count)``."""
        rows, count = self.plan.rows, self.plan.run
        step = 1 if rows else i64(self.lines.inner)
        for register, position, base, exists in self._places(tile):
            # A multiple of the run, which TVM has to see: else it loads element by element.
            flat = divide(base + position * step, count)[0] * count
            access = _Access(register, count, flat)
            inside = self._inside(position, count if rows else 1)
            with where(exists if absent is None else None):
                if inside is None:
                    run(*access)
                    continue
                with I.If(inside):
                    with I.Then():
                        run(*access)
                    if rows and self.ragged:
                        with I.Else():
                            self._singly(position, access, run, absent)
                    elif absent is not None:
                        with I.Else():
                            absent(access.register, access.elements)

    def _places(self, tile: Expr) -> Iterator[tuple[int, Expr, Expr, Expr | None]]:
        """Each access of a tile: its first register, position, line's base, and whether that is."""
        promoted = self.plan.promoted
        if promoted is None:
            for batch in range(self.batches):
                for at in range(0, self.held, self.plan.run if self.plan.rows else 1):
                    position = I.Bind(self.position(tile, batch, at))
                    yield self.place(batch, at, 0), position, self.base, self.exists
            return
        subgroup, lane = digits(promoted, self.workgroup)
        batches, threads = promoted.batch_tile[0], promoted.thread_tile[0]
        for batch in range(batches):
            line = self.first + wide((subgroup[0] * batches + batch) * threads + lane[0])
            exists = None if self.exists is None else line < self.count
            base = I.Bind(tirx.min(line, i64(self.count) - 1) * i64(self.lines.length))
            position = tile + wide(lane[1] * self.plan.run)
            if self.shift is not None:
                position = position - base % self.plan.run
            yield batch * self.plan.run, I.Bind(position), base, exists

    def _singly(
        self,
        position: Expr,
        access: "_Access",
        run: Callable[[int, int, Expr], None],
        absent: Callable[[int, int], None] | None,
    ) -> None:
        """An access of which only some elements are there."""
        for at in range(access.elements):
            with I.If(self._inside(position + at, 1)):
                with I.Then():
                    run(access.register + at, 1, access.flat + at)
                if absent is not None:
                    with I.Else():
                        absent(access.register + at, 1)

    def _inside(self, position: Expr, count: int) -> Expr | None:
        """Whether a line has so many positions from one on; None where it has all of any tile."""
        length = known(self.lines.length)
        if self.shift is not None:
            return tirx.And(position >= 0, position + count <= i64(self.lines.length))
        if length is not None and length % self.plan.positions == 0:
            return None
        return position + count <= i64(self.lines.length)


class _Access(NamedTuple):
    register: int
    elements: int
    flat: Expr


def _run(register: int, count: int) -> Any:
    return tirx.Ramp(register, 1, count) if count > 1 else register
