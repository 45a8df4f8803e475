"""Instructions, tiles, parts of K and turns of products by warpgroups that were never tuned."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from math import prod

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.intrin.tcgen05 import COLUMNS
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.padded_operands import sides_to_pad
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    COPIES,
    WarpgroupConfig,
    WarpgroupPlan,
    plan_warpgroup_matmul,
    turns,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import FROM_SHARED, ROUNDING, Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table

_NARROW = 64  # columns; fewer are for results that have no more
_STEP_COST = 64  # of copying a row or column of a tile, in multiplications
_WORK_PER_US = 8e4  # such multiplications of a step: 46 us for 64 steps of 128 x 256 on an H100
_LEAST_STEPS = 4  # of a part of K
_MERGE_US = 3.0  # of another kernel
_MERGED_BYTES_PER_US = 5e6  # in the second cache
_MOST_STAGES = 4  # but of pairs, whose slots are smaller
_CACHE_COST = 128
"""Of a row or column of a tile, in multiplications of tensor memory's unit: its 128 bytes take two
cycles of the second cache, at 64 bytes a cycle, and 64 x 64 of float16 are multiplied in each."""
_ALONE = 1.5  # times as long takes a step of one warpgroup, which nobody multiplies beside

PlanOf = Callable[[WarpgroupConfig], WarpgroupPlan]
"""The plan by a config, or a ScheduleError."""


def warpgroup_config(
    shape: MatmulShape, target: Target, windows: ConvWindows | None = None
) -> WarpgroupConfig:
    """The config for a product: the largest tile of which all cores get one, and what fits it.

    Raises:
        ScheduleError: where the chip has no warpgroup instruction for its types.
    """
    chip, kinds = gpu_chip(target), warpgroup_kinds(shape, target)
    wanted = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    if not kinds:
        raise ScheduleError(
            f"matmul: {chip.name} has no warpgroup instruction for"
            f" {wanted[0]} * {wanted[1]} in {wanted[2]}"
        )
    ways: list[tuple[str, tuple[str, ...]]] = [
        (copies, ()) for copies in (COPIES if windows is None else COPIES[:1])
    ]
    if windows is None:
        turned = [side for side in SIDES if turns(kinds[0], shape, side)]
        if pad := sides_to_pad(shape, target, together=True, turned=turned):
            ways.append(("tma", pad))
    numbers = product((2, 1), (1, 2), (1, 2), (6, 4, 3, 2), ways)
    configs = [
        WarpgroupConfig(mma.name, consumers, tiles, stages, *way, columns)
        for mma, (consumers, tiles, columns, stages, way) in product(kinds, numbers)
        if consumers >= columns  # few rows are read more than they are multiplied
        and (stages <= _MOST_STAGES or mma.workgroups > 1)
    ]
    return best_config(
        configs, lambda config: plan_warpgroup_matmul(shape, target, config, windows), target
    )


def best_config(
    configs: Iterable[WarpgroupConfig], plan_of: PlanOf, target: Target
) -> WarpgroupConfig:
    """The config of the least cost, in parts of K or in turns where that is better.

    Raises:
        ScheduleError: where there is a plan of none.
    """
    parts, found, error = gpu_chip(target).parts, [], None
    cores = parts[0].cores if parts else 1
    for config in configs:
        try:
            plan = plan_of(config)
        except ScheduleError as refused:
            error = refused
            continue
        if plan.in_tensor_memory and plan.columns(2) > COLUMNS:  # tiles take halves in turns
            continue
        usual = gpu_chip(target).usual_cores
        if plan.mma.workgroups > 1 and workgroups_of(plan) < usual:  # others fill more cores
            continue
        for splits in {1, _parts(plan, cores)}:
            chosen = replace(plan, config=replace(config, splits=splits))
            found.append((_cost(chosen, cores), chosen.config))
    if not found:
        assert error is not None
        raise error
    return _in_turns(min(found, key=lambda one: one[0])[1], plan_of, target)


def _parts(plan: WarpgroupPlan, cores: int) -> int:
    """Parts of K for which there are cores, each of some steps."""
    if plan.windows is not None or plan.shape.m is None or plan.config.copies != "tma":
        return 1
    most = max(1, min(cores // workgroups_of(plan), plan.steps // _LEAST_STEPS))
    return -(-plan.steps // -(-plan.steps // most))


def workgroups_of(plan: WarpgroupPlan) -> int:
    """Those that all tiles take, not in turns, without parts of K."""
    return plan.groups * prod(plan.grid) * plan.mma.workgroups


def _in_turns(config: WarpgroupConfig, plan_of: PlanOf, target: Target) -> WarpgroupConfig:
    """The config with a workgroup for each core, where there are more tiles than cores.

    Of pixels also where there are fewer: outside of a loop ``ptxas`` makes their places before the
    steps, and spills for it.
    """
    parts = gpu_chip(target).parts
    plan = plan_of(config)
    if not parts or config.copies != "tma":
        return config
    if plan.windows is None and workgroups_of(plan) <= parts[0].cores:
        return config
    each = plan.mma.workgroups
    shared = replace(config, workgroups=parts[0].cores // each * each)
    try:
        plan_of(shared)
    except ScheduleError:
        return config
    return shared


def warpgroup_kinds(shape: MatmulShape, target: Target) -> list[Mma]:
    """The instructions of a chip's warpgroups for a product's types, but for narrow ones.

    Those that round what they multiply are for configs that name them.
    """
    chip, wanted = gpu_chip(target), (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    return [
        mma
        for mma in mma_table().values()
        if mma.kind in FROM_SHARED and mma.on(chip.name) and mma.a not in ROUNDING
        if mma.lhs_scale is None
        if mma.n >= min(_NARROW, shape.n or _NARROW)
        if tuple(map(tvm_dtype, (mma.a, mma.b, mma.c))) == wanted
    ]


def _cost(plan: WarpgroupPlan, cores: int) -> tuple[float, ...]:
    """Less is better: copies by tensor maps, the busiest core's work, more stages, wide tiles.

    On an H100 4096 x 4096 x 4096 of float16 takes 180 us by 128 x 256, 183 by 256 x 128, 185 with 3
    stages, and some 20 % more by 128 x 192 or 128 x 128; 512 x 512 x 16384 takes 38 us by 64 x 128
    in 4 parts, 32 in 8; 1 x 4096 x 16384 64 in 4 parts, 67 by 64 x 384 in 12 (`scripts/gpu-day`).
    Nobody has timed sums in tensor memory, which are multiplied faster than tiles may be copied.
    """
    each = plan.mma.workgroups
    rows, columns = (extent // each for extent in plan.tile[:2])  # that each copies
    config, splits = plan.config, plan.config.splits
    waves = -(-plan.groups * prod(plan.grid) * splits // max(1, cores // each))
    step = each * rows * columns
    if plan.in_tensor_memory:
        step = max(step, _CACHE_COST * (rows + columns))
    step += _STEP_COST * (rows + columns)
    work = waves * plan.share * step * (_ALONE if config.consumers == 1 else 1)
    if splits > 1:
        m, n, _ = plan.extents
        moved = 2 * splits * plan.groups * m * n * dtype_bits(plan.mma.c) // 8
        work += (_MERGE_US + moved / _MERGED_BYTES_PER_US) * _WORK_PER_US
    return (config.copies != "tma", work, -config.stages, -columns, config.columns)
