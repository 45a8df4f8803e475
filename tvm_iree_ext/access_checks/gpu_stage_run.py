"""Kernels for GPUs simulated stage by stage; and which pass is at fault."""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir

from tvm_iree_ext.access_checks.cpu_stages import SCHEDULED
from tvm_iree_ext.access_checks.gpu_stages import DEVICE_STAGES, device_cut_after, stage_of
from tvm_iree_ext.codegen import pass_seam


def first_wrong_on_device(check: Callable[[], str]) -> str:
    """The error after the first wrong stage; empty when no stage is wrong.

    A pass that changes nothing of these kernels is no stage of theirs.

    Args:
        check: lowers and simulates kernels, and says what is wrong with them.
    """
    changing: set[str] = set()
    with pass_seam.edited(_recording(changing)):
        wrong = check()
    stages = [stage for stage in DEVICE_STAGES if stage == SCHEDULED or stage in changing]
    if not wrong and len(stages) > 1:
        stages.pop()  # all later passes are those that every stage has
    for stage in stages:
        with pass_seam.edited(device_cut_after(stage)):
            if wrong_before := check():
                return f"after {stage}: {wrong_before}"
    return wrong and f"after all passes: {wrong}"


def _recording(changing: set[str]) -> Callable[[pass_seam.Passes], pass_seam.Passes]:
    """A pass-list edit that records the stages whose passes change anything."""

    def noting(one: Any, stage: str) -> Any:
        def apply(mod: ir.IRModule, _context: Any) -> ir.IRModule:
            changed = one(mod)
            if not tvm_ffi.structural_equal(mod, changed):
                changing.add(stage)
            return changed

        return ir.transform.module_pass(apply, opt_level=0, name=one.info.name)

    def edit(every: pass_seam.Passes) -> pass_seam.Passes:
        return [
            one if (stage := stage_of(one.info.name)) is None else noting(one, stage)
            for one in every
        ]

    return edit
