"""Rounding to bfloat16 as arithmetic on bits, of a number that is bound to a variable first."""

from tvm import ir, tirx

from tvm_iree_ext.codegen.math_calls import Share, replace_calls
from tvm_iree_ext.codegen.polynomials import Expr
from tvm_iree_ext.tir.rounded_bits import expanded, is_rounding


def _lower(call: ir.Call, share: Share) -> Expr | None:
    return expanded(call.args[0], share) if is_rounding(call) else None


@tirx.transform.prim_func_pass(opt_level=0)
def lower_rounded_bits(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that replaces the calls which stand for roundings."""
    return replace_calls(func, _lower, is_rounding)
