"""Ops and the kinds of target they run on: asked of the schedule rules, not written down."""

from typing import Literal

import numpy as np
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.catalog.base.entry import OpEntry
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_obstacle
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime.gpu_function import DLPACK_DEVICES, chip_of, gpu_obstacle
from tvm_iree_ext.runtime.machine import this_machine
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.host import obstacle
from tvm_iree_ext.targets.names import make_target, target_json

Support = Literal["runs", "emulated", "compiles", "no"]
"""``compiles``: a kernel can be built and exported here, and is run elsewhere.  ``emulated``: its
machine code, or its PTX, can be executed here, too (``verify --emulate``)."""

_SAMPLES = 8  # random ops: a rule may leave out some attributes, such as dynamic extents

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
    targets = usual_targets()
    return {
        name: {target: _support_of(entry, target) for target in targets}
        for name, entry in ENTRIES.items()
    }


def _support_of(entry: OpEntry, name: str) -> Support:
    target = make_target(name)
    for seed in range(_SAMPLES):
        op, _ = entry.random_case(np.random.default_rng(seed))
        try:
            choose(op, target)
        except ScheduleError:
            continue
        if not _obstacle(target):
            return "runs"
        return "compiles" if _emulated_obstacle(target) else "emulated"
    return "no"


def _emulated_obstacle(target: Target) -> str:
    chip = chip_of(target_json(target))
    return emulated_obstacle(target.kind.name, chip, builds=True)


def _obstacle(target: Target) -> str:
    """Why kernels for a target do not run here, for a message; empty when they do."""
    kind = target.kind.name
    if kind in DLPACK_DEVICES:
        return gpu_obstacle(kind, chip_of(target_json(target)))
    return obstacle(target)
