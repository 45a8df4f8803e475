"""A session while it runs: a table that is drawn anew on a terminal, lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from tvm_iree_ext.base.text_tables import table_lines
from tvm_iree_ext.tuning.report import failures_text, gain, time_text
from tvm_iree_ext.tuning.session import Session, Update
from tvm_iree_ext.tuning.tuner import Tuner

_EVERY_S = 5.0  # a line where there is no terminal
_PHASES = {
    "baseline": "measuring the heuristics",
    "search": "searching",
    "turns": "measuring the best in turns with the heuristics",
    "done": "done",
}


@contextlib.contextmanager
def shown(stream: TextIO | None = None, *, quiet: bool = False) -> Iterator[Update]:
    """Progress display of a session: yields its update function."""
    stream = stream or sys.stdout
    if quiet:
        yield lambda _: None
        return
    if not stream.isatty():
        yield _Lines(stream).update
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=stream)
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda session: live.update(Text(_table(session, console.width)))


def status_line(session: Session) -> str:
    """Status of a session in one line."""
    left = max(0.0, session.limit_s - session.elapsed_s)
    trials = sum(tuner.trials for tuner in session.tuners)
    text = f"{_PHASES[session.phase]}; {trials} trials"
    if len(session.tuners) == 1:
        (tuner,) = session.tuners
        if tuner.best is not None:
            text += f", best {time_text(best_us(tuner))}, {gain(tuner):.2f}x"
    else:
        ahead = sum(gain(tuner) > 1 for tuner in session.tuners)
        text += f", {ahead} of {len(session.tuners)} ops faster"
    text += f"; failures: {failures_text(session.tuners)}"
    ending = "; stopping" if session.stopping.is_set() and session.phase != "done" else ""
    return f"{text}; {_clock(left)} left{ending}"


class _Lines:
    """A line whenever the phase changes, and every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.last, self.phase = stream, 0.0, ""

    def update(self, session: Session) -> None:
        now = time.monotonic()
        if session.phase == self.phase and now - self.last < _EVERY_S:
            return
        self.last, self.phase = now, session.phase
        print(status_line(session), file=self.stream, flush=True)


def _table(session: Session, width: int) -> str:
    header = ("op", "heuristic", "best", "gain", "trials", "failed")
    body = [(tuner.task.name, *progress_cells(tuner)) for tuner in session.tuners]
    return "\n".join([status_line(session), *table_lines(header, body, width)])


def progress_cells(tuner: Tuner) -> tuple[str, ...]:
    """The heuristic's time, the best, the gain, trials and failed trials of a task."""
    return (
        # Beside what was kept stands the time that it was compared with.
        time_text(tuner.confirmed[1] if tuner.confirmed else tuner.baseline_us),
        time_text(best_us(tuner)),
        f"{gain(tuner):.2f}x",
        str(tuner.trials),
        str(tuner.failures.total()),
    )


def best_us(tuner: Tuner) -> float | None:
    """Best time, from the final turns if there were any, else from trials."""
    if tuner.confirmed is not None:
        return tuner.confirmed[0]
    return tuner.best[0] if tuner.best else None


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
