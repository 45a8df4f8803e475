"""Reports of races between two barriers, and between workgroups; see :mod:`.touches`."""

import numpy as np

from tvm_iree_ext.simulator.base.findings import RACE, UNWAITED
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.simulator.races import touches

_NONE, _ATOMICALLY, _SEVERAL = -1, -2, -3  # instead of the number of a workgroup
_ACTIONS = {touches.READ: "read", touches.WRITE: "written", touches.ATOMIC: "updated"}


def report_races(state: WorkgroupState, memory: SimulatedMemory) -> None:
    """Races among the lanes of a workgroup."""
    for conflict in touches.conflicts(
        memory.touches or [], memory.units, state.lanes, state.subgroup_size
    ):
        earlier, later = conflict.earlier, conflict.later
        one, two = conflict.earlier_lane, conflict.later_lane
        where = f"byte {conflict.unit * memory.unit} of {memory.name}"
        if memory.unit > 1:
            where = f"{memory.unit}-byte element {conflict.unit} of {memory.name}"
        first = state.findings.statement_text(earlier.statement)
        if one == two:
            state.report(
                UNWAITED,
                later.statement,
                (two,),
                f"{where} is {_ACTIONS[later.kind]} by lane {two} while the copy into it that"
                f" lane {one} started is under way; started at {first}",
                memory.name,
                conflict.unit,
            )
        else:
            state.report(
                RACE,
                later.statement,
                (one, two),
                f"{where} is {_ACTIONS[earlier.kind]} by lane {one} and {_ACTIONS[later.kind]}"
                f" by lane {two} with no barrier between; first at {first}",
                memory.name,
                conflict.unit,
            )


def report_races_between_workgroups(state: WorkgroupState, memory: SimulatedMemory) -> None:
    """Elements of global memory that several workgroups have to do with, one of which writes."""
    writer, reader = memory.writer, memory.reader
    if writer is None or reader is None:
        return
    for touch in memory.touches or []:
        if touch.kind == touches.SUBGROUP_SYNC:
            continue
        unit, lane = touches.units_and_lanes(touch, state.lanes)
        other = (writer[unit] != _NONE) & (writer[unit] != state.number)
        if touch.kind == touches.ATOMIC:
            other &= writer[unit] != _ATOMICALLY
        if touch.kind != touches.READ:
            other |= (reader[unit] != _NONE) & (reader[unit] != state.number)
        if other.any():
            at = int(np.argmax(other))
            state.report(
                RACE,
                touch.statement,
                (int(lane[at]),),
                f"{memory.unit}-byte element {int(unit[at])} of {memory.name} is"
                f" {_ACTIONS[touch.kind]} by lane {int(lane[at])}, and another workgroup"
                " has to do with it, one of them writes",
                memory.name,
                int(unit[at]),
            )
        if touch.kind == touches.READ:
            mine = (reader[unit] == _NONE) | (reader[unit] == state.number)
            reader[unit] = np.where(mine, state.number, _SEVERAL)
        else:
            writer[unit] = _ATOMICALLY if touch.kind == touches.ATOMIC else state.number
