"""Barriers of workgroups and of warps, and fences.

Source: PTX ISA 9.0, *Parallel Synchronization and Communication Instructions: bar, barrier, membar,
fence*; *griddepcontrol*, *setmaxnreg*, *nanosleep*.  Stores are seen at once here, so that fences
have nothing to do.
"""

import numpy as np

from tvm_iree_ext.emulator.ptx.lane_instructions.warp_instructions import bits_of_lanes  # noqa: F401
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.machine.group_state import AT_PAUSE
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, on_lanes


@instruction("bar", "barrier")
def _bar(one: PtxInstruction) -> PtxOperation:
    """*bar*, *barrier*: ``.sync``, ``.arrive``; *bar.warp.sync*, whose lanes are together."""
    if one.has("warp"):
        (members,) = one.operands
        return on_lanes(_of_warp, [(members, "b32")])
    if one.has("cluster") or one.has("red"):
        raise ValueError("a barrier of a cluster, or with a reduction")
    number, *count = one.operands
    waits = one.has("sync")
    aligned = one.opcode == "bar" or one.has("aligned")

    def function(lanes: Execution, number: Value, *count: Value) -> None:
        wanted = int(lanes.uniform(count[0])[0]) if count else None
        for each in lanes.uniform(number):
            park = lanes.executing.park if waits else None
            lanes.state.arrive(lanes, int(each), wanted, park)

    sources = [(number, "u32"), *((one, "u32") for one in count)]
    return on_lanes(function, sources, whole_warp=aligned)


def _of_warp(lanes: Execution, mask: Value) -> None:
    return


@instruction("fence")
def _fence(one: PtxInstruction) -> PtxOperation:
    """*fence.proxy.async*: asynchronous operations see what the workgroup stored."""
    if one.has("proxy") and any(name.startswith("async") for name in one.modifiers):
        return on_lanes(_fence_of_proxies, ())
    return PtxOperation(lambda: None, (), ())


def _fence_of_proxies(lanes: Execution) -> None:
    lanes.spaces.shared.fence(np.unique(lanes.groups[lanes.active.any(axis=1)]))


@instruction("nanosleep")
def _nanosleep(one: PtxInstruction) -> PtxOperation:
    """*nanosleep*: others go on first."""

    def function(lanes: Execution, _time: Value) -> None:
        lanes.executing.park(lanes, AT_PAUSE)

    return on_lanes(function, [(one.operands[0], "u32")])


@instruction("membar", "griddepcontrol", "setmaxnreg", "pmevent")
def _nothing(one: PtxInstruction) -> PtxOperation:
    """Fences, hints to the scheduler, registers given back: nothing is to be seen of them."""
    return PtxOperation(lambda *_: np.bool_(True), (), ())
