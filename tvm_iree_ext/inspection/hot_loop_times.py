"""The table of hot loops' modelled times, as text or Markdown."""

from collections.abc import Sequence

from tvm_iree_ext.inspection.hot_loop_bars import NAMED
from tvm_iree_ext.inspection.hot_loops import HotLoopRow
from tvm_iree_ext.inspection.loop_time.core_run import CAUSES
from tvm_iree_ext.inspection.tables import lined_up, markdown_table

_COLUMNS = (
    "case", "target", "B", "kind, tile, stages", "matrix units", "answers / 2, x 2", "bar", "",
    "subgroups / SIMD", *(f"idle: {cause}" for cause in CAUSES), "cycles of a pass",
    "LDS B / cycle", "memory B / cycle", "tail", "kernel, µs", "L2 MB", "memory MB", "registers",
    "spills",
)  # fmt: skip


def times_text(rows: Sequence[HotLoopRow], *, markdown: bool = False) -> str:
    """The rows as aligned text, or as a table of Markdown."""
    return lined_up([_COLUMNS, *map(_cells, rows)], markdown=markdown)


def shares_markdown(rows: Sequence[HotLoopRow]) -> str:
    """Shares of the matrix units' time in percent, by chip and case, for each order of B."""
    return markdown_table(
        rows,
        lambda here: " / ".join(f"{row.timed.time.share:.0%}" for row in here if row.timed),
    )


def reasons_text(rows: Sequence[HotLoopRow]) -> str:
    """Why cells are below their bar, of those that are known to be."""
    return "\n".join(
        f"{row.case} on {row.target}, {row.order}: {row.share_bar.exception.reason}"
        for row in rows
        if row.verdict == NAMED and row.share_bar and row.share_bar.exception
    )


def _cells(row: HotLoopRow) -> list[str]:
    first = [row.case, row.target, row.order, row.config]
    used, asked, rounds = row.resources, row.share_bar, row.rounds
    if row.timed is None:
        reason = row.obstacle.partition(";")[0] or "no loop"
        return [*first, *[""] * (len(_COLUMNS) - len(first) - 1), reason]
    time = row.timed.time
    return [
        *first,
        f"{time.share:.0%}",
        f"{row.timed.fast_share:.0%}, {row.timed.slow_share:.0%}",
        f"{max(asked.wanted, asked.iree or 0.0):.0%}" if asked else "-",
        row.verdict,
        f"{time.subgroups:g}",
        *(f"{time.idle[cause]:.0%}" for cause in CAUSES),
        f"{time.cycles:.0f}",
        f"{time.lds_bytes:.0f}",
        f"{time.memory_bytes:.0f}",
        f"{rounds.tail:.0%}" if rounds else "-",
        f"{row.kernel_us:.0f}" if row.kernel_us else "-",
        *((f"{one / 1e6:.0f}" for one in rounds.bytes) if rounds else "--"),
        *((str(used.registers), str(used.spills)) if used else ("-", "-")),
    ]
