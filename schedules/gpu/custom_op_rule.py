"""``custom_op`` on a GPU: tiles as workgroups, their elements by lanes; or a kernel for each tile.

``tiles``: a workgroup for each tile of the parallel dims.  What its region computes into memory is
in shared memory, each element by one lane, with a barrier behind; reduction tiles run in order.

``kernels``: one tile over everything.  Each thing that a region computes into memory is a kernel of
its own, over all of the GPU, into memory between the kernels: for tiles whose extents are known
only later, and for those too large for shared memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import ir, sym, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes, word_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp, IteratorType
from tvm_iree_ext.ops.families.custom_op.custom_op_canonical import tiled
from tvm_iree_ext.ops.families.custom_op.custom_op_tiles import (
    Number,
    Tile,
    TileBuilder,
    as_element,
    got,
    in_memory,
    put,
)
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.shared.loop_nest_tiles import tile_sizes
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_TILES = (32, 16, 8)  # of parallel dims, the first for which what a region stores has room
_REDUCTION_TILE = 256


class GpuCustomOp(GpuRule):
    """A loop nest over tiles."""

    name = "gpu.custom_op"
    lowers = CustomOp

    def heuristic(self, op: CustomOp, target: Target) -> LoweringConfig:
        """Tiles in shared memory where they have room; else a kernel for each."""
        kernels = LoweringConfig(algorithm="kernels", subgroups={"workgroup": _SUBGROUPS})
        if not any(op.iterator_types[dim] is IteratorType.PARALLEL for dim in op.tileable):
            return kernels
        for size in _TILES:
            config = self._tiles(op, size)
            try:
                self.lower(op, target, config)
            except ScheduleError:
                continue
            return config
        return kernels

    def _tiles(self, op: CustomOp, size: int) -> LoweringConfig:
        tiles: dict[IteratorType, dict[str, int]] = {kind: {} for kind in IteratorType}
        for dim in op.tileable:
            kind, extent = op.iterator_types[dim], op.extents[f"d{dim}"]
            most = size if kind is IteratorType.PARALLEL else _REDUCTION_TILE
            if kind is IteratorType.PARALLEL or isinstance(extent, str) or extent > most:
                tiles[kind][f"d{dim}"] = most
        return LoweringConfig(
            algorithm="tiles",
            workgroup_tile=tiles[IteratorType.PARALLEL],
            reduction_tile=tiles[IteratorType.REDUCTION],
            subgroups={"workgroup": _SUBGROUPS},
        )

    def space(self, op: CustomOp, target: Target) -> TuningSpace:
        """Other tiles, and more or fewer subgroups."""
        config = self.heuristic(op, target)
        choices = [Choice("subgroups.workgroup", (1, 2, 4, 8))]
        for field in ("workgroup_tile", "reduction_tile"):
            for name, size in getattr(config, field).items():
                choices.append(Choice(f"{field}.{name}", tuple({max(1, size // 2), size})))
        return TuningSpace((form(config, *choices),))

    def lower(self, op: CustomOp, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a tile of a dim that must not be split, or is not there, and where
                what a region stores has no room in shared memory.
        """
        check, chip, size = self.check(config), gpu_chip(target), subgroup_size(target)
        subgroups = check.tile("subgroups", "workgroup", chip.max_lanes // size)
        workgroup = _Workgroup(target.kind.name, subgroups, size)
        if check.algorithm("tiles", "kernels") == "tiles":
            room = _Room(chip.declared_shared_memory_bytes)
            function = _in_workgroups(op, tile_sizes(op, check), workgroup, room)
        else:
            function = _in_kernels(op, workgroup)
        return ir.IRModule({op.entry: function})


def _in_workgroups(
    op: CustomOp, sizes: Mapping[int, int], workgroup: "_Workgroup", room: "_Room"
) -> tirx.PrimFunc:
    def builder(starts: Sequence[Expr], most: Mapping[Expr, int]) -> TileBuilder:
        return _LaneTiles(starts, most, workgroup, room)

    return tiled(op, sizes, workgroup.tasks, builder)


def _in_kernels(op: CustomOp, workgroup: "_Workgroup") -> tirx.PrimFunc:
    memory: list[Any] = []

    @contextmanager
    def on_the_host(count: Expr) -> Iterator[Expr]:
        yield i64(0)
        for buffer in memory:
            # Alive to the end, or TVM would compute one in the place of another, which are two
            # parameters of a kernel that do not overlap.
            I.evaluate(buffer.data)

    def builder(starts: Sequence[Expr], most: Mapping[Expr, int]) -> TileBuilder:
        return _KernelTiles(starts, most, workgroup, memory)

    return tiled(op, {}, on_the_host, builder)


class _Workgroup:
    """Lanes, and which one this is while a kernel is built."""

    def __init__(self, kind: str, subgroups: int, subgroup_size: int) -> None:
        self.kind, self.subgroups, self.size = kind, subgroups, subgroup_size
        self.lanes = subgroups * subgroup_size
        self.mine: Expr = i64(0)

    @contextmanager
    def tasks(self, count: Expr) -> Iterator[Expr]:
        """A kernel of ``count`` workgroups; which one it is."""
        with (
            I.launch_thread("blockIdx.x", count) as number,
            I.launch_thread("threadIdx.y", self.subgroups) as subgroup,
            I.launch_thread("threadIdx.x", self.size) as lane,
        ):
            wide = [tirx.Cast("int64", one) for one in (number, subgroup, lane)]
            self.mine = I.Bind(wide[1] * i64(self.size) + wide[2])
            yield wide[0]

    def barrier(self) -> None:
        """Barrier: all lanes see what any lane of the workgroup wrote, to whatever memory."""
        if self.kind == "cuda":
            I.evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared"))
        else:
            I.evaluate(tirx.call_extern("int32", "tvm_iree_ext_barrier_of_all_memory"))


class _Room:
    """Shared memory that tiles have taken."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.taken_bytes = most_bytes, 0

    def take(self, nbytes: int) -> None:
        """Raise ScheduleError where there is no room for more."""
        self.taken_bytes += nbytes
        if self.taken_bytes > self.most_bytes:
            raise ScheduleError(
                f"gpu.custom_op: tiles of {self.taken_bytes} bytes in all; a workgroup has"
                f" {self.most_bytes} bytes of shared memory"
            )


class _Elements(TileBuilder):
    """Each element by one lane, sums and products too."""

    def matmul(self, a: Tile, b: Tile, dtype: str) -> Tile:
        """A lane adds up an element of the product."""
        buffer = self.allocate(extents := (a.extents[0], b.extents[1]), dtype)

        def product(at: list[Expr]) -> None:
            (i, j), total = at, _cell(dtype, 0)
            with serial(a.extents[1]) as k:
                one, other = (as_element(x, dtype) for x in (a.element([i, k]), b.element([k, j])))
                put(total, dtype, got(total, dtype, [i64(0)]) + one * other, [i64(0)])
            I.buffer_store(buffer, total[0], at)

        self.each(extents, product)
        return in_memory(buffer, extents, dtype)

    def reduce(
        self,
        tile: Tile,
        axis: int,
        combine: Callable[[Expr, Expr], Expr],
        identity: Number,
    ) -> Tile:
        """A lane combines, in order, what makes an element."""
        extents = (*tile.extents[:axis], *tile.extents[axis + 1 :])
        buffer = self.allocate(extents, tile.dtype)

        def combined(at: list[Expr]) -> None:
            total = _cell(tile.dtype, identity)
            with serial(tile.extents[axis]) as along:
                element = tile.element([*at[:axis], along, *at[axis:]])
                value = combine(got(total, tile.dtype, [i64(0)]), element)
                put(total, tile.dtype, value, [i64(0)])
            I.buffer_store(buffer, total[0], at or [i64(0)])

        self.each(extents, combined)
        return in_memory(buffer, extents, tile.dtype)


class _LaneTiles(_Elements):
    """Tiles in shared memory, their elements by the lanes of one workgroup."""

    def __init__(
        self,
        starts: Sequence[Expr],
        most: Mapping[Expr, int],
        workgroup: _Workgroup,
        room: _Room,
    ) -> None:
        super().__init__(starts, most)
        self.workgroup, self.room = workgroup, room
        self.analyzer = sym.Analyzer()
        for extent, size in most.items():
            self.analyzer.bind(extent, ir.Range.from_min_extent(i64(1), i64(size)))

    def allocate(self, extents: Sequence[Expr], dtype: str) -> Any:
        """Shared memory for the largest that the tile may be."""
        most = [int(self.analyzer.const_int_bound(i64(extent)).max_value) for extent in extents]
        nbytes = item_bytes(dtype)
        for extent in most:
            nbytes *= extent
        self.room.take(nbytes)
        buffer = I.alloc_buffer(most or [1], word_dtype(dtype), scope="shared")
        IRBuilder.name("tile", buffer)
        return buffer

    def each(self, extents: Sequence[Expr], body: Callable[[list[Expr]], None]) -> None:
        """Neighbouring lanes take neighbouring elements, and all wait for all."""
        total, lanes = emit.product(list(extents)), self.workgroup.lanes
        with serial(emit.ceil_div(i64(total), lanes)) as step:
            element = I.Bind(step * i64(lanes) + self.workgroup.mine)
            with I.If(element < i64(total)), I.Then():
                body(_places(element, extents))
        self.workgroup.barrier()


class _KernelTiles(_Elements):
    """Tiles in memory between kernels, each of them by all of the GPU."""

    def __init__(
        self,
        starts: Sequence[Expr],
        most: Mapping[Expr, int],
        workgroup: _Workgroup,
        memory: list[Any],
    ) -> None:
        super().__init__(starts, most)
        self.workgroup, self.memory = workgroup, memory

    def allocate(self, extents: Sequence[Expr], dtype: str) -> Any:
        """Memory between two kernels."""
        buffer = I.alloc_buffer(list(extents) or [i64(1)], word_dtype(dtype), scope="global")
        self.memory.append(buffer)
        IRBuilder.name(f"tile{len(self.memory)}", buffer)
        return buffer

    def each(self, extents: Sequence[Expr], body: Callable[[list[Expr]], None]) -> None:
        """A kernel, with a lane for each element."""
        total, lanes = i64(emit.product(list(extents))), self.workgroup.lanes
        with self.workgroup.tasks(i64(emit.ceil_div(total, lanes))) as number:
            element = I.Bind(number * i64(lanes) + self.workgroup.mine)
            with I.If(element < total), I.Then():
                body(_places(element, extents))


def _places(element: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """The position of a row-major element."""
    at: list[Expr] = []
    for extent in reversed(extents[1:]):
        element, place = emit.divide(element, extent)
        at.insert(0, I.Bind(place))
        element = I.Bind(element)
    return [element, *at] if extents else []


def _cell(dtype: str, value: Number) -> Any:
    cell = emit.registers(1, word_dtype(dtype))
    put(cell, dtype, value, [i64(0)])
    return cell
