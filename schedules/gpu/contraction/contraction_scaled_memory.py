"""Contractions of blocks with scales, where a chip multiplies them into tensor memory."""

from dataclasses import dataclass, replace
from itertools import product

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import ConfigForm
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import (
    ContractionMatrices,
    MatrixOperands,
)
from tvm_iree_ext.schedules.gpu.contraction.contraction_scaled import (
    BlockTypes,
    lies_in_blocks,
    scale_names,
)
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import best_config
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import (
    forms_of,
    is_filled,
    lowering_of,
    warpgroup_numbers,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.schedules.gpu.products.warpgroup_scaled_kernel import scaled_warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_scaled_plan import (
    ScaledWarpgroupPlan,
    is_packed,
    plan_scaled_warpgroup,
)
from tvm_iree_ext.targets.mma.mma_kinds import Mma, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import scaled_kinds


@dataclass(frozen=True)
class TensorMemoryBlocks:
    """The products of an op on a chip that multiplies blocks with scales into tensor memory."""

    matrices: ContractionMatrices
    kinds: tuple[Mma, ...]
    shape: MatmulShape
    target: Target

    @property
    def pad(self) -> tuple[str, ...]:
        """The operands that are packed first, or copied to rows."""
        kind, by_rows = self.kinds[0], self.matrices.row_by_row
        return tuple(side for side in SIDES if is_packed(kind, side) or not by_rows(side))

    def _plan(self, config: WarpgroupConfig) -> ScaledWarpgroupPlan:
        return plan_scaled_warpgroup(self.shape, self.target, config)

    def _config(self) -> WarpgroupConfig | None:
        kinds = [kind for kind in self.kinds if kind.k == self.kinds[0].k]
        configs = [
            WarpgroupConfig(kind.name, 1, tiles, stages, pad=self.pad)
            for kind, tiles, stages in product(kinds, (1, 2), (4, 3, 2))
        ]
        try:
            return best_config(configs, self._plan, self.target)
        except ScheduleError:
            return None

    def heuristic(self) -> LoweringConfig | None:
        """The config that is estimated best; None where few rows or tiles leave most cores idle."""
        config = self._config()
        if config is None or not is_filled(self._plan(config), self.target):
            return None
        return lowering_of(config)

    def forms(self) -> list[ConfigForm]:
        """Tuning forms, one for each instruction."""
        return forms_of(self.kinds, self._config(), self.target)

    def plan(self, check: ConfigCheck) -> ScaledWarpgroupPlan:
        """The plan by a config.

        Raises:
            ScheduleError: for numbers that do not fit.
        """
        config = warpgroup_numbers(check)
        if missing := [side for side in self.pad if side not in config.pad]:
            name = self.matrices.operand(missing[0])
            check.need(False, f"{name} is no matrix that lies row by row in memory as multiplied")
        check.need(config.consumers == 1, f"{config.consumers} warpgroups; one stores")
        return self._plan(config)

    def lower(self, operands: MatrixOperands, check: ConfigCheck) -> tirx.PrimFunc:
        """The func of the op.

        Raises:
            ScheduleError: as :meth:`plan`.
        """
        scales = scale_names(self.matrices.op, self.matrices)
        return scaled_warpgroup_matmul(self.plan(check), operands, scales, self.target)


def tensor_memory_blocks(
    op: Contraction, matrices: ContractionMatrices, target: Target
) -> TensorMemoryBlocks | None:
    """The op's products by ``tcgen05`` with scales; None where there are none.

    Blocks are those of :func:`.scaled_products`; rows alone may be known at call time.
    """
    types = BlockTypes.of(op, matrices)
    if types is None:
        return None
    dtypes = (types.lhs, types.rhs)
    found = tuple(scaled_kinds(target, *dtypes, types.scales, kind="scaled_tensor_memory"))
    if not found or not lies_in_blocks(op, matrices, found[0].scale_block or 0):
        return None
    lhs, rhs = map(tvm_dtype, dtypes)
    shape = replace(matrices.shape((lhs, rhs, "float32")), memory=None)
    if matrices.extent("n") is None:
        return None
    operands = MatrixOperands(matrices, shape)
    if shape.m is not None and operands.index_dtype != "int32":
        return None
    return TensorMemoryBlocks(matrices, found, shape, target)
