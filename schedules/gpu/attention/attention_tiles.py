"""Tiles in shared memory: how a workgroup fills them, and how lanes read their fragments.

Who moves what follows from layouts, as tables over lanes; a table becomes an expression of the
lane's id that is bound once, and what differs by the same for all lanes is a constant beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.emit import Index, IterationSpace, OperandView
from tvm_iree_ext.schedules.gpu.attention.attention_shared import FragmentReads, TileWrites
from tvm_iree_ext.schedules.gpu.emit.chip_math import as_held, as_held_dtype
from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_condition
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes, vector, where, wide
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip
from tvm_iree_ext.tir.tir_expressions import i64, known


@dataclass(frozen=True)
class Source:
    """A matrix ``[key, column]`` in global memory, read through an operand's map.

    Attributes:
        view: of the operand.
        space: of the op.
        keys, columns: the dims along its rows and columns.
        outer: the values of the others.
        first_column: that the tile begins with.
        limit: of the keys that may be read; by default all.
    """

    view: OperandView
    space: IterationSpace
    keys: Ints
    columns: Ints
    outer: dict[int, Any]
    first_column: Any = 0
    limit: Index | None = None

    @property
    def count(self) -> Index:
        """Of keys."""
        return self.space.count(self.keys) if self.limit is None else self.limit

    @property
    def width(self) -> int:
        """Of columns."""
        return known(self.space.count(self.columns)) or 1

    def offset(self, key: Any, column: Any) -> Any:
        """Where an element lies, in elements from the buffer's first."""
        flat: Any = i64(0)
        for index, extent in zip(self.index(key, column), self.view.buffer.shape, strict=True):
            flat = flat * extent + index
        return flat

    def index(self, key: Any, column: Any, count: int = 1) -> list[Any]:
        """The buffer's indices of an element, or of a run."""
        at = {**self.outer, **self.space.spread(wide(key), self.keys)}
        at |= self.space.spread(wide(column), self.columns)
        return self.view.index(at, count)

    def run(self, key_rows: bool, most: int) -> int:
        """How many elements side by side lie so in memory, too: along columns, or along keys."""
        dims = self.columns if key_rows else self.keys
        if known(self.view.along(dims)) == 0:
            return 1
        if not key_rows and self.limit is not None:  # a run would reach beyond it
            return 1
        return vector_elements(8 * item_bytes(self.view.dtype), most, self.space.count(dims))


class TileCopy:
    """The copy of a step's tile by all lanes, in two halves: ``issue`` and ``arrive``.

    Asynchronous where that is possible: past the registers.  Else ``issue`` loads registers, and
    ``arrive`` stores them.

    Args:
        lanes: of the workgroup.
        chip: of the target.
        source: what is copied.
        writes: who copies what, and where it lies.
    """

    def __init__(
        self, lanes: WorkgroupLanes, chip: GpuChip, source: Source, writes: TileWrites
    ) -> None:
        self.lanes, self.source, self.writes, self.tile = lanes, source, writes, writes.tile
        tile = self.tile
        self.buffer = I.alloc_buffer(
            (tile.elements,), tile.dtype, scope=lanes.scope, align=WIDEST_ACCESS_BYTES
        )
        same = as_held_dtype(source.view.dtype) == tile.dtype
        self.asynchronous = (
            same
            and not writes.transposes
            and 8 * writes.run * item_bytes(tile.dtype) in chip.async_copy_bits.get("cp.async", ())
        )
        if not self.asynchronous:
            count = writes.count
            self.registers = I.alloc_buffer((count,), tile.dtype, scope="local", align=16)
        self._bind()

    def _bind(self) -> None:
        """Bind the tables that the copy needs."""
        for at in self._reads():
            self.lanes.table(self.writes.keys[..., at])
            self.lanes.table(self.writes.columns[..., at])
        for (first, *_), _ in self.writes.targets():
            self.lanes.table(self.writes.address(first))

    def _reads(self) -> range:
        """The first registers of what a lane reads at once."""
        return range(0, self.writes.count, self.writes.run)

    def _guard(self, at: int) -> Any:
        return lane_condition(self.writes.inside[..., at], self.lanes.subgroup, self.lanes.lane)

    def issue(self, first_key: Any, whole: bool) -> None:
        """Start the copy of the tile at ``first_key``; ``whole`` where all its keys exist.

        Keys beyond the last repeat it: their scores are hidden.  Columns beyond are 0.
        """
        source, lanes, tile, writes = self.source, self.lanes, self.tile, self.writes
        across, along = (writes.run, 1) if writes.key_rows else (1, writes.run)
        for at in self._reads():
            key = wide(first_key) + wide(lanes.table(writes.keys[..., at]))
            column = lanes.table(writes.columns[..., at])
            if not whole:
                key = tirx.min(key, i64(source.count) - along)
            columns = writes.columns[..., at][writes.inside[..., at]]
            padded = int(columns.max(initial=0)) + across > source.width
            if not isinstance(source.first_column, int):
                column = wide(column) + source.first_column
                padded = source.width % tile.columns != 0
            exists = column < source.width if padded else None
            if exists is not None:
                column = tirx.min(column, source.width - across)
            with where(self._guard(at)):
                self._start(at, key, column, exists)

    def _start(self, at: int, key: Any, column: Any, exists: Any) -> None:
        source, tile, run = self.source, self.tile, self.writes.run
        if self.asynchronous:
            size = run * item_bytes(tile.dtype)
            target = self.buffer.access_ptr("w", offset=self.lanes.table(self.writes.address(at)))
            origin = source.view.buffer.access_ptr("r", offset=source.offset(key, column))
            kind = "cg" if size == 16 else "ca"
            kept = [] if exists is None else [
                tirx.Select(exists, tirx.const(size, "uint32"), tirx.const(0, "uint32"))
            ]  # fmt: skip
            I.evaluate(T.ptx[f"cp.async.{kind}.shared.global"](target, origin, size, *kept))
            return
        value = source.view.buffer[tuple(source.index(key, column, run))]
        value = as_held(value, tile.dtype)
        if exists is not None:
            zero = tirx.const(0, tile.dtype)
            value = tirx.Select(exists, value, tirx.Broadcast(zero, run) if run > 1 else zero)
        I.buffer_store(self.registers, value, [vector(tirx.const(at, "int32"), run)])

    def commit(self) -> None:
        """What was issued is one group, to be waited for."""
        if self.asynchronous:
            I.evaluate(T.ptx["cp.async.commit_group"]())

    def arrive(self) -> None:
        """What was issued is in shared memory, for this lane; a barrier tells the others."""
        if self.asynchronous:
            I.evaluate(T.ptx["cp.async.wait_group"](0))
            return
        for places, count in self.writes.targets():
            if self.writes.transposes and count > 1:
                parts = [self.registers[place] for place in places]
                value = tirx.Shuffle(parts, list(range(count)))
            else:
                value = self.registers[vector(tirx.const(places[0], "int32"), count)]
            address = self.lanes.table(self.writes.address(places[0]))
            with where(self._guard(places[0])):
                I.buffer_store(self.buffer, value, [vector(address, count)])


class FragmentLoad:
    """Reads an operand's fragments from a tile: by ``ldmatrix``, or in runs of registers.

    Args:
        lanes: that read.
        buffer: what is read.
        reads: how.
        once: whether the tile is written once, before the loop that reads it.  TVM must see the
            reads then, or it would give the memory to others.  Of other tiles it must not: it takes
            all pointers to shared memory for the same, and would add barriers.
    """

    def __init__(
        self, lanes: WorkgroupLanes, buffer: Any, reads: FragmentReads, once: bool = False
    ) -> None:
        self.lanes, self.buffer, self.reads, self.once = lanes, buffer, reads, once

    def bind(self, firsts: Sequence[Ints]) -> None:
        """Bind the tables of :meth:`load`."""
        for access in self.reads.accesses(firsts):
            self.lanes.table(access.address)

    def load(self, firsts: Sequence[Ints], target: Any, at: int = 0, shift: Any = None) -> None:
        """Read fragments side by side into a local buffer, from register ``at`` on.

        ``shift`` is added to the addresses: of fragments that a loop counts through.
        """
        for access in self.reads.accesses(firsts):
            address = self.lanes.table(access.address)
            address = address if shift is None else address + shift
            if self.reads.by_matrix:
                self._by_matrix(address, access.count, target, at)
                continue
            value = self.buffer[vector(address, access.count)]
            place = tirx.const(at + access.start, "int32")
            I.buffer_store(target, value, [vector(place, access.count)])

    def _by_matrix(self, address: Any, count: int, target: Any, at: int) -> None:
        each = 4 // item_bytes(str(target.dtype))
        registers = count // each
        words = I.alloc_buffer((registers,), "uint32", scope="local")
        form = ".trans" if self.reads.transposed else ""
        call = T.ptx[f"ldmatrix.sync.aligned.m8n8.x{registers}{form}.shared.b16"]
        if self.once:
            pointer = self.buffer.access_ptr("r", offset=address)
        else:
            pointer = tirx.address_of(self.buffer[address])
        I.evaluate(call(*[words[register] for register in range(registers)], pointer))
        dtype = f"{target.dtype}x{each}"
        for register in range(registers):
            place = tirx.const(at + register * each, "int32")
            value = tirx.reinterpret(dtype, words[register])
            I.buffer_store(target, value, [vector(place, each)])
