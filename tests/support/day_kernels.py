"""Kernels that archives of a day hold, as lowered functions for a simulated GPU."""

from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target


def asked_for(case):
    """The op of a random case."""
    found = []

    def run(op, operands):
        found.append(op)
        return ENTRIES[op.name].reference(op, operands)

    case.check(run)
    return found[0]


def kernels_of(op, target):
    """The lowered functions of an op's kernel, by name."""
    target = make_target(target)
    rule = choose(op, target)
    code = compile_device(rule.lower(op, target, rule.heuristic(op, target)), target)
    return {str(name.name_hint): func for name, func in code.module.functions.items()}
