"""What a notebook shows of a session, while it runs and afterwards: a table with a curve a task."""

from tvm_iree_ext.base.html_parts import Html, joined, step_curve, table, titled
from tvm_iree_ext.runtime.artifact_html import values_html
from tvm_iree_ext.tuning.display import best_us, progress_cells, status_line
from tvm_iree_ext.tuning.report import report_lines, time_text
from tvm_iree_ext.tuning.session import Session
from tvm_iree_ext.tuning.tuner import Tuner

_HEADER = ("op", "heuristic", "best", "gain", "trials", "failed", "best so far, by trial", "config")


def session_html(session: Session) -> Html:
    """How far the session is, or how it ended; and for each task its times and its curve."""
    head = report_lines(session)[-1] if session.phase == "done" else status_line(session)
    return joined((titled(head), _table(session.tuners)))


def tuner_html(tuner: Tuner) -> Html:
    """The times and the curve of one task."""
    return _table([tuner])


def _table(tuners: list[Tuner]) -> Html:
    return table(_HEADER, [_row(tuner) for tuner in tuners], left=(0, 6, 7))


def _row(tuner: Tuner) -> tuple[object, ...]:
    cells = (tuner.task.name, *progress_cells(tuner))
    if tuner.skipped:
        return (*cells, f"left out: {tuner.skipped}", "")
    return (*cells, _curve(tuner), _config(tuner))


def _curve(tuner: Tuner) -> object:
    """The best time after each trial, from the heuristic's on; a dot is what a trial took."""
    if tuner.baseline_us is None:
        return ""
    bests = [tuner.baseline_us]
    for point in tuner.curve:
        bests.append(bests[-1] if point.time_us is None else min(bests[-1], point.time_us))
    label = (
        f"{time_text(tuner.baseline_us)} by the heuristic, {time_text(best_us(tuner))} at best in"
        f" {len(tuner.curve)} trials; line: best so far; dots: trials"
    )
    return step_curve(bests, [point.time_us for point in tuner.curve], label)


def _config(tuner: Tuner) -> Html:
    """What is best so far, or was kept: the fields that are other than the heuristic's."""
    if tuner.confirmed is not None:
        config = tuner.confirmed[2]
    elif tuner.best is not None:
        config = tuner.best[1]
    else:
        return Html("")
    if config == tuner.heuristic:
        return Html("the heuristic's")
    usual = tuner.heuristic.to_json()
    chosen = {name: value for name, value in config.to_json().items() if value != usual[name]}
    return values_html(chosen)
