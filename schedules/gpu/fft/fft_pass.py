"""Transforms of lines that a workgroup holds in registers: one pass over global memory.

Stockham's form: before a stage of radix r, transforms of length m are done; butterfly j of n / r
takes elements j + q n / r, turns and transforms them in registers, and leaves results c at
(j - j mod m) r + j mod m + c m.  The first stage reads what the caller loads, the last one gives
the caller its results.  Between two stages, elements are exchanged through shared memory:

    read all butterflies of a lane; wait; transform and write them; wait

so that one part of shared memory is enough, whatever the length.

A pass may be the rest of longer transforms: of length M, of which the line has the result P.  A
stage is then turned as after transforms of length M m, at the place P + M (j mod m).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit import launches
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.fft.fft_exchange import ExchangedLines, exchanged_lines
from tvm_iree_ext.schedules.gpu.fft.fft_roots_table import RootsTable, kept_powers
from tvm_iree_ext.schedules.shared.fft.fft_codelets import (
    CodeletRegisters,
    Point,
    dft,
    root,
    twiddle_roots,
    twiddled_dft,
)
from tvm_iree_ext.tir.tir_expressions import Expr

Load = Callable[[Expr], Callable[[Expr], Point]]
"""Of a line, by its number, the elements, by their places along it."""
Store = Callable[[Expr], Callable[[Expr, Point], None]]


@dataclass(frozen=True)
class SharedMemory:
    """Shared memory of a chip.

    Attributes:
        scope: as TVM calls it.
        bank_bytes: of all banks together, for one access.
    """

    scope: str
    bank_bytes: int


@dataclass(frozen=True)
class Turns:
    """Roots of unity for the stages of a pass.

    Attributes:
        table: of all stages of a transform.
        done: the length of the transforms before the pass.
        result: which result of these a line has.
    """

    table: RootsTable
    done: int
    result: Callable[[Expr], Expr]


@dataclass(frozen=True)
class Pass:
    """One kernel of transforms.

    Attributes:
        length: of a line, the product of ``radices``.
        radices: of the stages; one of radix 1 moves elements alone.
        lines: how many lines a workgroup has, a power of two.
        shape: of the workgroup.
        load_beside: whether neighbouring lanes load elements of neighbouring lines, rather than
            neighbours of a line.
        store_beside: the same of results.
        dtype: of all arithmetic.
        shared: memory for exchanges.
    """

    length: int
    radices: Sequence[int]
    lines: int
    shape: launches.WorkgroupShape
    load_beside: bool
    store_beside: bool
    dtype: str
    shared: SharedMemory

    def emit(self, count: Index, turns: Turns | None, load: Load, store: Store) -> None:
        """The kernel, for so many lines."""
        with launches.workgroup(emit.ceil_div(count, self.lines), self.shape) as (number, lane):
            _Workgroup(self, (number, lane, count), turns).emit(load, store)

    @cached_property
    def stages(self) -> list["PassStage"]:
        """In order."""
        last = len(self.radices) - 1
        return [
            PassStage(self, radix, prod(self.radices[:at]), self._is_beside(at, last))
            for at, radix in enumerate(self.radices)
        ]

    def _is_beside(self, stage: int, last: int) -> bool:
        if stage == 0:
            return self.load_beside
        return self.store_beside and (self.load_beside or stage == last)

    @cached_property
    def exchanges(self) -> list[ExchangedLines]:
        """Shared memory after each stage but the last."""
        size = max(1, self.shared.bank_bytes // item_bytes(self.dtype))
        lanes = np.arange(min(self.shape.size, size))
        return [
            exchanged_lines(
                self.length,
                self.lines,
                (one.written(lanes, 0), other.read(lanes, 0)),
                beside=one.beside and other.beside,
                banks=size,
            )
            for one, other in zip(self.stages, self.stages[1:], strict=False)
        ]


@dataclass(frozen=True)
class PassStage:
    """A stage of a pass: places of elements, for expressions as for arrays of butterflies.

    Attributes:
        whole: the pass.
        radix: of the stage.
        done: the length of the transforms before it, within the pass.
        beside: whether neighbouring lanes have neighbouring lines.
    """

    whole: Pass
    radix: int
    done: int
    beside: bool

    @property
    def butterflies(self) -> int:
        """Of a line."""
        return self.whole.length // self.radix

    @property
    def total(self) -> int:
        """Butterflies of all lines."""
        return self.butterflies * self.whole.lines

    @property
    def rounds(self) -> int:
        """Butterflies of a lane, at most."""
        return -(-self.total // self.whole.shape.lanes)

    def split(self, number: Any) -> tuple[Any, Any]:
        """The line of a butterfly, and its number there."""
        if self.beside:
            return number % self.whole.lines, number // self.whole.lines
        return number // self.butterflies, number % self.butterflies

    def read(self, number: Any, q: int) -> tuple[Any, Any]:
        """Line and place of an element that a butterfly takes."""
        line, j = self.split(number)
        return line, j + q * self.butterflies

    def written(self, number: Any, c: int) -> tuple[Any, Any]:
        """Line and place of a result."""
        line, j = self.split(number)
        within = j % self.done
        return line, (j - within) * self.radix + within + c * self.done

    def numbers(self, turn: int) -> np.ndarray:
        """The butterfly of each lane in a round."""
        lanes = self.whole.shape.lanes
        return np.minimum(turn * lanes + np.arange(lanes), self.total - 1)


class _Workgroup:
    """The lanes of a workgroup while its kernel is emitted."""

    def __init__(self, made: Pass, place: tuple[Any, Any, Index], turns: Turns | None) -> None:
        self.made, self.turns = made, turns
        number, self.lane, self.count = place
        self.first = I.Bind(wide(number) * made.lines)
        self.span = max((one.extent for one in made.exchanges), default=0)
        self.memory: Any = None
        if self.span:
            self.memory = I.alloc_buffer((2 * self.span,), made.dtype, scope=made.shared.scope)
            IRBuilder.name("exchange", self.memory)

    def emit(self, load: Load, store: Store) -> None:
        """All stages."""
        stages, memories = self.made.stages, [None, *self.made.exchanges, None]
        for number, stage in enumerate(stages):
            source, target = memories[number], memories[number + 1]
            points = self._loaded(stage, load) if source is None else self._read(stage, source)
            roots = [self._roots(stage, turn) for turn in range(stage.rounds)]
            if source is not None and target is not None:
                launches.wait()
            for turn in range(stage.rounds):
                registers = CodeletRegisters(1, self.made.dtype)
                values = _transformed(registers, points[turn], roots[turn])
                if target is None:
                    self._stored(stage, turn, values, store)
                else:
                    self._write(stage, turn, values, target)
            if target is not None:
                launches.wait()

    def number(self, stage: PassStage, turn: int) -> Expr:
        """The butterfly of this lane in a round; the last one where there is none."""
        number = self.lane + turn * self.made.shape.lanes
        if self._has_all(stage, turn):
            return I.Bind(number)
        return I.Bind(tirx.min(number, tirx.const(stage.total - 1, "int32")))

    def _has_all(self, stage: PassStage, turn: int) -> bool:
        return (turn + 1) * self.made.shape.lanes <= stage.total

    def _line(self, line: Expr) -> Expr:
        return I.Bind(self.first + wide(line))

    def _is_whole(self) -> bool:
        """Whether all workgroups have all of their lines."""
        number = known(self.count)
        return number is not None and number % self.made.lines == 0

    def _present(self, line: Expr) -> Expr:
        """The number of a line; the last one where there is none."""
        whole = self._line(line)
        return whole if self._is_whole() else I.Bind(tirx.min(whole, i64(self.count) - 1))

    def _loaded(self, stage: PassStage, load: Load) -> list[list[Point]]:
        points = []
        for turn in range(stage.rounds):
            registers = CodeletRegisters(1, self.made.dtype)
            line, j = map(I.Bind, stage.split(self.number(stage, turn)))
            element = load(self._present(line))
            places = (wide(j + q * stage.butterflies) for q in range(stage.radix))
            points.append([registers.point(element(place)) for place in places])
        return points

    def _stored(self, stage: PassStage, turn: int, values: list[Point], store: Store) -> None:
        lanes = self.made.shape.lanes
        inside = None if self._has_all(stage, turn) else self.lane + turn * lanes < stage.total
        line = I.Bind(stage.split(self.number(stage, turn))[0])
        whole = self._line(line)
        with where(inside), where(None if self._is_whole() else whole < i64(self.count)):
            write = store(whole)
            for c, value in enumerate(values):
                place = stage.written(self.number(stage, turn), c)[1]
                write(I.Bind(wide(place)), value)

    def _read(self, stage: PassStage, source: ExchangedLines) -> list[list[Point]]:
        points = []
        places = _Places(self, stage, source, stage.read)
        for turn in range(stage.rounds):
            registers = CodeletRegisters(1, self.made.dtype)
            found = [places.at(turn, q) for q in range(stage.radix)]
            points.append(
                [registers.point((self.memory[at], self.memory[at + self.span])) for at in found]
            )
        return points

    def _write(
        self, stage: PassStage, turn: int, values: list[Point], target: ExchangedLines
    ) -> None:
        lanes = self.made.shape.lanes
        inside = None if self._has_all(stage, turn) else self.lane + turn * lanes < stage.total
        places = _Places(self, stage, target, stage.written)
        found = [places.at(turn, c) for c in range(stage.radix)]
        with where(inside):
            for at, value in zip(found, values, strict=True):
                for part in range(2):
                    I.buffer_store(self.memory, value[part], [at + part * self.span])

    def _roots(self, stage: PassStage, turn: int) -> list[Point]:
        """Of a butterfly, those that the table keeps."""
        if self.turns is None or stage.radix == 1 or stage.done * self.turns.done == 1:
            return []
        line, j = stage.split(self.number(stage, turn))
        within = wide(j % stage.done)
        place = within if self.turns.done == 1 else (
            self.turns.result(self._present(line)) + within * self.turns.done
        )  # fmt: skip
        place = I.Bind(place)
        done = stage.done * self.turns.done
        count = len(kept_powers(stage.radix))
        return [self.turns.table.at(done, number, place) for number in range(count)]


class _Places:
    """Places in shared memory of the butterflies of a lane.

    Each is that of the first, and a constant, where that is so for all lanes; else it is computed.
    """

    def __init__(
        self,
        lanes: _Workgroup,
        stage: PassStage,
        memory: ExchangedLines,
        element: Callable[..., Any],
    ) -> None:
        self._lanes, self._stage, self._memory, self._element = lanes, stage, memory, element
        self._known: list[tuple[np.ndarray, Expr]] = []

    def at(self, turn: int, element: int) -> Expr:
        """The place of an element of a round."""
        values = self._memory.at(*self._element(self._stage.numbers(turn), element))
        for others, place in self._known:
            apart = values - others
            if (apart == apart[0]).all():
                return place + int(apart[0])
            apart = values ^ others
            if (apart == apart[0]).all():
                return place ^ int(apart[0])
        number = self._lanes.number(self._stage, turn)
        place = held(self._memory.at(*self._element(number, element)))
        self._known.append((values, place))
        return place


def _transformed(
    registers: CodeletRegisters, points: list[Point], roots: list[Point]
) -> list[Point]:
    """The transform of a butterfly's elements, after they are turned."""
    radix = len(points)
    if not roots:
        return dft(registers, points)
    if radix & (radix - 1):
        turned = [registers.multiply(a, w) for a, w in zip(points[1:], roots, strict=True)]
        return dft(registers, [points[0], *turned])
    kept = dict(zip(kept_powers(radix), roots, strict=True))
    needed = []
    for power, eighth, order in twiddle_roots(radix):
        constant = root(eighth, order)
        w = kept[power]
        if eighth:
            w = registers.multiply(
                w, (registers.const(constant.real), registers.const(constant.imag))
            )
        needed.append(w)
    return twiddled_dft(registers, points, needed)
