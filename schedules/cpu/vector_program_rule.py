"""Programs of the vector form on the CPU: as they are written, since passes have scheduled them."""

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.vector import VectorProgram


class CpuVectorProgram(CpuRule):
    """A program on an LLVM CPU target: vectors in registers, tiles on the thread pool."""

    name = "cpu.vector_program"
    lowers = VectorProgram

    def heuristic(self, op: VectorProgram, target: Target) -> LoweringConfig:
        """Nothing to choose."""
        return LoweringConfig()

    def lower(self, op: VectorProgram, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config with anything in it.
        """
        self.check(config).expect(config == LoweringConfig(), "config", config, "none")
        return ir.IRModule({op.entry: op.prim_func()})
