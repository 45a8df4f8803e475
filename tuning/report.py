"""Report of a session: as text, as JSON, and as a curve."""

import importlib.util
import json
import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.record_files import PathLike
from tvm_iree_ext.runtime.manifest import installed_versions
from tvm_iree_ext.targets.names import target_json
from tvm_iree_ext.tuning.session import Session
from tvm_iree_ext.tuning.tuner import Tuner

_INCHES = (8.0, 4.5)


def gain(tuner: Tuner) -> float:
    """How many times as fast as the heuristic's config what was kept is; 1 where nothing beats it.

    Before the turns at the end, what the trials say so far.
    """
    if tuner.confirmed is not None:
        time_us, baseline_us, _ = tuner.confirmed
        return baseline_us / time_us
    best = tuner.best
    return tuner.baseline_us / best[0] if best and tuner.baseline_us else 1.0


def won(tuner: Tuner) -> bool:
    """Whether something beat the heuristic."""
    return tuner.confirmed is not None and tuner.confirmed[2] != tuner.heuristic


def time_text(time_us: float | None) -> str:
    """A time as a reader wants it."""
    if time_us is None:
        return "?"
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if time_us >= scale:
            return f"{time_us / scale:.3g} {unit}"
    return f"{time_us:.3g} µs"


def failures_text(tuners: Iterable[Tuner]) -> str:
    """How many trials failed, by reason."""
    total: Counter[str] = sum((tuner.failures for tuner in tuners), Counter())
    return ", ".join(f"{count} {reason}" for reason, count in total.most_common()) or "none"


def result_text(tuner: Tuner) -> str:
    """One line about a task."""
    head = f"{tuner.task.name}: "
    if tuner.confirmed is None:
        return f"{head}not measured{tuner.skipped and ': ' + tuner.skipped}"
    time_us, baseline_us, config = tuner.confirmed
    if not won(tuner):
        return f"{head}nothing beats the heuristic's {time_text(baseline_us)}"
    usual = tuner.heuristic.to_json()
    changed = {name: value for name, value in config.to_json().items() if value != usual[name]}
    return (
        f"{head}{time_text(baseline_us)} -> {time_text(time_us)}, {gain(tuner):.2f}x,"
        f" by {json.dumps(changed)}"
    )


def report_lines(session: Session) -> list[str]:
    """Report lines for a reader at the end."""
    lines = [result_text(tuner) for tuner in session.tuners]
    totals = [
        (tuner.task.calls * tuner.confirmed[1], tuner.task.calls * tuner.confirmed[0])
        for tuner in session.tuners
        if tuner.task.calls is not None and tuner.confirmed is not None
    ]
    if len(totals) > 1:
        before, after = (sum(one[side] for one in totals) for side in (0, 1))
        lines.append(
            f"all kernels: {time_text(before)} -> {time_text(after)}, {before / after:.2f}x"
        )
    data = report_data(session)
    reason = {"trials": "all trials done", "time": "time is up", "stopped": "stopped"}
    lines.append(
        f"{reason[session.ended]}: {session.fresh} trials in {session.elapsed_s:.0f} s,"
        f" {data['trials_per_minute']:.0f} a minute; cost model {data['model_s']:.1f} s;"
        f" failures: {failures_text(session.tuners)}"
    )
    return lines


def report_data(session: Session) -> dict[str, Any]:
    """All that is known of a session, as plain JSON values."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": installed_versions(),
        "target": target_json(session.tuners[0].target),
        "seed": session.seed,
        "ended": session.ended,
        "wall_s": round(session.elapsed_s, 3),
        "model_s": round(sum(tuner.model_s for tuner in session.tuners), 3),
        "trials_per_minute": round(60 * session.fresh / max(session.elapsed_s, 1e-9), 1),
        "tasks": [_task_data(tuner) for tuner in session.tuners],
    }


def _task_data(tuner: Tuner) -> dict[str, Any]:
    best_us, baseline_us, config = tuner.confirmed or (None, tuner.baseline_us, tuner.heuristic)
    return {
        "name": tuner.task.name,
        "op": tuner.task.op.describe(),
        "calls": tuner.task.calls,
        "rule": tuner.rule,
        "space": tuner.space.size,
        "trials": tuner.trials,
        "fresh": tuner.fresh,
        "failures": dict(tuner.failures),
        "baseline_us": baseline_us,
        "best_us": best_us,
        "gain": round(gain(tuner), 4),
        "heuristic": tuner.heuristic.to_json(),
        "config": config.to_json(),
        "curve": [[one.trial, round(one.seconds, 3), one.time_us] for one in tuner.curve],
    }


def write_report(session: Session, path: PathLike) -> None:
    """Write the JSON.

    Raises:
        TuningError: where it cannot be written.
    """
    try:
        Path(path).write_text(json.dumps(report_data(session), indent=1) + "\n", "utf-8")
    except OSError as error:
        raise TuningError(f"cannot write {path}: {error.strerror or error}") from error


def need_matplotlib() -> None:
    """Raise TuningError where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise TuningError("a curve needs matplotlib: pip install 'tvm-iree-ext[tuning]'")


def draw_curve(session: Session, path: PathLike) -> None:
    """Draw how the best of each task went down, trial by trial, as the file's ending says.

    Raises:
        TuningError: where matplotlib is missing, or does not write such a file.
    """
    # A window system is not needed, and may not be there.
    os.environ.setdefault("MPLBACKEND", "Agg")
    need_matplotlib()
    from matplotlib import color_sequences
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.subplots()
    axes.set_prop_cycle(color=color_sequences["tab10" if len(session.tuners) <= 10 else "tab20"])
    for tuner in session.tuners:
        baseline = tuner.baseline_us
        if baseline is None:
            continue
        best, trials, bests, tried = baseline, [0], [1.0], []
        for point in tuner.curve:
            if point.time_us is not None:
                best = min(best, point.time_us)
                tried.append((point.trial, baseline / point.time_us))
            trials.append(point.trial)
            bests.append(baseline / best)
        (line,) = axes.step(trials, bests, where="post", label=tuner.task.name)
        axes.plot(*zip(*tried, strict=True), ".", ms=3, alpha=0.35, color=line.get_color())
        if tuner.confirmed is not None:
            axes.plot([trials[-1]], [gain(tuner)], "o", color=line.get_color())
    axes.axhline(1.0, color="grey", lw=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("trial")
    axes.set_ylabel("times as fast as the heuristic")
    axes.set_title("line: best so far; dots: trials; circle: in turns with the heuristic", size=9)
    figure.legend(fontsize=8, loc="outside right upper")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise TuningError(f"cannot draw {path}: {error}") from error
