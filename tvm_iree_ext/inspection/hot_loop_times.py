"""The table of hot loops' modelled times, as text or Markdown."""

from collections.abc import Sequence

from tvm_iree_ext.inspection.hot_loops import HotLoopRow, lined_up
from tvm_iree_ext.inspection.loop_time.core_run import CAUSES

_COLUMNS = (
    "case", "target", "B", "kind, tile, stages", "matrix units", "answers / 2, x 2",
    "subgroups / SIMD", *(f"idle: {cause}" for cause in CAUSES), "cycles of a pass",
    "LDS B / cycle", "memory B / cycle", "registers", "spills",
)  # fmt: skip


def times_text(rows: Sequence[HotLoopRow], *, markdown: bool = False) -> str:
    """The rows as aligned text, or as a table of Markdown."""
    return lined_up([list(_COLUMNS), *map(_cells, rows)], markdown=markdown)


def shares_markdown(rows: Sequence[HotLoopRow]) -> str:
    """Shares of the matrix units' time in percent, by chip and case, for each order of B."""
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = [["target", *cases], ["---"] * (len(cases) + 1)]
    for target in dict.fromkeys(row.target for row in rows):
        line = [f"`{target}`"]
        for case in cases:
            here = [row for row in rows if (row.target, row.case) == (target, case)]
            line.append(" / ".join(f"{row.timed.time.share:.0%}" for row in here if row.timed))
        lines.append([cell or "-" for cell in line])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: HotLoopRow) -> list[str]:
    first = [row.case, row.target, row.order, row.config]
    used = row.resources
    if row.timed is None:
        reason = row.obstacle.partition(";")[0] or "no loop, or no model"
        return [*first, *[""] * (len(_COLUMNS) - len(first) - 1), reason]
    time = row.timed.time
    return [
        *first,
        f"{time.share:.0%}",
        f"{row.timed.fast_share:.0%}, {row.timed.slow_share:.0%}",
        f"{time.subgroups:g}",
        *(f"{time.idle[cause]:.0%}" for cause in CAUSES),
        f"{time.cycles:.0f}",
        f"{time.lds_bytes:.0f}",
        f"{time.memory_bytes:.0f}",
        *((str(used.registers), str(used.spills)) if used else ("-", "-")),
    ]
