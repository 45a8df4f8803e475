"""Buffers in shared memory counted in elements, whatever the width of their accesses.

Where all accesses of a buffer have one width, TVM's StorageRewrite makes it a buffer of vectors of
that width; its ``InjectPTXAsyncCopy`` then takes a copy from global memory for one of two widths.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad


@tirx.transform.prim_func_pass(opt_level=0)
def count_shared_elements(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Make buffers of vectors in shared memory buffers of their elements."""
    found: dict[int, Any] = {}  # by the identities of the buffers of vectors
    lanes: dict[int, int] = {}  # by those of their successors

    def see(alloc: Any) -> None:
        old, dtype = alloc.buffer, DataType(str(alloc.buffer.dtype))
        if not old.scope().startswith("shared") or dtype.lanes == 1:
            return
        shape = [*old.shape[:-1], old.shape[-1] * dtype.lanes]
        new = tirx.decl_buffer(
            shape, str(dtype).partition("x")[0], old.name, scope=old.scope(),
            data_alignment=max(int(old.data_alignment), dtype.bits * dtype.lanes // 8),
        )  # fmt: skip
        found[hash(old)], lanes[hash(new)] = new, dtype.lanes

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, see))
    if not found:
        return func

    # Children come first: an access's buffer is the new one already.
    def elements(buffer: Any, indices: Any) -> list[Any]:
        *slow, last = indices
        count = lanes[hash(buffer)]
        return [*slow, tirx.Ramp(last * count, tirx.const(1, str(last.ty.dtype)), count)]

    def load(node: Any) -> Any:
        if hash(node.source) not in lanes:
            return node
        return tirx.BufferLoad(node.source, elements(node.source, node.indices))

    def store(node: Any) -> Any:
        if hash(node.buffer) not in lanes:
            return node
        return tirx.BufferStore(node.buffer, node.value, elements(node.buffer, node.indices))

    body = tvm_ffi.structural_map(
        func.body,
        [
            (ir.Var, lambda var: found.get(hash(var), var)),
            (TensorLoad, load),
            (tirx.BufferStore, store),
        ],
    )
    return func.with_body(body)
