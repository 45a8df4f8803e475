"""The base of GPU rules: the op and the targets that each is for."""

from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, around

_KINDS = ("cuda", "rocm")


class GpuRule:
    """A rule for one class of ops on GPUs of both vendors.

    ``lower`` gives a module of one function with the op's operands as parameters, in its
    signature's order: blocks bound to ``blockIdx`` and ``threadIdx``, one kernel for each that
    stands at the root, and buffers of scope ``global`` between them.
    """

    name: str
    lowers: type[Op] | tuple[type[Op], ...]

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        classes = self.lowers if isinstance(self.lowers, tuple) else (self.lowers,)
        if not isinstance(op, classes):
            return f"{op.name} is not {' or '.join(one.__name__ for one in classes)}"
        if target.kind.name not in _KINDS:
            return f"{target.kind.name} is not a GPU target"
        return None

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """The config for an op that was never tuned; each rule has its own."""
        raise NotImplementedError

    def space(self, op: Any, target: Target) -> TuningSpace:
        """The space around the heuristic's config; rules that know more say more."""
        return around(self.heuristic(op, target))

    def check(self, config: LoweringConfig) -> ConfigCheck:
        """The checks of ``config`` that name this rule."""
        return ConfigCheck(self.name, config)
