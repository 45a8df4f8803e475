"""Contractions by warpgroups, where a chip has them and the operands are matrices in memory."""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import (
    ContractionMatrices,
    MatrixOperands,
)
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import warpgroup_numbers


def lower_by_warpgroups(
    matrices: ContractionMatrices,
    operands: MatrixOperands,
    target: Target,
    check: ConfigCheck,
) -> tirx.PrimFunc:
    """The func of the op.

    Raises:
        ScheduleError: where the operands are no matrices in memory, or the numbers do not fit.
    """
    pad = check.config.pad
    if apart := [side for side in SIDES if side not in pad and not matrices.row_by_row(side)]:
        name = matrices.operand(apart[0])
        check.need(False, f"{name} is no matrix that lies row by row in memory")
    if None not in operands.shape.extents("lhs"):
        small = operands.index_dtype == "int32"
        check.need(small, "warpgroups take arrays of less than 2**31 elements")
    return warpgroup_matmul(operands.shape, target, warpgroup_numbers(check), operands)
