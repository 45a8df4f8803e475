"""Stages at which the pipeline of GPU kernels is cut, so that the simulator runs their output.

What comes before the cut is the pipeline's own.  After it passes that move, share or retype storage
are left out, and all others lower what is left to what the simulator takes: narrow floats are
computed with as they are, each shared buffer is one of its own, and before buffers are flat every
index of theirs is asked whether its dimension has it.
"""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.access_checks import gpu_index_checks  # noqa: F401 - the simulator takes checks from it
from tvm_iree_ext.access_checks.cpu_stages import SCHEDULED
from tvm_iree_ext.access_checks.index_checks import check_indices
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.pass_seam import Passes

_PLACES = "s_tir.PlanAndUpdateBufferAllocationLocation"
_WORDS = "keep_narrow_storage"
_MERGED = "tvm_iree_ext.merge_shared"

_BEFORE_FLAT = (
    SCHEDULED,
    _PLACES,
    "s_tir.ManifestSharedMemoryLocalStage",
    "tvm_iree_ext.compact_buffers",
    "s_tir.InjectPermutedLayout",
    "s_tir.InjectSoftwarePipeline",
    "s_tir.TransformMmaBufferLayout",
    "privatize_local",
    "swizzle_shared",
    _WORDS,
    "move_words",
)

DEVICE_STAGES = (
    *_BEFORE_FLAT,
    "s_tir.LoopPartition",
    "tirx.VectorizeLoop",
    "s_tir.InjectVirtualThread",
    "s_tir.InjectDoubleBuffer",
    "tvm_iree_ext.reuse_storage",
    "s_tir.LowerAsyncDMA",
    "s_tir.InjectPTXAsyncCopy",
    _MERGED,
    "tirx.FP8StorageLegalize",
    "tirx.BF16StorageLegalize",
    "tirx.LowerWarpMemory",
    "tvm_iree_ext.rewrite_memory",
)
"""The schedule, and the passes after it that move, share or retype storage."""

_ONLY_AFTER = {  # what is left out with another pass
    "tirx.BF16ComputeLegalize": _WORDS,
    "tirx.FP8ComputeLegalize": _WORDS,
    "reinterpret_vectors": "tirx.FP8StorageLegalize",
}


def stage_of(name: str) -> str | None:
    """The stage that a pass belongs to; None for one that every stage has."""
    stage = _ONLY_AFTER.get(name, name)
    return stage if stage in DEVICE_STAGES else None


def device_cut_after(stage: str) -> Callable[[Passes], Passes]:
    """A pass-list edit for :func:`pass_seam.edited` that drops the passes after a stage.

    Raises:
        OpError: for a stage that is none of :data:`DEVICE_STAGES`.
    """
    if stage not in DEVICE_STAGES:
        raise OpError(f"stage is {stage!r}; expected one of {', '.join(DEVICE_STAGES)}")
    later = DEVICE_STAGES[DEVICE_STAGES.index(stage) + 1 :]

    def edit(passes: Passes) -> Passes:
        kept: Passes = []
        for one in passes:
            name = one.info.name
            if name == "flatten_buffers" and stage in _BEFORE_FLAT:
                kept.append(check_indices)
            if stage_of(name) not in later:
                kept.append(one)
            elif name == _MERGED:
                kept.append(_apart)
            if name == "s_tir.LowerOpaqueBlock" and _PLACES in later:
                kept.append(_in_kernels)
        return kept

    return edit


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.apart")
def _apart(func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext) -> tirx.PrimFunc:
    """Every buffer of dynamic shared memory, of which a kernel has one, as a static one."""
    static: dict[int, tirx.Buffer] = {}

    def see(node: tirx.AllocBuffer) -> None:
        buffer = node.buffer
        if buffer.scope() == "shared.dyn":
            static[hash(buffer)] = tirx.decl_buffer(
                buffer.shape, str(buffer.dtype), buffer.name, scope="shared",
                data_alignment=int(buffer.data_alignment),
            )  # fmt: skip

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, see))
    if len(static) < 2:
        return func
    return func.with_body(
        tvm_ffi.structural_map(func.body, (ir.Var, lambda var: static.get(hash(var), var)))
    )


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.in_kernels")
def _in_kernels(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Allocate in each kernel what is private to its lanes and workgroups, and was so outside."""
    outside: list[tirx.AllocBuffer] = []

    def alloc(node: tirx.AllocBuffer, _mutator: Any) -> tirx.Stmt:
        if node.buffer.scope() == "global":
            return node
        outside.append(node)
        return tirx.Evaluate(0)

    def attr(node: tirx.AttrStmt, mutator: Any) -> tirx.AttrStmt:
        if node.attr_key != "thread_extent":
            return mutator.default_mutate(node)
        body = tirx.SeqStmt([*outside, node.body]) if outside else node.body
        return tirx.AttrStmt(node.node, node.attr_key, node.value, body)

    body = tvm_ffi.structural_mutate(func.body, [(tirx.AllocBuffer, alloc), (tirx.AttrStmt, attr)])
    return func.with_body(body)
