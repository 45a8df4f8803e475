"""Complex powers without the digits of their exponent beyond float64.

The double-double arithmetic that computes these is LLVM's, with fences; CUDA's compiler has none.
"""

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.power_rests import is_power_rest, without_rest


@tirx.transform.prim_func_pass(opt_level=0)
def leave_out_power_rests(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that takes them for 0, for CUDA's targets."""

    def left_out(call: ir.Call) -> ir.Expr:
        return without_rest(call) if is_power_rest(call) else call

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, left_out)))
