"""TIR passes of GPU kernels: TVM's own, with what TVM 0.27 needs mended.

Fragments of matrix instructions are ``local`` buffers with explicit subgroup and lane dimensions;
:mod:`.privatize` makes them private to a lane, where each lane then has registers of its own.
"""

from typing import Any

import tvm
from tvm import ir, s_tir, tirx
from tvm.target import Target

import tvm_iree_ext.base.ffi_errors  # noqa: F401 - errors keep their class
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.flattening import flatten_buffers
from tvm_iree_ext.codegen.gpu.passes.amd_branches import part_branches
from tvm_iree_ext.codegen.gpu.passes.amd_epilogue import fence_epilogue
from tvm_iree_ext.codegen.gpu.passes.amd_loops import keep_loops
from tvm_iree_ext.codegen.gpu.passes.amd_math import lower_amd_math
from tvm_iree_ext.codegen.gpu.passes.amd_memory import rewrite_memory
from tvm_iree_ext.codegen.gpu.passes.amd_order import order_products
from tvm_iree_ext.codegen.gpu.passes.amd_sums import keep_sums
from tvm_iree_ext.codegen.gpu.passes.barriers import add_barriers
from tvm_iree_ext.codegen.gpu.passes.broadcast_loads import broadcast_loads
from tvm_iree_ext.codegen.gpu.passes.compact_buffers import compact_buffers
from tvm_iree_ext.codegen.gpu.passes.merged_shared import merge_shared
from tvm_iree_ext.codegen.gpu.passes.move_words import move_words
from tvm_iree_ext.codegen.gpu.passes.permute_bytes import permute_bytes
from tvm_iree_ext.codegen.gpu.passes.power_rests import leave_out_power_rests
from tvm_iree_ext.codegen.gpu.passes.privatize import privatize_local, unroll_local_indexing
from tvm_iree_ext.codegen.gpu.passes.rounded_words import lower_rounded_bits
from tvm_iree_ext.codegen.gpu.passes.shared_quotients import share_quotients
from tvm_iree_ext.codegen.gpu.passes.swizzle import swizzle_shared
from tvm_iree_ext.codegen.loops_from_zero import begin_loops_at_zero
from tvm_iree_ext.codegen.narrow_storage import keep_narrow_storage, reinterpret_vectors
from tvm_iree_ext.codegen.pass_seam import chosen
from tvm_iree_ext.codegen.storage_reuse import reuse_storage
from tvm_iree_ext.codegen.wide_words import halve_wide_words
from tvm_iree_ext.codegen.zero_words import write_zeros


def _passes(target: Target) -> list[Any]:
    """TVM's passes in TVM's order, for a target that has async copies or not."""
    cuda = target.kind.name == "cuda"
    return [
        *([leave_out_power_rests] if cuda else []),
        begin_loops_at_zero,
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerCrossThreadReduction(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LiftThreadBinding(),
        s_tir.transform.ManifestSharedMemoryLocalStage(),
        compact_buffers,
        s_tir.transform.LowerAutoCopy(),
        s_tir.transform.UnifyThreadBinding(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.InjectPermutedLayout(),
        s_tir.transform.AnnotateIrregularLoop(),
        s_tir.transform.InjectSoftwarePipeline(),
        s_tir.transform.TransformMmaBufferLayout(),
        s_tir.transform.LowerOpaqueBlock(),
        privatize_local,
        swizzle_shared,
        keep_narrow_storage,
        *([move_words] if cuda else []),
        flatten_buffers,
        halve_wide_words,
        tirx.transform.BF16ComputeLegalize(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(True),
        s_tir.transform.InjectVirtualThread(),
        s_tir.transform.InjectDoubleBuffer(),
        reuse_storage,
        *([s_tir.transform.LowerAsyncDMA()] if cuda else []),
        s_tir.transform.HoistIfThenElse(),
        unroll_local_indexing,
        tirx.transform.UnrollLoop(),
        s_tir.transform.RenormalizeSplitPattern(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        broadcast_loads,
        permute_bytes,
        tirx.transform.CommonSubexprElim(),
        tirx.transform.FP8ComputeLegalize(),
        tirx.transform.VerifyMemory(),
        tirx.transform.AnnotateEntryFunc(),
        add_barriers("shared"),
        add_barriers("shared.dyn"),
        add_barriers("warp"),
        s_tir.transform.InferFragment(),
        s_tir.transform.LowerThreadAllreduce(),
        *([s_tir.transform.InjectPTXAsyncCopy()] if cuda else []),
        merge_shared,
        tirx.transform.SplitHostDevice(),
    ]


def _storage_passes() -> list[Any]:
    legalize = [tirx.transform.FP8StorageLegalize(), tirx.transform.BF16StorageLegalize()]
    return [reinterpret_vectors, *legalize]


def _target_of(mod: ir.IRModule) -> Target:
    return next(iter(mod.functions.values())).attrs["target"]


@ir.transform.module_pass(opt_level=0)
def _lower(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    before = [*chosen(_passes(_target_of(mod))), tirx.transform.MakePackedAPI()]
    return ir.transform.Sequential([*before, *chosen(_storage_passes())])(mod)


def lower_device(mod: ir.IRModule | tirx.PrimFunc, target: Target) -> ir.IRModule:
    """The device functions as code generation gets them: the very TIR that is compiled.

    Each has its target, its launch parameters (``tirx.kernel_launch_params``) and no blocks.

    Raises:
        BuildError: where a pass refuses, with what it says.
    """
    lowered = _applied(_lower, mod, target)
    kernels = tirx.transform.Filter(lambda func: func.attrs["target"].kind.name == target.kind.name)
    return _explained(ir.transform.Sequential(chosen(_last(target))), kernels(lowered), target)


def lower_with_host(
    mod: ir.IRModule | tirx.PrimFunc, target: Target
) -> tuple[ir.IRModule, ir.IRModule]:
    """The functions that launch kernels, over buffers, and the kernels as of :func:`lower_device`.

    Raises:
        BuildError: where a pass refuses, with what it says.
    """
    split = _applied(ir.transform.Sequential(chosen(_passes(target))), mod, target)
    hosts = tirx.transform.Filter(lambda func: "calling_conv" not in func.attrs)(split)
    kernels = tirx.transform.Filter(lambda func: "calling_conv" in func.attrs)(split)
    last = chosen([*_storage_passes(), *_last(target)])
    return hosts, _explained(ir.transform.Sequential(last), kernels, target)


def _last(target: Target) -> list[Any]:
    """Passes right before code generation."""
    rocm = target.kind.name == "rocm"
    memory = tirx.transform.prim_func_pass(
        lambda func, _mod, _ctx: rewrite_memory(func, target),
        opt_level=0,
        name="tvm_iree_ext.rewrite_memory",
    )
    return [
        tirx.transform.LowerWarpMemory(),
        tirx.transform.StmtSimplify(),
        share_quotients,  # which the simplifier would put back to where they were
        lower_rounded_bits,
        *([lower_amd_math] if rocm else []),
        tirx.transform.LowerIntrin(),
        *(
            [
                part_branches,
                fence_epilogue,
                keep_sums,
                keep_loops,
                memory,
                order_products,
                write_zeros,
            ]
            if rocm
            else []
        ),
    ]


def _applied(passes: Any, mod: ir.IRModule | tirx.PrimFunc, target: Target) -> ir.IRModule:
    if isinstance(mod, tirx.PrimFunc):
        mod = tvm.IRModule.from_expr(mod)
    bound = tirx.transform.BindTarget(target.with_host(Target("llvm")))(mod)
    return _explained(passes, bound, target)


def _explained(passes: Any, mod: ir.IRModule, target: Target) -> ir.IRModule:
    try:
        return passes(mod)
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        raise BuildError(f"TVM cannot lower the kernel for {target}: {error}") from error
