"""Workgroups that are executed at the same time: their strands take turns.

A strand runs until all of its lanes wait, the others after it.  What is copied asynchronously ends
when nobody can go on without it, or at once: see :mod:`..machine.pending_copies`.  Lanes that sleep
look again when nobody else can go on.
"""

from collections.abc import Sequence

from tvm_iree_ext.emulator.ptx.machine.group_state import AT_MBARRIER, AT_PAUSE, GroupState
from tvm_iree_ext.emulator.ptx.running.strand import Strand

_MOST_PAUSES = 100_000  # at which nobody else can go on
_PATIENCE = 8  # rounds in which nothing happens but that waits end without success


def run_strands(strands: Sequence[Strand], state: GroupState) -> None:
    """Execute all strands to their ends; what waits for ever is a finding."""
    pauses = 0
    while waiting := [strand for strand in strands if not strand.done]:
        ready = [strand for strand in waiting if strand.runnable]
        for strand in ready:
            strand.run()
        if ready:
            continue
        state.impatient = False
        if state.copies.go_on():
            continue
        if pauses < _MOST_PAUSES and any(strand.pausing for strand in waiting):
            pauses += 1
            state.release(AT_PAUSE)
            continue
        state.idle += 1
        if state.idle <= _PATIENCE:
            state.impatient = True
            state.release(AT_MBARRIER)
        if not any(strand.runnable for strand in strands):
            for strand in strands:
                strand.give_up()
            return
