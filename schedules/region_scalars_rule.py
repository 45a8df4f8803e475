"""A rule for ops whose regions take numbers of a call: binds them in what another rule makes."""

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.region_scalars import with_bound_scalars


@dataclass(frozen=True)
class BindsScalars:
    """A rule whose functions have the region's numbers as parameters, by name."""

    rule: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module of the rule, with the variables of the region's numbers bound.

        Raises:
            ScheduleError: as the rule.
        """
        module = self.rule.lower(op, target, config)
        variable = module.get_global_var(op.entry)
        function = with_bound_scalars(module[variable], op.region_scalars)
        return ir.IRModule({**module.functions, variable: function}, attrs=module.attrs)
