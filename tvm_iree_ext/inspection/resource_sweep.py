"""Compilers' resource reports of ops' kernels on every chip: registers, spills, scratch.

No GPU is needed.

>>> (row,) = sweep(["matmul f16 4096x4096x16"], ["rocm:gfx1100"])
>>> row.resources.spills, row.resources.scratch_bytes
(0, 0)
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_iree_ext.base.errors import ExtError, OpError, ScheduleError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.bench.suites import SUITES, select_cases
from tvm_iree_ext.catalog.base.entry import Values
from tvm_iree_ext.codegen.gpu.device_code import KernelResources
from tvm_iree_ext.inspection.hot_loops import CHIPS
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.inspection.resource_sweep_cases import CASES
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.processes import workers
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify.kernel_checks import CheckCase

_LIMIT_S = 600.0  # for one case on one chip, in a process of its own


@dataclass(frozen=True)
class SweepRow:
    """A kernel of a case on a chip, by the compiler's report; or why there is none.

    Attributes:
        case: its name.
        op: whose kernel it is.
        target: what it was compiled for.
        kernel: its name.
        resources: None without a kernel, or without the compiler's tools.
        mma: matrix instructions in a pass of the hot loop, or in the kernel where no loop is left.
        per_mma: instructions of any kind for each of them.
        obstacle: why there is no figure.
        failed: whether a rule takes the op, and yet no kernel was made.
    """

    case: str
    op: str
    target: str
    kernel: str = ""
    resources: KernelResources | None = None
    mma: int = 0
    per_mma: float = 0.0
    obstacle: str = ""
    failed: bool = False

    @property
    def spilt(self) -> bool:
        """Whether something did not fit the registers, or lies in a lane's memory."""
        used = self.resources
        return used is not None and (used.spills > 0 or used.scratch_bytes > 0)

    @property
    def advised(self) -> bool:
        """Whether the compilers said something of it beside figures."""
        return self.resources is not None and bool(self.resources.advice)

    def __str__(self) -> str:
        name = f"{self.case} on {self.target}"
        used = self.resources
        if used is None:
            return f"{'FAILED ' if self.failed else ''}{name}: {self.obstacle}"
        parts = [
            f"{used.registers} registers",
            f"{used.scalar_registers} scalar" if used.scalar_registers else "",
            f"{'SPILLS ' if used.spills else 'spills '}{used.spills}",
            f"{'SCRATCH ' if used.scratch_bytes else 'scratch '}{used.scratch_bytes} B",
            f"{used.subgroups_per_simd:g} subgroups / SIMD",
            f"{self.per_mma:.2f} instructions / MMA" if self.mma else "",
            *(f"ADVICE {line}" for line in used.advice),
        ]
        return f"{name}: {self.kernel}: {', '.join(filter(None, parts))}"


def named(texts: Iterable[str] = (), suites: Collection[str] = ()) -> list[str]:
    """The names of :data:`CASES`, or of ``suites``' cases, that contain one of ``texts``.

    All for no texts.  The suites are those of :mod:`tvm_iree_ext.bench.suites`: realistic sizes
    of every op.

    Raises:
        OpError: for a text that no name contains, and for a suite that there is not.
    """
    if unknown := [suite for suite in suites if suite not in SUITES]:
        hint = did_you_mean(unknown[0], SUITES)
        raise OpError(f"gpu-sweep: no suite {unknown[0]!r}; there are {', '.join(SUITES)}{hint}")
    names = [case.name for suite in suites for case in select_cases(suite)] or list(CASES)
    texts = list(texts)
    for text in texts:
        if not any(text in name for name in names):
            raise OpError(f"gpu-sweep: no case has {text!r} in its name; they are {names}")
    return [name for name in names if not texts or any(text in name for text in texts)]


@functools.cache
def _suite_ops() -> Mapping[str, Op]:
    """The ops of all suites by their cases' names."""
    return {case.name: case.op for case in select_cases("all")}


@dataclass(frozen=True)
class _SweepTask:
    case: str | CheckCase
    target: str


def sweep(
    cases: Iterable[str | CheckCase] = (), targets: Collection[str] = (), *, jobs: int = 0
) -> Iterator[SweepRow]:
    """Compile cases for chips, and yield a row for each kernel.

    Args:
        cases: names as of :func:`named`, by default all of :data:`CASES`; or cases of
            :mod:`~tvm_iree_ext.verify.kernel_checks.kernel_checks`, of which the ops are compiled.
        targets: by default ten chips of both vendors.
        jobs: processes that compile, so that a compiler that crashes ends one case alone; 0 means
            this process.

    Raises:
        OpError: for a name that is none of the cases.
    """
    chosen = list(cases) or list(CASES)
    for one in chosen:
        if isinstance(one, str) and one not in CASES and one not in _suite_ops():
            raise OpError(f"gpu-sweep: case {one!r} is unknown; they are {list(CASES)}")
    tasks = [_SweepTask(case, target) for case in chosen for target in targets or CHIPS]
    if jobs == 0:
        found: Iterator[list[SweepRow]] = map(_rows, tasks)
    else:
        found = workers.each(_rows, _died, tasks, jobs, _LIMIT_S)
    for rows in found:
        yield from rows


def _died(task: _SweepTask, error: workers.WorkerDied) -> list[SweepRow]:
    name, op = (task.case, "") if isinstance(task.case, str) else (task.case.id, task.case.op)
    return [SweepRow(name, op, task.target, obstacle=str(error), failed=True)]


def _rows(task: _SweepTask) -> list[SweepRow]:
    if isinstance(task.case, str):
        op = CASES[task.case]() if task.case in CASES else _suite_ops()[task.case]
        return _compiled(task.case, op, task.target)
    case, rows = task.case, []

    def run(op: Op, operands: Values) -> dict[str, np.ndarray]:
        rows.extend(_compiled(case.id, op, task.target))
        return ENTRIES[op.name].reference(op, operands)

    case.check(run)
    return rows


def _compiled(case: str, op: Op, target: str) -> list[SweepRow]:
    row = SweepRow(case, str(op), target)
    try:
        code = inspect_op(op, target)
    except ScheduleError as refused:
        return [replace(row, obstacle=str(refused))]
    except ExtError as error:
        return [replace(row, obstacle=str(error), failed=True)]
    except Exception as error:  # TVM raises any kind; the other cases must still be compiled
        what = str(error).strip().partition("\n")[0]
        return [replace(row, obstacle=f"{type(error).__name__}: {what}", failed=True)]
    rows = []
    for name in code.launches:
        counted = code.instructions(name)
        part = (counted.hot_loop or counted.whole) if counted else None
        mma, per_mma = (part.mma, part.per_mma) if part and part.mma else (0, 0.0)
        used = code.resources.get(name)
        rows.append(
            replace(
                row, kernel=name, resources=used, mma=mma, per_mma=per_mma, obstacle=code.missing
            )
        )
    return rows


def counts(rows: Sequence[SweepRow]) -> str:
    """How many kernels there are, and of how many something was found; what no rule takes."""
    made = [row for row in rows if row.resources is not None]
    spilt, failed = (sum(which) for which in zip(*((r.spilt, r.failed) for r in rows), strict=True))
    refused = len(rows) - len(made) - failed
    advised = sum(row.advised for row in rows)
    return (
        f"{len(made)} kernels, {spilt} with spills or scratch"
        f"{f', {advised} with advice of compilers' if advised else ''}; {failed} not made;"
        f" {refused} that no rule takes"
    )


def summary_markdown(rows: Sequence[SweepRow]) -> str:
    """By chip: kernels, those that spill, most registers of a lane, and what no rule takes."""
    lines = [
        "| target | kernels | spills | scratch | most registers | no rule | not made |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for target in dict.fromkeys(row.target for row in rows):
        here = [row for row in rows if row.target == target]
        used = [row.resources for row in here if row.resources is not None]
        failed = sum(row.failed for row in here)
        cells = (
            len(used),
            sum(one.spills > 0 for one in used),
            sum(one.scratch_bytes > 0 for one in used),
            max((one.registers for one in used), default=0),
            len(here) - len(used) - failed,
            failed,
        )
        lines.append(f"| `{target}` | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def table_markdown(rows: Sequence[SweepRow]) -> str:
    """By case and chip: registers / bytes of shared memory / subgroups that each SIMD has.

    Of several kernels the most registers and bytes, and the fewest subgroups; spills of all.
    """
    targets = list(dict.fromkeys(row.target for row in rows))
    lines = [f"| case | {' | '.join(f'`{t}`' for t in targets)} |"]
    lines.append("| --- " * (1 + len(targets)) + "|")
    for case in dict.fromkeys(row.case for row in rows):
        of = [[row for row in rows if (row.case, row.target) == (case, t)] for t in targets]
        lines.append(f"| {case} | {' | '.join(map(_cell, of))} |")
    return "\n".join(lines)


def _cell(rows: Sequence[SweepRow]) -> str:
    used = [row.resources for row in rows if row.resources is not None]
    if len(used) < len(rows) or not used:
        return "not made" if any(row.failed for row in rows) else "no rule"
    spilt = sum(one.spills for one in used), sum(one.scratch_bytes for one in used)
    figures = (
        max(one.registers for one in used),
        max(one.shared_memory_bytes for one in used),
        f"{min(one.subgroups_per_simd for one in used):g}",
    )
    text = " / ".join(map(str, figures))
    return f"{text}, {spilt[0]} spills, {spilt[1]} B scratch" if any(spilt) else text
