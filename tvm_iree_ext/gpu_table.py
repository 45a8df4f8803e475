"""What generated GPU code does in its hot loop, chip by chip, beside what IREE's does.

No GPU is needed: compilers' texts are counted.  IREE's figures are data (``gpu_bar.json``, with
their source); the bar of a case on a chip is the better of IREE's two orders of B.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from math import prod
from typing import Any

from tvm_iree_ext.device.code import KernelResources, compile_device
from tvm_iree_ext.device.instructions import InstructionCounts
from tvm_iree_ext.errors import BuildError, ScheduleError, TargetError
from tvm_iree_ext.schedules.gpu.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.matmul_config import matmul_config
from tvm_iree_ext.schedules.gpu.matmul_plan import MatmulPlan, plan_matmul
from tvm_iree_ext.schedules.gpu.matmul_shape import MatmulShape
from tvm_iree_ext.target.gpu import GpuPart, occupancy
from tvm_iree_ext.target.mma import dtype_bits
from tvm_iree_ext.target.names import make_target

TARGETS = (
    "rocm:gfx90a", "rocm:gfx942", "rocm:gfx950", "rocm:gfx1100", "rocm:gfx1201",
    "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100",
)  # fmt: skip
ORDERS = {"NxK": (1, 0), "KxN": (0, 1)}
"""How B lies in memory: its dims, the contiguous one last."""

_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz")  # the second is what gfx942 multiplies
_KERNEL = "matmul_kernel"


@dataclass(frozen=True)
class Case:
    """A product ``m * k`` by ``k * n``, of the first of ``dtypes`` that the chip multiplies."""

    m: int
    n: int
    k: int
    dtypes: tuple[str, ...]
    result_dtype: str


CASES = {
    "matmul-f16": Case(4096, 4096, 4096, ("float16",), "float32"),
    "matmul-bf16": Case(4096, 4096, 4096, ("bfloat16",), "float32"),
    "matmul-i8": Case(4096, 4096, 4096, ("int8",), "int32"),
    "matmul-fp8": Case(4096, 4096, 4096, _FLOAT8, "float32"),
    "skinny-f16": Case(16, 4096, 4096, ("float16",), "float32"),
}


@dataclass(frozen=True)
class Bar:
    """IREE's figures; None where they were not taken."""

    per_mma: float
    flops_per_instruction: float | None = None
    narrowest_shared: int | None = None
    spills: int = 0


@dataclass(frozen=True)
class Bound:
    """What a product takes at least on a part: the larger of the two times.

    Attributes:
        part: whose peaks are taken.
        operations_us: of all workgroups' tiles in whole rounds over the cores, at the peak.
        bytes_us: of operands and result, once each, at the memory's bandwidth.
    """

    part: str
    operations_us: float
    bytes_us: float

    @property
    def limit(self) -> str:
        """Which of the two it is."""
        return "operations" if self.operations_us >= self.bytes_us else "bytes"


@dataclass(frozen=True)
class Row:
    """A case on a chip, with B in one order: our counts, and the bar; or why there is none.

    ``whole`` counts the kernel, where the compiler left no loop around matrix instructions.
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
    obstacle: str = ""

    @property
    def verdict(self) -> str:
        """``ahead``, ``equal`` or ``behind``; empty where either side has no figure."""
        if self.hot_loop is None or self.bar is None:
            return ""
        ours = round(self.hot_loop.per_mma, 2)
        if self.resources and self.resources.spills:
            return "behind"
        if ours == self.bar.per_mma:
            return "equal"
        return "ahead" if ours < self.bar.per_mma else "behind"


@functools.cache
def bars() -> dict[tuple[str, str, str], Bar]:
    """IREE's figures by case, chip and order of B."""
    data = json.loads(files("tvm_iree_ext").joinpath("gpu_bar.json").read_text())
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
    known = (bars().get((case, chip, order)) for order in ORDERS)
    return min((one for one in known if one), key=lambda one: one.per_mma, default=None)


def gpu_table(
    cases: Iterable[str] = (), targets: Iterable[str] = (), orders: Iterable[str] = ()
) -> Iterable[Row]:
    """Compile and count, row by row; by default all cases, targets and orders.

    Raises:
        ScheduleError: for a name that is none of these.
    """
    chosen = [
        _named(given, known, what)
        for given, known, what in (
            (cases, tuple(CASES), "case"), (targets, (), "target"), (orders, tuple(ORDERS), "order")
        )
    ]  # fmt: skip
    for case in chosen[0]:
        for target in chosen[1] or TARGETS:
            for order in chosen[2]:
                yield _row(case, target, order)


def _named(given: Iterable[str], known: Sequence[str], what: str) -> Sequence[str]:
    given = tuple(given)
    if unknown := [name for name in given if known and name not in known]:
        raise ScheduleError(f"gpu-table: {what} {unknown[0]} is unknown; one of {', '.join(known)}")
    return given or known


def _row(name: str, target: str, order: str) -> Row:
    case, made = CASES[name], make_target(target)
    obstacle = ""
    for dtype in case.dtypes:
        shape = MatmulShape(
            case.m, case.n, case.k, dtype, dtype, case.result_dtype, rhs_order=ORDERS[order]
        )
        try:
            plan = plan_matmul(shape, made, matmul_config(shape, made))
        except ScheduleError as refused:
            obstacle = obstacle or str(refused)
            continue
        return _counted(Row(name, target, order, bar=bar(name, plan.chip.name)), plan)
    return Row(name, target, order, obstacle=obstacle)


def _counted(row: Row, plan: MatmulPlan) -> Row:
    target, known = make_target(row.target), {"case": row.case, "order": row.order, "bar": row.bar}
    given: dict[str, Any] = {**known, "target": row.target, "tile": plan.tile}
    given |= {"config": _config(plan), "bound": _bound(plan)}
    try:
        code = compile_device(schedule_matmul(plan.shape, target, plan.config).mod, target)
    except (BuildError, TargetError) as refused:
        return Row(**given, obstacle=str(refused))
    counted = code.instructions(_KERNEL)
    return Row(
        **given,
        hot_loop=(counted.hot_loop or counted.whole) if counted else None,
        whole=bool(counted and counted.hot_loop is None),
        resources=_resident(plan, code.resources.get(_KERNEL)),
        obstacle=code.missing,
    )


def _resident(plan: MatmulPlan, used: KernelResources | None) -> KernelResources | None:
    """With the shared memory that a compiler does not see, as it is asked for at launch."""
    if used is None or used.shared_memory_bytes >= plan.shared_memory_bytes:
        return used
    found = occupancy(
        plan.chip,
        registers=used.registers,
        shared_memory_bytes=plan.shared_memory_bytes,
        lanes=plan.config.num_subgroups * plan.mma.subgroup_size,
        subgroup_size=plan.mma.subgroup_size,
    )
    return replace(
        used,
        shared_memory_bytes=plan.shared_memory_bytes,
        subgroups_per_simd=found.subgroups_per_simd,
        limited_by=found.limit,
    )


def _config(plan: MatmulPlan) -> str:
    rows, columns, depth = plan.tile
    return f"{plan.config.mma_kind} {rows}x{columns}x{depth}, {plan.config.stages}"


def _bound(plan: MatmulPlan) -> Bound | None:
    dtype = plan.shape.lhs_dtype
    dtype = "float8" if dtype.startswith("float8") else dtype
    part: GpuPart | None = next((p for p in plan.chip.parts if dtype in p.peak_tflops), None)
    if part is None:
        return None
    m, n, k = (int(extent or 0) for extent in (plan.shape.m, plan.shape.n, plan.shape.k))
    workgroups = -(-m // plan.tile[0]) * -(-n // plan.tile[1]) * plan.config.splits
    rounds = -(-workgroups // part.cores)
    per_workgroup = -(-k // (plan.config.splits * plan.tile[2])) * prod(plan.tile)
    operations = 2 * rounds * part.cores * per_workgroup
    moved = k * (m * dtype_bits(plan.mma.a) + n * dtype_bits(plan.mma.b)) // 8
    moved += m * n * dtype_bits(plan.mma.c) // 8
    return Bound(
        part.name,
        operations / part.peak_tflops[dtype] / 1e6,
        moved / part.bandwidth_tbs / 1e6,
    )


_COLUMNS = (
    "case", "target", "B", "kind, tile, stages", "MMA", "per MMA", "bar", "", "FLOP / instr.",
    "bar", "shared", "global", "vector", "scalar", "barriers", "waits", "narrowest", "registers",
    "spills", "subgroups / SIMD", "bound",
)  # fmt: skip


def _cells(row: Row) -> list[str]:
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
        f"{bar_.per_mma:.2f}" if bar_ else "-",
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


def table_text(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """The rows as aligned text, or as a table of Markdown."""
    lines = [list(_COLUMNS), *map(_cells, rows)]
    if markdown:
        lines.insert(1, ["---"] * len(_COLUMNS))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(text.rstrip() for text in texts)


def summary_markdown(rows: Sequence[Row]) -> str:
    """Instructions for each matrix instruction, by chip and case: ours for each order, the bar."""
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = [["target", *cases], ["---"] * (len(cases) + 1)]
    for target in dict.fromkeys(row.target for row in rows):
        line = [f"`{target}`"]
        for case in cases:
            here = [row for row in rows if (row.target, row.case) == (target, case)]
            ours = [f"{row.hot_loop.per_mma:.2f}" for row in here if row.hot_loop]
            known = next((row.bar for row in here if row.bar), None)
            line.append(" / ".join(ours) + (f" ({known.per_mma:.2f})" if known and ours else ""))
        lines.append([cell or "-" for cell in line])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def row_data(row: Row) -> dict[str, Any]:
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
