"""Kernels against what they must compute: examples with known results, random ops, ops of yours.

>>> from tvm_iree_ext import verify
>>> report = verify.check_random(["attention"], count=2, seed=7)
>>> print(report)
2 passed, 0 failed
"""

import contextlib
import functools
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from tvm.target import Target

from tvm_iree_ext.access_checks.cpu_stage_run import first_wrong, run_op
from tvm_iree_ext.access_checks.gpu_stage_run import first_wrong_on_device
from tvm_iree_ext.access_checks.guarded_calls import Guard, culprit, guarded_results
from tvm_iree_ext.base import errors
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values
from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op
from tvm_iree_ext.emulator.runs.emulated_targets import emulated_obstacle
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.processes import workers
from tvm_iree_ext.registry import ENTRIES, find
from tvm_iree_ext.runtime.kernel import Kernel
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES, chip_of, gpu_obstacle
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.host import obstacle
from tvm_iree_ext.targets.names import TargetLike, make_target, target_json
from tvm_iree_ext.verify.spec_examples import NotSupported, read_examples

_LIMIT_S = 600.0  # for one case in a process of its own: a kernel that hangs is ended

Status = Literal["passed", "failed", "unsupported"]


class CheckCase(Protocol):
    """Something that is right or wrong."""

    @property
    def id(self) -> str:
        """Its name in reports."""

    @property
    def op(self) -> str:
        """The name of its op."""

    def check(self, run: Run) -> str:
        """The error, for a message, when ops are computed by ``run``; empty when there is none."""


@dataclass(frozen=True)
class _CheckTask:
    """A case for a target as plain JSON: to be sent to another process."""

    case: CheckCase
    target: Mapping[str, Any]
    simulate: bool
    compiled: bool
    passes: bool
    guard: Guard | None = None
    emulate: bool = False


@dataclass(frozen=True)
class CheckResult:
    """How a case ended; the message says what is wrong, or what is not supported."""

    id: str
    op: str
    status: Status
    message: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The results of a run."""

    results: tuple[CheckResult, ...]

    def of(self, status: Status) -> list[CheckResult]:
        """The results that ended so."""
        return [result for result in self.results if result.status == status]

    @property
    def unsupported(self) -> dict[tuple[str, str], int]:
        """Ops without a kernel, each with the reason: how many cases they have."""
        return Counter((result.op, result.message) for result in self.of("unsupported"))

    def __str__(self) -> str:
        return f"{len(self.of('passed'))} passed, {len(self.of('failed'))} failed"

    def to_json(self) -> dict[str, Any]:
        """Counts and results as plain JSON values."""
        counts = {status: len(self.of(status)) for status in ("passed", "failed", "unsupported")}
        return {**counts, "results": [asdict(result) for result in self.results]}


@dataclass(frozen=True)
class RandomCase:
    """Case ``index`` of a seed: an op with operands from the registry, against its reference."""

    op: str
    seed: int
    index: int

    @property
    def id(self) -> str:
        """Says how to get this case again."""
        return f"{self.op} --seed {self.seed} --case {self.index}"

    def check(self, run: Run) -> str:
        """The error in the results, with the op."""
        entry = ENTRIES[self.op]
        stream = zlib.crc32(self.op.encode())  # each op its own numbers, each case its own start
        op, operands = entry.random_case(np.random.default_rng([self.seed, stream, self.index]))
        wrong = _compare(entry, op, operands, run)
        return wrong and f"{wrong}; {op}, {op.attributes}"


def example_cases(path: Path | str, ops: Collection[str] | None = None) -> list[CheckCase]:
    """The cases of a file in the format of :mod:`tvm_iree_ext.verify.spec_examples`.

    Raises:
        ExampleError: for a file that cannot be read, or has no case of one of the ``ops``.
    """
    return list(read_examples(path, ops))


def random_cases(
    ops: Collection[str] | None = None,
    count: int = 20,
    seed: int = 0,
    index: int | None = None,
) -> list[CheckCase]:
    """``count`` cases for each op (default: all), or the one with an ``index``.

    Raises:
        OpError: for an op that is not registered.
        ExtError: for a count below 1, or a seed or index below 0.
    """
    for name, value, least in (("count", count, 1), ("seed", seed, 0), ("index", index or 0, 0)):
        _at_least(least, name, value)
    entries = ENTRIES.values() if ops is None else {find(op).name: find(op) for op in ops}.values()
    indices = range(count) if index is None else [index]
    return [RandomCase(entry.name, seed, i) for entry in entries for i in indices]


def check(
    cases: Iterable[CheckCase],
    target: TargetLike = "llvm",
    *,
    simulate: bool = False,
    compiled: bool = True,
    passes: bool = False,
    guard: bool = False,
    emulate: bool = False,
    jobs: int = 0,
) -> Iterator[CheckResult]:
    """The result of each case in order; no failure stops the others.

    Args:
        cases: as :func:`example_cases` and :func:`random_cases` make them.
        target: what kernels are built for; it must run here, or be a GPU that is simulated.
        simulate: run the kernels of a GPU on the simulator.  What it finds, such as a race, is a
            failure, too.
        compiled: compile what is simulated, too, as far as the tools at hand go: what simulates and
            does not compile is a failure.
        passes: build the kernels of a CPU with checks in them, after the schedule and after the
            passes that move, share or retype storage: an access outside of a buffer, or a result
            that depends on memory that nobody wrote, is a failure, which names the first pass
            after which it shows.  Those of a GPU are simulated so, after each such pass that
            changes them, and not compiled.
        guard: call the kernels of a CPU with arrays beside pages that cannot be touched, too: an
            access outside of an array ends the process; see :mod:`.guarded_calls`.
        emulate: execute the machine code of kernels for a GPU, launched by the artifact's own plan.
            What the emulator finds, such as a missing wait, is a failure, too.
        jobs: how many processes build and run the cases, so that a kernel that crashes or hangs
            is a failed case; 0 means this process.

    Raises:
        TargetError: for a target that is unknown or does not run here, or is no GPU and simulated,
            or no CPU and guarded.
        ExtError: for jobs below 0.
    """
    _at_least(0, "jobs", jobs)
    resolved = make_target(target)
    if passes and resolved.kind.name in DLPACK_DEVICES:
        simulate, compiled = True, False
    _check_runs_here(resolved, simulate, emulate)
    if guard and resolved.kind.name in DLPACK_DEVICES:
        raise errors.TargetError(
            f"{resolved.kind.name} is no CPU target, whose kernels alone are guarded"
        )
    how = target_json(resolved), simulate, compiled, passes, Guard() if guard else None, emulate
    tasks = [_CheckTask(case, *how) for case in cases]
    if jobs == 0:
        return map(_result, tasks)
    return workers.each(_result, _died, tasks, jobs, _LIMIT_S)


def check_examples(
    path: Path | str,
    target: TargetLike = "llvm",
    ops: Collection[str] | None = None,
    *,
    simulate: bool = False,
) -> CheckReport:
    """Check kernels against a file of examples; see :func:`example_cases` and :func:`check`."""
    return CheckReport(tuple(check(example_cases(path, ops), target, simulate=simulate)))


def check_random(
    ops: Collection[str] | None = None,
    target: TargetLike = "llvm",
    *,
    count: int = 20,
    seed: int = 0,
    index: int | None = None,
    simulate: bool = False,
    guard: bool = False,
) -> CheckReport:
    """Check kernels of random ops; see :func:`random_cases` and :func:`check`."""
    cases = random_cases(ops, count, seed, index)
    return CheckReport(tuple(check(cases, target, simulate=simulate, guard=guard)))


def check_op(
    op: Op,
    operands: Values,
    target: TargetLike = "llvm",
    config: LoweringConfig | None = None,
    *,
    simulate: bool = False,
    emulate: bool = False,
) -> CheckResult:
    """Build ``op``, run it on ``operands`` (arrays by name), and compare with the reference.

    With ``simulate`` its kernels for a GPU are run on the simulator, and compiled; with ``emulate``
    their machine code is executed.

    Raises:
        ExtError: when it cannot be built or called, or has no reference.
    """
    entry = ENTRIES.get(op.name)
    if entry is None:
        raise errors.OpError(f"{op.name}: no reference; there is one for {', '.join(ENTRIES)}")
    names = [operand.name for operand in op.signature.arguments]
    if wrong := sorted(set(names) ^ set(operands)):
        what = "is missing" if wrong[0] in names else "is not one of its operands"
        raise errors.CallError(f"{op.name}: {wrong[0]} {what}; they are {', '.join(names)}")
    resolved = make_target(target)
    _check_runs_here(resolved, simulate, emulate)

    def run(op: Op, operands: Values) -> dict[str, np.ndarray]:
        if simulate:
            return simulate_op(op, resolved, operands, config, compiled=True).check().results
        if emulate:
            return emulate_op(op, resolved, operands, config)
        return _build_and_call(op, operands, resolved, config)

    with _depth_named(op, resolved):
        difference = _compare(entry, op, operands, run)
    return CheckResult(str(op), op.name, "failed" if difference else "passed", difference)


@contextlib.contextmanager
def _depth_named(op: Op, target: Target) -> Iterator[None]:
    """Have what is too deep for Python's calls be an error that names the op."""
    try:
        yield
    except RecursionError:
        raise errors.BuildError(
            f"{op.name}: what it computes nests deeper for {target.kind.name} than Python's calls"
            f" may, {sys.getrecursionlimit()}; write {op} with fewer operations in its region"
        ) from None


def _at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise errors.ExtError(f"{name} is {value}; expected at least {least}")


def _compare(entry: OpEntry, op: Op, operands: Values, run: Run) -> str:
    return _difference(entry, op, operands, run(op, operands), entry.reference(op, operands))


def _difference(entry: OpEntry, op: Op, operands: Values, got: Values, want: Values) -> str:
    got, want = entry.settled(op, got), entry.settled(op, want)
    tolerance = entry.tolerance(op, operands, want)
    found = (first_difference(name, got[name], want[name], tolerance[name]) for name in want)
    return next(filter(None, found), "")


def _result(task: _CheckTask) -> CheckResult:
    """The result of a case; whatever goes wrong in it is its result."""
    case, resolved = task.case, make_target(task.target)

    def run(op: Op, operands: Values, stage: str = "") -> dict[str, np.ndarray]:
        with _depth_named(op, resolved):
            return computed(op, operands, stage)

    def computed(op: Op, operands: Values, stage: str) -> dict[str, np.ndarray]:
        try:
            choose(op, resolved)
        except errors.ScheduleError as error:
            raise NotSupported(str(error)) from None
        if task.simulate:
            done = simulate_op(op, resolved, operands, compiled=task.compiled)
            return done.check().results
        if task.emulate:
            # Half of the cases have the other half of the waves go first.
            order = zlib.crc32(case.id.encode()) & 1
            return emulate_op(op, resolved, operands, seed=order, order=order)
        if stage:
            return run_op(op, operands, resolved, stage)
        return _build_and_call(op, operands, resolved, None, task.guard)

    def wrong_after(stage: str = "") -> str:
        try:
            return case.check(functools.partial(run, stage=stage))
        except (errors.SimulationError, errors.BuildError) as error:
            return str(error)

    try:
        if not task.passes:
            wrong = case.check(run)
        else:
            wrong = (first_wrong_on_device if task.simulate else first_wrong)(wrong_after)
    except NotSupported as error:
        return CheckResult(case.id, case.op, "unsupported", str(error))
    except errors.ExtError as error:
        return CheckResult(case.id, case.op, "failed", str(error))
    except Exception as error:  # TVM and NumPy raise any kind; the other cases must still run
        what = str(error).strip().partition("\n")[0]
        return CheckResult(case.id, case.op, "failed", f"{type(error).__name__}: {what}")
    return CheckResult(case.id, case.op, "failed" if wrong else "passed", wrong)


def _died(task: _CheckTask, error: workers.WorkerDied) -> CheckResult:
    where = _culprit(task) if task.guard and not error.timed_out else ""
    return CheckResult(
        task.case.id, task.case.op, "failed", f"{error}: {where}" if where else str(error)
    )


def _culprit(task: _CheckTask) -> str:
    """The array that a case's kernel accesses out of bounds; found in other processes."""
    with scratch() as folder:
        worker = workers.Worker(_LIMIT_S, str(folder))

        def ends(guard: Guard) -> bool:
            try:
                worker.call(_result, replace(task, guard=guard))
            except workers.WorkerDied as error:
                return not error.timed_out
            return False

        try:
            signature = worker.call(_signature, task.case)
            return culprit(signature, ends) if signature else ""
        except workers.WorkerDied:
            return ""
        finally:
            worker.end()


def _signature(case: CheckCase) -> Signature | None:
    """That of the first op that a case builds."""
    asked: list[Signature] = []

    def run(op: Op, operands: Values) -> dict[str, np.ndarray]:
        asked.append(op.signature)
        raise NotSupported("asked")

    with contextlib.suppress(NotSupported):
        case.check(run)
    return asked[0] if asked else None


def _build_and_call(
    op: Op,
    operands: Values,
    target: Target,
    config: LoweringConfig | None,
    guard: Guard | None = None,
) -> dict[str, np.ndarray]:
    """The results by name, of a kernel that is built anew and not kept."""
    with scratch() as place:
        kernel = build(op, target, config, folder=place / "kernel")
        if guard is not None:
            return _guarded(kernel, op, operands, guard)
        results = kernel(*(operands[operand.name] for operand in op.signature.arguments))
    several = results if isinstance(results, tuple) else (results,)
    names = [operand.name for operand in op.signature.results]
    return dict(zip(names, several, strict=True))


def _guarded(kernel: Kernel, op: Op, operands: Values, guard: Guard) -> dict[str, np.ndarray]:
    """The results of guarded calls, which must not differ by where arrays are."""
    entry, first = ENTRIES.get(op.name), None
    for where, found in guarded_results(kernel, operands, guard):
        named = dict(zip([one.name for one in op.signature.results], found, strict=True))
        if first is None:
            first = named
        elif entry is not None and (wrong := _difference(entry, op, operands, named, first)):
            raise errors.ExtError(f"where {where}: {wrong}")
    assert first is not None
    return first


def _check_runs_here(target: Target, simulate: bool, emulate: bool = False) -> None:
    kind = target.kind.name
    if emulate:
        if why := emulated_obstacle(kind, chip_of(target_json(target)), builds=True):
            raise errors.TargetError(why)
        return
    if kind not in DLPACK_DEVICES:
        if simulate:
            raise errors.TargetError(f"{kind} is no GPU target, which alone are simulated")
        if why := obstacle(target):
            raise errors.TargetError(f"{why}; verify there, or build and export here")
    elif not simulate and (why := gpu_obstacle(kind, chip_of(target_json(target)))):
        raise errors.TargetError(f"{why}; verify there, or simulate here")
