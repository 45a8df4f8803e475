"""Buffers cut to what is accessed of them, but where a kernel says that they are so already.

TVM looks at each access beside all before it: for unrolled kernels with a register for each of
some thousand values, that is most of a build (23 s of 29 for a sort of 16M keys).
"""

from typing import Any

from tvm import ir, s_tir, tirx

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS


@ir.transform.module_pass(opt_level=0, name="tvm_iree_ext.compact_buffers")
def compact_buffers(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """TVM's pass, unless all functions have :data:`~.kernel_attributes.EXACT_BUFFERS`."""
    functions: list[Any] = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    if all(EXACT_BUFFERS in (func.attrs or {}) for func in functions):
        return mod
    return s_tir.transform.CompactBufferAllocation()(mod)
