"""How warpgroups store the accumulators of a product: row by row, by way of shared memory.

A lane's accumulators lie in runs of two columns, or in one row, and would be stored in parts of
segments.  A subgroup puts its rows into shared memory that nobody reads any more, or that is for
this, and its lanes store neighbouring runs.
"""

from math import gcd
from typing import Any, Protocol

from tvm import DataType, tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.fragments import coords
from tvm_iree_ext.schedules.gpu.emit.lanes import vectorized, where
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WARPGROUP, WarpgroupPlan
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits, tvm_dtype

_LANES = 32
_SUBGROUPS = WARPGROUP // _LANES
_LINE = 16  # bytes of an access
_MOST_LANES = 4  # TVM prints comparisons of no more for CUDA


class StoreTarget(Protocol):
    """Where sums go: the result, or the part of a sum."""

    index_dtype: str

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Take a sum."""


def stored_run(plan: WarpgroupPlan) -> int:
    """Elements of a row of the result that a lane stores at once."""
    shape = plan.shape
    bits = max(DataType(shape.memory_dtype("result")).bits, shape.epilogue_bits, 8)
    most = min(8 * _LINE // bits, _MOST_LANES)
    # So that all lanes store in each turn.
    return vector_elements(bits, most, gcd(shape.row("result"), plan.staging.columns // 2))


class WarpgroupResults:
    """The way of a workgroup's accumulators to memory.

    Args:
        plan: of the product.
        target: where sums go.
        run: elements that a lane stores at once.
        memory: shared memory, as words of 8 bytes.
        lane: of the workgroup.
        extents: rows, or images where rows are pixels: numbers, or expressions.
    """

    def __init__(
        self, plan: WarpgroupPlan, target: StoreTarget, run: int, memory: Any, lane: Any,
        extents: tuple[Any, Any],
    ) -> None:  # fmt: skip
        self.plan, self.mma, self.target, self.run = plan, plan.mma, target, run
        self.memory, self.lane, self.extents = memory, lane, extents

    def store(self, acc: Any, group: Any, row: Any, column: Any) -> None:
        """Store the tile of an instruction whose sums are in registers, from its first place on."""
        parts = self.plan.staging.parts
        values = self._as_elements(acc, self.mma.operand("acc").elements_per_lane)
        for part in range(parts):
            self._store(values, part * (int(values.shape[0]) // parts), part, group, row, column)

    def store_part(self, sums: Any, part: Any, group: Any, row: Any, column: Any) -> None:
        """Store a part of the columns, as :meth:`store`."""
        values = self._as_elements(sums, self.plan.staging.columns)
        self._store(values, 0, part, group, row, column)

    def _store(self, values: Any, begin: int, part: Any, group: Any, row: Any, column: Any) -> None:
        """Store a part of the columns, whose elements of a lane begin at one of ``values``."""
        operand, staging = self.mma.operand("acc"), self.plan.staging
        subgroup, lane = self.lane // _LANES % _SUBGROUPS, self.lane % _LANES
        kind, run = tvm_dtype(self.mma.c), self.run
        size = dtype_bits(self.mma.c) // 8
        words = (staging.offset + staging.nbytes(self.plan.config.consumers)) // size
        view = I.decl_buffer((words,), kind, data=self.memory.data, scope="shared.dyn")
        mine = (self.lane // _LANES - _SUBGROUPS) * (staging.rows * staging.pitch)
        first = I.Bind(mine + staging.offset // size)
        self._sync_subgroup()
        for start in range(0, operand.elements_per_lane // staging.parts, staging.run):
            # A part's elements lie as those of the first one do.
            m, n = coords(operand, lane, subgroup, start)
            place = first + (m - subgroup * staging.rows) * staging.pitch + n
            with I.vectorized(staging.run) as at:
                I.buffer_store(view, values[begin + start + at], [place + at])
        self._sync_subgroup()
        across = staging.columns // run
        held = I.alloc_buffer((run,), kind, scope="local")
        with I.serial(0, staging.rows * across // _LANES) as turn:
            number = turn * _LANES + lane
            m, n = number // across, number % across * run
            for at in range(0, run, _LINE // size):
                with I.vectorized(min(run, _LINE // size)) as one:
                    source = first + m * staging.pitch + n + at + one
                    I.buffer_store(held, view[source], [at + one])
            below = row + subgroup * staging.rows + m
            self._store_run(held, group, below, column + part * staging.columns + n)

    def _store_run(self, held: Any, group: Any, row: Any, column: Any) -> None:
        i, j = (self._wide(index) for index in (row, column))
        inside = self._inside([i, j])
        if (windows := self.plan.windows) is not None:
            i, is_pixel = windows.pixel(i // self.mma.m, i % self.mma.m, self.extents[1])
            inside = is_pixel if inside is None else tirx.And(is_pixel, inside)
        with where(inside), vectorized(self.run) as at:
            self.target.store(group, i, j + at, held[at])

    @staticmethod
    def _sync_subgroup() -> None:
        I.evaluate(T.cuda.warp_sync())

    def _wide(self, index: Any) -> Any:
        """Cast an index to the type by which the operands' arrays are indexed."""
        dtype = self.target.index_dtype
        return index if dtype == "int32" else tirx.Cast(dtype, index)

    def _as_elements(self, acc: Any, count: int) -> Any:
        """So many accumulators as numbers: of words those that they hold."""
        dtype = tvm_dtype(self.mma.c)
        if str(acc.dtype) == dtype:
            return acc
        values = I.alloc_buffer((count,), dtype, scope="local")
        each = 32 // dtype_bits(self.mma.c)
        for word in range(count // each):
            kind, at = dtype, each * word
            if each > 1:
                kind, at = f"{dtype}x{each}", tirx.Ramp(at, tirx.const(1, "int32"), each)
            I.buffer_store(values, tirx.reinterpret(kind, acc[word]), [at])
        return values

    def _inside(self, at: list[Any]) -> Any | None:
        inside: Any = None
        extents = (self.extents[0], self.plan.extents[1])
        dims = list(zip(at, extents, self.plan.tile, strict=False))
        # Pixels are looked for by themselves.
        for index, extent, tile in dims if self.plan.windows is None else dims[1:]:
            if not isinstance(extent, int) or extent % tile:
                condition = index < extent
                inside = condition if inside is None else tirx.And(inside, condition)
        return inside
