"""A worker's trial: build a candidate, check its results, time it.

Everything goes through files: a *task* folder has the op with its operands and, once it is
prepared, what the reference makes of them; a candidate's folder is its artifact.
"""

import contextlib
import dataclasses
import math
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.errors import ExtError, TuningError
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record import Status
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime.kernel import load
from tvm_iree_ext.runtime.launch.driver import DriverError
from tvm_iree_ext.tuning.measuring.bound_kernel import Resident
from tvm_iree_ext.tuning.measuring.expected_results import wanted

_SAMPLES = 10
_SAMPLE_S = 0.005  # calls shorter than that are timed several at once
_BUDGET_S = 0.3

_NO_MEMORY = ("bad_alloc", "out of memory", "cannot allocate memory")

Outcome = tuple[Status, str]


@dataclass(frozen=True)
class TrialTask:
    """An op with its operands, and what its results must be once the reference has computed them.

    ``want`` are results as the op's entry settles them.
    """

    op: Op
    operands: Mapping[str, Any]
    want: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    tolerance: Mapping[str, Tolerance] = dataclasses.field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the task's file.

        Raises:
            TuningError: for an op that holds a function of Python's, which is of one process.
        """
        try:
            data = pickle.dumps(self, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TuningError(f"{self.op.name} cannot be sent to a worker: {error}") from None
        path.write_bytes(data)


@lru_cache(4)
def read_task(path: Path) -> TrialTask:
    """The task of a file that was prepared."""
    return _unpickled(path)


def _unpickled(path: Path) -> TrialTask:
    with path.open("rb") as file:
        task = pickle.load(file)
    assert isinstance(task, TrialTask)
    return task


def prepare_task(path: Path) -> str:
    """Let the reference compute what results must be, and add it to the task's file.

    Returns what is wrong, for a message; empty when nothing is.
    """
    task = _unpickled(path)
    entry = ENTRIES.get(task.op.name)
    if entry is None:
        return f"{task.op.name}: no reference"
    try:
        computed = wanted(task.op, task.operands)
        want = entry.settled(task.op, computed)
        tolerance = entry.tolerance(task.op, task.operands, want)
    except (ExtError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        return f"{task.op.name}: the reference refuses the operands: {error}"
    new = path.with_suffix(".new")
    dataclasses.replace(task, want=want, tolerance=tolerance).write(new)
    new.replace(path)
    return ""


@dataclass(frozen=True)
class BuildOrder:
    """A candidate to be built: the task's file, the target and the config as JSON, where to."""

    task: Path
    target: Mapping[str, Any]
    config: Mapping[str, Any]
    folder: Path


def build_candidate(order: BuildOrder) -> Outcome:
    """Build an artifact."""
    op = _op(order.task)
    try:
        build(op, dict(order.target), order.config, folder=order.folder)
    except MemoryError:
        return "out_of_memory", "the compiler ran out of memory"
    except Exception as error:  # TVM's passes raise any kind for a schedule that does not fit
        return failed("build_failed", error)
    return "ok", ""


@lru_cache(4)
def _op(path: Path) -> Op:
    return _unpickled(path).op


@dataclass(frozen=True)
class RunOrder:
    """A built candidate to be checked and timed."""

    task: Path
    folder: Path


@dataclass
class _Checked:
    """The candidate that was checked last, for timing."""

    folder: Path | None = None
    kernel: Resident | None = None


_checked = _Checked()


def check_candidate(order: RunOrder) -> Outcome:
    """Load an artifact, call it once, and compare its results with what they must be."""
    task = read_task(order.task)
    if _checked.kernel is not None:
        _close(_checked.kernel)
    _checked.folder = _checked.kernel = None
    with contextlib.ExitStack() as stack:
        try:
            kernel = Resident(load(order.folder), task.operands)
            stack.callback(_close, kernel)
            kernel.call()
            wrong = _difference(task, kernel.results())
        except MemoryError:
            return "out_of_memory", "the kernel ran out of memory"
        except Exception as error:  # a kernel may raise anything
            return failed("run_failed", error)
        if wrong:
            return "wrong", wrong
        stack.pop_all()  # it is to be timed
    _checked.folder, _checked.kernel = order.folder, kernel
    return "ok", ""


def _close(kernel: Resident) -> None:
    """Give memory back; a driver that refuses says nothing of the candidate."""
    with contextlib.suppress(DriverError):
        kernel.close()


def time_candidate(folder: Path) -> tuple[float, ...]:
    """Microseconds of single calls of the candidate that was checked last; some are averages.

    On a GPU these are its own, by the driver's events.
    """
    kernel = _checked.kernel
    assert kernel is not None, "nothing was checked"
    assert folder == _checked.folder, "another one was checked"
    if kernel.times is not None:
        return tuple(kernel.times(_BUDGET_S))
    _seconds(kernel, 1)  # wakes the pool, fills the caches
    once = _seconds(kernel, 1)
    if once > _BUDGET_S:
        return (once * 1e6,)
    calls = max(1, round(_SAMPLE_S / max(once, 1e-7)))
    samples = max(1, min(_SAMPLES, math.ceil(_BUDGET_S / max(once * calls, _SAMPLE_S))))
    return tuple(_seconds(kernel, calls) * 1e6 for _ in range(samples))


def _seconds(kernel: Resident, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        kernel.call()
    kernel.wait()
    return (time.perf_counter() - start) / calls


def _difference(task: TrialTask, results: dict[str, np.ndarray]) -> str:
    got = ENTRIES[task.op.name].settled(task.op, results)
    found = (
        first_difference(name, got[name], want, task.tolerance[name])
        for name, want in task.want.items()
    )
    return next(filter(None, found), "")


def failed(status: Status, error: Exception) -> Outcome:
    """The outcome of an error: its first line, and whether it was for want of memory."""
    what = str(error).strip().partition("\n")[0]
    text = what if isinstance(error, ExtError) else f"{type(error).__name__}: {what}"
    no_memory = any(phrase in str(error).lower() for phrase in _NO_MEMORY)
    return ("out_of_memory" if no_memory else status), text
