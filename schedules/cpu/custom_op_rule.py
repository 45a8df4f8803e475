"""``custom_op`` on the CPU: tiles of parallel dims as tasks, products of tiles in registers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir, tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp, IteratorType
from tvm_iree_ext.ops.families.custom_op.custom_op_canonical import tiled
from tvm_iree_ext.ops.families.custom_op.custom_op_tiles import Tile, TileBuilder, in_memory
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.products.register_product import multiply_tile
from tvm_iree_ext.schedules.emit import Expr, i64, known, serial
from tvm_iree_ext.schedules.shared.loop_nest_tiles import tile_sizes
from tvm_iree_ext.targets.cpu import cpu_features

_PARALLEL_TILE = 64
_REDUCTION_TILE = 256
_ROWS, _VECTORS = 6, 2  # accumulators of a product


@dataclass(frozen=True)
class CustomOpConfig(RuleConfig):
    """Accumulators of a product, rows times vectors; tiles go by the names of the op's dims."""

    rows: int = number("register_tile.rows")
    vectors: int = number("register_tile.vectors")
    lanes: int = number("vector_lanes", power_of_two=True)
    parallel: bool = flag("parallel")


class CpuCustomOp(CpuRule):
    """A loop nest over tiles on an LLVM CPU target."""

    name = "cpu.custom_op"
    lowers = CustomOp
    typed = CustomOpConfig

    def heuristic(self, op: CustomOp, target: Target) -> LoweringConfig:
        """Tiles of every dim that may be split, smaller than its extent."""
        sizes: dict[IteratorType, dict[str, int]] = {kind: {} for kind in IteratorType}
        usual = {IteratorType.PARALLEL: _PARALLEL_TILE, IteratorType.REDUCTION: _REDUCTION_TILE}
        for dim in op.tileable:
            kind, extent = op.iterator_types[dim], op.extents[f"d{dim}"]
            if isinstance(extent, str) or extent > usual[kind]:
                sizes[kind][f"d{dim}"] = usual[kind]
        lanes, large = cpu_features(target).lanes(32), self.is_large(op)
        typed = CustomOpConfig(rows=_ROWS, vectors=_VECTORS, lanes=lanes, parallel=large)
        return replace(
            typed.lowering(),
            workgroup_tile=sizes[IteratorType.PARALLEL],
            reduction_tile=sizes[IteratorType.REDUCTION],
        )

    def lower(self, op: CustomOp, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a tile of a dim that must not be split, or is not there.
        """
        check = self.check(config)
        sizes, typed = tile_sizes(op, check), CustomOpConfig.parse(check, *self.algorithms)

        def tasks(count: Expr) -> Any:
            several = typed.parallel and known(count) != 1
            return (I.parallel if several else I.serial)(i64(0), count)

        def builder(starts: Sequence[Expr], most: Mapping[Expr, int]) -> TileBuilder:
            return _RegisterTiles(starts, most, typed)

        return ir.IRModule({op.entry: tiled(op, sizes, tasks, builder)})


class _RegisterTiles(TileBuilder):
    """Products with accumulators in registers; all else by loops that LLVM makes vectors of."""

    def __init__(
        self, starts: Sequence[Expr], most: Mapping[Expr, int], config: CustomOpConfig
    ) -> None:
        super().__init__(starts, most)
        self.lanes = config.lanes
        self.rows, self.vectors = config.rows, config.vectors

    def matmul(self, a: Tile, b: Tile, dtype: str) -> Tile:
        """Whole register tiles, then the columns and the rows that are left, element by element."""
        if a.dtype != dtype or dtype not in ("float32", "float64"):
            return super().matmul(a, b, dtype)
        lanes = self.lanes if dtype == "float32" else max(1, self.lanes // 2)
        a, b = (tile if tile.source else self.store(tile) for tile in (a, b))
        m, n, depth = a.extents[0], b.extents[1], a.extents[1]
        result = self.allocate((m, n), dtype)
        width = self.vectors * lanes
        whole_rows = I.Bind(tirx.floordiv(m, i64(self.rows)) * self.rows)
        whole_columns = I.Bind(tirx.floordiv(n, i64(width)) * width)
        assert b.source is not None
        buffer, (first_k, first_column) = b.source[0], b.source[1]

        def run(k: Expr, column: Expr) -> Expr:
            return buffer[first_k + k, emit.run(first_column + column, lanes)]

        def element(i: Expr, j: Expr) -> None:
            total = I.alloc_buffer([1], dtype, scope="local")
            I.buffer_store(total, tirx.const(0, dtype), [0])
            with serial(depth) as k:
                I.buffer_store(total, total[0] + a.element([i, k]) * b.element([k, j]), [0])
            I.buffer_store(result, total[0], [i, j])

        with serial(tirx.floordiv(n, i64(width))) as column_tile:
            column = column_tile * width
            with serial(tirx.floordiv(m, i64(self.rows))) as row_tile:
                row = row_tile * self.rows
                multiply_tile(
                    rows=self.rows,
                    vectors=self.vectors,
                    lanes=lanes,
                    depth=depth,
                    dtype=dtype,
                    x=lambda k, j: run(k, column + j * lanes),
                    y=lambda i, k: a.element([row + i, k]),
                    start=lambda i, j: emit.splat(tirx.const(0, dtype), lanes),
                    finish=lambda i, j, value: I.buffer_store(
                        result, value, [row + i, emit.run(column + j * lanes, lanes)]
                    ),
                )
            with serial(m, whole_rows) as i:
                multiply_tile(
                    rows=1,
                    vectors=self.vectors,
                    lanes=lanes,
                    depth=depth,
                    dtype=dtype,
                    x=lambda k, j: run(k, column + j * lanes),
                    y=lambda _, k: a.element([i, k]),
                    start=lambda i, j: emit.splat(tirx.const(0, dtype), lanes),
                    finish=lambda _, j, value: I.buffer_store(
                        result, value, [i, emit.run(column + j * lanes, lanes)]
                    ),
                )
        with serial(m) as i, serial(n, whole_columns) as j:
            element(i, j)
        return in_memory(result, (m, n), dtype)
