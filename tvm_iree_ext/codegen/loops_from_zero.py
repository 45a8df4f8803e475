"""Loops that begin elsewhere as loops from 0, with what they hold.

TVM's CanonicalizeLoop forgets the extent of a loop inside that hangs on the loop outside, where
both begin elsewhere: it counts on from where the outer one began.
"""

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body


def _from_zero(loop: tirx.For) -> tirx.For:
    if isinstance(loop.min, tirx.IntImm) and int(loop.min) == 0:
        return loop
    old = loop.loop_var
    var = tirx.Var(old.name, str(old.ty.dtype))
    place = var + loop.min

    def moved(one: ir.Var) -> ir.Expr:
        return place if one.same_as(old) else one

    body = tvm_ffi.structural_map(loop.body, (ir.Var, moved))
    zero = tirx.const(0, str(old.ty.dtype))
    return tirx.For(
        var, zero, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )


@tirx.transform.prim_func_pass(opt_level=0)
def begin_loops_at_zero(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that has loops begin at 0."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.For, _from_zero)))
