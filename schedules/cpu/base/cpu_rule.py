"""The base of CPU rules: the op and the targets that each is for."""

from typing import Any

from tvm.target import Target

from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, around
from tvm_iree_ext.schedules.cpu.base.parallel import SERIAL_WORK, outweighs_launch


class CpuRule:
    """A rule for one class of ops on LLVM CPU targets."""

    name: str
    lowers: type[Op]

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, self.lowers):
            return f"{op.name} is not {self.lowers.__name__}"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """The config for an op that was never tuned; each rule has its own."""
        raise NotImplementedError

    def space(self, op: Any, target: Target) -> TuningSpace:
        """What lies around the heuristic's config; rules that know more say more."""
        return around(self.heuristic(op, target))

    def is_large(self, op: Op) -> bool:
        """Whether an op is worth threads: by its bytes or flops; where these are open, always."""
        if op.signature.symbols:
            return True
        by_bytes = SERIAL_WORK[self.name].unit == "bytes"
        return outweighs_launch(self.name, op.bytes() if by_bytes else op.flops())

    def check(self, config: LoweringConfig) -> "ConfigCheck":
        """The checks of ``config`` that name this rule."""
        return ConfigCheck(self.name, config)
