"""What a ``match_cast`` renames stays a tensor of its own.

TVM's FuseOps does not see that a ``match_cast`` reads its tensor: it takes one with another reader
into that reader's kernel, and then says that kernels need one another in a circle.
"""

import tvm_ffi
from tvm import ir, relax

from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.programs.base.relax_passes import (
    prim_functions,
    relax_functions,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_tir_call


def keep_cast_values(mod: ir.IRModule) -> ir.IRModule:
    """The module in which what makes such a tensor is fused with no reader."""
    functions = prim_functions(mod)
    kept: set[ir.GlobalVar] = set()
    for function in relax_functions(mod).values():
        if isinstance(function.body, relax.SeqExpr):
            kept |= _makers(function)
    changed = {
        var: functions[var].with_attr("op_pattern", OPAQUE) for var in kept if var in functions
    }
    return with_functions(mod, changed) if changed else mod


def _makers(function: relax.Function) -> set[ir.GlobalVar]:
    """The functions called that make a tensor which is renamed and read elsewhere."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    calls: dict[ir.Var, ir.GlobalVar] = {}
    renamed: set[ir.Var] = set()
    read: set[ir.Var] = set()
    tvm_ffi.structural_walk(function.body.body, (ir.Var, read.add))
    for binding in bindings:
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            renamed.add(value)
            continue
        if is_tir_call(value):
            calls[binding.var] = value.args[0]
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in calls:
            calls[binding.var] = calls[value.tuple_value]
            continue
        tvm_ffi.structural_walk(value, (ir.Var, read.add))
    return {calls[var] for var in renamed & read if var in calls}
