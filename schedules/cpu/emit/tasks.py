"""Tasks of CPU kernels that move data, and the check of all indices before anything is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import KERNEL_ERROR
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.shared.slice_operands import SliceOperands

FAR_ROW_BYTES = 512
"""The length from which on rows at places from a table are fetched ahead of their turn."""

ROWS_AHEAD = 2


@dataclass(frozen=True)
class Tasks:
    """A number of tasks, on the thread pool or one after another."""

    count: Index
    parallel: bool

    @contextmanager
    def each(self) -> Iterator[Expr]:
        """A loop over the tasks."""
        loop = I.parallel(i64(0), i64(self.count)) if self.parallel else serial(self.count)
        with loop as task:
            yield task

    def share(self, task: Expr, total: Index, unit: int = 1) -> tuple[Expr, Expr]:
        """The first of a task's part of ``total``, and the end; parts are whole units but one."""
        part = emit.ceil_div(emit.ceil_div(total, unit), self.count)
        first = emit.smaller(task * i64(part) * unit, total)
        return I.Bind(i64(first)), I.Bind(i64(emit.smaller((task + 1) * i64(part) * unit, total)))

    def copy(self, target: Any, source: Any, count: Index) -> None:
        """``target = source``, both of one axis."""
        with self.each() as task:
            first, stop = self.share(task, count, 64 // item_bytes(str(target.dtype)))
            emit.copy_run(target, first, source, first, stop - first)


def refuse_out_of_range(operands: SliceOperands, tasks: Tasks) -> None:
    """Raise before anything is written where an index that is not masked is out of range."""
    wrong = emit.scratch([tasks.count], "int64")
    with tasks.each() as task:
        counted = emit.registers(1, "int64")
        I.buffer_store(counted, i64(0), [0])
        first, stop = tasks.share(task, operands.positions)
        with serial(stop, first) as position:
            _, touched = operands.address(position)
            if "mask" in operands.flat:
                mask = operands.flat["mask"].load(position, "int64")
                wanted = tirx.bitwise_and(mask, i64(1))
            else:
                wanted = i64(1)
            missed = wanted - tirx.Cast("int64", touched)
            I.buffer_store(counted, counted[0] + missed, [0])
        I.buffer_store(wrong, counted[0], [task])
    with serial(tasks.count, 1) as task:
        I.buffer_store(wrong, wrong[0] + wrong[task], [0])
    message = f"{operands.op.name}: indices are out of range; nothing was written"
    with I.Assert(wrong[0] == i64(0), message, KERNEL_ERROR):
        I.evaluate(tirx.const(0, "int32"))
