"""A session: tasks tuned on one machine, until they are done, time is up or somebody ends it.

The heuristic's config is measured first, and again at the end in turns with the best that was
found: only what wins then is kept as a record for ``build``, so that noise does not.  Every trial
is a record, too, which a later session takes up.
"""

import contextlib
import itertools
import signal
import statistics
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.lazy import method_from
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record_files import PathLike, user_records
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.targets.names import TargetLike, make_target
from tvm_iree_ext.tuning.base.record_database import Database
from tvm_iree_ext.tuning.base.task import EFFORTS, Effort, Task
from tvm_iree_ext.tuning.search.cost_model import Model
from tvm_iree_ext.tuning.tuner import Tuner

# What a config must save to be kept, and how many of the turns it may lose: chance alone would let
# one of thirty through.
_LEAST_GAIN, _MOST_TURNS_LOST = 0.01, 0.125

# Candidates at a measurer at once: it is never idle, and ends soon when it is to.
_AHEAD = 4

# How often the heuristic's config is measured before the search: builders are at work from the
# second time on, as they are while candidates are timed, which alone changes a processor's clock.
_BASELINES = 3

_PATIENCE_S = 2.0  # the least time that is kept for the turns at the end

Ended = Literal["trials", "time", "stopped"]


class Measured(Protocol):
    """Result of a measurer: see :class:`tvm_iree_ext.tuning.measuring.measurer.Measurement`."""

    candidate_id: Any
    status: Any
    times_us: tuple[float, ...]
    message: str


class Measures(Protocol):
    """Measurer as a session needs it."""

    def submit(
        self,
        candidate_id: Hashable,
        op: Op,
        config: LoweringConfig,
        operands: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a candidate."""

    def results(self) -> Iterator[Any]:
        """A result for each candidate, as they come."""


@dataclass
class Session:
    """Tasks under way, for a display and for the report.

    Attributes:
        limit_s: after which no more is tried.
        stopping: set by Ctrl-C and SIGTERM; what is under way is finished.
        phase: what is done now, for a reader.
        baselines_s: what the start of workers, references and first measurements took.
    """

    tuners: list[Tuner]
    effort: Effort
    limit_s: float
    seed: int
    stopping: threading.Event = field(default_factory=threading.Event)
    phase: str = "baseline"
    ended: Ended = "trials"
    start: float = field(default_factory=time.perf_counter)
    end: float = 0.0
    baselines_s: float = 0.0

    _repr_html_ = method_from("tvm_iree_ext.tuning.session_html", "session_html")

    @property
    def elapsed_s(self) -> float:
        """Since the start, until the end."""
        return (self.end or time.perf_counter()) - self.start

    @property
    def fresh(self) -> int:
        """Trials that were measured now."""
        return sum(tuner.fresh for tuner in self.tuners)

    @property
    def turns(self) -> Effort:
        """How many turns at the end: fewer, of the best alone, with much less time than usual."""
        hurried = self.limit_s < len(self.tuners) * self.effort.seconds / 2
        return replace(EFFORTS["quick"], finalists=1) if hurried else self.effort

    @property
    def reserve_s(self) -> float:
        """Seconds that the final turns will take, by what trials took so far."""
        if not self.fresh:
            return _PATIENCE_S
        count = sum(
            (1 + len(tuner.finalists(self.turns.finalists))) * self.turns.rounds
            for tuner in self.tuners
        )
        spent = self.elapsed_s - self.baselines_s
        return max(_PATIENCE_S, min(self.limit_s / 2, spent / self.fresh * count))

    @property
    def over(self) -> Ended | None:
        """Why no more is tried; None while there is something to try."""
        if self.stopping.is_set():
            return "stopped"
        if self.elapsed_s + self.reserve_s >= self.limit_s:
            return "time"
        return "trials" if all(tuner.finished for tuner in self.tuners) else None


Update = Callable[[Session], None]


def tune(
    tasks: Op | Sequence[Task],
    target: TargetLike = "llvm",
    *,
    effort: str = "normal",
    trials: int | None = None,
    time_limit_s: float | None = None,
    seed: int = 0,
    model: Model = "xgboost",
    database: "PathLike | None" = None,
    measurer: Callable[[], AbstractContextManager[Measures]] | None = None,
    method: Literal["measured", "static"] = "measured",
    update: Update = lambda _: None,
) -> Session:
    """Search configs that are faster than the heuristics', and write them to a file of records.

    Args:
        tasks: an op, or several tasks.
        target: what it is tuned for; by default this machine's CPU.
        effort: ``quick``, ``normal`` or ``thorough``: how many trials and how much time.
        trials: of each task, instead of the effort's.
        time_limit_s: of all, instead of the effort's for each task.
        seed: the same one and the same times give the same candidates.
        model: what candidates are chosen by.
        database: the file, by default the user's own.  What it has of these tasks is not measured
            again.
        measurer: what measures; by default processes of this machine.
        method: how records are to say that times were come by.
        update: told after every trial.

    Returns:
        The session; each of its ``tuners`` has what was found.

    Raises:
        TuningError: for an unknown effort, a limit that is none, tasks of one name, or where no
            baseline can be measured.
        ScheduleError: for an op that no rule builds for the target.
        TargetError: for a target that is not known, or not here.
    """
    named, resolved = Effort.named(effort), make_target(target)
    chosen = [Task(tasks.name, tasks)] if isinstance(tasks, Op) else list(tasks)
    _check(chosen, trials, time_limit_s)
    limit_s = named.seconds * len(chosen) if time_limit_s is None else time_limit_s
    kept = Database(user_records() if database is None else database)
    static = method == "static"
    tuners = [
        Tuner(
            task,
            resolved,
            kept,
            seed=seed,
            model=model,
            limit=trials or named.trials,
            method="static" if static else "trial",
        )
        for task in chosen
    ]
    session = Session(tuners, named, limit_s, seed)
    with _ended_by_signals(session), (measurer or _here(target, seed))() as measuring:
        _SessionRun(session, measuring, update, turns=1 if static else session.turns.rounds).all()
    session.end = time.perf_counter()
    session.phase = "done"
    update(session)
    return session


def _check(tasks: Sequence[Task], trials: int | None, time_limit_s: float | None) -> None:
    names = [task.name for task in tasks]
    if not tasks or len(set(names)) < len(names):
        raise TuningError(f"tasks are {', '.join(names) or 'none'}; expected different names")
    for what, value in (("trials", trials), ("time limit", time_limit_s)):
        if value is not None and value <= 0:
            raise TuningError(f"the {what} is {value}; expected more than 0")


def _here(target: TargetLike, seed: int) -> Callable[[], AbstractContextManager[Any]]:
    from tvm_iree_ext.tuning.measuring.measurer import Measurer

    # Builders stand still while a kernel is timed: so they may be as many as there are processors.
    return lambda: Measurer(target, workers=tvm_runtime.available_processors(), seed=seed)


class _SessionRun:
    """One run of a session with its measurer."""

    def __init__(
        self, session: Session, measuring: Measures, update: Update, *, turns: int
    ) -> None:
        self.session, self.measuring, self.update, self.turns = session, measuring, update, turns

    def all(self) -> None:
        """Baselines, candidates, turns."""
        session = self.session
        self.update(session)
        for tuner in session.tuners:
            if not tuner.begun and session.over is None:
                self.baseline(tuner)
                self.update(session)
        for tuner in session.tuners:
            if not tuner.begun and not tuner.skipped:
                tuner.skipped = f"{tuner.task.name}: no time was left for it"
        if all(tuner.skipped for tuner in session.tuners):
            raise TuningError("; ".join(tuner.skipped for tuner in session.tuners))
        session.phase, session.baselines_s = "search", session.elapsed_s
        while (why := session.over) is None:
            self.batch(self.next())
        session.ended = why
        session.phase = "turns"
        for tuner in session.tuners:
            self.update(session)
            if tuner.begun:
                self.compare(tuner)

    def baseline(self, tuner: Tuner) -> None:
        """The heuristic's config; a task without operands, or that fails with it, is left out."""
        try:
            found = self.several(tuner, tuner.heuristic, min(_BASELINES, self.turns))
        except TuningError as error:
            tuner.skipped = str(error)
            return
        for result in found:
            if result.status != "ok":
                tuner.skipped = (
                    f"{tuner.task.name}: the heuristic's config ended so:"
                    f" {result.status}; {result.message}"
                )
                return
        tuner.take_baseline(min((one.times_us for one in found), key=statistics.median))

    def next(self) -> Tuner:
        """The task whose time weighs most, by how often it was looked at already."""

        def worth(tuner: Tuner) -> float:
            best, calls = tuner.best, tuner.task.calls
            share = 1.0 if calls is None or best is None else calls * best[0]
            return share / (1 + tuner.batches)

        return max((one for one in self.session.tuners if not one.finished), key=worth)

    def batch(self, tuner: Tuner) -> None:
        """Some candidates of a task; of those not yet submitted none, once it is over."""
        candidates = tuner.propose()
        self.update(self.session)
        waiting = iter(candidates)

        def submit(count: int) -> None:
            for point, config in itertools.islice(waiting, count):
                self.measuring.submit(point, tuner.task.op, config, tuner.task.operands)

        submit(_AHEAD)
        for one in self.measuring.results():
            tuner.take(one.candidate_id, one.status, one.times_us, one.message)
            self.update(self.session)
            if not self.session.stopping.is_set():
                submit(1)

    def several(self, tuner: Tuner, config: LoweringConfig, count: int) -> list[Measured]:
        """A config so often, one after another."""
        for number in range(count):
            self.measuring.submit(number, tuner.task.op, config, tuner.task.operands)
        return list(self.measuring.results())

    def compare(self, tuner: Tuner) -> None:
        """The best configs in turns with the heuristic's: what wins is kept."""
        stopped = self.session.stopping.is_set()
        finalists = tuner.finalists(1 if stopped else self.session.turns.finalists)
        turns = min(2, self.turns) if stopped else self.turns
        contenders = [tuner.heuristic, *finalists]
        times: list[list[tuple[float, ...]]] = [[] for _ in contenders]
        for turn in range(turns if finalists else 1):
            order = list(range(len(contenders)))
            for index in order[turn % len(order) :] + order[: turn % len(order)]:
                (result,) = self.several(tuner, contenders[index], 1)
                times[index].append(result.times_us if result.status == "ok" else ())
                self.update(self.session)
        medians = [[statistics.median(s) if s else float("inf") for s in one] for one in times]
        usual = statistics.median(medians[0])
        won = [i for i in range(1, len(contenders)) if _beats(medians[i], medians[0])]
        best = min(won, key=lambda i: statistics.median(medians[i]), default=0)
        if medians[best] and statistics.median(medians[best]) < float("inf"):
            baseline = usual if usual < float("inf") else statistics.median(medians[best])
            tuner.confirm(contenders[best], tuple(medians[best]), baseline)


def _beats(one: list[float], usual: list[float]) -> bool:
    """Whether a config is the faster one by more than noise."""
    gain = 1 - statistics.median(one) / statistics.median(usual)
    lost = sum(a >= b for a, b in zip(one, usual, strict=True))
    return gain >= _LEAST_GAIN and lost <= _MOST_TURNS_LOST * len(one)


@contextlib.contextmanager
def _ended_by_signals(session: Session) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets the session end well; the second ends it now.

    Later ones are not heard, so that nothing is left behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    heard = itertools.count(1)

    def stop(number: int, frame: Any) -> None:
        session.stopping.set()
        if next(heard) == 2:
            raise KeyboardInterrupt

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
