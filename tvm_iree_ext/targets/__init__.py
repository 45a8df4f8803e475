"""What each kind of target offers: vector width, registers, limits, matrix instructions."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.targets.gpu import gpu_chip, occupancy
    from tvm_iree_ext.targets.mma.contraction_layouts import chain, contraction_layouts
    from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds
    from tvm_iree_ext.targets.mma.operand_layouts import operand_layout
    from tvm_iree_ext.targets.names import make_target, target_json
    from tvm_iree_ext.targets.vector_units import UNITS

__all__ = [
    "UNITS",
    "chain",
    "contraction_layouts",
    "gpu_chip",
    "make_target",
    "mma_kind",
    "mma_kinds",
    "occupancy",
    "operand_layout",
    "target_json",
]

_MODULES = {
    "gpu": ("gpu_chip", "occupancy"),
    "mma.contraction_layouts": ("chain", "contraction_layouts"),
    "mma.mma_table": ("mma_kind", "mma_kinds"),
    "mma.operand_layouts": ("operand_layout",),
    "names": ("make_target", "target_json"),
    "vector_units": ("UNITS",),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
