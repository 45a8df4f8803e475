"""Candidates measured: built by some processes, run by another, in any number, whatever they do.

Workers stay warm from candidate to candidate.  Builders stand behind the runner and are stopped
while it times, so that kernels have the machine for themselves.  A candidate that crashes, hangs,
takes all memory or computes wrong results is a measurement of that status; what it broke is
started again.
"""

import contextlib
import itertools
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.atomic_folder import staging
from tvm_iree_ext.base.errors import TargetError, TuningError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.processes import limits
from tvm_iree_ext.processes.workers import Worker, WorkerDied
from tvm_iree_ext.records.record import Status
from tvm_iree_ext.runtime import cache, tvm_runtime
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES, chip_of, gpu_obstacle
from tvm_iree_ext.targets.host import obstacle
from tvm_iree_ext.targets.names import TargetLike, make_target, target_json
from tvm_iree_ext.tuning.measuring import trial
from tvm_iree_ext.tuning.measuring.random_operands import check_operands, random_operands
from tvm_iree_ext.tuning.measuring.worker_setup import Conditions

_REFERENCE_S = 600.0  # a reference is slow and obvious, and runs once for an op
_NICENESS = 10
_OUT_OF_MEMORY = -9  # SIGKILL that is not ours: the system's, for want of memory


@dataclass(frozen=True)
class Measurement:
    """How a trial went; ``times_us`` are of single calls, and empty unless the status is ``ok``."""

    candidate_id: Hashable
    status: Status
    times_us: tuple[float, ...] = ()
    message: str = ""
    build_s: float = 0.0
    run_s: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """A candidate on its way: its task's file, and where its artifact goes."""

    id: Hashable
    task: Path
    config: Mapping[str, Any]
    folder: Path
    build_s: float = 0.0


class Runner:
    """Runs candidates one by one, in a process of its own."""

    def __init__(self, folder: Path, limit_s: float, memory_bytes: int) -> None:
        conditions = Conditions(os.getpid(), memory_bytes)
        self._worker = Worker(limit_s, str(folder), conditions)

    def start(self) -> None:
        """Start the process before there is something to run."""
        self._worker.start()

    def prepare(self, task: Path) -> str:
        """Let the reference compute; returns what is wrong with the task."""
        return self._worker.call(trial.prepare_task, task, _REFERENCE_S)

    def run(
        self, candidate: Candidate, quiet: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> tuple[trial.Outcome, tuple[float, ...]]:
        """How the candidate ends, and its times, taken while it is ``quiet``."""
        outcome = self._worker.call(
            trial.check_candidate, trial.RunOrder(candidate.task, candidate.folder)
        )
        if outcome[0] != "ok":
            return outcome, ()
        with quiet():
            return outcome, self._worker.call(trial.time_candidate, candidate.folder)

    def end(self) -> None:
        """End the process, and start no other."""
        self._worker.end()


class Measurer:
    """Measures candidates on this machine.

    >>> with Measurer("llvm") as measurer:                            # doctest: +SKIP
    ...     for number, config in enumerate(configs):
    ...         measurer.submit(number, op, config)
    ...     for measurement in measurer.results():
    ...         print(measurement.candidate_id, measurement.status, measurement.times_us)

    Args:
        target: a CPU or GPU that is here.
        workers: processes that build; by default as many as there are processors, since the one
            that runs rests most of the time.
        time_limit_s: for the check and the timing of a candidate, each.
        build_limit_s: for its build, on a machine that may be busy.
        memory_limit_bytes: what a candidate may allocate, and its build; by default half of the
            machine's memory, or anything for a GPU, whose driver maps much that it does not use.
        seed: of operands that are not given.

    Raises:
        TargetError: for a target that is unknown or does not run here.
    """

    def __init__(
        self,
        target: TargetLike = "llvm",
        workers: int | None = None,
        time_limit_s: float = 20.0,
        build_limit_s: float = 120.0,
        memory_limit_bytes: int | None = None,
        seed: int = 0,
    ) -> None:
        resolved = make_target(target)
        self._target = target_json(resolved)
        self._on_gpu = resolved.kind.name in DLPACK_DEVICES
        self._check_is_here()
        self._workers = workers or tvm_runtime.available_processors()
        self._limit_s, self._build_limit_s, self._seed = time_limit_s, build_limit_s, seed
        self._memory = memory_limit_bytes or (0 if self._on_gpu else limits.machine_memory() // 2)
        self._to_build: queue.SimpleQueue[Candidate | None] = queue.SimpleQueue()
        self._to_run: queue.SimpleQueue[Candidate | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Measurement] = queue.SimpleQueue()
        self._tasks: dict[Any, Path] = {}
        self._wrong_tasks: dict[Path, str] = {}
        self._preparing = threading.Lock()
        self._prepared: set[Path] = set()
        self._numbers = itertools.count()
        self._stopping = threading.Event()
        self._stack = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []
        self.outstanding = 0
        """How many candidates were submitted whose results were not taken yet."""

    def _check_is_here(self) -> None:
        resolved = make_target(self._target)
        kind = resolved.kind.name
        why = gpu_obstacle(kind, chip_of(self._target)) if self._on_gpu else obstacle(resolved)
        if why:
            raise TargetError(f"{why}; measure there, by a fleet, or tune without the device")

    def _make_runners(self) -> list[Runner]:
        """Runners of candidates, one at a time each."""
        return [Runner(self._folder, self._limit_s, self._memory)]

    def __enter__(self) -> "Measurer":
        parent = cache.root() / "trials"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self._folder = self._stack.enter_context(staging(parent))
        except OSError as error:
            raise TuningError(f"cannot write {parent}: {error.strerror or error}") from error
        conditions = Conditions(os.getpid(), self._memory, _NICENESS)
        self._builders = [
            Worker(self._build_limit_s, str(self._folder), conditions) for _ in range(self._workers)
        ]
        self._runners = self._make_runners()
        self._threads = [
            *(threading.Thread(target=self._build_all, args=(one,)) for one in self._builders),
            *(threading.Thread(target=self._run_all, args=(one,)) for one in self._runners),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End the processes and remove their files; candidates under way are dropped."""
        self._stopping.set()
        for _ in self._builders:
            self._to_build.put(None)
        for _ in self._runners:
            self._to_run.put(None)
        for builder in self._builders:
            builder.end()
        for runner in self._runners:
            runner.end()
        for thread in self._threads:
            thread.join()
        self._stack.close()

    def submit(
        self,
        candidate_id: Hashable,
        op: Op,
        config: LoweringConfig,
        operands: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a candidate; its result comes by :meth:`results`.

        Args:
            candidate_id: what the result is known by.
            op: what is computed.
            config: the lowering config.
            operands: arrays and numbers by name; by default random ones, the same for each
                candidate of the op.  Those of the first candidate of an op count.

        Raises:
            TuningError: for an op that needs operands given, or that cannot be sent to a worker.
        """
        task = self._task(op, operands)
        folder = self._folder / f"candidate-{next(self._numbers)}"
        self.outstanding += 1
        self._to_build.put(Candidate(candidate_id, task, config.to_json(), folder))

    def results(self) -> Iterator[Measurement]:
        """The results as they come, until there is one for every candidate that was submitted.

        More may be submitted meanwhile.
        """
        while self.outstanding:
            measurement = self._done.get()
            self.outstanding -= 1
            yield measurement

    def _task(self, op: Op, operands: Mapping[str, Any] | None) -> Path:
        key = str(op.describe())
        if key not in self._tasks:
            if operands is None:
                operands = random_operands(op, self._seed)
            check_operands(op, operands)
            path = self._folder / f"task-{len(self._tasks)}"
            trial.TrialTask(op, dict(operands)).write(path)
            self._tasks[key] = path
        return self._tasks[key]

    def _build_all(self, builder: Worker) -> None:
        self._started(builder.start)
        while (candidate := self._to_build.get()) and not self._stopping.is_set():
            start = time.perf_counter()
            order = trial.BuildOrder(
                candidate.task, self._target, candidate.config, candidate.folder
            )
            try:
                outcome = builder.call(trial.build_candidate, order)
            except WorkerDied as error:
                outcome = died(error)
            spent = time.perf_counter() - start
            if outcome[0] == "ok":
                self._to_run.put(
                    Candidate(
                        candidate.id, candidate.task, candidate.config, candidate.folder, spent
                    )
                )
            else:
                self._finish(candidate, outcome, build_s=spent)

    def _run_all(self, runner: Runner) -> None:
        self._started(runner.start)
        while (candidate := self._to_run.get()) and not self._stopping.is_set():
            start = time.perf_counter()
            times: tuple[float, ...] = ()
            try:
                if wrong := self._prepare(runner, candidate.task):
                    outcome: trial.Outcome = ("run_failed", wrong)
                else:
                    outcome, times = runner.run(candidate, self._quiet)
            except WorkerDied as error:
                outcome = died(error)
            spent = time.perf_counter() - start
            self._finish(candidate, outcome, times, build_s=candidate.build_s, run_s=spent)

    def _started(self, start: Callable[[], None]) -> None:
        with contextlib.suppress(WorkerDied):  # each candidate will say so
            start()

    def _prepare(self, runner: Runner, task: Path) -> str:
        """The error of a task, whose reference runs at its first candidate."""
        with self._preparing:
            if task not in self._prepared:
                try:
                    self._wrong_tasks[task] = runner.prepare(task)
                except WorkerDied as error:
                    self._wrong_tasks[task] = f"the reference {error}"
                self._prepared.add(task)
        return self._wrong_tasks[task]

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Let builders stand still."""
        with contextlib.ExitStack() as paused:
            for builder in self._builders:
                paused.enter_context(builder.paused())
            yield

    def _finish(
        self,
        candidate: Candidate,
        outcome: trial.Outcome,
        times: tuple[float, ...] = (),
        *,
        build_s: float,
        run_s: float = 0.0,
    ) -> None:
        shutil.rmtree(candidate.folder, ignore_errors=True)
        status, message = outcome
        self._done.put(Measurement(candidate.id, status, times, message, build_s, run_s))


def died(error: WorkerDied) -> trial.Outcome:
    """The outcome of a candidate whose worker ended."""
    if error.timed_out:
        return "timed_out", str(error)
    if error.code == _OUT_OF_MEMORY:
        return "out_of_memory", str(error)
    return "crashed", str(error)
