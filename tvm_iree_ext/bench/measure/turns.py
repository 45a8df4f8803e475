"""Timing several calls against each other, so that what disturbs one disturbs all.

They take turns, round by round, each round beginning with another.  A turn is:

1.  Wait until the other threads of this process sleep.  A pool that has just worked spins for a
    while, in case more comes (ours for 0.7 ms, OpenMP's and OpenBLAS' for some ms), and would take
    a core from whoever is next.
2.  Calls for some ms that are not counted, unless one is long.  They wake the pool and fill the
    caches, and a scheduler gets time to spread the threads: Linux may wake a worker on the
    processor of the caller, where each waits for the other until a tick some ms later.
3.  Calls for some ms, each timed.
"""

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

_WARM_SECONDS = 0.03  # several ticks, of 1 to 10 ms: threads are apart after 15
_TURN_SECONDS = 0.05
_TURN_CALLS = 1000
_LONG_SECONDS = 0.25  # a call beside which threads that wait for each other at first are little
_QUIET_SECONDS = 0.01  # a few ticks: the kernel brings other threads' times up to date at ticks
_QUIET_SHARE = 0.05
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Contender:
    """A call, and the context to make it in."""

    call: Callable[[], Any]
    within: Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(samples: list[float]) -> "Spread":
        """The spread of some numbers, one at least."""
        if len(samples) == 1:
            return Spread(samples[0], samples[0], samples[0])
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return Spread(median, low, high)


def take_turns(
    contenders: Mapping[str, Contender], *, seconds: float, min_rounds: int
) -> dict[str, list[list[float]]]:
    """Seconds of each call, by contender and round.

    Args:
        seconds: after which no further round begins, once there are ``min_rounds``.
    """
    names = list(contenders)
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for rounds in itertools.count():
            if rounds >= min_rounds and time.perf_counter() >= end:
                return times
            first = rounds % len(names)
            for name in [*names[first:], *names[:first]]:
                settle()
                with contenders[name].within():
                    times[name].append(_turn(contenders[name].call))
    finally:
        if was_enabled:
            gc.enable()
    raise AssertionError("rounds are counted without end")


def settle() -> bool:
    """Wait until this process's other threads sleep; False where they do not."""
    end = time.perf_counter() + _PATIENCE_SECONDS
    quiet = 0
    while time.perf_counter() < end:
        process, own = time.process_time(), time.thread_time()
        start = time.perf_counter()
        time.sleep(_QUIET_SECONDS)
        others = (time.process_time() - process) - (time.thread_time() - own)
        quiet = quiet + 1 if others < _QUIET_SHARE * (time.perf_counter() - start) else 0
        if quiet == 2:
            return True
    return False


def _turn(call: Callable[[], Any]) -> list[float]:
    def timed() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    warm = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < warm:
        if (uncounted := timed()) >= _LONG_SECONDS:
            return [uncounted]
    end = time.perf_counter() + _TURN_SECONDS
    times = [timed()]
    while time.perf_counter() < end and len(times) < _TURN_CALLS:
        times.append(timed())
    return times


def speedup(ours: list[list[float]], theirs: list[list[float]]) -> Spread:
    """How many times as long the others take: by round, of the medians in it."""
    return Spread.of(
        [
            statistics.median(there) / statistics.median(here)
            for here, there in zip(ours, theirs, strict=True)
        ]
    )
