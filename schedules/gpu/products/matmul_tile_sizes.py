"""A product's numbers: in instructions, or in elements, as a lowering config has them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.targets.mma.mma_kinds import Mma, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind

MMA = "mma"
"""The algorithm of a product by matrix instructions."""

_FRAGMENTS = ("native", "virtual", "fma")  # kinds whose operands are in a subgroup's registers


@dataclass(frozen=True)
class MatmulConfig:
    """The numbers of the schedule.

    Attributes:
        mma_kind: the instruction, by the table's name.
        subgroups: of a workgroup, along m and n.
        tiles: instructions of a subgroup, along m and n.
        k_tiles: instructions along k between two copies to shared memory.
        stages: tiles of k that are under way at once: 1 copies, waits and multiplies in turn.
            With asynchronous copies each stage has shared memory of its own; without, as on AMD
            and where a copy transposes, the second waits in registers, and with a third there are
            two tiles in shared memory, by turns.
        swizzle: whether rows in shared memory may be permuted; else they are padded alone.
        column_major: exchange A and B in the instruction, so that lanes hold runs of the result's
            rows instead of its columns.
        splits: parts of K that are multiplied at once; a second kernel adds their sums.
        workgroups: that share all tiles, and the steps of the last ones; 0 for one to a tile.
        promote: the operands whose tiles are in shared memory.  Of another one each lane reads
            what it multiplies itself, which costs nothing where no other subgroup has use for it.
        pad: the operands that are first copied to rows of whole accesses.
        rows_first: count a workgroup's subgroups along m first, and then along n.  No lowering
            config says it: only layouts that an op has.
    """

    mma_kind: str
    subgroups: tuple[int, int] = (2, 2)
    tiles: tuple[int, int] = (4, 4)
    k_tiles: int = 2
    stages: int = 1
    column_major: bool = False
    swizzle: bool = True
    splits: int = 1
    workgroups: int = 0
    promote: tuple[str, ...] = SIDES
    pad: tuple[str, ...] = ()
    rows_first: bool = False

    @property
    def counted(self) -> tuple[int, int, int]:
        """The loops m, n and k in the order in which subgroups are counted, the last fastest."""
        return (1, 0, 2) if self.rows_first else (0, 1, 2)

    @property
    def num_subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return prod(self.subgroups)


def lowering_config(config: MatmulConfig) -> LoweringConfig:
    """In elements, as a config has them."""
    mma = mma_kind(config.mma_kind)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    return LoweringConfig(
        algorithm=MMA,
        workgroup_tile={"m": sm * tm * mma.m, "n": sn * tn * mma.n},
        reduction_tile={"k": config.k_tiles * mma.k},
        promote=config.promote,
        pad=config.pad,
        splits=config.splits,
        workgroups=config.workgroups,
        mma_kind=config.mma_kind,
        subgroups={"m": sm, "n": sn},
        stages=config.stages,
        column_major=config.column_major,
        swizzle=config.swizzle,
    )


def named_kind(check: ConfigCheck) -> Mma:
    """The instruction that a config names.

    Raises:
        ScheduleError: where there is none of that name.
    """
    try:
        return mma_kind(check.config.mma_kind)
    except TargetError as error:
        raise ScheduleError(f"{check.rule}: {error}") from error


def matmul_numbers(check: ConfigCheck) -> MatmulConfig:
    """A config's numbers, in instructions.

    Raises:
        ScheduleError: for a number that is missing, or no multiple of the instruction's.
    """
    config, mma = check.config, named_kind(check)
    check.need(
        None not in (mma.lhs, mma.rhs, mma.acc) and mma.kind in _FRAGMENTS,
        f"mma_kind is {mma.name!r}, which is {mma.kind}; expected one of {', '.join(_FRAGMENTS)}",
    )
    subgroups = (check.tile("subgroups", "m"), check.tile("subgroups", "n"))
    return MatmulConfig(
        mma_kind=config.mma_kind,
        subgroups=subgroups,
        tiles=(
            check.parts("workgroup_tile", "m", subgroups[0] * mma.m),
            check.parts("workgroup_tile", "n", subgroups[1] * mma.n),
        ),
        k_tiles=check.parts("reduction_tile", "k", mma.k),
        stages=check.count("stages", config.stages),
        column_major=config.column_major,
        swizzle=config.swizzle,
        splits=check.count("splits", config.splits),
        workgroups=check.count("workgroups", config.workgroups, least=0),
        promote=config.promote,
        pad=config.pad,
    )


def padded_shape(
    shape: MatmulShape, pad: Sequence[str], where: str, turned: Collection[str] = ()
) -> MatmulShape:
    """The product with the operands that a config pads, some of them turned.

    Raises:
        ScheduleError: for one that cannot be.
    """
    for side in pad:
        if side not in SIDES or not shape.can_be_padded(side, turned=side in turned):
            raise ScheduleError(
                f"{where}: pad is {list(pad)}; expected some of {', '.join(SIDES)} whose rows are"
                " of a known length, and not made by a function"
            )
    return shape.padded(pad, turned)


def check_numbers(shape: MatmulShape, target: Target, mma: Mma, config: MatmulConfig) -> None:
    """Whether a product and a chip can have the instruction, in such numbers.

    Raises:
        ScheduleError: where they cannot, saying why.
    """
    chip, size = gpu_chip(target), subgroup_size(target)
    lanes = config.num_subgroups * size
    dtypes = tuple(tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    counts = (*config.subgroups, *config.tiles, config.k_tiles)
    reasons = {
        f"{chip.name} has no such instruction": not mma.on(chip.name),
        f"it is for subgroups of {mma.subgroup_size} lanes, the target's have {size}": (
            mma.subgroup_size != size
        ),
        "it multiplies several blocks at once": mma.blocks > 1,
        "it is shared by several subgroups": mma.num_subgroups > 1,
        f"its types are {', '.join(dtypes)}": (
            dtypes != (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
        ),
        f"{lanes} lanes; a workgroup has at most {chip.max_lanes}": lanes > chip.max_lanes,
        f"counts {counts} start at 1": min(counts) < 1,
        f"{config.splits} splits, and {config.workgroups} workgroups that share steps of K": (
            config.splits > 1 and config.workgroups > 0
        ),
        f"promote is {list(config.promote)}; expected some of {', '.join(SIDES)}": (
            not set(config.promote) <= set(SIDES)
        ),
        "lhs is read by columns; expected among those promoted": (
            "lhs" not in config.promote and shape.lhs_order[-1] == 0
        ),
        f"{config.workgroups} workgroups share steps of K, which are not known": (
            config.workgroups > 0 and shape.k is None
        ),
        "its A and B are not each other's transposes": (
            config.column_major and not mma.column_major
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise ScheduleError(f"matmul by {mma.name}: {reason}")
