"""The rows of a run as a picture: rates under the roofs that the machine's peaks make.

Above, operations over operations per byte, for cases that compute; below, bytes that are moved over
their number, for those that only move or compare.  A filled point is ours, a hollow one the fastest
peer's, on the same line upright.
"""

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_iree_ext.bench.measure.compare import Row
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.bench.results.result_tables import Report
from tvm_iree_ext.bench.results.summary import threads_text

_SIZE_INCHES = (8.0, 4.6)  # of one of the two, for one number of threads
_DPI = 110
_NAMES = 2.5  # over the lines (2), which they interrupt, and under the points (3)


def save_roofline(report: Report, path: Path | str) -> None:
    """Draw a report's rows into a file: PNG, SVG or PDF, by its suffix.

    Raises:
        ValueError: where matplotlib is missing, or does not write such a file.
        OSError: where the file cannot be written.
    """
    check_picture(path)
    from matplotlib.figure import Figure

    columns = len(report.peaks)
    width, height = _SIZE_INCHES
    figure = Figure(figsize=(width * columns, height * 2), dpi=_DPI, layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False)
    families = sorted({_family(row) for row in report.rows})
    for column, peak in enumerate(report.peaks):
        rows = [row for row in report.rows if row.threads == peak.threads]
        rows = [row for row in rows if row.ours.seconds is not None]
        computing = [row for row in rows if row.flops]
        moving = [row for row in rows if not row.flops]
        _draw_compute(axes[0][column], computing, peak, families)
        _draw_memory(axes[1][column], moving, peak, families)
    _legend(figure, families)
    figure.suptitle(report.machine.cpu)
    figure.draw_without_rendering()  # places them
    for one in axes.flat:
        _part_names(one)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def check_picture(path: Path | str, what: str = "roofline") -> None:
    """Refuse, before anything is measured, a picture that matplotlib could not write.

    Raises:
        ValueError: where matplotlib is missing, or does not write such a file.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(f"a {what} needs matplotlib: pip install 'tvm-iree-ext[bench]'")
    from matplotlib.backend_bases import FigureCanvasBase

    suffix = Path(path).suffix.lstrip(".")
    taken = FigureCanvasBase.get_supported_filetypes()
    if suffix not in taken:
        raise ValueError(f"{what} {path}: {suffix or 'no suffix'!r} is none of {', '.join(taken)}")


def _draw_compute(axes: Any, rows: Sequence[Row], peak: Peaks, families: Sequence[str]) -> None:
    points = [(row.flops / row.bytes, row.flops / 1e9, row) for row in rows]
    places = [x for x, _, _ in points] or [1.0]
    low, high = min(places) / 2, max(places) * 2
    for dtype, gflops in peak.gflops.items():
        if dtype == "float32" or (dtype == "bfloat16" and gflops > peak.gflops["float32"]):
            corner = gflops / peak.read_gbps
            axes.plot([min(low, corner), corner], [min(low, corner) * peak.read_gbps, gflops], "k-")
            axes.plot([corner, max(high, corner)], [gflops, gflops], "k-")
            _label(axes, f"{dtype} {gflops:.0f} GFLOP/s", max(high, corner), gflops, ha="right")
    if peak.cached_gbps:
        size, cached = min(peak.cached_gbps.items())
        corner = peak.gflops["float32"] / cached
        axes.plot([min(low, corner), corner], [min(low, corner) * cached, corner * cached], "k:")
        _label(axes, f"{cached:.0f} GB/s of {size >> 20} MiB", low * 1.1, low * 1.1 * cached, 1)
    _label(axes, f"{peak.read_gbps:.0f} GB/s", low * 1.1, low * 1.1 * peak.read_gbps, 1)
    axes.set_xlim(low, max(high, places[0]))
    _scatter(axes, points, families)
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{threads_text(peak.threads)}: cases that compute", fontsize=10)


def _draw_memory(axes: Any, rows: Sequence[Row], peak: Peaks, families: Sequence[str]) -> None:
    axes.axhline(peak.read_gbps, color="black")
    cached = sorted(peak.cached_gbps.items())
    axes.plot([size / 2**20 for size, _ in cached], [rate for _, rate in cached], "k:.")
    _scatter(axes, [(row.bytes / 2**20, row.bytes / 1e9, row) for row in rows], families)
    _label(axes, f"reads {peak.read_gbps:.0f} GB/s", axes.get_xlim()[1], peak.read_gbps, ha="right")
    axes.set_xlabel("MiB of operands and results")
    axes.set_ylabel("GB/s")
    axes.set_title(f"{threads_text(peak.threads)}: cases that move or compare", fontsize=10)


def _label(axes: Any, text: str, x: float, y: float, slope: int = 0, ha: str = "left") -> None:
    """Name a line above it, along it where it has a slope: a power of x, on axes of logarithms."""
    axes.text(
        x,
        y * 1.07,  # a little above it
        f" {text} ",
        ha=ha,
        va="bottom",
        fontsize=8,
        rotation=math.degrees(math.atan2(slope * y, x)),
        rotation_mode="anchor",
        transform_rotates_text=True,
        path_effects=_halo(),
        zorder=_NAMES,
    )


def _part_names(axes: Any) -> None:
    """Move names of points up, off those below."""
    taken: list[Any] = []
    names = [text for text in axes.texts if hasattr(text, "xyann")]
    for name in sorted(names, key=lambda text: text.get_window_extent().y0):
        box = name.get_window_extent()
        while any(box.overlaps(other) for other in taken):
            across, up = name.xyann
            name.xyann = across, up + 3
            box = name.get_window_extent()
        taken.append(box)


def _halo() -> list[Any]:
    """White around a text, so that no line goes through it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground="white")]


def _scatter(
    axes: Any, points: Sequence[tuple[float, float, Row]], families: Sequence[str]
) -> None:
    """Points of rows at x, with work in 10^9 for each call; named where a peer is ahead."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    middle = math.sqrt(max(x for x, _, _ in points) * min(x for x, _, _ in points)) if points else 1
    for x, work, row in points:
        if row.ours.seconds is None:
            continue
        colour = _colour(families.index(_family(row)))
        ours = work / row.ours.seconds.median
        axes.plot(x, ours, "o", color=colour, markersize=5, zorder=3)
        if row.fastest is None or row.fastest.seconds is None:
            continue
        theirs = work / row.fastest.seconds.median
        axes.plot([x, x], [theirs, ours], "-", color=colour, linewidth=0.7, alpha=0.6)
        axes.plot(x, theirs, "^", color=colour, markerfacecolor="none", markersize=6, zorder=3)
        if theirs > ours:
            axes.annotate(
                row.case,
                (x, theirs),
                xytext=(4, 2) if x < middle else (-4, 2),
                ha="left" if x < middle else "right",
                textcoords="offset points",
                fontsize=6,
                path_effects=_halo(),
                zorder=_NAMES,
            )
    axes.margins(y=0.12)
    axes.grid(True, which="major", linewidth=0.3)


def _legend(figure: Any, families: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="grey", marker="o", linestyle="", label="ours"),
        Line2D(
            [],
            [],
            color="grey",
            marker="^",
            markerfacecolor="none",
            linestyle="",
            label="the fastest peer; named where it is ahead",
        ),
        *(
            Line2D([], [], color=_colour(number), marker="s", linestyle="", label=family)
            for number, family in enumerate(families)
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)


def _colour(number: int) -> Any:
    import matplotlib

    maps: Any = matplotlib.colormaps
    strong = [*maps["tab10"].colors, *maps["Dark2"].colors]
    return strong[number % len(strong)]


def _family(row: Row) -> str:
    """The op, without the dialect; transforms of one algorithm together."""
    parts = row.op.split(".")
    return "winograd" if "winograd" in parts else parts[-1]
