"""The GPU rule for gather."""

from tvm.target import Target

from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.schedules.gpu.moves.element_moves import ElementMoves, unchecked


class GpuGather(ElementMoves):
    """Slices that indices address, on GPUs: rows of an embedding, pages of a cache."""

    name = "gpu.gather"
    lowers = Gather

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        return super().applies(op, target) or unchecked(op)
