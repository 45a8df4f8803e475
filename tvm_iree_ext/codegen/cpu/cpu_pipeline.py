"""Our TIR pass pipelines: TVM's own, with what TVM 0.27 needs mended."""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import DataType, ir, s_tir, tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.tirx import compilation_pipeline

from tvm_iree_ext.codegen.cpu import lane_fallbacks
from tvm_iree_ext.codegen.cpu.argument_guard import guard_calls
from tvm_iree_ext.codegen.cpu.non_temporal_stores import define_streams
from tvm_iree_ext.codegen.cpu.ordered_selects import order_selects
from tvm_iree_ext.codegen.cpu.prefetch_levels import choose_caches
from tvm_iree_ext.codegen.cpu.trusted_calls import drop_checks
from tvm_iree_ext.codegen.double_functions import leave_many_to_library
from tvm_iree_ext.codegen.flattening import flatten_buffers
from tvm_iree_ext.codegen.loops_from_zero import begin_loops_at_zero
from tvm_iree_ext.codegen.narrow_storage import keep_narrow_storage
from tvm_iree_ext.codegen.pass_seam import chosen
from tvm_iree_ext.codegen.storage_reuse import reuse_storage
from tvm_iree_ext.codegen.vector_functions import name_vector_functions
from tvm_iree_ext.codegen.vector_math import lower_vector_math
from tvm_iree_ext.codegen.wide_words import halve_wide_words
from tvm_iree_ext.codegen.zero_words import write_zeros
from tvm_iree_ext.tir.function_body import with_body

CPU_PIPELINE = "tvm_iree_ext.cpu"

# A tile that the registers cannot hold is spilled to the stack; above this it should not be local.
_LARGEST_LOCAL_BYTES = 64 * 1024


def _keep_on_stack(alloc: tirx.AllocBuffer) -> tirx.AllocBuffer:
    buffer = alloc.buffer
    if buffer.scope() != "local" or not all(isinstance(e, tirx.IntImm) for e in buffer.shape):
        return alloc
    count = 1
    for extent in buffer.shape:
        count *= int(extent)
    element = DataType(str(buffer.dtype))
    if count * element.bits * element.lanes // 8 > _LARGEST_LOCAL_BYTES:
        return alloc
    annotations = {**dict(alloc.annotations or {}), "disable_lower_builtin": tirx.const(1, "int32")}
    return tirx.AllocBuffer(buffer, annotations)


@tirx.transform.prim_func_pass(opt_level=0)
def keep_local_buffers_on_stack(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Keep ``local`` buffers off the heap, so that LLVM promotes them to registers.

    Without it every local buffer is a runtime call, and an accumulator is stored in each step.
    """
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.AllocBuffer, _keep_on_stack)))


def _allocates_by_variables(mod: ir.IRModule) -> bool:
    """Whether a buffer's extents are of what the body computes: a tile that is smaller at the edge.

    Those that are of the kernel's arguments alone are known wherever the buffer is allocated.
    """
    extents: list[Any] = []
    inner: set[int] = set()  # the variables that loops, statements and blocks bind

    def see(node: Any) -> None:
        inner.add(hash(node.loop_var if isinstance(node, tirx.For) else node.var))

    def look(alloc: tirx.AllocBuffer) -> None:
        extents.extend(alloc.buffer.shape)

    for function in mod.functions.values():
        callbacks = [(tirx.AllocBuffer, look), ((tirx.For, tirx.Bind, tirx.IterVar), see)]
        tvm_ffi.structural_walk(function.body, callbacks)
    parts: list[Any] = []
    tvm_ffi.structural_walk(extents, ((ir.Var, ir.TensorLoad), parts.append))
    return any(isinstance(part, ir.TensorLoad) or hash(part) in inner for part in parts)


@ir.transform.module_pass(opt_level=0)
def _lower(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """TVM's passes in TVM's order, less those for GPUs and for what CPU kernels do not contain.

    Half of the time of a build was in passes that had nothing to do here.  Where kernels allocate
    what they touch, ``CompactBufferAllocation`` finds nothing to take away, in time that grows with
    the square of the places where a buffer is used; where extents are computed it finds how large
    they may become.  ``RemoveNoOp`` asks of every store whether it writes what is there already,
    which takes most of the time where expressions are long; LLVM drops what it would have.
    """
    compact = s_tir.transform.CompactBufferAllocation()
    passes = [
        begin_loops_at_zero,
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        *([compact] if _allocates_by_variables(mod) else []),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
        keep_narrow_storage,
        flatten_buffers,
        halve_wide_words,
        tirx.transform.BF16ComputeLegalize(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
        order_selects,
        leave_many_to_library,
        name_vector_functions,
        lane_fallbacks.compare_words_for_nan,
        tirx.transform.VectorizeLoop(True),
        lane_fallbacks.broadcast_words,
        lane_fallbacks.bind_words,
        reuse_storage,
        tirx.transform.UnrollLoop(),
        tirx.transform.StmtSimplify(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.CommonSubexprElim(),
        tirx.transform.VerifyMemory(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        guard_calls,
        tirx.transform.MakePackedAPI(),
        drop_checks,
        tirx.transform.BF16StorageLegalize(),
        tirx.transform.FP8StorageLegalize(),
    ]
    return ir.transform.Sequential(chosen(passes))(mod)


def _cpu_pipeline() -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    _, finalize_host, finalize_device = default_s_tir_pipeline()

    def finalize() -> Any:
        ours = [
            lower_vector_math,
            lane_fallbacks.bind_words,  # what functions take several times was bound meanwhile
            keep_local_buffers_on_stack,
            define_streams,
            choose_caches,
        ]
        return ir.transform.Sequential([*ours, finalize_host(), write_zeros])

    return _lower, finalize, finalize_device


def register() -> None:
    """Make the pipelines known to ``tvm.compile`` under their names; again is harmless."""
    compilation_pipeline.register_tir_pipeline(CPU_PIPELINE, _cpu_pipeline)
