"""The GPU rule for attention that tiles have no room for: the canonical loops, nest by nest.

A tile's registers hold whole rows of the output, and shared memory those of the key, so head dims
must be numbers, and not too large.  Here the scores lie in memory instead, and each line of the
dialect's formula is a kernel.
"""

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.loops.loops_schedule import schedule_loops
from tvm_iree_ext.tir.byte_parameters import with_byte_parameters


class GpuAttentionLoops(GpuRule):
    """Attention of any head dims on GPUs of both vendors, as plain loops."""

    name = "gpu.attention_loops"
    lowers = Attention

    def heuristic(self, op: Attention, target: Target) -> LoweringConfig:
        """Nothing to choose."""
        return LoweringConfig()

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with a kernel for each nest.

        Raises:
            ScheduleError: for a config with anything in it.
        """
        self.check(config).expect(config == LoweringConfig(), "config", config, "none")
        function = with_byte_parameters(op.prim_func())
        return ir.IRModule({op.entry: schedule_loops(function, target, op.entry)})
