"""The GPU rule for grouped products: a contraction's tiles, of rows of one group.

    for tile of rows in blockIdx:                       a kernel for itself
        the group of the tile, by halving; which of its rows
    for tile of rows, of columns in blockIdx:
        a tile of the product of that group, stored as far as the group reaches

The number of tiles that have rows is not known when the kernel is launched: the others do nothing.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul import G, GroupedMatmul, K, M, N
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_blocks import BlockPlace, MatmulBlocks, some_steps
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape, Prologue
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import (
    MMA,
    lowering_config,
    matmul_numbers,
)
from tvm_iree_ext.schedules.gpu.products.multiplied_types import multiplied_types
from tvm_iree_ext.schedules.shared.grouped_rows import GroupedRows
from tvm_iree_ext.targets.gpu import subgroup_size
from tvm_iree_ext.tir.tir_expressions import convert

_ALIGNED_BYTES = 16  # addresses of operands: of the widest access
_MOST_INT32 = (1 << 31) - 1


class GpuGroupedMatmul(GpuRule):
    """Grouped products on NVIDIA's and AMD's GPUs."""

    name = "gpu.grouped_matmul"
    lowers = GroupedMatmul

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, GroupedMatmul)
        try:
            _shape(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: GroupedMatmul, target: Target) -> LoweringConfig:
        """The contraction's, of as many rows as a group has on average."""
        return lowering_config(matmul_config(_shape(op, target), target))

    def lower(self, op: GroupedMatmul, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``, of two kernels.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        check.algorithm(MMA)
        numbers = matmul_numbers(check)
        check.expect(numbers.splits == 1, "splits", numbers.splits, "1")
        check.expect(numbers.workgroups == 0, "workgroups", numbers.workgroups, "0")
        check.expect(not numbers.pad, "pad", list(numbers.pad), "none")
        shape = _shape(op, target)
        operands = GroupedOperands(op, shape, target)
        function = schedule_matmul(shape, target, numbers, operands, GroupedBlocks)
        return ir.IRModule({op.entry: function})


def _shape(op: GroupedMatmul, target: Target) -> MatmulShape:
    """The product of a group, of as many rows as they have on average."""
    full = op.full
    groups, rows, n, k = (e if isinstance(e, int) else None for e in full.extents)
    types = {side: full.types[side].dtype for side in ("lhs", "rhs", "result")}
    lhs, rhs = map(full.factor_dtype, ("lhs", "rhs"))
    bits = (8 * item_bytes(full.types[name].dtype) for name in full.others)
    return MatmulShape(
        -(-rows // groups) if rows and groups else None, n, k,
        *multiplied_types(lhs, rhs, full.accumulator_dtype, target),
        rhs_order=(1, 0) if full.maps["rhs"].dims[-1] == K else (0, 1),
        groups=None,
        rows={"lhs": k or 1, "rhs": (k if full.maps["rhs"].dims[-1] == K else n) or 1,
              "result": n or 1},
        memory=types,
        epilogue_bits=max(bits, default=0),
        more_dims=1,
        prologues={name: Prologue(region) for name, region in full.factor_regions.items()},
    )  # fmt: skip


class GroupedOperands:
    """The op's operands as a kernel of tiles reads and writes them."""

    def __init__(self, op: GroupedMatmul, shape: MatmulShape, target: Target) -> None:
        self.op, self.shape = op, shape
        self.lanes = subgroup_size(target)
        shapes = [operand.shape for operand in op.signature.operands]
        known = all(isinstance(extent, int) for one in shapes for extent in one)
        small = known and all(prod(map(int, one)) <= _MOST_INT32 for one in shapes)
        self.index_dtype = "int32" if small else "int64"

    def declare(self) -> None:
        """Name the func, and add the op's operands."""
        self.parameters = Parameters.declare(
            self.op, align=_ALIGNED_BYTES, index_dtype=self.index_dtype
        )

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, all rows, n and k."""
        g, m, n, k = (self.parameters.extent(extent) for extent in self.op.full.extents)
        return g, m, n, k

    def buffer(self, side: str) -> Any:
        """That of ``lhs`` or ``rhs``."""
        return self.parameters.buffers[side]

    def offset(self, group: Any) -> Any:
        """The row before which a group ends, as the caller gives it."""
        return self.parameters.buffers["offsets"][group]

    def _element(self, name: str, dims: Mapping[int, Any]) -> Any:
        zero = tirx.const(0, self.index_dtype)
        axes = self.op.full.maps[name].axes
        return self.parameters.buffers[name][tuple(dims[a[0]] if a else zero for a in axes)]

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of a row, or of a group's matrix."""
        roles = {"m": M, "n": N, "k": K}
        return self._element(side, {G: group, **{roles[role]: x for role, x in at.items()}})

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> None:
        """All are."""

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """The sum, through the epilogue, to the result."""
        epilogue, dims = self.op.full.epilogue, {G: group, M: i, N: j}
        if epilogue is not None:
            seen = [str(one.ty.dtype) for one in epilogue.parameters[1:]]
            rest = [
                convert(self._element(name, dims), dtype)
                for name, dtype in zip(self.op.full.others, seen, strict=True)
            ]
            value = epilogue(value, *rest)
        self._put(i, j, value)

    def clear(self, i: Any, j: Any) -> None:
        """Zero, in a row of no group."""
        self._put(i, j, tirx.const(0, self.shape.result_dtype))

    def _put(self, i: Any, j: Any, value: Any) -> None:
        result = self.parameters.buffers["result"]
        I.buffer_store(result, convert(value, str(result.dtype)), [i, j])


class GroupedBlocks(MatmulBlocks):
    """The blocks of a grouped product: those of a tile, of the group that it is of."""

    operands: GroupedOperands

    def emit(self) -> None:
        """Both kernels."""
        rows, columns, depth = self.plan.tile
        tiles = GroupedRows(self.extents["m"], self.groups, rows, self.operands.offset, self.index)
        count, groups = self.const(tiles.tiles), self.const(self.groups)
        whole = {role: self.whole_tiles(role) for role in "nk"}
        places = self._places(tiles, count, self.const(whole["k"]))
        with I.serial(self.const(0), count) as loop, I.sblock("group"):
            tile = I.axis.spatial(count, loop)
            # By name: what TVM finds out by itself speaks of numbers that are bound inside.
            *inputs, result = self.operands.parameters.buffers.values()
            I.reads(*map(_all, (*inputs, places)))
            I.writes(_all(result))
            # Numbers from 0 on are what addresses are made of.
            group, first, end = (
                I.Bind(tirx.max(convert(places[tile, at], self.index), self.const(0)))
                for at in range(3)
            )
            steps = I.Bind(convert(places[tile, 3], self.index))
            spans = {"m": rows, "n": whole["n"] * columns, "k": whole["k"] * depth}

            def store(i: Any, j: Any, value: Any) -> None:
                with I.If(group < groups):
                    with I.Then():
                        self.operands.store(group, first + i, j, value)
                    with I.Else():
                        self.operands.clear(first + i, j)

            # Tiles without rows, or of no group, take no steps; a single one costs nothing.
            own = tirx.min(group, groups - 1)
            taken = some_steps(whole["k"], steps, depth)
            place = BlockPlace(own, spans, {"m": first}, spans, taken, {"m": end})
            self.multiply(place, store)

    def _places(self, tiles: GroupedRows, count: Any, steps: Any) -> Any:
        """Table of tiles: group, first row, the row before which the group ends, and steps."""
        places = I.sblock_alloc_buffer((count, 4), "int32")
        IRBuilder.name("places", places)
        with I.serial(self.const(0), count) as loop, I.sblock("places"):
            tile = I.axis.spatial(count, loop)
            I.reads(_all(self.operands.parameters.buffers["offsets"]))
            I.writes(places[tile, 0:4])
            found = I.sblock_alloc_buffer((1,), self.index, scope="local")
            I.buffer_store(found, self.const(0), [0])
            with I.serial(self.const(0), self.const(tiles.halvings)) as number:
                step = self.const(1) << (self.const(tiles.halvings - 1) - number)
                I.buffer_store(found, tiles.halved(found[0], step, tile), [0])
            group = found[0]
            first, end = tiles.range(group, tile)
            works = tirx.And(first < end, group < self.groups)
            own = (group, first, end, tirx.Select(works, steps, self.const(0)))
            for at, value in enumerate(own):
                I.buffer_store(places, convert(value, "int32"), [tile, at])
        return places

    def bind(self, sch: s_tir.Schedule, rows: Any, columns: Any) -> None:
        """Tiles of rows, which may be many, along x."""
        (tile,) = sch.get_loops(sch.get_sblock("group"))
        sch.bind(tile, "blockIdx.x")
        sch.bind(columns, "blockIdx.y")
        (tile,) = sch.get_loops(sch.get_sblock("places"))
        workgroup, lane = sch.split(tile, [None, self.operands.lanes])
        sch.bind(workgroup, "blockIdx.x")
        sch.bind(lane, "threadIdx.x")


def _all(buffer: Any) -> Any:
    """The region of a whole buffer."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]
