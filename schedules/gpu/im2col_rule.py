"""The GPU rule for im2col."""

from tvm_iree_ext.ops.families.im2col.im2col import Im2col
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves


class GpuIm2col(ElementMoves):
    """The windows of a convolution as rows, on GPUs."""

    name = "gpu.im2col"
    lowers = Im2col
