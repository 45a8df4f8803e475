"""MetaSchedule's search over a space, a batch of candidates at a time.

Its strategies, cost models and databases are driven from outside, so that candidates go to workers
that are warm already.  The same seed and the same times give the same candidates: so a search is
resumed by telling it again what it was told.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.meta_schedule.logging import get_logger, get_logging_func
from tvm.target import Target

from tvm_iree_ext.schedules.base.space import Decisions, TuningSpace, other_place
from tvm_iree_ext.tuning.search.cost_model import Model, make_model
from tvm_iree_ext.tuning.search.trace_carrier import Carrier

# Points of a generation, and generations: a point costs less than a millisecond.
_POPULATION, _GENERATIONS = 64, 3
_MEASURED, _UNMEASURED = 0.25, 24  # of what a generation begins with
_GREEDY = 0.1  # of a batch is drawn by chance, whatever the model says

_WITHOUT_END = 1 << 20  # candidates; sessions say when it is enough
_FAILED_S = 1e10  # the time of what has none


class Search:
    """Candidates for a space; :meth:`propose` and :meth:`tell` take turns."""

    def __init__(
        self,
        space: TuningSpace,
        target: Target,
        *,
        described: Mapping[str, Any] | None = None,
        model: Model = "xgboost",
        batch: int = 8,
        seed: int = 0,
    ) -> None:
        """``described``: the op, as it describes itself."""
        self.carrier = Carrier(space, described or {})
        self._target, self._seed, self._rounds = target, seed, 0
        self._model = make_model(model, self.carrier, seed)
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self.carrier.module)
        self._strategy = (
            ms.search_strategy.ReplayTrace()
            if self._model is None
            else ms.search_strategy.EvolutionarySearch(
                population_size=_POPULATION,
                init_measured_ratio=_MEASURED,
                init_min_unmeasured=_UNMEASURED,
                genetic_num_iters=_GENERATIONS,
                eps_greedy=_GREEDY,
            )
        )
        self._context = _context(self.carrier, target, self._strategy, seed)
        designs = self._context.generate_design_space()
        database = None if self._model is None else self._database
        self._strategy.pre_tuning(_WITHOUT_END, batch, designs, database, self._model)
        self._candidates: list[Any] = []

    def know(self, point: Decisions, seconds: float) -> None:
        """Begin from a point that was measured, such as the heuristic's; before the first batch."""
        schedule = self.carrier.schedule(point)
        candidate = ms.search_strategy.MeasureCandidate(schedule, self._arguments(schedule))
        self._commit(candidate, seconds)
        if self._model is not None:
            result = ms.runner.RunnerResult([seconds], None)
            self._model.update(self._context, [candidate], [result])

    def propose(self) -> list[Decisions]:
        """The next points, none of them accepted twice; empty when there are no more."""
        self._rounds += 1
        with _numpy_seeded(self._seed + self._rounds):
            self._candidates = list(self._strategy.generate_measure_candidates() or ())
        return [self.carrier.point(one.sch) for one in self._candidates]

    def tell(self, seconds: Sequence[float | None]) -> None:
        """How long the points of the last batch take; None for those that failed."""
        results = []
        for candidate, time in zip(self._candidates, seconds, strict=True):
            results.append(
                ms.runner.RunnerResult(None, "failed")
                if time is None
                else ms.runner.RunnerResult([time], None)
            )
            self._commit(candidate, _FAILED_S if time is None else time)
        self._strategy.notify_runner_results(self._candidates, results)
        if self._model is not None:
            self._model.update(self._context, self._candidates, results)

    def _commit(self, candidate: Any, seconds: float) -> None:
        trace = candidate.sch.trace
        record = ms.database.TuningRecord(
            trace, self._workload, [seconds], self._target, candidate.args_info
        )
        self._database.commit_tuning_record(record)

    @staticmethod
    def _arguments(schedule: Any) -> Any:
        return ms.arg_info.ArgInfo.from_prim_func(schedule.mod["main"])


class Enumeration:
    """Every point of a small space, in an order by chance: there is nothing to learn."""

    def __init__(self, space: TuningSpace, batch: int, seed: int) -> None:
        self._points, self._batch = list(space.points()), batch
        random.Random(seed).shuffle(self._points)

    def know(self, point: Decisions, _seconds: float) -> None:
        """Leave a point out."""
        self._points.remove(point)

    def propose(self) -> list[Decisions]:
        """The next points."""
        found, self._points = self._points[: self._batch], self._points[self._batch :]
        return found

    def tell(self, _seconds: Sequence[float | None]) -> None:
        """Nothing depends on it."""


def make_search(
    space: TuningSpace,
    target: Target,
    *,
    described: Mapping[str, Any],
    model: Model,
    batch: int,
    seed: int,
    trials: int,
) -> Search | Enumeration:
    """MetaSchedule's search, or all points where there are no more than ``trials``."""
    if space.size <= trials:
        return Enumeration(space, batch, seed)
    return Search(space, target, described=described, model=model, batch=batch, seed=seed)


def _context(carrier: Carrier, target: Target, strategy: Any, seed: int) -> Any:
    """A TuneContext, made past its constructor: that imports every tensor intrinsic of TVM.

    They are parsed then, which takes a minute, and none is used here.
    """
    generator = ms.space_generator.ScheduleFn(
        carrier.designs,
        sch_rules=[],
        postprocs=[_accept(carrier)],
        mutator_probs={_mutator(random.Random(seed)): 1.0},
    )
    context = ms.TuneContext.__new__(ms.TuneContext)
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext,
        carrier.module,
        target,
        generator,
        strategy,
        "tune",
        1,  # thread: several would call Python in any order
        1 + seed % (2**31 - 2),
        get_logging_func(get_logger(__name__)),
    )
    _ffi_api.TuneContextInitialize(context)
    return context


def _accept(carrier: Carrier) -> Any:
    """The space's own refusal, where MetaSchedule verifies GPU code and the like."""

    @derived_object
    class Accept(ms.postproc.PyPostproc):
        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def apply(self, schedule: Any) -> bool:
            space = carrier.space
            return space.accept(space.config(carrier.point(schedule))) is None

        def clone(self) -> Any:
            return Accept()

    return Accept()


def _mutator(rng: random.Random) -> Any:
    """Another place for one of the decisions; those of TVM change tiles of loops alone."""

    @derived_object
    class MutatePlace(ms.mutator.PyMutator):
        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def apply(self, trace: Any, _: Any) -> Any:
            sampled = [one for one in trace.insts if one.kind.name == "SampleCategorical"]
            if not sampled:
                return None
            one = rng.choice(sampled)
            place = other_place(int(trace.decisions[one]), len(one.attrs[0]), rng)
            return trace.with_decision(one, place, remove_postproc=True)

        def clone(self) -> Any:
            return MutatePlace()

    return MutatePlace()


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """XGBModel draws from NumPy's global numbers until it is warm."""
    state = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(state)
