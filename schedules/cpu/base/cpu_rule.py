"""The base of CPU rules: the op and the targets that each is for."""

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig
from tvm_iree_ext.schedules.base.space import TuningSpace, around, refusal
from tvm_iree_ext.schedules.cpu.base.parallel import SERIAL_WORK, outweighs_launch
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features


class CpuRule:
    """A rule for one class of ops on LLVM CPU targets.

    Its numbers are in a typed config: ``usual`` makes one for an op, ``parse`` takes it from a
    lowering config, with all checks, and ``kernel`` reads it.  A rule that has no more to check
    than each number says which ``typed`` config it has, and which ``algorithms``; one whose
    function is written by a builder has ``emit``.
    """

    name: str
    lowers: type[Op]
    typed: type[RuleConfig]
    algorithms: tuple[str, ...] = ("",)

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, self.lowers):
            return f"{op.name} is not {self.lowers.__name__}"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

    def heuristic(self, op: Any, target: Target) -> LoweringConfig:
        """The config for an op that was never tuned."""
        return self.usual(op, target).lowering()

    def usual(self, op: Any, target: Target) -> RuleConfig:
        """The heuristic's config; each rule has its own."""
        raise NotImplementedError

    def parse(self, op: Any, target: Target, config: LoweringConfig) -> RuleConfig:
        """The rule's numbers in a config.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        return self.typed.parse(self.check(config), *self.algorithms)

    def kernel(self, op: Any, target: Target, config: Any) -> tirx.PrimFunc:
        """The function of ``op`` with such numbers."""
        with IRBuilder() as builder, I.prim_func():
            self.emit(op, config, cpu_features(target))
        return builder.get()

    def emit(self, op: Any, config: Any, features: CpuFeatures) -> None:
        """Emit the whole function for a target with such features."""
        raise NotImplementedError

    def lower(self, op: Any, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        return ir.IRModule({op.entry: self.kernel(op, target, self.parse(op, target, config))})

    def refusals(self, op: Any, target: Target) -> Callable[[LoweringConfig], str | None]:
        """Why a config of a tuning space is refused, if it is: its checks, or sums that spill."""
        registers = cpu_features(target).vector_registers

        def check(config: LoweringConfig) -> None:
            vectors = self.vectors_held(self.parse(op, target, config))
            wanted = f"{vectors} vectors do not fit {registers} registers"
            self.check(config).need(vectors <= registers, wanted)

        return lambda config: refusal(lambda: check(config))

    def vectors_held(self, config: Any) -> int:
        """The vector registers that a product's sums and factors take; 0 where there is none."""
        return 0

    def space(self, op: Any, target: Target) -> TuningSpace:
        """The space around the heuristic's config; rules that know more say more."""
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
