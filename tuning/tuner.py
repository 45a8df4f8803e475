"""The search for one task: what to try next, what is known, what is best so far.

All that a search depends on is its seed and the times that it is told.  A trial that is in the
records already is not measured again: so a session that was killed is resumed by running it again,
and ends with the records that it would have had.
"""

import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.lazy import method_from
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.records.record import Record, Status
from tvm_iree_ext.schedules.base.space import Decisions
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import target_json
from tvm_iree_ext.tuning.base.record_database import Database
from tvm_iree_ext.tuning.base.task import Task
from tvm_iree_ext.tuning.search.cost_model import Model
from tvm_iree_ext.tuning.search.search import make_search

_BATCH = 8


@dataclass(frozen=True)
class Point:
    """A point of a search's curve: trial, when it ended, how long its kernel takes."""

    trial: int
    seconds: float
    time_us: float | None


@dataclass
class Tuner:
    """One task while it is tuned.

    Attributes:
        trials: how many candidates were proposed and are known, measured now or before.
        fresh: how many of them were measured now.
        model_s: what proposing and learning took.
        skipped: why the task is left out; empty for one that is not.
    """

    task: Task
    target: Target
    database: Database
    seed: int = 0
    model: Model = "xgboost"
    limit: int = 40
    method: str = "trial"
    trials: int = 0
    fresh: int = 0
    model_s: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    curve: list[Point] = field(default_factory=list)
    exhausted: bool = False
    skipped: str = ""
    batches: int = 0

    def __post_init__(self) -> None:
        op = self.task.op
        rule = choose(op, self.target)
        self.rule, self.space = rule.name, rule.space(op, self.target)
        self.heuristic = self.space.heuristic
        self._described, self._target = op.describe(), target_json(self.target)
        self._known = {
            _key(record.config): record
            for record in self.database.of_task(self._described, self._target)
            if record.rule == rule.name and record.method == self.method and record.is_current
        }
        self.times: dict[str, tuple[float, LoweringConfig]] = {}
        self.confirmed: tuple[float, float, LoweringConfig] | None = None
        self._batch: list[Decisions] = []
        self._waiting: set[Decisions] = set()
        self._start = time.perf_counter()
        self._search: Any = None
        self.baseline_us: float | None = None
        if (usual := self._known.get(_key(self.heuristic.to_json()))) and usual.status == "ok":
            self._begin(usual.time_us)

    _repr_html_ = method_from("tvm_iree_ext.tuning.session_html", "tuner_html")

    @property
    def best(self) -> tuple[float, LoweringConfig] | None:
        """The least time so far, in microseconds, and its config."""
        return min(self.times.values(), key=lambda one: one[0], default=None)

    @property
    def waiting(self) -> bool:
        """Whether candidates of the last batch are under way."""
        return bool(self._waiting)

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to propose."""
        return (
            self.exhausted or bool(self.skipped) or (self.fresh > 0 and self.trials >= self.limit)
        )

    def finalists(self, count: int) -> list[LoweringConfig]:
        """The configs that were fastest, the heuristic's not among them, where they beat it."""
        usual = _key(self.heuristic.to_json())
        bound = self.baseline_us or float("inf")
        found = sorted((t, key) for key, (t, _) in self.times.items() if key != usual and t < bound)
        return [self.times[key][1] for _, key in found[:count]]

    def take_baseline(self, times_us: Sequence[float]) -> None:
        """The times of the heuristic's config, which a search begins with."""
        self._write(self.heuristic, {}, "ok", times_us, "")
        self._begin(statistics.median(times_us))

    def _begin(self, baseline_us: float) -> None:
        self.baseline_us = baseline_us
        start = time.perf_counter()
        self._search = make_search(
            self.space,
            self.target,
            described=self._described,
            model=self.model,
            batch=_BATCH,
            seed=self.seed,
            trials=self.limit,
        )
        self.times[_key(self.heuristic.to_json())] = baseline_us, self.heuristic
        self._search.know(self.space.decisions(self.heuristic), baseline_us / 1e6)
        self.model_s += time.perf_counter() - start

    @property
    def begun(self) -> bool:
        """Whether the heuristic's config was measured."""
        return self._search is not None

    def propose(self) -> list[tuple[Decisions, LoweringConfig]]:
        """The candidates of the next batch that must be measured; none where all are known."""
        if self.trials >= self.limit and not self.fresh:
            self.limit *= 2  # all that was asked for is in the records: go on from there
        start = time.perf_counter()
        self._batch = self._search.propose()
        self.model_s += time.perf_counter() - start
        self.exhausted = not self._batch
        self.batches += 1
        found = []
        for point in self._batch:
            config = self.space.config(point)
            if (known := self._known.get(_key(config.to_json()))) is not None:
                self._see(config, known.status, known.times_us)
            else:
                self._waiting.add(point)
                found.append((point, config))
        if not found:
            self._tell()
        return found

    def take(
        self, point: Decisions, status: Status, times_us: Sequence[float], message: str
    ) -> None:
        """The measurement of a candidate; it is in the records when this returns."""
        config = self.space.config(point)
        self.fresh += 1
        record = self._write(config, self._names(point), status, times_us, message)
        self._known[_key(record.config)] = record
        self._see(config, status, times_us)
        self._waiting.discard(point)
        if not self._waiting:
            self._tell()

    def confirm(
        self, config: LoweringConfig, times_us: Sequence[float], baseline_us: float
    ) -> None:
        """Record the winner at the end, the heuristic's config perhaps: what ``build`` takes."""
        method = "measured" if self.method == "trial" else self.method
        self.confirmed = statistics.median(times_us), baseline_us, config
        self._write(config, {}, "ok", times_us, "", method=method, baseline_us=baseline_us)

    def _see(self, config: LoweringConfig, status: Status, times_us: Sequence[float]) -> None:
        self.trials += 1
        found = statistics.median(times_us) if status == "ok" else None
        self.curve.append(Point(self.trials, time.perf_counter() - self._start, found))
        if found is None:
            self.failures[status] += 1
        else:
            self.times[_key(config.to_json())] = found, config

    def _tell(self) -> None:
        """Tell the search about its batch, in its order."""
        if not self._batch:
            return
        start = time.perf_counter()
        seconds = []
        for point in self._batch:
            record = self._known[_key(self.space.config(point).to_json())]
            seconds.append(record.time_us / 1e6 if record.status == "ok" else None)
        self._search.tell(seconds)
        self.model_s += time.perf_counter() - start

    def _names(self, point: Decisions) -> dict[str, int]:
        names = (choice.name for choice in self.space.forms[point[0]].choices)
        return dict(zip(("form", *names), point, strict=True))

    def _write(
        self,
        config: LoweringConfig,
        decisions: dict[str, int],
        status: Status,
        times_us: Sequence[float],
        message: str,
        **fields: Any,
    ) -> Record:
        record = Record.of(
            self._described,
            self._target,
            self.rule,
            config.to_json(),
            times_us=tuple(times_us),
            decisions=decisions,
            status=status,
            message=message,
            seed=self.seed,
            trial=self.trials,
            **{"method": self.method, "baseline_us": self.baseline_us, **fields},
        )
        self.database.append(record)
        return record


def _key(config: Any) -> str:
    return json.dumps(config, sort_keys=True)
