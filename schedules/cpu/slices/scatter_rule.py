"""The CPU rule for scatter: how the updates are shared among tasks.

Every algorithm copies original to the result, unless they are one array, and then goes over batch
positions in tiles: first it finds out where they lie and keeps those that the task is to apply,
without a branch that would be mispredicted, then it applies them.  The algorithms differ in what a
task applies:

- ``batch``: a part of the batch positions.  Indices must be unique.
- ``rows``: the updates of rows of the tensor that it owns.  Rows are dealt out in blocks, so that
  updates that crowd in a part of the tensor are shared, too.
- ``columns``: its part of every window.  For few large windows.
- ``ranges``: what falls into its range of the tensor.  For windows that cover indexed dims.

In all but the first a task sees every update, and an element belongs to one task, which combines
its updates in batch order: the result is that of a serial loop, for any region.  A thread that is
alone owns all rows: it would read the updates once for each task.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.codegen.cpu.argument_guard import addresses
from tvm_iree_ext.ops.families.slices.scatter import Scatter
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.tasks import Tasks, refuse_out_of_range
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.slice_operands import SliceOperands, static_count
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

_ALGORITHMS = ("batch", "rows", "columns", "ranges")
_PLACE_BYTES = 8  # of a batch position's address; a quarter of the first cache has those of a tile
_FEW_ELEMENTS = 1 << 14  # that one thread updates in about the time that another takes to wake
_COLUMN_BYTES = 64 * 1024  # a window of this size is worth sharing
_BLOCK_BYTES = 4096  # rows owned in one piece: a page, or at least a cache line
_LINES_FETCHED = 64  # at once, into the second cache: more than wait for the first


@dataclass(frozen=True)
class ScatterConfig(RuleConfig):
    """Batch positions of a tile; rows that are owned in one piece; tasks."""

    batch: int = number("workgroup_tile.batch")
    rows: int = number("workgroup_tile.rows")
    splits: int = number("splits")
    parallel: bool = flag("parallel")


class CpuScatter(CpuRule):
    """Scatter on an LLVM CPU target."""

    name = "cpu.scatter"
    lowers = Scatter

    def usual(self, op: Scatter, target: Target) -> ScatterConfig:
        """Tasks for all cores, by the algorithm that shares the updates best."""
        parallel = self.is_large(op)
        features = cpu_features(target)
        cores = features.cores if parallel else 1
        window = static_count(op.slices.window)
        item = item_bytes(op.dtype)
        if op.slices.covered == 0 and window is not None and window * item >= _COLUMN_BYTES:
            algorithm = "columns"
        elif op.unique_indices or cores == 1:
            algorithm = "batch"
        elif self._is_cheap(op, features):
            algorithm, cores, parallel = "batch", 1, False
        elif op.slices.covered:
            algorithm = "ranges"
        else:
            algorithm = "rows"
            cores = 1 << (cores - 1).bit_length()
        return ScatterConfig(
            algorithm,
            batch=features.first_cache_bytes // 4 // _PLACE_BYTES,
            rows=_block_rows(op, cores),
            splits=cores,
            parallel=parallel,
        )

    @staticmethod
    def _is_cheap(op: Scatter, features: CpuFeatures) -> bool:
        """Whether applying the updates costs less than every task's search for its own.

        So for single elements of a tensor that stays in the first cache, such as a histogram.
        """
        shapes = (op.slices.full, op.slices.window)
        full, window = (static_count(shape) for shape in shapes)
        near = full is not None and full * item_bytes(op.dtype) <= features.first_cache_bytes
        return near and window == 1

    def parse(self, op: Scatter, target: Target, config: LoweringConfig) -> ScatterConfig:
        """The rule's numbers in a config."""
        check = self.check(config)
        typed = ScatterConfig.parse(check, *_ALGORITHMS)
        form = typed.algorithm
        check.need(
            form != "batch" or op.unique_indices or typed.splits == 1,
            "'batch' with several splits loses updates unless indices are unique",
        )
        if form in ("rows", "columns"):
            uncovered = op.slices.covered == 0
            check.need(uncovered, f"{form!r} needs a window that covers no indexed dim")
        if form == "rows":
            check.power_of_two("splits", typed.splits)
            check.power_of_two("workgroup_tile['rows']", typed.rows)
        return typed

    def emit(self, op: Scatter, config: ScatterConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _Kernel(op, config, features).emit()


def _block_rows(op: Scatter, tasks: int) -> int:
    """How many rows are owned in one piece: a power of two."""
    tail, rows = (
        static_count(op.slices.full[part])
        for part in (slice(op.slices.depth, None), slice(op.slices.depth))
    )
    if tail is None:
        return 16
    row_bytes = tail * item_bytes(op.dtype)
    most = _BLOCK_BYTES // row_bytes
    if rows is not None:
        most = min(most, rows // (8 * tasks))
    most = max(most, emit.LINE_BYTES // row_bytes, 1)
    return 1 << (most.bit_length() - 1)


class _Kernel:
    """The kernel under construction."""

    def __init__(self, op: Scatter, config: ScatterConfig, features: CpuFeatures) -> None:
        self.op, self.config = op, config
        # Beside indices and updates.
        self.near_bytes = features.second_cache_bytes // 2
        self.operands = SliceOperands(op)
        self.tasks = Tasks(config.splits, config.parallel)
        self.result = self.operands.flat["result"]
        self.total = self.operands.count(op.slices.full)

    def emit(self) -> None:
        """The check of the indices where it is asked for, the copy, the updates."""
        if self.op.out_of_range == "error":
            refuse_out_of_range(self.operands, self.tasks)
        original = self.operands.flat["original"].buffer
        to, source = addresses([self.result.buffer.data, original.data], I.Bind, I.evaluate)
        if not self._are_few:
            with I.If(tirx.NE(to, source)), I.Then():
                self.tasks.copy(self.result.buffer, original, self.total)
            self._updates()
            return
        with I.If(tirx.NE(to, source)):
            with I.Then():
                self.tasks.copy(self.result.buffer, original, self.total)
                self._updates()
            with I.Else():
                self.tasks = Tasks(1, False)
                self._updates()

    @property
    def _are_few(self) -> bool:
        """Whether the updates alone, without the copy, are not worth several tasks."""
        count = static_count((*self.op.slices.batch, *self.op.slices.window))
        return self.config.parallel and count is not None and count <= _FEW_ELEMENTS

    def _updates(self) -> None:
        form = self.config.algorithm
        if form == "rows" and self.tasks.parallel:
            threads = tirx.call_packed("runtime.NumThreads")
            alone = tirx.EQ(tirx.Cast("int64", threads), i64(1))
            self.tasks = Tasks(I.Bind(tirx.Select(alone, i64(1), i64(self.config.splits))), True)
        with self.tasks.each() as task:
            {
                "batch": self.batch,
                "rows": self.rows,
                "columns": self.columns,
                "ranges": self.ranges,
            }[form](task)

    def batch(self, task: Expr) -> None:
        """Some of the updates."""
        first, stop = self.tasks.share(task, self.operands.positions)
        self.apply(first, stop, lambda row: None, lambda start: (0, self.operands.run))

    def rows(self, task: Expr) -> None:
        """The updates of the rows that the task owns."""
        shift = self.config.rows.bit_length() - 1

        def owned(row: Expr) -> Expr:
            # All is done in int32 where indices are: LLVM cannot know that a count is small.
            block, last, me = (
                emit.cast(value, "int32")
                for value in (row >> i64(shift), i64(self.tasks.count) - 1, task)
            )
            return tirx.EQ(tirx.bitwise_and(block, last), me)

        stop = i64(self.operands.positions)
        self.apply(i64(0), stop, owned, lambda start: (0, self.operands.run))

    def columns(self, task: Expr) -> None:
        """A part of every window."""
        line = emit.LINE_BYTES // item_bytes(self.op.dtype)
        first, last = self.tasks.share(task, self.operands.run, line)
        stop = i64(self.operands.positions)
        self.apply(i64(0), stop, lambda row: None, lambda start: (first, last))

    def ranges(self, task: Expr) -> None:
        """What falls into a range of the tensor."""
        line = emit.LINE_BYTES // item_bytes(self.op.dtype)
        low, high = self.tasks.share(task, self.total, line)
        run = i64(self.operands.run)
        last_run = self.operands.run_offset(i64(self.operands.runs) - 1)

        def owned(row: Expr) -> Expr:
            start = row * i64(self.operands.tail)
            return tirx.And(start < high, start + i64(last_run) + run > low)

        def part(start: Expr) -> tuple[Index, Index]:
            return emit.larger(low - start, 0), emit.smaller(high - start, run)

        self.apply(i64(0), i64(self.operands.positions), owned, part)

    def apply(
        self,
        first: Expr,
        stop: Expr,
        owned: Callable[[Expr], Expr | None],
        part: Callable[[Expr], tuple[Index, Index]],
    ) -> None:
        """Apply the updates of batch positions ``first`` to ``stop`` - 1.

        ``owned`` tells whether that of a row is this task's; ``part`` which elements of a run are,
        by where the run begins in the tensor.
        """
        tile = self.config.batch
        # Narrow where they fit: twice as many to a vector, and half the memory.
        total = static_count(self.op.slices.full)
        word = "int32" if total is not None and total < 2**31 else "int64"
        found, starts = (emit.registers(tile, word) for _ in "fs")
        wanted, places = (emit.registers(tile, "int32") for _ in "wp")
        kept = emit.registers(1, "int64")
        with serial(emit.ceil_div(stop - first, tile)) as block:
            base = I.Bind(first + block * i64(tile))
            count = I.Bind(i64(emit.smaller(stop - base, tile)))
            with serial(count) as i:  # in vectors
                row, touched = self.operands.address(base + i)
                mine = owned(row)
                touched = touched if mine is None else tirx.And(touched, mine)
                I.buffer_store(found, emit.cast(row * i64(self.operands.tail), word), [i])
                I.buffer_store(wanted, tirx.Cast("int32", touched), [i])
            I.buffer_store(kept, i64(0), [0])
            with serial(count) as i:
                I.buffer_store(starts, found[i], [kept[0]])
                I.buffer_store(places, tirx.Cast("int32", i), [kept[0]])
                I.buffer_store(kept, kept[0] + tirx.Cast("int64", wanted[i]), [0])
            with serial(kept[0]) as i:
                self.fetch(emit.cast(starts[tirx.min(i + self.ahead, kept[0] - 1)], "int64"))
                with serial(self.operands.runs) as run:
                    start = emit.cast(starts[i], "int64")
                    start = I.Bind(start + i64(self.operands.run_offset(run)))
                    place = base + tirx.Cast("int64", places[i])
                    source = (place * i64(self.operands.runs) + run) * i64(self.operands.run)
                    source = I.Bind(source)
                    low, high = part(start)
                    with serial(high, low) as j:
                        self.combine(source + j, start + j)

    @property
    def fetched(self) -> list[int]:
        """What is fetched of a slice that is to be changed soon: an element of each line.

        Nothing hints at where it lies, and a store waits for its line like a load.  Long runs are
        foreseen once they have begun, and a small tensor stays in the second cache.
        """
        full, run = static_count(self.op.slices.full), known(self.operands.run)
        item = item_bytes(self.op.dtype)
        if run is None or (full is not None and full * item <= self.near_bytes):
            return []
        lines = list(range(0, run, emit.LINE_BYTES // item))[:_LINES_FETCHED]
        # Runs that begin inside of a line reach into one more.
        return lines if run == 1 or len(lines) == _LINES_FETCHED else [*lines, run - 1]

    @property
    def ahead(self) -> int:
        """How many slices before its turn one is fetched."""
        return max(1, _LINES_FETCHED // max(1, len(self.fetched)))

    def fetch(self, start: Expr) -> None:
        """Have a slice fetched that begins at a place in the tensor."""
        for element in self.fetched:
            emit.prefetch(self.result.buffer, start + element, nearest=False)

    def combine(self, update: Expr, place: Expr) -> None:
        """One element: ``result[place] = region(updates[update], result[place])``."""
        dtype = self.op.compute_dtype
        flat = self.operands.flat["updates"]
        if self.op.replaces:  # no conversion, so that it is a copy to the compiler, too
            I.buffer_store(self.result.buffer, flat.buffer[update], [place])
            return
        value = self.op.region(flat.load(update, dtype), self.result.load(place, dtype))
        self.result.store(place, value)
