"""Tiles in shared memory: how a workgroup fills them, and how lanes read their fragments.

Who moves what follows from layouts, as tables over lanes; a table becomes an expression of the
lane's id that is bound once, and what differs by the same for all lanes is a constant beside it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.emit import Index, Space, View
from tvm_iree_ext.schedules.gpu.attention_math import as_held, as_held_dtype
from tvm_iree_ext.schedules.gpu.attention_plan import Tile
from tvm_iree_ext.schedules.gpu.copies import copy_layout, transposing_layout
from tvm_iree_ext.schedules.gpu.lane_tables import lane_condition, lane_table
from tvm_iree_ext.schedules.layouts import vector_elements

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.intrin.fragments import run as run_along
from tvm_iree_ext.intrin.nvidia import ldmatrix_form, matrices
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.expressions import i64, known
from tvm_iree_ext.target.mma import MmaOperand, tvm_dtype

_ACCESS_BYTES = 16
_MATRICES = 4  # of one ldmatrix


@contextmanager
def where(condition: Any) -> Iterator[None]:
    """What follows is done where the condition holds; always, where it is None."""
    with ExitStack() as stack:
        if condition is not None:
            stack.enter_context(I.If(condition))
            stack.enter_context(I.Then())
        yield


class Lanes:
    """The lanes of a workgroup while a kernel is emitted: tables as expressions of their ids."""

    def __init__(self, subgroup: Any, lane: Any, subgroups: int, size: int, kind: str) -> None:
        self.subgroup, self.lane = subgroup, lane
        self.subgroups, self.size, self.kind = subgroups, size, kind
        self._bound: dict[bytes, Any] = {}

    @property
    def scope(self) -> str:
        """Of shared memory."""
        return "shared.dyn" if self.kind == "cuda" else "shared"

    def table(self, values: np.ndarray) -> Any:
        """``values[lane]`` or ``values[subgroup, lane]``, bound when it is first asked for.

        All tables of a loop must be asked for before it: what is bound inside is unknown after.
        """
        values = np.asarray(values)
        if values.ndim == 1:
            values = np.broadcast_to(values, (self.subgroups, self.size))
        first = int(values.flat[0])
        shape = np.ascontiguousarray(values - first).tobytes()
        if not np.any(values - first):
            return tirx.const(first, "int32")
        if shape not in self._bound:
            self._bound[shape] = I.Bind(lane_table(values - first, self.subgroup, self.lane))
        return self._bound[shape] + first if first else self._bound[shape]

    def barrier(self) -> None:
        """All lanes of the workgroup wait for each other."""
        I.evaluate(T.tvm_storage_sync(self.scope))


def vector(start: Any, count: int) -> Any:
    """The indices of a run."""
    return tirx.Ramp(start, tirx.const(1, "int32"), count) if count > 1 else start


def wide(value: Any) -> Any:
    """An index of 64 bits."""
    if isinstance(value, int) or str(value.ty.dtype) == "int64":
        return i64(value)
    return tirx.Cast("int64", value)


@dataclass(frozen=True)
class Source:
    """A matrix ``[key, column]`` in global memory, read through an operand's map.

    Attributes:
        view: of the operand.
        space: of the op.
        keys, columns: the dims along its rows and columns.
        outer: the values of the others.
        first_column: that the tile begins with.
    """

    view: View
    space: Space
    keys: Ints
    columns: Ints
    outer: dict[int, Any]
    first_column: Any = 0

    @property
    def count(self) -> Index:
        """Of keys."""
        return self.space.count(self.keys)

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
        return vector_elements(8 * item_bytes(self.view.dtype), most, self.space.count(dims))


class TileCopy:
    """The copy of a step's tile by all lanes, in two halves: ``issue`` and ``arrive``.

    Asynchronous where that is possible: past the registers.  Else ``issue`` loads registers, and
    ``arrive`` stores them.

    Args:
        lanes: of the workgroup.
        source: what is copied.
        tile: to where.
        key_rows: whether rows in global memory are of one key each.
        places: of each key, the row of the tile for it; by default in their order.
    """

    def __init__(
        self,
        lanes: Lanes,
        source: Source,
        tile: Tile,
        key_rows: bool,
        places: np.ndarray | None = None,
    ) -> None:
        self.lanes, self.source, self.tile = lanes, source, tile
        self.places = np.arange(tile.keys) if places is None else places
        self.buffer = I.alloc_buffer(
            (tile.elements,), tile.dtype, scope=lanes.scope, align=_ACCESS_BYTES
        )
        self.transposes = key_rows != tile.key_rows
        shape = (tile.keys, tile.columns) if key_rows else (tile.columns, tile.keys)
        self.run = source.run(key_rows, shape[-1])
        bits = 8 * max(item_bytes(tile.dtype), item_bytes(source.view.dtype))
        self.run = min(self.run, 8 * _ACCESS_BYTES // bits)
        make = transposing_layout if self.transposes else copy_layout
        layout = make(shape, bits, lanes.subgroups, lanes.size, run=self.run)
        held = coordinates(layout, lanes.subgroups, lanes.size, packed=True)
        held = held.reshape(lanes.subgroups, lanes.size, -1, 2)
        inside: np.ndarray = np.all(held < np.array(shape), axis=-1)
        self.down, self.run = layout.element_tile  # of a run no more than leaves no lane idle
        self.keys, self.columns = held[..., 0 if key_rows else 1], held[..., 1 if key_rows else 0]
        self.inside, self.key_rows = inside, key_rows
        same = as_held_dtype(source.view.dtype) == tile.dtype
        self.asynchronous = (
            lanes.kind == "cuda" and same and not self.transposes
            and self.run * item_bytes(tile.dtype) in (4, 8, 16)
        )  # fmt: skip
        self.count = held.shape[2]
        if not self.asynchronous:
            self.registers = I.alloc_buffer((self.count,), tile.dtype, scope="local", align=16)
        self._bind()

    def _bind(self) -> None:
        """Bind the tables that the copy needs."""
        for at in range(0, self.count, self.run):
            self.lanes.table(self.keys[..., at])
            self.lanes.table(self.columns[..., at])
        for places, _ in self._targets():
            self.lanes.table(self._address(places[0]))

    def _address(self, at: int) -> np.ndarray:
        keys = self.keys[..., at]
        # What is outside has no place, and is not written.
        place = np.where(keys < len(self.places), self.places[keys % len(self.places)], keys)
        return self.tile.address(place, self.columns[..., at])

    def _targets(self) -> list[tuple[list[int], int]]:
        """Registers that are stored together, and how many."""
        if not self.transposes:
            return [
                (list(range(at, at + self.run)), self.run) for at in range(0, self.count, self.run)
            ]
        block = self.down * self.run
        return [
            ([first + column + row * self.run for row in range(self.down)], self.down)
            for first in range(0, self.count, block)
            for column in range(self.run)
        ]

    def _guard(self, at: int) -> Any:
        return lane_condition(self.inside[..., at], self.lanes.subgroup, self.lanes.lane)

    def issue(self, first_key: Any, whole: bool) -> None:
        """Start the copy of the tile at ``first_key``; ``whole`` where all its keys exist.

        Keys beyond the last repeat it: their scores are hidden.  Columns beyond are 0.
        """
        source, lanes, tile = self.source, self.lanes, self.tile
        for at in range(0, self.count, self.run):
            key = wide(first_key) + wide(lanes.table(self.keys[..., at]))
            column = lanes.table(self.columns[..., at])
            if not whole:
                key = tirx.min(key, i64(source.count) - self._last_run())
            across = self.run if self.key_rows else 1
            columns = self.columns[..., at][self.inside[..., at]]
            padded = int(columns.max(initial=0)) + across > source.width
            if not isinstance(source.first_column, int):
                column = wide(column) + source.first_column
                padded = source.width % tile.columns != 0
            exists = column < source.width if padded else None
            if exists is not None:
                column = tirx.min(column, source.width - across)
            with where(self._guard(at)):
                self._start(at, key, column, exists)

    def _last_run(self) -> int:
        return 1 if self.key_rows else self.run

    def _start(self, at: int, key: Any, column: Any, exists: Any) -> None:
        source, tile = self.source, self.tile
        if self.asynchronous:
            size = self.run * item_bytes(tile.dtype)
            target = self.buffer.access_ptr("w", offset=self.lanes.table(self._address(at)))
            origin = source.view.buffer.access_ptr("r", offset=source.offset(key, column))
            kind = "cg" if size == 16 else "ca"
            kept = [] if exists is None else [
                tirx.Select(exists, tirx.const(size, "uint32"), tirx.const(0, "uint32"))
            ]  # fmt: skip
            I.evaluate(T.ptx[f"cp.async.{kind}.shared.global"](target, origin, size, *kept))
            return
        value = source.view.buffer[tuple(source.index(key, column, self.run))]
        value = as_held(value, tile.dtype)
        if exists is not None:
            zero = tirx.const(0, tile.dtype)
            value = tirx.Select(
                exists, value, tirx.Broadcast(zero, self.run) if self.run > 1 else zero
            )
        I.buffer_store(self.registers, value, [vector(tirx.const(at, "int32"), self.run)])

    def commit(self) -> None:
        """What was issued is one group, to be waited for."""
        if self.asynchronous:
            I.evaluate(T.ptx["cp.async.commit_group"]())

    def arrive(self) -> None:
        """What was issued is in shared memory, for this lane; a barrier tells the others."""
        if self.asynchronous:
            I.evaluate(T.ptx["cp.async.wait_group"](0))
            return
        for places, count in self._targets():
            if self.transposes and count > 1:
                parts = [self.registers[place] for place in places]
                value = tirx.Shuffle(parts, list(range(count)))
            else:
                value = self.registers[vector(tirx.const(places[0], "int32"), count)]
            address = self.lanes.table(self._address(places[0]))
            with where(self._guard(places[0])):
                I.buffer_store(self.buffer, value, [vector(address, count)])


@dataclass(frozen=True)
class Access:
    """One access of a lane: registers from ``start`` on, at ``address[subgroup, lane]``."""

    start: int
    count: int
    address: np.ndarray


class FragmentLoad:
    """Reads an operand's fragments from a tile: by ``ldmatrix``, or in runs of registers.

    Args:
        lanes: that read.
        operand: of the instruction.
        buffer, tile: what is read.
        dims: which of the operand's dims are the tile's keys and columns.
        order: for each place along the keys of fragments the key of the tile; by default the same.
        subgroup_keys: how many keys further each subgroup reads than the one before.
        once: whether the tile is written once, before the loop that reads it.  TVM must see the
            reads then, or it would give the memory to others.  Of other tiles it must not: it takes
            all pointers to shared memory for the same, and would add barriers.
    """

    def __init__(
        self,
        lanes: Lanes,
        operand: MmaOperand,
        buffer: Any,
        tile: Tile,
        dims: tuple[int, int],
        order: np.ndarray | None = None,
        subgroup_keys: int = 0,
        once: bool = False,
    ) -> None:
        self.lanes, self.operand, self.buffer, self.tile = lanes, operand, buffer, tile
        self.dims, self.subgroup_keys, self.once = dims, subgroup_keys, once
        self.order = np.arange(tile.keys) if order is None else order
        fastest = dims[1] if tile.key_rows else dims[0]
        memory = (1 - fastest, fastest)
        form = ldmatrix_form(operand, memory) if lanes.kind == "cuda" else None
        self.transposed = form
        plain = (self.order == np.arange(len(self.order))).all()
        self.by_matrix = form is not None and plain and operand.dtype in ("f16", "bf16")
        run = run_along(operand, fastest)
        # A run of keys must be one in the tile, too.
        if fastest == dims[0] and not plain:
            run = 1
        self.run = min(run, _ACCESS_BYTES // item_bytes(tvm_dtype(operand.dtype)))
        self.held = operand.coordinates(lanes.size)

    @property
    def together(self) -> int:
        """Fragments that one ``ldmatrix`` can read; 1 without."""
        return max(1, _MATRICES // self.operand.registers) if self.by_matrix else 1

    def accesses(self, firsts: Sequence[Ints]) -> list[Access]:
        """The accesses for fragments whose first elements are at ``firsts``, by operand dims."""
        found = []
        each = self.operand.elements_per_lane
        if self.by_matrix:
            return [Access(0, each * len(firsts), self._matrix_rows(firsts))]
        for number, first in enumerate(firsts):
            for start in range(0, each, self.run):
                place = self.held[:, start] + np.array(first)
                address = self._address(place)
                found.append(Access(number * each + start, self.run, address))
        return found

    def _address(self, place: np.ndarray) -> np.ndarray:
        subgroup = np.arange(self.lanes.subgroups)[:, None] * self.subgroup_keys
        key, column = (place[None, :, dim] for dim in self.dims)
        return self.tile.address(self.order[key] + subgroup, column + 0 * subgroup)

    def _matrix_rows(self, firsts: Sequence[Ints]) -> np.ndarray:
        """Lane 8i + r supplies the address of line r of matrix i; lanes beyond repeat them."""
        operand = self.operand
        row = next(dim for dim in (0, 1) if operand.thread[dim] == 8)
        line = 1 - row if self.transposed else row
        starts = [
            np.array(first) + np.array(matrix) for first in firsts for matrix in matrices(operand)
        ]
        place = np.zeros((self.lanes.size, 2), int)
        for lane in range(self.lanes.size):
            place[lane] = starts[lane // 8 % len(starts)]
            place[lane, line] += lane % 8
        return self._address(place)

    def bind(self, firsts: Sequence[Ints]) -> None:
        """Bind the tables of :meth:`load`."""
        for access in self.accesses(firsts):
            self.lanes.table(access.address)

    def load(self, firsts: Sequence[Ints], target: Any, at: int = 0, shift: Any = None) -> None:
        """Read fragments side by side into a local buffer, from register ``at`` on.

        ``shift`` is added to the addresses: of fragments that a loop counts through.
        """
        for access in self.accesses(firsts):
            address = self.lanes.table(access.address)
            address = address if shift is None else address + shift
            if self.by_matrix:
                self._by_matrix(address, access.count, target, at)
                continue
            value = self.buffer[vector(address, access.count)]
            place = tirx.const(at + access.start, "int32")
            I.buffer_store(target, value, [vector(place, access.count)])

    def _by_matrix(self, address: Any, count: int, target: Any, at: int) -> None:
        each = 4 // item_bytes(str(target.dtype))
        registers = count // each
        words = I.alloc_buffer((registers,), "uint32", scope="local")
        form = ".trans" if self.transposed else ""
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
