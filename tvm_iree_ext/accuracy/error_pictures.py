"""Pictures of errors over the range of arguments, as SVG."""

from pathlib import Path

import numpy as np

from tvm_iree_ext.accuracy.measuring import OURS, MeasuredFunction
from tvm_iree_ext.base.errors import AccuracyError

_BINS = 240
_LINEAR = 1e-3
"""Below it the axis of arguments is linear, beyond it logarithmic."""
_TOP = 8.0
"""The axis of errors ends at so many units, or at ours where ours is larger but below 100."""


def draw_errors(row: MeasuredFunction, folder: Path) -> Path:
    """Draw the largest errors of each library over bins of the first operand; returns the file.

    Raises:
        AccuracyError: where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise AccuracyError(
            "accuracy: pictures take matplotlib: pip install 'tvm-iree-ext[accuracy]'"
        ) from None
    with np.errstate(invalid="ignore"):
        x = row.operands[0].astype(np.float64)
    finite = np.isfinite(x)
    # Bins of equal counts of the samples, by their order.
    order = np.flatnonzero(finite)[np.argsort(x[finite], kind="stable")]
    bins = [part for part in np.array_split(order, _BINS) if part.size]
    middles = [x[part[part.size // 2]] for part in bins]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for who, errors in row.errors.items():
        axes.plot(
            middles,
            [errors.units[part].max() for part in bins],
            label=who,
            linewidth=1.4 if who == OURS else 0.7,
            zorder=3 if who == OURS else 2,
        )
    if row.bound is not None:
        axes.axhline(row.bound, color="gray", linestyle="--", linewidth=0.8, label="promise")
    ours = row.errors[OURS].most
    axes.set_ylim(0, max(_TOP, 1.05 * ours) if ours < 100 else _TOP)
    axes.set_xscale("symlog", linthresh=_LINEAR)
    axes.set_xlabel("first operand")
    axes.set_ylabel("ULP, at most")
    axes.set_title(f"{row.name} {row.dtype}")
    axes.legend(fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{row.name}_{row.dtype}.svg"
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path
