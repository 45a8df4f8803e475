"""Draw docs/peers.svg from the tables of docs/performance.md: kernels and programs beside peers.

.venv/bin/python scripts/peer_chart.py        after new figures, and look at it
"""

import itertools
import math
import re
from pathlib import Path

from tvm_iree_ext.bench.programs.listed_programs import PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "peers.svg"

# A family's cases begin so; the first that fits.
KERNELS = {
    "matrix products": "matmul|dot",
    "convolution": "conv",
    "attention": "attn_h|online",
    "attention, one query": "attn_decode",
    "Fourier transforms": "fft",
    "scan": "scan",
    "sort": "sort",
    "top-k": "topk",
    "argmax": "argmax",
    "gather, scatter": "gather|scatter",
    "pack, unpack, im2col": "pack|unpack|im2col",
    "Winograd transforms": "wino",
}
PROGRAMS_OF = {
    "language models": ("language",),
    "vision models": ("vision",),
    "recurrent models, scans": ("recurrent", "scans"),
    "experts, tables, graphs": ("mixtures", "tables"),
    "training steps": ("training",),
    "choices, solvers, others": ("choices", "arrays"),
}


def ratios(page: str, heading: str) -> dict[str, float]:
    """Case -> its fastest peer's time over ours on one thread: the first table behind a heading."""
    lines = page.partition(f"\n{heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table)
    threads = header.index("threads") if "threads" in header else None
    ratio = header.index("fastest peer")  # such as "1.86x PyTorch"
    return {
        row[0]: float(row[ratio].partition("x ")[0])
        for row in rows
        if threads is None or row[threads] == "1"
    }


def groups(page: str) -> dict[str, dict[str, dict[str, float]]]:
    """Chart's halves -> rows -> case -> ratio."""
    kernels, programs = ratios(page, "## Kernels"), ratios(page, "## Programs")
    by_family: dict[str, dict[str, float]] = {name: {} for name in KERNELS}
    for case, ratio in kernels.items():
        family = next(name for name, start in KERNELS.items() if re.match(start, case))
        by_family[family][case] = ratio
    domains = {one.name: one.module.rpartition(".")[2] for one in PROGRAMS.values()}
    by_kind = {
        kind: {name: ratio for name, ratio in programs.items() if domains[name] in members}
        for kind, members in PROGRAMS_OF.items()
    }
    return {"kernels": by_family, "programs": by_kind}


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def draw(halves: dict[str, dict[str, dict[str, float]]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "peers", "font.size": 9}
    matplotlib.rcParams["font.family"] = "sans-serif"
    from matplotlib import pyplot

    counts = [len(rows) for rows in halves.values()]
    figure, both = pyplot.subplots(
        2, 1, sharex=True, figsize=(8, 6.2), gridspec_kw={"height_ratios": counts}
    )
    for axes, (half, rows), color in zip(both, halves.items(), ("#3f51b5", "#00897b"), strict=True):
        every = [ratio for row in rows.values() for ratio in row.values()]
        for place, row in enumerate(rows.values()):
            values = list(row.values())
            mean = geometric_mean(values)
            axes.barh(place, mean - 1, left=1, height=0.36, color=color, alpha=0.25, zorder=1)
            axes.scatter(values, [place] * len(values), s=14, color=color, zorder=3)
            axes.text(0.78, place, f"{mean:.2f}x", ha="right", va="center", color=color)
        axes.set_yticks(range(len(rows)), rows)
        axes.invert_yaxis()
        axes.axvline(1, color="#444", linewidth=1)
        axes.grid(axis="x", color="#ddd", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        machine = "Intel Granite Rapids" if half == "kernels" else "AMD Zen 4"
        axes.set_title(
            f"{len(every)} {half}, {machine}, one thread: geometric mean"
            f" {geometric_mean(every):.2f}x",
            loc="left",
            fontsize=10,
            fontweight="bold",
        )
    ticks = [1, 2, 4, 8, 16, 32, 64]
    both[-1].set_xscale("log", base=2)
    both[-1].set_xlim(0.6, 64)
    both[-1].set_xticks(ticks, [f"{tick}x" for tick in ticks])
    both[-1].set_xlabel(
        "time of the fastest peer over ours, a dot for each case: right of 1x ours is faster"
    )
    figure.tight_layout()
    staged = PICTURE.with_suffix(".part")
    figure.savefig(staged, format="svg", metadata={"Date": None})
    staged.replace(PICTURE)


if __name__ == "__main__":
    draw(groups(PAGE.read_text("utf-8")))
