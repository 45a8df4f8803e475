"""A product's numbers as a lowering config, and a lowering config's as those of a product."""

from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.matmul_plan import MatmulConfig
from tvm_iree_ext.schedules.rule import ConfigCheck

from tvm_iree_ext.errors import ScheduleError, TargetError
from tvm_iree_ext.target.mma_table import mma_kind

MMA = "mma"
"""The algorithm of a product by matrix instructions."""

_FRAGMENTS = ("native", "virtual", "fma")  # kinds whose operands are in a subgroup's registers


def lowering_config(config: MatmulConfig) -> LoweringConfig:
    """In elements, as a config has them."""
    mma = mma_kind(config.mma_kind)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    return LoweringConfig(
        algorithm=MMA,
        workgroup_tile={"m": sm * tm * mma.m, "n": sn * tn * mma.n},
        reduction_tile={"k": config.k_tiles * mma.k},
        promote=config.promote,
        splits=config.splits,
        workgroups=config.workgroups,
        mma_kind=config.mma_kind,
        subgroups={"m": sm, "n": sn},
        stages=config.stages,
        column_major=config.column_major,
        swizzle=config.swizzle,
    )


def matmul_numbers(check: ConfigCheck) -> MatmulConfig:
    """A config's numbers, in instructions.

    Raises:
        ScheduleError: for a number that is missing, or no multiple of the instruction's.
    """
    config = check.config
    try:
        mma = mma_kind(config.mma_kind)
    except TargetError as error:
        raise ScheduleError(f"{check.rule}: {error}") from error
    check.need(
        None not in (mma.lhs, mma.rhs, mma.acc) and mma.kind in _FRAGMENTS,
        f"mma_kind is {mma.name!r}, which is {mma.kind}; expected one of {', '.join(_FRAGMENTS)}",
    )

    def instructions(field: str, role: str, extent: int) -> int:
        value = check.tile(field, role)
        check.expect(value % extent == 0, f"{field}[{role!r}]", value, f"a multiple of {extent}")
        return value // extent

    subgroups = (check.tile("subgroups", "m"), check.tile("subgroups", "n"))
    return MatmulConfig(
        mma_kind=config.mma_kind,
        subgroups=subgroups,
        tiles=(
            instructions("workgroup_tile", "m", subgroups[0] * mma.m),
            instructions("workgroup_tile", "n", subgroups[1] * mma.n),
        ),
        k_tiles=instructions("reduction_tile", "k", mma.k),
        stages=check.count("stages", config.stages),
        column_major=config.column_major,
        swizzle=config.swizzle,
        splits=check.splits(),
        workgroups=check.workgroups(),
        promote=config.promote,
    )
