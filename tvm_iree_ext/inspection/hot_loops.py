"""Hot loops of generated code on GPUs, chip by chip: their time by a model, and instruction counts.

No GPU is needed: compilers' texts are read.  A cell of the table is a case on a chip, with B in one
order; what is asked of it stands in :mod:`.hot_loop_bars`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tvm_iree_ext.base.errors import BuildError, ScheduleError, TargetError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.codegen.gpu.device_code import DeviceCode, KernelResources, compile_device
from tvm_iree_ext.codegen.gpu.instruction_counts import InstructionCounts, KernelInstructions
from tvm_iree_ext.inspection.hot_loop_bars import BELOW, Bar, ShareBar, bars, share_bar
from tvm_iree_ext.inspection.hot_loop_kernels import CASES, ORDERS, Bound, Scheduled
from tvm_iree_ext.inspection.loop_time.hot_loop_time import TimedLoop, timed_loop
from tvm_iree_ext.inspection.tile_rounds import Rounds
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import make_target

CHIPS = (
    "rocm:gfx90a", "rocm:gfx942", "rocm:gfx950", "rocm:gfx1100", "rocm:gfx1201",
    "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100",
)  # fmt: skip
TARGETS = (*CHIPS, "cuda:sm_90a", "cuda:sm_100a")
"""Those of the table: all chips, of which two have their fastest instructions by another name."""


@dataclass(frozen=True)
class HotLoopRow:
    """A case on a chip, with B in one order: the loop, and what is asked; or why there is none.

    ``whole`` counts the kernel, where the compiler left no loop around matrix instructions.
    ``timed`` is the modelled time, where it was asked for and there is such a loop; ``bar`` has
    IREE's counts.
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
    rounds: Rounds | None = None
    bar: Bar | None = None
    share_bar: ShareBar | None = None
    timed: TimedLoop | None = None
    obstacle: str = ""

    @property
    def kernel_us(self) -> float | None:
        """The modelled time of the kernel on the bound's part: all tiles at the loop's share.

        Operands come no faster than memory gives them; the result is written beside nothing.
        """
        if self.timed is None or self.bound is None:
            return None
        operands_us = self.bound.bytes_us - self.bound.result_us
        tiles_us = self.bound.operations_us / (self.timed.time.share * self.timed.of_peak)
        return max(tiles_us, operands_us) + self.bound.result_us

    @property
    def verdict(self) -> str:
        """Of the modelled share, ``reached``, ``named`` or ``below``; empty where none is asked."""
        if self.obstacle:
            return ""
        spills = self.resources.spills if self.resources else 0
        if self.share_bar is None or self.timed is None:
            return BELOW if spills else ""
        return self.share_bar.verdict(self.timed.time.share, spills)


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
    timed: bool = True,
) -> Iterable[HotLoopRow]:
    """Compile, count and model, row by row; by default all cases, targets and orders.

    Args:
        cases: names of :data:`~tvm_iree_ext.inspection.hot_loop_kernels.CASES`.
        targets: by default of :data:`TARGETS`.
        orders: of cases that have B.
        timed: whether to model the time of the loops.

    Raises:
        ScheduleError: for a name that is none of these.
    """
    names = _named(cases, tuple(CASES), "case")
    chosen = _named(orders, tuple(ORDERS), "order")
    for name in names:
        for target in tuple(targets) or TARGETS:
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
    given["share_bar"] = share_bar(name, gpu_chip(made).name, order)
    try:
        code = compile_device(scheduled.module, made)
    except (BuildError, TargetError) as refused:
        return HotLoopRow(**given, obstacle=str(refused))
    kernel, counted = _multiplying(code)
    timed_here, obstacle = None, code.missing
    if timed and counted:
        try:
            timed_here = timed_loop(code, kernel)
        except TargetError as refused:
            obstacle = str(refused)
    return HotLoopRow(
        **given,
        hot_loop=(counted.hot_loop or counted.whole) if counted else None,
        whole=bool(counted and counted.hot_loop is None),
        resources=code.resources.get(kernel),
        rounds=_rounds(scheduled, code, kernel),
        timed=timed_here,
        obstacle=obstacle,
    )


def _multiplying(code: DeviceCode) -> tuple[str, KernelInstructions | None]:
    """The kernel with the matrix instructions: others copy operands or add parts."""
    found = {name: code.instructions(name) for name in code.launches}
    return max(found.items(), key=lambda one: one[1].whole.mma if one[1] else 0)


def _rounds(scheduled: Scheduled, code: DeviceCode, kernel: str) -> Rounds | None:
    """Of the workgroups that the first part's cores keep at once."""
    chip = gpu_chip(code.target)
    if not chip.parts or kernel not in code.resources:
        return None
    at_once = chip.parts[0].cores * code.resident_workgroups(kernel)
    return scheduled.reads.rounds(at_once)


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
    return {**data, "verdict": row.verdict, "kernel_us": row.kernel_us}
