"""Loops with barriers in them stay loops, on AMD's GPUs.

LLVM unrolls a loop of few passes wholly.  In a loop over tiles it then moves all passes' loads to
the front, and what was loaded waits in registers, and on the stack: a model of the registers that
one pass takes says nothing of that.  How many passes there are is a value that LLVM does not know:
assembly of no instructions gives it.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_COUNT = "tvm_iree_ext_count_"
_SYNC = ir.Op.get("tirx.tvm_storage_sync")


def count_definitions() -> str:
    """LLVM IR of the functions that :func:`keep_loops` calls."""
    lines = ["declare void @llvm.assume(i1)"]
    for kind in ("i32", "i64"):
        lines += [
            f"define linkonce_odr {kind} @{_COUNT}{kind}({kind} %count) alwaysinline {{",
            f'  %same = call {kind} asm "", "=s,0"({kind} %count)',
            f"  %some = icmp sgt {kind} %same, 0",
            "  call void @llvm.assume(i1 %some)",
            f"  ret {kind} %same",
            "}",
        ]
    return "\n".join(lines)


@tirx.transform.prim_func_pass(opt_level=0)
def keep_loops(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """The kernel whose loops with barriers have counts that LLVM does not know."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.For, _kept)))


def _kept(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.SERIAL or not isinstance(loop.extent, tirx.IntImm):
        return loop
    if not _has_barrier(loop.body):
        return loop
    dtype = str(loop.extent.ty.dtype)
    name = f"{_COUNT}i{dtype.removeprefix('int')}"
    extent = tirx.call_extern(dtype, name, loop.extent)
    return tirx.For(
        loop.loop_var, loop.min, extent, loop.kind, loop.body, loop.thread_binding,
        loop.annotations,
    )  # fmt: skip


def told_count(extent: Any) -> Any:
    """A loop's extent, or the one that LLVM is not told of."""
    name = extent.args[0] if isinstance(extent, ir.Call) and extent.args else None
    if isinstance(name, ir.StringImm) and name.value.startswith(_COUNT):
        return extent.args[1]
    return extent


def _has_barrier(body: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(body, (ir.Call, lambda call: found.append(call.op.same_as(_SYNC))))
    return any(found)
