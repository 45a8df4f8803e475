"""The GPU rule for contractions: tiles on matrix instructions, one rule for both vendors."""

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.contraction_matrices import ContractionMatrices, ContractionOperands
from tvm_iree_ext.schedules.gpu.contraction_types import multiplied_types
from tvm_iree_ext.schedules.gpu.matmul import MatmulConfig, schedule_matmul
from tvm_iree_ext.schedules.gpu.matmul_config import matmul_config
from tvm_iree_ext.schedules.gpu.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.rule import GpuRule

from tvm_iree_ext.errors import ScheduleError, TargetError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.contraction import Contraction
from tvm_iree_ext.target.mma_table import mma_kind

_MMA = "mma"


class GpuContraction(GpuRule):
    """Contractions on NVIDIA's and AMD's GPUs."""

    name = "gpu.contraction"
    lowers = Contraction

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, Contraction)
        try:
            multiplied_types(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Contraction, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy."""
        return _lowering(matmul_config(_shape(op, target), target))

    def lower(self, op: Contraction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``, of one kernel, or two where K is split.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = _shape(op, target)
        operands = ContractionOperands(ContractionMatrices(op), shape)
        sch = schedule_matmul(shape, target, _numbers(config), operands)
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


def _numbers(config: LoweringConfig) -> MatmulConfig:
    try:
        mma = mma_kind(config.mma_kind)
    except TargetError as error:
        raise ScheduleError(f"gpu.contraction: {error}") from error
    sm, sn = config.subgroups["m"], config.subgroups["n"]
    return MatmulConfig(
        mma_kind=config.mma_kind,
        subgroups=(sm, sn),
        tiles=(
            config.workgroup_tile["m"] // (sm * mma.m),
            config.workgroup_tile["n"] // (sn * mma.n),
        ),
        k_tiles=config.reduction_tile["k"] // mma.k,
        stages=config.stages,
        column_major=config.column_major,
        swizzle=config.swizzle,
        splits=config.splits,
    )
