"""Programs of the vector form on the CPU: as they are written, since passes have scheduled them."""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule_config import RuleConfig
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.vector import VectorProgram


class CpuVectorProgram(CpuRule):
    """A program on an LLVM CPU target: vectors in registers, tiles on the thread pool."""

    name = "cpu.vector_program"
    lowers = VectorProgram

    def usual(self, op: VectorProgram, target: Target) -> RuleConfig:
        """Nothing to choose."""
        return RuleConfig()

    def parse(self, op: VectorProgram, target: Target, config: LoweringConfig) -> RuleConfig:
        """Nothing, and no config with anything in it."""
        self.check(config).expect(config == LoweringConfig(), "config", config, "none")
        return RuleConfig()

    def kernel(self, op: VectorProgram, target: Target, config: RuleConfig) -> tirx.PrimFunc:
        """The program's own function."""
        return op.prim_func()
