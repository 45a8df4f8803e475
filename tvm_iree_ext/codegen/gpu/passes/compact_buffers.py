"""Buffers cut to what is accessed of them, but where a kernel says that they are so already.

TVM looks at each access beside all before it: for unrolled kernels with a register for each of
some thousand values, that is most of a build (23 s of 29 for a sort of 16M keys).

Where the extent of what is accessed is the smaller of a number and of one that only a call knows,
memory of a workgroup has the number: it is taken before the call.
"""

from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS


@ir.transform.module_pass(opt_level=0, name="tvm_iree_ext.compact_buffers")
def compact_buffers(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """TVM's pass, unless all functions have :data:`~.kernel_attributes.EXACT_BUFFERS`."""
    functions: list[Any] = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    if all(EXACT_BUFFERS in (func.attrs or {}) for func in functions):
        return mod
    compacted = s_tir.transform.CompactBufferAllocation()(mod)
    bounded = {var: _with_bounds(function) for var, function in compacted.functions.items()}
    return ir.IRModule(bounded, attrs=compacted.attrs)


def _with_bounds(function: Any) -> Any:
    """The function whose shared buffers have as many rows as they may need."""
    changed: dict[ir.Var, ir.Var] = {}

    def see(block: s_tir.SBlock) -> None:
        for buffer in block.alloc_buffers:
            first, *others = buffer.ty.shape or [None]
            most = _upper_bound(first)
            if buffer.scope().startswith("shared") and most is not None:
                shape = [tirx.const(most, str(first.ty.dtype)), *others]
                changed[buffer] = tirx.decl_buffer(
                    shape,
                    str(buffer.ty.dtype),
                    buffer.name,
                    data_alignment=buffer.ty.data_alignment,
                    scope=buffer.scope(),
                )

    if not isinstance(function, tirx.PrimFunc):
        return function
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, see))
    if not changed:
        return function
    body = tvm_ffi.structural_map(function.body, (ir.Var, lambda var: changed.get(var, var)))
    return function.with_body(body)


def _upper_bound(extent: Any) -> int | None:
    """The number that an extent is at most, where it is the smaller of that and something else."""
    if not isinstance(extent, tirx.Min):
        return None
    numbers = [int(side) for side in (extent.a, extent.b) if isinstance(side, tirx.IntImm)]
    return min(numbers, default=None)
