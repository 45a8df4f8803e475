"""The CPU rule for gather: tasks take parts of the batch, or of few large windows."""

from dataclasses import dataclass

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.tasks import (
    FAR_ROW_BYTES,
    ROWS_AHEAD,
    Tasks,
    refuse_out_of_range,
)
from tvm_iree_ext.schedules.emit import Expr, i64, known, serial
from tvm_iree_ext.schedules.shared.slice_operands import SliceOperands, static_count
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

_COLUMN_BYTES = 64 * 1024  # a window of this size is worth sharing


@dataclass(frozen=True)
class GatherConfig(RuleConfig):
    """Sharing of work: ``batch`` shares the slices, ``columns`` the runs of one."""

    splits: int = number("splits")
    parallel: bool = flag("parallel")


class CpuGather(CpuRule):
    """Gather on an LLVM CPU target."""

    name = "cpu.gather"
    lowers = Gather
    typed = GatherConfig
    algorithms = ("batch", "columns")

    def usual(self, op: Gather, target: Target) -> GatherConfig:
        """A task per core."""
        parallel = self.is_large(op)
        run = static_count(op.slices.window[max(op.slices.covered - 1, 0) :])
        large = run is not None and run * item_bytes(op.dtype) >= _COLUMN_BYTES
        return GatherConfig(
            "columns" if large else "batch",
            splits=cpu_features(target).cores if parallel else 1,
            parallel=parallel,
        )

    def emit(self, op: Gather, config: GatherConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _emit(op, config)


def _emit(op: Gather, config: GatherConfig) -> None:
    operands = SliceOperands(op)
    tasks = Tasks(config.splits, config.parallel)
    if op.out_of_range == "error":
        refuse_out_of_range(operands, tasks)
    buffers = operands.parameters.buffers
    source, output = operands.flat["source"], operands.flat["output"]
    init = operands.flat.get("output_init")
    row = (known(operands.run) or 0) * item_bytes(op.dtype)
    far = config.algorithm == "batch" and known(operands.runs) == 1 and row >= FAR_ROW_BYTES
    to, table = (emit.flat_words(buffers[name]) for name in ("output", "source"))
    with tasks.each() as task:
        first, stop = i64(0), i64(operands.positions)
        low, high = i64(0), i64(operands.run)
        if config.algorithm == "batch":
            first, stop = tasks.share(task, operands.positions)
        else:
            low, high = tasks.share(task, operands.run, emit.LINE_BYTES // item_bytes(op.dtype))
        with serial(stop, first) as position:
            row, touched = operands.address(position)
            start = row * i64(operands.tail)

            def rest(place: Expr) -> Expr:
                return tirx.const(0, op.dtype) if init is None else init.buffer[place]

            if known(operands.run) == 1 and known(operands.runs) == 1:
                # Without a branch: a suppressed element reads the first one, and drops it.
                found = source.buffer[tirx.Select(touched, start, i64(0))]
                I.buffer_store(
                    output.buffer, tirx.Select(touched, found, rest(position)), [position]
                )
            else:
                start, touched = I.Bind(start), I.Bind(touched)
                if far:
                    later, _ = operands.address(tirx.min(position + ROWS_AHEAD, stop - 1))
                    ahead = I.Bind(later * i64(operands.tail))
                with serial(operands.runs) as run:
                    target = I.Bind((position * i64(operands.runs) + run) * i64(operands.run))
                    place = I.Bind(start + i64(operands.run_offset(run)))
                    with I.If(touched):
                        with I.Then():
                            if far:
                                emit.copy_row(to, target, table, place, operands.run, ahead)
                            else:
                                with serial(high, low) as j:
                                    found = source.buffer[place + j]
                                    I.buffer_store(output.buffer, found, [target + j])
                        with I.Else(), serial(high, low) as j:
                            I.buffer_store(output.buffer, rest(target + j), [target + j])
