"""Into which caches a line goes that a kernel has fetched ahead of its use.

Of what comes from memory the target has to say: a core waits for some twenty lines of its first
cache at once, and asked for more it does nothing else.  Kernels ask for such lines in place
``UNDECIDED``, and :func:`choose_caches` says which it is.
"""

import tvm_ffi
from tvm import ir, tirx
from tvm.target import codegen as llvm

from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.tir.function_body import with_body

PREFETCH = "llvm.prefetch.p0"
"""The intrinsic of LLVM: ``(address, is written, locality, is data)``."""

NEAREST, SECOND, UNDECIDED = 3, 2, 1
"""Localities: into all caches, all but the nearest, and what is decided here."""


@tirx.transform.prim_func_pass(opt_level=0)
def choose_caches(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that decides what was left to the target."""
    target = dict(func.attrs or {}).get("target")
    second = target is not None and cpu_features(target).fetches_second
    locality = tirx.const(SECOND if second else NEAREST, "int32")
    intrinsic = llvm.llvm_lookup_intrinsic_id(PREFETCH)

    def decide(call: ir.Call) -> ir.Call:
        if not call.op.same_as(_INTRINSIC) or int(call.args[0]) != intrinsic:
            return call
        number, address, written, asked, data = call.args
        if int(asked) != UNDECIDED:
            return call
        return ir.Call(call.op, [number, address, written, locality, data], ret_ty=call.ty)

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, decide)))


_INTRINSIC = ir.Op.get("tirx.call_llvm_intrin")
