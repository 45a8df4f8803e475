"""How long calls of a kernel or of a program's function take."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WARM = 3  # calls before the clock is looked at: threads start, memory is touched
_LEAST = 5  # calls that a median is taken of


@dataclass(frozen=True)
class CallTimes:
    """Seconds of a call: the median of all, and the quartiles around it."""

    calls: int
    lower: float
    median: float
    upper: float


def measure_calls(
    function: Callable[..., Any], arguments: Sequence[Any], *, seconds: float = 1.0
) -> CallTimes:
    """Call a function with the same arguments for some time, and at least five times.

    Args:
        function: a kernel, or a program's function.
        arguments: its operands.
        seconds: how long to go on.
    """
    for _ in range(_WARM):
        function(*arguments)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    lower, median, upper = statistics.quantiles(times, n=4)
    return CallTimes(len(times), lower, median, upper)
