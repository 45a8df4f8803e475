"""Transforms of lines that fit shared memory: several a workgroup, one pass over global memory.

Stockham's form: before a stage of radix r, transforms of length m are done; butterfly j of n / r
takes elements j + q n / r, twiddles them, transforms them in registers, and leaves results c at
(j - j mod m) r + j mod m + c m.  The first stage reads what the caller loads, the last one gives
the caller its results.  Those between alternate between two parts of shared memory; or one part is
enough, where each lane has one butterfly and so can read all of it before any lane writes: another
barrier takes less than half the workgroups that a chip has room for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit import launches
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point, dft
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.tir.tir_expressions import Expr

Load = Callable[[Expr, Expr], Point]
"""An element of a line: by the line's number and the place along it."""
Store = Callable[[Expr, Expr, Point], None]


class Roots:
    """``exp(-2 pi i t / order)`` for all t below the order: a table that a kernel fills."""

    def __init__(self, order: int, dtype: str, shape: launches.WorkgroupShape) -> None:
        self.order = order
        names = (f"roots_real_{order}", f"roots_imag_{order}")
        self._parts = [launches.global_memory(name, i64(order), dtype) for name in names]
        with launches.for_each(order, shape) as power:
            for part, value in zip(self._parts, unit_roots(power, order, dtype, 1), strict=True):
                I.buffer_store(part, value, [power])

    def at(self, power: Expr, order: int) -> Point:
        """Root of unity of a divisor of the order."""
        place = I.Bind(i64(power) * (self.order // order))
        return held(self._parts[0][place]), held(self._parts[1][place])


@dataclass(frozen=True)
class Pass:
    """One kernel of transforms.

    Attributes:
        length: of a line, the product of ``radices``.
        radices: of the stages.
        lines: how many lines a workgroup has, a power of two.
        shape: of the workgroup.
        beside: whether neighbouring lines are neighbours in memory, rather than their elements.
        dtype: of all arithmetic.
    """

    length: int
    radices: Sequence[int]
    lines: int
    shape: launches.WorkgroupShape
    beside: bool
    dtype: str

    def emit(self, count: Index, roots: Roots | None, load: Load, store: Store) -> None:
        """The kernel, for so many lines."""
        tile = self.lines
        with launches.workgroup(emit.ceil_div(count, tile), self.shape) as (number, lane):
            first = I.Bind(wide(number) * tile)
            shared = self._shared_memory(1 if self._is_in_place(count) else 2)
            done = 1
            for stage, radix in enumerate(self.radices):
                source = None if stage == 0 else shared[(stage - 1) % len(shared)]
                target = None if stage == len(self.radices) - 1 else shared[stage % len(shared)]
                self._stage(radix, done, (first, count, lane), source, target, roots, load, store)
                if target is not None:
                    launches.wait()
                done *= radix

    def _is_in_place(self, count: Index) -> bool:
        """Whether every lane has one butterfly of each stage but the first and the last."""
        between = (self.length // radix * self.lines for radix in self.radices[1:-1])
        return self._is_whole(count) and all(total == self.shape.lanes for total in between)

    def _is_whole(self, count: Index) -> bool:
        """Whether all workgroups have all of their lines."""
        number = known(count)
        return number is not None and number % self.lines == 0

    def _shared_memory(self, sides: int) -> list[list[Any]]:
        found = []
        for side in range(min(sides, len(self.radices) - 1)):
            parts = []
            for part in ("real", "imag"):
                extent = (self.length * self.lines,)
                parts.append(I.alloc_buffer(extent, self.dtype, scope="shared"))
                IRBuilder.name(f"{part}_{side}", parts[-1])
            found.append(parts)
        return found

    def _stage(
        self,
        radix: int,
        done: int,
        place: tuple[Expr, Index, Expr],
        source: list[Any] | None,
        target: list[Any] | None,
        roots: Roots | None,
        load: Load,
        store: Store,
    ) -> None:
        first, count, lane = place
        butterflies = self.length // radix
        total = butterflies * self.lines
        rounds = -(-total // self.shape.lanes)
        with I.serial(0, rounds) as round_number:
            number = I.Bind(round_number * self.shape.lanes + lane)
            inside = None if total % self.shape.lanes == 0 else number < total
            with where(inside):
                if self.beside:
                    line, j = I.Bind(number % self.lines), I.Bind(number // self.lines)
                else:
                    line, j = I.Bind(number // butterflies), I.Bind(number % butterflies)
                whole = I.Bind(first + wide(line))
                with where(None if self._is_whole(count) else whole < i64(count)):
                    registers = CodeletRegisters(1, self.dtype)
                    within = I.Bind(j % done) if done > 1 else tirx.const(0, "int32")
                    points = []
                    for q in range(radix):
                        at = j + q * butterflies
                        if source is None:
                            point = load(whole, wide(at))
                        else:
                            here = I.Bind(self._at(line, at))
                            point = (source[0][here], source[1][here])
                        point = registers.point(point)
                        if roots is not None and q and done > 1:
                            root = roots.at(wide(within * q), done * radix)
                            point = registers.multiply(point, root)
                        points.append(point)
                    begin = I.Bind((j - within) * radix + within)
                    values = dft(registers, points)
                    if source is not None and source is target:
                        launches.wait()
                    for c, value in enumerate(values):
                        at = begin + c * done
                        if target is None:
                            store(whole, wide(at), value)
                        else:
                            here = I.Bind(self._at(line, at))
                            for memory, part in zip(target, value, strict=True):
                                I.buffer_store(memory, part, [here])

    def _at(self, line: Expr, position: Expr) -> Expr:
        if self.beside:
            return position * self.lines + line
        return line * self.length + position
