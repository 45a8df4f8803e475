"""Points of a nest on the lanes of a GPU: how they are counted, and how lanes access runs.

A lane has a *run* of neighbouring points, as many as are one access of 16 bytes; neighbouring lanes
have neighbouring runs.  What is read side by side is read as a vector, and computed one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import DataType, ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    LoopNest,
    linear_index,
    step,
    substitute,
)
from tvm_iree_ext.schedules.shared.loops.loops_point import NestAccess, NestMemory, NestPoint

At = Mapping[ir.Var, Expr]


def spread(flat: Index, axes: Sequence[Axis]) -> dict[ir.Var, Expr]:
    """The values of axes at a flat position, the last axis the fastest."""
    at: dict[ir.Var, Expr] = {}
    for axis in reversed(axes[1:]):
        flat, value = emit.divide(flat, axis.extent)
        flat = I.Bind(i64(flat))
        at[axis.var] = I.Bind(value)
    if axes:
        at[axes[0].var] = i64(flat)
    return at


def is_aligned(position: Expr, line: Axis, run: int) -> bool:
    """Whether every run along an axis begins at a multiple of its length."""
    at = tirx.Var("run", "int64")
    return known_factor(substitute(position, {line.var: at * run})) % run == 0


def widest_run(
    stored: Sequence[tuple[ir.Var, Expr]],
    read: Sequence[NestAccess],
    line: Axis,
    axes: Sequence[Axis],
) -> int:
    """How many points along an axis one lane takes; 1 where nothing is side by side.

    ``stored`` are buffers with the positions that are written.
    """
    places = [*stored, *((access.buffer, access.position) for access in read if not access.guarded)]
    along = [(buffer, position) for buffer, position in places if step(position, line, axes) == 1]
    if len([p for p in along if p in stored]) < len(stored) or not along:
        return 1
    widest = max(max(DataType(str(buffer.ty.dtype)).bits, 8) for buffer, _ in along)
    run = 8 * WIDEST_ACCESS_BYTES // widest
    while run > 1 and known_factor(line.extent) % run:
        run //= 2
    while run > 1 and not all(is_aligned(position, line, run) for _, position in stored):
        run //= 2
    return run


@dataclass(frozen=True)
class Runs:
    """The accesses of a point that are side by side along an axis, by their order."""

    places: Mapping[int, NestAccess]
    length: int

    @staticmethod
    def of(look: NestPoint, line: Axis | None, axes: Sequence[Axis], length: int) -> "Runs":
        """Runs of accesses at a point that notes what is read."""
        found = {}
        if line is not None and length > 1:
            for place, access in enumerate(look.accesses):
                if access.guarded or step(access.position, line, axes) != 1:
                    continue
                if is_aligned(access.position, line, length):
                    found[place] = access
        return Runs(found, length)

    def make(self) -> dict[int, Any]:
        """Registers for them."""
        return {place: _registers(self.length, one.buffer) for place, one in self.places.items()}

    def load(
        self, memory: NestMemory, tiles: Mapping[int, Any], first: Sequence[NestAccess]
    ) -> None:
        """Fill the registers with what is read from a point on."""
        for place, tile in tiles.items():
            access = first[place]
            value = memory.flat[access.buffer][emit.run(access.position, self.length)]
            I.buffer_store(tile, value, [emit.run(0, self.length)])


def _registers(count: int, buffer: ir.Var) -> Any:
    """Registers of the type that the buffer's elements have in memory."""
    dtype = str(buffer.ty.dtype)
    held = emit.registers(count, "int8" if dtype == "bool" else dtype)
    IRBuilder.name("run", held)
    return held


def store_run(memory: NestMemory, buffer: ir.Var, position: Expr, values: Sequence[Expr]) -> None:
    """Write neighbouring elements, in one access."""
    if len(values) == 1:
        memory.store(buffer, position, values[0])
        return
    tile = _registers(len(values), buffer)
    for place, value in enumerate(values):
        I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [i64(place)])
    whole = emit.run(0, len(values))
    I.buffer_store(memory.flat[buffer], tile[whole], [emit.run(position, len(values))])


def stored_places(nest: LoopNest) -> list[tuple[ir.Var, Expr]]:
    """The buffers that a nest writes, and where."""
    return [(s.buffer, linear_index(s.buffer, list(s.indices))) for s in nest.stores]


def is_whole(count: Index, tile: int) -> bool:
    """Whether tiles of a size cover a number of points exactly."""
    number = known(count)
    return number is not None and number % tile == 0
