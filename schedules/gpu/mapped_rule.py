"""The GPU rule for ``map_load`` and ``map_store``."""

from tvm_iree_ext.ops.families.mapped.mapped import Mapped
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves


class GpuMapped(ElementMoves):
    """``map_load`` and ``map_store`` on GPUs."""

    name = "gpu.mapped"
    lowers = Mapped
