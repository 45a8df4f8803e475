"""The GPU rule for pack and unpack."""

from tvm_iree_ext.ops.families.pack import Packing
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves


class GpuPack(ElementMoves):
    """Pack and unpack on GPUs."""

    name = "gpu.pack"
    lowers = Packing
