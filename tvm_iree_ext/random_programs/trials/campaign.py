"""Many programs, each in a process that may end; what fails is made small."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.processes import limits, workers
from tvm_iree_ext.random_programs.doors.doors import check_door
from tvm_iree_ext.random_programs.drawing import shrink
from tvm_iree_ext.random_programs.drawing.generate import TYPES
from tvm_iree_ext.random_programs.drawing.web import Web
from tvm_iree_ext.random_programs.trials.task import (
    Kind,
    ProgramTask,
    Recipe,
    Setting,
    TrialOutcome,
)

LIMIT_S = 120.0
"""For one program; none takes a tenth of it, of a CPU that is its own."""

_MEMORY = 8 << 30  # that one may take beside what TVM has taken


Call: TypeAlias = Callable[[Callable[[ProgramTask], Any], ProgramTask], Any]
"""Calls a function with a task, in another process or here."""


@dataclass(frozen=True)
class CampaignResult:
    """Outcome of a program; of a fault the smallest program that has it, as Python, too."""

    setting: Setting
    recipe: Recipe
    kind: Kind
    message: str = ""
    cause: str = ""
    small: str = ""
    script: str = ""

    def __str__(self) -> str:
        recipe = self.recipe
        return (
            f"{self.kind}: {self.setting.door}, {recipe.dtype}, seed {recipe.seed}: {self.message}"
        )

    def to_json(self) -> str:
        """JSON of one line."""
        return json.dumps(asdict(self))


def _from_json(line: str) -> CampaignResult:
    data: dict[str, Any] = json.loads(line)
    setting, recipe = Setting(**data.pop("setting")), Recipe(**data.pop("recipe"))
    return CampaignResult(setting, recipe, **data)


def recipes(types: Sequence[str], count: int, seed: int, most: int) -> list[Recipe]:
    """``count`` programs of seeds from ``seed`` on, of the types in turns.

    Raises:
        ExtError: for a type that no program is of.
    """
    for dtype in types:
        if dtype not in TYPES:
            raise ExtError(f"no programs of {dtype!r}; there are {', '.join(TYPES)}")
    return [Recipe(seed + i, types[i % len(types)], most) for i in range(count)]


def run(
    setting: Setting,
    programs: Sequence[Recipe],
    *,
    jobs: int = 1,
    limit_s: float = LIMIT_S,
    minutes: float | None = None,
    log: Path | None = None,
    smaller: bool = True,
) -> Iterator[CampaignResult]:
    """Try each program and yield its outcome, in order.

    Args:
        setting: where they are tried.
        programs: their recipes.
        jobs: processes that try; 0 means this one.
        limit_s: what one program may take.
        minutes: after which no further one is begun.
        log: a file of JSON lines; what stands in it is not tried again, and the rest is added.
        smaller: whether what fails is made small.

    Raises:
        ExtError: for a door that is not open here.
    """
    check_door(setting.door)
    before = _logged(log)
    yield from (before[key] for one in programs if (key := (setting, one)) in before)
    left = [one for one in programs if (setting, one) not in before]
    tasks = (ProgramTask(one, setting) for one in _until(left, minutes))
    with contextlib.ExitStack() as stack:
        tried: Iterator[TrialOutcome] = map(_tried, tasks)
        if jobs:  # processes that end with the run, whatever ends it
            each = workers.each(_limited, _died, tasks, jobs, limit_s)
            tried = stack.enter_context(contextlib.closing(each))
        folder = stack.enter_context(scratch())
        worker = workers.Worker(limit_s, str(folder))
        call: Call = worker.call if jobs else _here
        try:
            for recipe, outcome in zip(left, tried, strict=False):
                result = _result(ProgramTask(recipe, setting), outcome, call, smaller)
                if log is not None:
                    with log.open("a", encoding="utf-8") as lines:
                        lines.write(result.to_json() + "\n")
                yield result
        finally:
            worker.end()


def _until(programs: Sequence[Recipe], minutes: float | None) -> Iterator[Recipe]:
    end = None if minutes is None else time.monotonic() + 60 * minutes
    for one in programs:
        if end is not None and time.monotonic() > end:
            return
        yield one


def _logged(log: Path | None) -> dict[tuple[Setting, Recipe], CampaignResult]:
    if log is None or not log.exists():
        return {}
    try:
        found = [_from_json(line) for line in log.read_text("utf-8").splitlines() if line]
    except (ValueError, KeyError, TypeError) as error:
        raise ExtError(f"{log} is no log of random programs: {error}") from None
    return {(one.setting, one.recipe): one for one in found}


def _limited(task: ProgramTask) -> TrialOutcome:
    limits.no_core_file()
    limits.limit_memory(_MEMORY)
    return _tried(task)


def _here(function: Callable[[ProgramTask], Any], task: ProgramTask) -> Any:
    return function(task)


def _tried(task: ProgramTask) -> TrialOutcome:
    return cast(TrialOutcome, _trial().tried(task))


def _trial() -> Any:
    """The module that tries, which needs TVM."""
    from tvm_iree_ext.random_programs.trials import trial

    return trial


def _died(task: ProgramTask, error: workers.WorkerDied) -> TrialOutcome:
    return TrialOutcome("slow" if error.timed_out else "crashed", str(error))


def _web(task: ProgramTask) -> Web:
    return cast(Web, _trial().web_of(task))


def _beside(task: ProgramTask) -> str:
    return cast(str, _trial().beside(task))


def _script(task: ProgramTask) -> str:
    return cast(str, _trial().script(task))


def _result(task: ProgramTask, outcome: TrialOutcome, call: Call, smaller: bool) -> CampaignResult:
    recipe = cast(Recipe, task.program)
    found = CampaignResult(task.setting, recipe, outcome.kind, outcome.message, outcome.cause)
    if not outcome.is_fault:
        return found
    try:
        web = outcome.web or call(_web, task)
    except workers.WorkerDied as error:  # drawing it ends the process, too
        return replace(found, message=f"{found.message}; drawn again, the process {error}")
    if outcome.kind in ("wrong", "foreign"):
        try:
            if said := call(_beside, replace(task, program=web)):
                return replace(found, kind="disputed", message=f"{found.message}; theirs: {said}")
        except workers.WorkerDied as error:
            found = replace(found, message=f"{found.message}; theirs {error}")
    if smaller and outcome.kind != "slow":
        web = smallest(web, task.setting, outcome, call)
    return replace(found, small=web.to_json(), script=call(_script, replace(task, program=web)))


def smallest(web: Web, setting: Setting, outcome: TrialOutcome, call: Call) -> Web:
    """The smallest web that has this outcome for this cause."""

    def fails(candidate: Web) -> bool:
        task = ProgramTask(candidate, setting)
        try:
            came = call(_limited if call is not _here else _tried, task)
        except workers.WorkerDied as error:
            came = _died(task, error)
        return came.cause == outcome.cause

    return shrink.shrunk(web, fails)
