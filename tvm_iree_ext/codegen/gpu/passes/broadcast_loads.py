"""Read what all elements of a vector are once.

Vectorized, a load that its loop does not move reads a place as often as there are elements; TVM's
code generation would do so, and its CUDA printer has no vectors of more than four such reads.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body


@tirx.transform.prim_func_pass(opt_level=0)
def broadcast_loads(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """``buffer[Broadcast(i, 8)]`` becomes ``Broadcast(buffer[i], 8)``."""

    def read_once(load: Any) -> Any:
        *outer, index = load.indices
        # TVM's legalization computes vectors of floats of 8 bits in float32, but for loads.
        if not isinstance(index, tirx.Broadcast) or str(load.ty.dtype).startswith("float8"):
            return load
        at = (*outer, index.value)
        return tirx.Broadcast(load.source[at], index.lanes)

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.TensorLoad, read_once)))
