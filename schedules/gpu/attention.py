"""The GPU rule for attention and online attention: one kernel for both vendors.

Scores, softmax and output stay in registers; what differs from chip to chip is the row of the MMA
table, and what follows from it (:mod:`.attention_plan`).
"""

import tvm_ffi
from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.attention_config import attention_config
from tvm_iree_ext.schedules.gpu.attention_kernel import attention_kernel
from tvm_iree_ext.schedules.gpu.attention_plan import plan_attention
from tvm_iree_ext.schedules.gpu.rule import GpuRule

from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.attention import Attention
from tvm_iree_ext.ops.base import Op


class GpuAttention(GpuRule):
    """Attention on NVIDIA's and AMD's GPUs, by the online softmax over tiles of keys."""

    name = "gpu.attention"
    lowers = Attention

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if (reason := super().applies(op, target)) is not None or not isinstance(op, Attention):
            return reason
        for role in ("k1", "n"):
            for dim in op.dims[role]:
                if isinstance(op.extents[dim], str):
                    return f"{role} extent {op.extents[dim]} is dynamic; it must be a number"
        if target.kind.name == "rocm" and (missing := _without_code(op)):
            return (
                f"the region takes {', '.join(missing)} of float64, for which AMD's compiler has no"
                " code of its own"
            )
        try:
            attention_config(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Attention, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy."""
        return attention_config(op, target)

    def lower(self, op: Attention, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        return ir.IRModule({op.entry: attention_kernel(plan_attention(op, target, config))})


_NO_DOUBLES = frozenset(f"tirx.{name}" for name in ("exp", "exp2", "log", "tanh", "erf", "sigmoid"))


def _without_code(op: Attention) -> list[str]:
    """The functions of a float64 region that only a library of AMD's would have."""
    if op.region is None or op.compute_dtype != "float64":
        return []
    found: set[str] = set()
    tvm_ffi.structural_walk(op.region.body, (ir.Call, lambda call: found.add(str(call.op.name))))
    return sorted(name.removeprefix("tirx.") for name in found & _NO_DOUBLES)
