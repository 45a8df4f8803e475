"""The table of hot loops' instruction counts, beside those of IREE's code."""

from collections.abc import Sequence

from tvm_iree_ext.codegen.gpu.instruction_counts import InstructionCounts
from tvm_iree_ext.inspection.hot_loop_bars import Bar
from tvm_iree_ext.inspection.hot_loop_kernels import ORDERS
from tvm_iree_ext.inspection.hot_loops import HotLoopRow
from tvm_iree_ext.inspection.tables import lined_up, markdown_table

_COLUMNS = (
    "case", "target", "B", "kind, tile, stages", "MMA", "per MMA", "IREE's", "FLOP / instr.",
    "IREE's", "shared", "global", "vector", "scalar", "barriers", "waits", "narrowest", "registers",
    "spills", "subgroups / SIMD", "bound",
)  # fmt: skip


def counts_text(rows: Sequence[HotLoopRow], *, markdown: bool = False) -> str:
    """The rows as aligned text, or as a table of Markdown."""
    return lined_up([_COLUMNS, *map(_cells, rows)], markdown=markdown)


def _cells(row: HotLoopRow) -> list[str]:
    first = [row.case, row.target, row.order, row.config]
    hot, used, bar_ = row.hot_loop, row.resources, row.bar
    if hot is None:
        return [*first, *[""] * (len(_COLUMNS) - len(first) - 1), row.obstacle.partition(";")[0]]
    moves: dict[str, int] = {"shared": 0, "global": sum(hot.copies.values())}
    for place, count in (*hot.loads.items(), *hot.stores.items()):
        moves[place[0]] += count
    flops = bar_.flops_per_instruction if bar_ else None
    bound = row.bound
    return [
        *first,
        f"{hot.mma}{', no loop' if row.whole else ''}",
        f"{hot.per_mma:.2f}",
        f"{bar_.per_mma:.2f}" if bar_ and bar_.per_mma else "-",
        f"{hot.flops_per_instruction:.0f}",
        f"{flops:.0f}" if flops else "-",
        *(str(moves[place]) for place in ("shared", "global")),
        *(str(getattr(hot, what)) for what in ("vector", "scalar", "barriers", "waits")),
        f"{hot.narrowest('shared')} B",
        *((str(used.registers), str(used.spills)) if used else ("-", "-")),
        f"{used.subgroups_per_simd:g}" if used else "-",
        f"{max(bound.operations_us, bound.bytes_us):.0f} µs, {bound.limit}" if bound else "-",
    ]


def counts_markdown(rows: Sequence[HotLoopRow]) -> str:
    """The figure that is compared, by chip and case: ours for each order of B, and IREE's.

    Of products instructions for each matrix instruction, of attention FLOP for each instruction.
    """

    def cell(here: Sequence[HotLoopRow]) -> str:
        ours = [_compared(row.order, row.hot_loop) for row in here if row.hot_loop]
        known = next((_compared(row.order, row.bar) for row in here if row.bar), None)
        return " / ".join(ours) + (f" ({known})" if known and ours else "")

    return markdown_table(rows, cell)


def _compared(order: str, figures: InstructionCounts | Bar) -> str:
    return f"{figures.per_mma:.2f}" if order in ORDERS else f"{figures.flops_per_instruction:.0f}"
