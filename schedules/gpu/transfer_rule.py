"""The GPU rule for ``transfer_gather`` and ``transfer_scatter``."""

from tvm_iree_ext.ops.families.transfer.transfer import Transfer
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves


class GpuTransfer(ElementMoves):
    """``transfer_gather`` and ``transfer_scatter`` on GPUs."""

    name = "gpu.transfer"
    lowers = Transfer
