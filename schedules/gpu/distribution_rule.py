"""The GPU rule for ops that distribute a vector over lanes, or gather it."""

from tvm_iree_ext.ops.families.distribution.distribution import Distribution
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves


class GpuDistribution(ElementMoves):
    """``to_layout``, ``to_simt`` and ``to_simd`` on GPUs."""

    name = "gpu.distribution"
    lowers = (ToLayout, Distribution)
