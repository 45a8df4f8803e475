"""Ops and the kinds of target they run on, without TVM, whose import takes longer than all else.

What the schedule rules build stands here, and a test asks them whether it is so.
"""

from typing import Literal

from tvm_iree_ext.emulator.runs.emulated_targets import emulated_obstacle
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime.launch.gpu_targets import gpu_obstacle
from tvm_iree_ext.runtime.machine import this_machine

Support = Literal["runs", "emulated", "compiles", "no"]
"""``compiles``: a kernel can be built and exported here, and is run elsewhere.  ``emulated``: its
machine code, or its PTX, can be executed here, too (``verify --emulate``)."""

NO_RULE: frozenset[tuple[str, str]] = frozenset()
"""Ops, each with a target that no rule builds it for: every op is built for every target."""

_FOREIGN_CPUS = {
    "x86_64": "llvm:neoverse-n1@aarch64-linux-gnu",
    "aarch64": "llvm:x86-64-v3@x86_64-linux-gnu",
}


def usual_targets() -> tuple[str, ...]:
    """This machine's CPU, one of another architecture, and a GPU of each kind."""
    foreign = _FOREIGN_CPUS.get(this_machine(), _FOREIGN_CPUS["x86_64"])
    return "llvm", foreign, "cuda:sm_80", "rocm:gfx942"


def support() -> dict[str, dict[str, Support]]:
    """For each registered op, what it does on each of :func:`usual_targets`."""
    kernels = {target: _kernels_for(target) for target in usual_targets()}
    return {
        op: {target: "no" if (op, target) in NO_RULE else does for target, does in kernels.items()}
        for op in ENTRIES
    }


def _kernels_for(target: str) -> Support:
    """What kernels for one of the usual targets do here."""
    kind, _, chip = target.partition(":")
    if kind == "llvm":
        return "compiles" if chip else "runs"
    if not gpu_obstacle(kind, chip):
        return "runs"
    return "compiles" if emulated_obstacle(kind, chip, builds=True) else "emulated"
