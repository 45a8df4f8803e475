"""Programs that were timed, as bars: how many times as long the fastest peer takes."""

import math
from collections.abc import Sequence
from pathlib import Path

from tvm_iree_ext.bench.programs.contenders import PEERS
from tvm_iree_ext.bench.programs.program_rows import ProgramRow
from tvm_iree_ext.bench.programs.program_tables import sorted_rows
from tvm_iree_ext.bench.results.summary import threads_text

_INCHES_A_BAR = 0.19
_INCHES_BESIDE = 1.6  # title, axis and legend
_INCHES_WIDE = 6.5  # for one number of threads
_ROOM = 1.4  # for a number beside the longest bar


def save_bars(rows: Sequence[ProgramRow], path: Path | str) -> None:
    """Draw the rows that have a peer beside them: SVG, PNG or PDF, by the suffix of ``path``.

    A bar to the right of the line at 1 is ours ahead, on a scale of factors; its colour is the
    fastest peer's.

    Raises:
        OSError: where the file cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure

    beside = [row for row in sorted_rows(rows) if not math.isnan(row.ratio)]
    columns = list(dict.fromkeys(row.threads for row in beside)) or [1]
    most = max((sum(row.threads == count for row in beside) for count in columns), default=1)
    figure = Figure(
        figsize=(_INCHES_WIDE * len(columns), _INCHES_A_BAR * most + _INCHES_BESIDE),
        layout="constrained",
    )
    colours = {name: f"C{number}" for number, name in enumerate(PEERS)}
    plots = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, threads in zip(plots, columns, strict=True):
        some = [row for row in beside if row.threads == threads][::-1]
        names = [row.fastest.name if row.fastest else "" for row in some]
        for name in dict.fromkeys(sorted(names)):
            places = [place for place, one in enumerate(names) if one == name]
            widths = [some[place].ratio - 1 for place in places]
            axes.barh(places, widths, left=1, color=colours[name], label=name)
        for place, row in enumerate(some):
            is_ahead = row.ratio >= 1
            axes.annotate(
                f"{row.ratio:.2f}",
                (row.ratio, place),
                xytext=(3 if is_ahead else -3, 0),
                textcoords="offset points",
                ha="left" if is_ahead else "right",
                va="center",
                fontsize=7,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda factor, _: f"{factor:g}")
        ratios = [0.5, 2.0, *(row.ratio for row in some)]
        axes.set_xlim(min(ratios) / _ROOM, max(ratios) * _ROOM)
        axes.margins(y=0.01)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_yticks(range(len(some)), [row.program for row in some], fontsize=8)
        axes.set_xlabel("time of the fastest peer over ours")
        axes.set_title(threads_text(threads), fontsize=10)
        if some:
            axes.legend(title="fastest peer", fontsize=8, loc="lower left")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "programs"}):  # the same picture, the same file
        metadata = {"Date": None} if str(path).endswith(".svg") else None
        figure.savefig(path, metadata=metadata)
