"""The kernel of a product by warpgroups; see :mod:`.warpgroup_plan`."""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    MatmulOperands,
    MatmulShape,
    PlainOperands,
)
from tvm_iree_ext.schedules.gpu.products.padded_operands import PaddedOperands
from tvm_iree_ext.schedules.gpu.products.warpgroup_pairs import PairSums
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WarpgroupConfig,
    plan_warpgroup_matmul,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_registers import RegisterSums
from tvm_iree_ext.schedules.gpu.products.warpgroup_tensor_memory import TensorMemorySums
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows


def warpgroup_matmul(
    shape: MatmulShape,
    target: Target,
    config: WarpgroupConfig,
    operands: MatmulOperands | None = None,
    windows: ConvWindows | None = None,
) -> tirx.PrimFunc:
    """The func of a product.

    Args:
        shape: of the product.
        target: a chip that has the instruction.
        config: the numbers.
        operands: what the func takes, by default matrices ``matmul(lhs, rhs, result)``.  Those of
            lhs and rhs lie row by row in memory, groups one after the other.
        windows: where rows are pixels of a convolution.

    Raises:
        ScheduleError: as :func:`plan_warpgroup_matmul`.
    """
    plan = plan_warpgroup_matmul(shape, target, config, windows)
    operands = operands or PlainOperands(shape)
    if config.pad:
        operands = PaddedOperands(operands, plan.shape)
    if not plan.in_tensor_memory:
        return RegisterSums(plan, operands).func(target)
    kernel = PairSums if plan.mma.workgroups > 1 else TensorMemorySums
    return kernel(plan, operands).func(target)
