"""Candidates ranked without the device: a measurer whose times are computed."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.processes.workers import Worker, WorkerDied
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tuning.measuring.measurer import Measurer, Runner, died
from tvm_iree_ext.tuning.measuring.trial import BuildOrder, Outcome, failed, read_task
from tvm_iree_ext.tuning.static.static_cost import static_cost


def cost_candidate(order: BuildOrder) -> tuple[Outcome, tuple[float, ...]]:
    """The outcome of a candidate that is compiled and counted, and its computed time."""
    task, config = read_task(order.task), LoweringConfig.from_json(order.config)
    try:
        return ("ok", ""), (static_cost(task.op, dict(order.target), config).time_us,)
    except Exception as error:  # TVM's passes raise any kind for a schedule that does not fit
        return failed("build_failed", error), ()


class StaticMeasurer(Measurer):
    """Takes candidates as :class:`Measurer` does; nothing is run, and no result is checked.

    Args:
        target: a GPU, which need not be here; CUDA's compilers must be.
        others: as :class:`Measurer` takes them.

    Raises:
        TargetError: for a target that is no GPU.
    """

    def _check_is_here(self) -> None:
        """Check that the target is a GPU; its compilers are all that counting needs."""
        gpu_chip(make_target(self._target))

    def _make_runners(self) -> list[Runner]:
        return []

    def _task(self, op: Op, operands: Mapping[str, Any] | None) -> Path:
        return super()._task(op, {one.name: None for one in op.signature.arguments})

    def _build_all(self, builder: Worker) -> None:
        self._started(builder.start)
        while (candidate := self._to_build.get()) and not self._stopping.is_set():
            start = time.perf_counter()
            order = BuildOrder(candidate.task, self._target, candidate.config, candidate.folder)
            times: tuple[float, ...] = ()
            try:
                outcome, times = builder.call(cost_candidate, order)
            except WorkerDied as error:
                outcome = died(error)
            self._finish(candidate, outcome, times, build_s=time.perf_counter() - start)
