"""Stages at which the pipeline is cut to insert checks: after the schedule, or after a pass.

What comes before the cut is the pipeline's own.  After it storage is neither moved nor shared any
more, so that what is wrong was wrong at the cut.  Checks are put in where loops are vectors
already, since all lanes of a vector are loaded before any is stored.
"""

from collections.abc import Callable

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.access_checks.index_checks import check_accesses
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.pass_seam import Passes

SCHEDULED = "the schedule"
"""The stage before any pass has moved or shared storage."""

LAST = "tirx.CommonSubexprElim"
"""The stage after all that touch storage."""

_MOVING = (
    "s_tir.PlanAndUpdateBufferAllocationLocation",
    "s_tir.CompactBufferAllocation",
    "s_tir.LoopPartition",
    "tvm_iree_ext.reuse_storage",
)
_VECTORS = "tirx.VectorizeLoop"

STAGES = (SCHEDULED, *_MOVING[:-1], _VECTORS, _MOVING[-1], "s_tir.RewriteUnsafeSelect", LAST)
"""The schedule, and the passes after it that change what an access names or where it is."""


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.serial")
def _serial(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Loops in one thread."""

    def loop(node: tirx.For) -> tirx.For:
        if node.kind != tirx.ForKind.PARALLEL:
            return node
        return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, node.body)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, loop)))


def cut_after(stage: str) -> Callable[[Passes], Passes]:
    """A pass-list edit for :func:`pass_seam.edited` that inserts checks after a stage.

    Raises:
        OpError: for a stage that is none of :data:`STAGES`.
    """
    if stage not in STAGES:
        raise OpError(f"stage is {stage!r}; expected one of {', '.join(STAGES)}")

    def edit(passes: Passes) -> Passes:
        names = [one.info.name for one in passes]
        cut = names.index(stage) + 1 if stage in names else 0
        first = max(cut, names.index(_VECTORS) + 1)
        kept = [place < cut or name not in _MOVING for place, name in enumerate(names)]
        halves = (range(first), range(first, len(passes)))
        before, after = ([passes[at] for at in half if kept[at]] for half in halves)
        # Until buffers have their places in the loops all threads would share them.
        return [*before, *([] if cut else [_serial]), check_accesses, *after]

    return edit
