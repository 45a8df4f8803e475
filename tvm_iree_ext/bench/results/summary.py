"""What the rows of a run say together: how far ahead, where not, and which are below their bar."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_iree_ext.bench.measure.compare import Row


@dataclass(frozen=True)
class Summary:
    """The rows of one number of threads.

    Attributes:
        cases: those in which ours and a peer were timed.
        geometric_mean: of how many times as long the fastest peer takes, over these.
        behind: the ones in which it takes less time than ours.
        below: rows whose share of the limit is below their bar.
        untimed: names of cases in which ours was not timed.
    """

    threads: int
    cases: int
    geometric_mean: float
    behind: tuple[Row, ...]
    below: tuple[Row, ...]
    untimed: tuple[str, ...]


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """One for each number of threads."""
    return [
        _summary(threads, [row for row in rows if row.threads == threads])
        for threads in dict.fromkeys(row.threads for row in rows)
    ]


def ratio(row: Row) -> float:
    """How many times as long the fastest peer takes; NaN where there is none."""
    fastest = row.fastest
    return math.nan if fastest is None or fastest.speedup is None else fastest.speedup.median


def _summary(threads: int, rows: Sequence[Row]) -> Summary:
    beside = [row for row in rows if row.fastest is not None]
    logs = [math.log(ratio(row)) for row in beside]
    return Summary(
        threads=threads,
        cases=len(beside),
        geometric_mean=math.exp(sum(logs) / len(logs)) if logs else math.nan,
        behind=tuple(row for row in beside if ratio(row) < 1),
        below=tuple(row for row in rows if _is_below(row)),
        untimed=tuple(row.case for row in rows if row.ours.seconds is None),
    )


def _is_below(row: Row) -> bool:
    share = row.share_of_limit
    return row.bar is not None and share is not None and share < row.bar


def summary_lines(found: Sequence[Summary]) -> list[str]:
    """For people: a few lines for each number of threads."""
    lines = []
    for one in found:
        head = threads_text(one.threads)
        if one.cases:
            lines.append(
                f"{head}: the fastest peer takes {one.geometric_mean:.2f} times as long as ours,"
                f" the geometric mean of {one.cases} cases; it is ahead in {len(one.behind)}."
            )
        if one.behind:
            cells = (
                f"{row.case} {ratio(row):.2f}x {row.fastest.name}"
                for row in sorted(one.behind, key=ratio)
                if row.fastest is not None
            )
            lines.append(f"{head}, a peer is ahead: {', '.join(cells)}.")
        if one.below:
            shares = (
                f"{row.case} {row.share_of_limit:.0%} of {row.limited_by} (bar {row.bar:.0%})"
                for row in one.below
            )
            lines.append(f"{head}, below the bar: {', '.join(shares)}.")
        if one.untimed:
            lines.append(f"{head}, ours was not timed: {', '.join(one.untimed)}.")
    return lines


def threads_text(count: int) -> str:
    """``1 thread``, ``2 threads``."""
    return "1 thread" if count == 1 else f"{count} threads"
