"""Tiles and subgroups for attention that was never tuned."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.attention.attention_config import ALGORITHM, GpuAttentionConfig
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_planning import plan_attention
from tvm_iree_ext.schedules.gpu.attention.attention_products import first_kinds, is_multiply_add
from tvm_iree_ext.schedules.gpu.attention.attention_registers import attention_registers
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip, occupancy, subgroup_size
from tvm_iree_ext.targets.mma.mma_kinds import Mma

_WIDEST_COLUMNS = 256  # of a workgroup's output: more are computed by several
_KEYS = (64, 32, 16, 128)
_SPLIT_WAVES = 2  # workgroups of each core at least, where keys are split to have them
_FEWEST_STEPS = 4  # of a workgroup that has a part of the keys: the merging must be worth it
_UNKNOWN_STEPS = 64  # of keys that are counted at call time
_MOST_SPLITS = 128
_BUSY = 2.0  # subgroups of a scheduler that hide each other's waits


def attention_config(op: Attention, target: Target) -> GpuAttentionConfig:
    """The largest tiles that leave two subgroups for each scheduler, or else that fit.

    Raises:
        ScheduleError: where nothing fits, with what the smallest tiles lack.
    """
    chip = gpu_chip(target)
    refused: ScheduleError | None = None
    fallback: tuple[float, GpuAttentionConfig] | None = None
    for config in _candidates(op, target, chip):
        try:
            plan = plan_attention(op, target, config)
        except ScheduleError as error:
            refused = error
            continue
        resident = _resident(plan, chip)
        if resident >= _BUSY:
            return _split(op, chip, config)
        if fallback is None or resident > fallback[0]:
            fallback = resident, config
    if fallback is None:
        assert refused is not None
        raise refused
    return _split(op, chip, fallback[1])


def _resident(plan: AttentionPlan, chip: GpuChip) -> float:
    """Subgroups of a scheduler, as far as registers can be foreseen; a small grid is not full."""
    try:
        found = occupancy(
            chip,
            registers=attention_registers(plan),
            shared_memory_bytes=plan.shared_memory_bytes,
            lanes=plan.subgroups * plan.lanes,
            subgroup_size=plan.lanes,
        )
    except TargetError:
        return 0.0
    return found.subgroups_per_simd


def _split(op: Attention, chip: GpuChip, config: GpuAttentionConfig) -> GpuAttentionConfig:
    """Several workgroups for the keys of a row, where there are too few for the chip's cores.

    Each scheduler gets a subgroup: on an H100 one query row of 32 heads on 8 and 8192 keys takes
    30 us so, and 33 with half as many parts; 16 of them 199 and 242 (`scripts/gpu-day`).
    """
    rows, keys = _static(op, "m"), _static(op, "k2")
    points = _static(op, "b")
    if rows is None or points is None or not chip.parts:
        return config
    columns = -(-op.count("n") // config.columns)
    workgroups = points * -(-rows // config.rows) * columns
    waves = max(_SPLIT_WAVES, chip.simds_per_core // config.subgroups)
    wanted = waves * chip.parts[0].cores // workgroups
    steps = _UNKNOWN_STEPS if keys is None else -(-keys // config.keys)
    splits = min(wanted, steps // _FEWEST_STEPS, _MOST_SPLITS)
    return replace(config, splits=splits) if splits > 1 else config


def _candidates(op: Attention, target: Target, chip: GpuChip) -> Iterator[GpuAttentionConfig]:
    """Configs, the one with the most work for each instruction first."""
    size = subgroup_size(target)
    rows = _static(op, "m")
    columns = op.count("n")
    tile_n = min(columns, _WIDEST_COLUMNS)
    for kind in first_kinds(chip, size, op, rows):
        for promote, (subgroups, tiles), keys in product(
            ((), ("query",)), _shapes(kind, rows, op), _KEYS
        ):
            if is_multiply_add(kind) and not promote:
                continue  # its query would take all registers
            yield GpuAttentionConfig(
                ALGORITHM,
                rows=subgroups * tiles * kind.m,
                columns=tile_n,
                keys=keys,
                subgroups=subgroups,
                promote=promote,
                mma_kind=kind.name,
                column_major=kind.column_major,
            )


def _shapes(kind: Mma, rows: int | None, op: Attention) -> list[tuple[int, int]]:
    """Subgroups, and instructions of each along the rows: no more than there are rows."""
    # An instruction of 8 keys reads much for its work: two along the rows share what is read.
    narrow = kind.n <= 8 and not is_multiply_add(kind)
    double = narrow and max(op.count("k1"), op.count("n")) <= 64
    shapes = [(4, 2), (4, 1)] if double else [(4, 1)]
    if rows is not None:
        needed = -(-rows // kind.m)
        shapes = [(s, t) for s, t in shapes if s * t < 2 * needed] or [
            (1 << (needed - 1).bit_length() if needed < 4 else 4, 1)
        ]
    return shapes


def _static(op: Attention, role: str) -> int | None:
    if any(isinstance(op.extents[dim], str) for dim in op.dims[role]):
        return None
    return op.count(role)
