"""The numbers of products by warpgroups as lowering configs, and when they are chosen."""

from collections.abc import Sequence
from dataclasses import replace

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, ConfigForm, form
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import named_kind
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import (
    warpgroup_config,
    warpgroup_kinds,
    workgroups_of,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WarpgroupConfig,
    WarpgroupPlan,
    plan_warpgroup_matmul,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import FROM_SHARED, Mma
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds

_SUBGROUPS = 4  # of a warpgroup
_ENOUGH = (
    2  # workgroups for so many cores at least one, else K is better split among more workgroups
)
_DEEP = 16  # steps of K
_COLUMNS = 32  # a tuner tries instructions of multiples of so many columns
_PREFIX = "warpgroup_"
WARPGROUP_ALGORITHMS = (f"{_PREFIX}tma", f"{_PREFIX}async")
"""By how tiles are copied."""


def chosen_warpgroups(
    shape: MatmulShape, target: Target, windows: ConvWindows | None = None
) -> LoweringConfig | None:
    """The config by warpgroups; None where the other rule is better, or the only one.

    Copies by lanes gain nothing over that rule; few tiles of few steps leave cores idle; and few
    rows leave most of an instruction without use.
    """
    if not mma_kinds(target, FROM_SHARED):
        return None
    try:
        config = warpgroup_config(shape, target, windows)
        plan = plan_warpgroup_matmul(shape, target, config, windows)
    except ScheduleError:
        return None
    return lowering_of(config) if config.copies == "tma" and is_filled(plan, target) else None


def is_filled(plan: WarpgroupPlan, target: Target) -> bool:
    """Whether there are tiles for half of the cores, and rows for half of a tile, or a deep K."""
    parts, config = gpu_chip(target).parts, plan.config
    enough = not parts or _ENOUGH * workgroups_of(plan) * config.splits >= parts[0].cores
    filled = 2 * plan.extents[0] >= plan.grid[0] * plan.tile[0]
    # The fewer rows the less is multiplied for what is read: copies are all that counts.
    filled = filled or (plan.grid[0] == config.consumers == 1 and plan.steps >= _DEEP)
    return enough and filled


def lowering_of(config: WarpgroupConfig) -> LoweringConfig:
    """The numbers as a lowering config."""
    mma = mma_kind(config.mma_kind)
    return LoweringConfig(
        algorithm=f"{_PREFIX}{config.copies}",
        workgroup_tile={"m": config.consumers * config.tiles * mma.m, "n": config.columns * mma.n},
        promote=SIDES,
        pad=config.pad,
        mma_kind=config.mma_kind,
        subgroups={"m": _SUBGROUPS * config.consumers, "n": 1},
        stages=config.stages,
        workgroups=config.workgroups,
        splits=config.splits,
    )


def warpgroup_numbers(check: ConfigCheck) -> WarpgroupConfig:
    """A config's numbers, in instructions and warpgroups.

    Raises:
        ScheduleError: for a number that is missing, or no multiple of the instruction's.
    """
    config, mma = check.config, named_kind(check)
    consumers = check.parts("subgroups", "m", _SUBGROUPS)
    return WarpgroupConfig(
        mma.name,
        consumers,
        check.parts("workgroup_tile", "m", consumers * mma.m),
        check.count("stages", config.stages),
        config.algorithm.removeprefix(_PREFIX),
        config.pad,
        check.parts("workgroup_tile", "n", mma.n),
        check.count("workgroups", config.workgroups, least=0),
        check.count("splits", config.splits),
    )


def warpgroup_forms(
    shape: MatmulShape, target: Target, windows: ConvWindows | None = None
) -> list[ConfigForm]:
    """Tuning forms of warpgroups: one for each instruction, with its own columns."""
    kinds = warpgroup_kinds(shape, target)
    try:
        usual = warpgroup_config(shape, target, windows) if kinds else None
    except ScheduleError:
        usual = None
    return forms_of(kinds, usual, target)


def forms_of(
    kinds: Sequence[Mma], usual: WarpgroupConfig | None, target: Target
) -> list[ConfigForm]:
    """A tuning form for each of some instructions, with the other numbers of a usual config."""
    cores = gpu_chip(target).usual_cores
    found: list[ConfigForm] = []
    for mma in kinds:
        if usual is None or mma.n % _COLUMNS:
            continue
        tile = {"m": mma.m, "n": mma.n}
        base = replace(lowering_of(usual), mma_kind=mma.name, workgroup_tile=tile)
        rows = tuple(tiles * mma.m // _SUBGROUPS for tiles in (1, 2))
        found.append(
            form(
                replace(base, subgroups={"m": _SUBGROUPS, "n": 1}),
                Choice("subgroups.m", tuple(_SUBGROUPS * many for many in (1, 2, 3))),
                Choice("workgroup_tile.m", rows, ("subgroups.m",)),
                Choice("workgroup_tile.n", (mma.n, 2 * mma.n)),
                Choice("stages", (2, 3, 4, 5, 6)),
                Choice("workgroups", (0, cores)),
                Choice("splits", (1, 2, 4, 8, 16)),
            )
        )
    return found
