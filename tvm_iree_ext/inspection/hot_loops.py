"""Instruction counts of generated hot loops on GPUs, chip by chip, beside IREE's.

No GPU is needed: compilers' texts are counted.  IREE's figures are data (``gpu_bar.json``, with
their source); the bar of a case on a chip is the better of IREE's two orders of B.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from tvm_iree_ext.base.errors import BuildError, ScheduleError, TargetError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.codegen.gpu.device_code import KernelResources, compile_device
from tvm_iree_ext.codegen.gpu.instruction_counts import InstructionCounts
from tvm_iree_ext.inspection.hot_loop_kernels import CASES, ORDERS, Bound
from tvm_iree_ext.inspection.loop_time.hot_loop_time import TimedLoop, timed_loop
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import make_target

TARGETS = (
    "rocm:gfx90a", "rocm:gfx942", "rocm:gfx950", "rocm:gfx1100", "rocm:gfx1201",
    "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100",
)  # fmt: skip
TIMED_TARGETS = tuple(name for name in TARGETS if name.startswith("rocm"))
"""Those with a model of time."""


@dataclass(frozen=True)
class Bar:
    """IREE's figures; None where they were not taken, or say nothing of a useful operation.

    Of attention FLOP are useful ones: IREE computes some of them several times.
    """

    per_mma: float | None = None
    flops_per_instruction: float | None = None
    narrowest_shared: int | None = None
    spills: int = 0


@dataclass(frozen=True)
class HotLoopRow:
    """A case on a chip, with B in one order: our counts, and the bar; or why there is none.

    ``whole`` counts the kernel, where the compiler left no loop around matrix instructions.
    ``timed`` is the modelled time, where it was asked for and the chip has a model.
    """

    case: str
    target: str
    order: str
    config: str = ""
    tile: tuple[int, ...] = ()
    hot_loop: InstructionCounts | None = None
    whole: bool = False
    resources: KernelResources | None = None
    bound: Bound | None = None
    bar: Bar | None = None
    timed: TimedLoop | None = None
    obstacle: str = ""

    @property
    def verdict(self) -> str:
        """``ahead``, ``equal`` or ``behind``; empty where either side has no figure.

        By instructions for each matrix instruction, or else by operations for each instruction.
        """
        hot, wanted = self.hot_loop, self.bar
        if hot is None or wanted is None:
            return ""
        if self.resources and self.resources.spills:
            return "behind"
        if wanted.per_mma is not None:
            lead = wanted.per_mma - round(hot.per_mma, 2)
        else:
            lead = round(hot.flops_per_instruction) - (wanted.flops_per_instruction or 0)
        if lead == 0:
            return "equal"
        return "ahead" if lead > 0 else "behind"


@functools.cache
def bars() -> dict[tuple[str, str, str], Bar]:
    """IREE's figures by case, chip and order of B."""
    data = json.loads(files("tvm_iree_ext.inspection").joinpath("hot_loops.json").read_text())
    return {
        (case, chip, order): Bar(**figures)
        for case, chips in data["figures"].items()
        for chip, orders in chips.items()
        for order, figures in orders.items()
    }


def bar(case: str, chip: str) -> Bar | None:
    """The better of IREE's orders of B; None where it has no matrix instructions, or none is known.

    >>> bar("matmul-f16", "gfx942").per_mma
    1.92
    """
    known = [bars().get((case, chip, order)) for order in CASES[case].orders]
    return min((one for one in known if one), key=lambda one: one.per_mma or 0.0, default=None)


def gpu_table(
    cases: Iterable[str] = (),
    targets: Iterable[str] = (),
    orders: Iterable[str] = (),
    *,
    timed: bool = False,
) -> Iterable[HotLoopRow]:
    """Compile and count, row by row; by default all cases, targets and orders.

    Args:
        cases: names of :data:`~tvm_iree_ext.inspection.hot_loop_kernels.CASES`.
        targets: by default of :data:`TARGETS`; with a model of time where that is asked for.
        orders: of cases that have B.
        timed: whether to model the time of the loops.

    Raises:
        ScheduleError: for a name that is none of these.
    """
    names = _named(cases, tuple(CASES), "case")
    chosen = _named(orders, tuple(ORDERS), "order")
    for name in names:
        for target in tuple(targets) or (TIMED_TARGETS if timed else TARGETS):
            for order in CASES[name].orders:
                if order in chosen or order not in ORDERS:
                    yield _row(name, target, order, timed)


def _named(given: Iterable[str], known: Sequence[str], what: str) -> Sequence[str]:
    given = tuple(given)
    if unknown := [name for name in given if name not in known]:
        hint = did_you_mean(unknown[0], known)
        listed = ", ".join(known)
        raise ScheduleError(f"gpu-table: {what} {unknown[0]} is unknown; one of {listed}{hint}")
    return given or known


def _row(name: str, target: str, order: str, timed: bool) -> HotLoopRow:
    made = make_target(target)
    given: dict[str, Any] = {"case": name, "target": target, "order": order}
    try:
        scheduled = CASES[name].scheduled(made, order)
    except ScheduleError as refused:
        return HotLoopRow(**given, obstacle=str(refused))
    given |= {"config": scheduled.config, "tile": scheduled.tile, "bound": scheduled.bound}
    given["bar"] = bar(name, gpu_chip(made).name)
    try:
        code = compile_device(scheduled.module, made)
    except (BuildError, TargetError) as refused:
        return HotLoopRow(**given, obstacle=str(refused))
    counted = code.instructions(scheduled.kernel)
    if timed and made.kind.name == "rocm":
        given["timed"] = timed_loop(code, scheduled.kernel)
    return HotLoopRow(
        **given,
        hot_loop=(counted.hot_loop or counted.whole) if counted else None,
        whole=bool(counted and counted.hot_loop is None),
        resources=code.resources.get(scheduled.kernel),
        obstacle=code.missing,
    )


_COLUMNS = (
    "case", "target", "B", "kind, tile, stages", "MMA", "per MMA", "bar", "", "FLOP / instr.",
    "bar", "shared", "global", "vector", "scalar", "barriers", "waits", "narrowest", "registers",
    "spills", "subgroups / SIMD", "bound",
)  # fmt: skip


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
        row.verdict,
        f"{hot.flops_per_instruction:.0f}",
        f"{flops:.0f}" if flops else "-",
        *(str(moves[place]) for place in ("shared", "global")),
        *(str(getattr(hot, what)) for what in ("vector", "scalar", "barriers", "waits")),
        f"{hot.narrowest('shared')} B",
        *((str(used.registers), str(used.spills)) if used else ("-", "-")),
        f"{used.subgroups_per_simd:g}" if used else "-",
        f"{max(bound.operations_us, bound.bytes_us):.0f} µs, {bound.limit}" if bound else "-",
    ]


def table_text(rows: Sequence[HotLoopRow], *, markdown: bool = False) -> str:
    """The rows as aligned text, or as a table of Markdown."""
    return lined_up([list(_COLUMNS), *map(_cells, rows)], markdown=markdown)


def lined_up(lines: Sequence[Sequence[str]], *, markdown: bool = False) -> str:
    """Lines of cells, the first of which are names, as aligned text or as a table of Markdown."""
    if markdown:
        ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
        return "\n".join(f"| {' | '.join(line)} |" for line in ruled)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(text.rstrip() for text in texts)


def summary_markdown(rows: Sequence[HotLoopRow]) -> str:
    """The figure that is compared, by chip and case: ours for each order of B, and the bar.

    Of products instructions for each matrix instruction, of attention FLOP for each instruction.
    """
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = [["target", *cases], ["---"] * (len(cases) + 1)]
    for target in dict.fromkeys(row.target for row in rows):
        line = [f"`{target}`"]
        for case in cases:
            here = [row for row in rows if (row.target, row.case) == (target, case)]
            ours = [_compared(row.order, row.hot_loop) for row in here if row.hot_loop]
            known = next((_compared(row.order, row.bar) for row in here if row.bar), None)
            line.append(" / ".join(ours) + (f" ({known})" if known and ours else ""))
        lines.append([cell or "-" for cell in line])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _compared(order: str, figures: InstructionCounts | Bar) -> str:
    return f"{figures.per_mma:.2f}" if order in ORDERS else f"{figures.flops_per_instruction:.0f}"


def row_data(row: HotLoopRow) -> dict[str, Any]:
    """The row as plain data."""
    data = asdict(row)
    if row.hot_loop is not None:
        data["hot_loop"] = {
            **data["hot_loop"],
            "loads": {f"{place} {width}": n for (place, width), n in row.hot_loop.loads.items()},
            "stores": {f"{place} {width}": n for (place, width), n in row.hot_loop.stores.items()},
            "total": row.hot_loop.total,
            "per_mma": row.hot_loop.per_mma,
            "flops_per_instruction": row.hot_loop.flops_per_instruction,
        }
    return {**data, "verdict": row.verdict}
