"""Cases of a suite, each in a process that may end; what came of them is kept in a file."""

import contextlib
import fnmatch
import functools
import random
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.conformance.outcomes import Kind, Outcome, SuiteCase, Verdict, logged
from tvm_iree_ext.conformance.refusals import refused
from tvm_iree_ext.conformance.suite import SUITES, Suite, suite_of
from tvm_iree_ext.processes import limits, workers

LIMIT_S = 120.0
"""For one case: most take two."""

_MEMORY = 8 << 30  # that one may take beside what the libraries have taken


def chosen(
    cases: Sequence[SuiteCase],
    only: Collection[str] = (),
    types: Collection[str] = (),
    limit: int | None = None,
    seed: int = 0,
) -> list[SuiteCase]:
    """Those of the patterns, such as ``*conv*``, of names or ops; of the types; and a sample.

    Raises:
        ExtError: where nothing is left.
    """
    found = [
        case
        for case in cases
        if (not types or case.dtype in types)
        and (not only or any(_matches(case, pattern) for pattern in only))
    ]
    if not found:
        wanted = ", ".join([*only, *types])
        raise ExtError(f"no case of the suite is of {wanted}; it has {len(cases)}")
    if limit is not None and limit < len(found):
        places = sorted(random.Random(seed).sample(range(len(found)), limit))
        found = [found[place] for place in places]
    return found


def _matches(case: SuiteCase, pattern: str) -> bool:
    return fnmatch.fnmatchcase(case.name, pattern) or fnmatch.fnmatchcase(case.op, pattern)


def run(
    suite: str,
    cases: Sequence[SuiteCase],
    *,
    seed: int = 0,
    jobs: int = 1,
    limit_s: float = LIMIT_S,
    output: Path | None = None,
    again: Collection[str] = (),
) -> Iterator[Outcome]:
    """Try cases and yield their outcomes, those of the file first, then as they come.

    Args:
        suite: its name.
        cases: some of its cases.
        seed: of the suite.
        jobs: processes that try.
        limit_s: what one case may take.
        output: a file of JSON lines; what stands in it is not tried again, and each outcome is
            added at once.
        again: kinds of outcomes in the file that are tried again.
    """
    before = {
        one.case.name: one
        for one in (logged(output) if output else ())
        if (one.suite, one.seed) == (suite, seed)
    }
    known = {name: one for name, one in before.items() if one.verdict.kind not in again}
    yield from (known[case.name] for case in cases if case.name in known)
    left = [case for case in cases if case.name not in known]
    source = _Source(suite, SUITES[suite], seed)
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(output.open("a", encoding="utf-8")) if output else None
        tried = workers.each(
            functools.partial(_tried, source),
            functools.partial(_died, source),
            left,
            min(jobs, len(left)),
            limit_s,
            first=functools.partial(_begin, source),
            in_order=False,
        )
        for outcome in stack.enter_context(contextlib.closing(tried)):
            if lines is not None:
                lines.write(outcome.to_json() + "\n")
                lines.flush()
            yield outcome


@dataclass(frozen=True)
class _Source:
    """Where a process has a suite from."""

    name: str
    module: str
    seed: int

    def suite(self) -> Suite:
        return suite_of(self.module, self.seed)

    def outcome(self, case: SuiteCase, verdict: Verdict, seconds: float = 0.0) -> Outcome:
        return Outcome(self.name, self.seed, case, verdict, seconds)


def _begin(source: _Source) -> None:
    """What a process does before its first case, which takes none of a case's time."""
    limits.no_core_file()
    source.suite().cases()


def _tried(source: _Source, case: SuiteCase) -> Outcome:
    if case.skip:
        return source.outcome(case, Verdict("skipped", case.skip))
    limits.limit_memory(_MEMORY)
    begin = time.perf_counter()
    verdict = tried(source.suite(), case)
    return source.outcome(case, verdict, time.perf_counter() - begin)


def tried(suite: Suite, case: SuiteCase) -> Verdict:
    """What comes of a case in this process."""
    if case.skip:
        return Verdict("skipped", case.skip)
    try:
        return suite.run(case)
    except MemoryError:
        return Verdict("slow", f"takes more than {_MEMORY >> 30} GiB")
    except Exception as error:  # of any package: that is what a refusal is
        return refused(error)


def _died(source: _Source, case: SuiteCase, error: workers.WorkerDied) -> Outcome:
    kind: Kind = "slow" if error.timed_out else "crashed"
    return source.outcome(case, Verdict(kind, str(error)))
