"""Canonical functions of ops in a Relax module: scheduled as the ops that they are."""

from tvm import ir

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.ops.base.op import op_of
from tvm_iree_ext.programs.base.relax_passes import prim_functions, with_functions
from tvm_iree_ext.programs.relax_import.relax_ops import OpCalls


def with_canonical_ops(mod: ir.IRModule, calls: OpCalls) -> ir.IRModule:
    """The module in which functions that ``Op.prim_func`` made, and nobody changed, are ops'."""
    changed = {}
    for var, function in prim_functions(mod).items():
        op = None if OP_ATTRIBUTE in (function.attrs or {}) else op_of(function)
        if op is not None:
            key = calls.key_of(op)
            changed[var] = function.with_attr(OP_ATTRIBUTE, key).without_attr("global_symbol")
    return with_functions(mod, changed)
