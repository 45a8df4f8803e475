"""The GPU rule for contractions: tiles on matrix instructions, one rule for both vendors."""

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.contraction_matrices import ContractionMatrices, ContractionOperands
from tvm_iree_ext.schedules.gpu.contraction_types import multiplied_types
from tvm_iree_ext.schedules.gpu.contraction_warpgroup import (
    WARPGROUP_ALGORITHMS,
    chosen_warpgroups,
    lower_by_warpgroups,
)
from tvm_iree_ext.schedules.gpu.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.matmul_config import matmul_config
from tvm_iree_ext.schedules.gpu.matmul_plan import MatmulConfig
from tvm_iree_ext.schedules.gpu.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.rule import GpuRule
from tvm_iree_ext.schedules.rule import ConfigCheck

from tvm_iree_ext.errors import ScheduleError, TargetError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.contraction import Contraction
from tvm_iree_ext.target.mma_table import mma_kind

_MMA = "mma"
_FRAGMENTS = ("native", "virtual", "fma")  # kinds whose operands are in a subgroup's registers
_MOST_ROWS = (1 << 31) - 1  # of a matrix: tiles are counted in 32 bits


class GpuContraction(GpuRule):
    """Contractions on NVIDIA's and AMD's GPUs."""

    name = "gpu.contraction"
    lowers = Contraction

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, Contraction)
        matrices = ContractionMatrices(op)
        for role in "mn":
            if (matrices.extent(role) or 0) > _MOST_ROWS:
                return f"{role} is {matrices.extent(role)}; expected at most {_MOST_ROWS}"
        try:
            multiplied_types(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Contraction, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy; by warpgroups where it has them."""
        shape = _shape(op, target)
        if (found := chosen_warpgroups(ContractionMatrices(op), shape, target)) is not None:
            return found
        return _lowering(matmul_config(shape, target))

    def lower(self, op: Contraction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``, of one kernel, or two where K is split.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = _shape(op, target)
        matrices = ContractionMatrices(op)
        operands = ContractionOperands(matrices, shape)
        if config.algorithm in WARPGROUP_ALGORITHMS:
            func = lower_by_warpgroups(matrices, operands, target, self.check(config))
            return ir.IRModule({op.entry: func})
        sch = schedule_matmul(shape, target, _numbers(self.check(config)), operands)
        return ir.IRModule({op.entry: sch.mod["main"]})


def _shape(op: Contraction, target: Target) -> MatmulShape:
    matrices = ContractionMatrices(op)
    lhs, rhs, sums = multiplied_types(op, target)
    if matrices.swapped:
        lhs, rhs = rhs, lhs
    return matrices.shape((lhs, rhs, sums))


def _lowering(config: MatmulConfig) -> LoweringConfig:
    mma = mma_kind(config.mma_kind)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    return LoweringConfig(
        algorithm=_MMA,
        workgroup_tile={"m": sm * tm * mma.m, "n": sn * tn * mma.n},
        reduction_tile={"k": config.k_tiles * mma.k},
        promote=("lhs", "rhs"),
        splits=config.splits,
        mma_kind=config.mma_kind,
        subgroups={"m": sm, "n": sn},
        stages=config.stages,
        column_major=config.column_major,
        swizzle=config.swizzle,
    )


def _numbers(check: ConfigCheck) -> MatmulConfig:
    """A config's numbers in instructions.

    Raises:
        ScheduleError: for a number that is missing, or no multiple of the instruction's.
    """
    check.algorithm(_MMA, *WARPGROUP_ALGORITHMS)
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
    )
