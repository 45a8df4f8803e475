"""Branches, waits, barriers and the end of a program: SOPP, and what of SOP1 and SOPK is like it.

Sources: "CDNA3 Instruction Set Architecture", "RDNA3 Instruction Set Architecture" and "RDNA4
Instruction Set Architecture", chapters "Program Flow Control", and S_WAITCNT's fields there.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.memory_instructions import signed
from tvm_iree_ext.emulator.amd.operands import is_zero_mask, scalar_getter
from tvm_iree_ext.emulator.amd.outstanding import most_outstanding
from tvm_iree_ext.emulator.amd.running import Running
from tvm_iree_ext.emulator.amd.scalar_instructions import write_pair
from tvm_iree_ext.emulator.amd.wave_state import EXEC, VCC, Array, CodeStep, Waves

_NOTHING = (
    "S_NOP", "S_SETPRIO", "S_SENDMSG", "S_CLAUSE", "S_DELAY_ALU", "S_WAIT_ALU",
    "S_WAITCNT_DEPCTR", "S_ICACHE_INV", "S_SET_INST_PREFETCH_DISTANCE", "S_INCPERFLEVEL",
    "S_DECPERFLEVEL", "S_TTRACEDATA", "S_WAKEUP", "S_SETHALT", "S_WAIT_EXPCNT", "S_WAIT_SAMPLECNT",
    "S_WAIT_BVHCNT", "S_WAITCNT_EXPCNT", "S_VERSION",
)  # fmt: skip
_CONDITIONS: Mapping[str, Callable[[Waves], Array]] = {
    "S_BRANCH": lambda waves: np.ones(waves.count, bool),
    "S_CBRANCH_SCC0": lambda waves: ~waves.scc,
    "S_CBRANCH_SCC1": lambda waves: waves.scc,
    "S_CBRANCH_VCCZ": lambda waves: is_zero_mask(waves, VCC),
    "S_CBRANCH_VCCNZ": lambda waves: ~is_zero_mask(waves, VCC),
    "S_CBRANCH_EXECZ": lambda waves: is_zero_mask(waves, EXEC),
    "S_CBRANCH_EXECNZ": lambda waves: ~is_zero_mask(waves, EXEC),
}
# gfx12's waits: a counter, or two with the second in bits 5:0 and the first in bits 13:8.
_SINGLE = {"S_WAIT_LOADCNT": "vm", "S_WAIT_STORECNT": "vs", "S_WAIT_DSCNT": "ds",
           "S_WAIT_KMCNT": "km", "S_WAITCNT_VSCNT": "vs", "S_WAITCNT_VMCNT": "vm",
           "S_WAITCNT_LGKMCNT": "lgkm"}  # fmt: skip
_DOUBLE = {"S_WAIT_LOADCNT_DSCNT": "vm", "S_WAIT_STORECNT_DSCNT": "vs"}


def control_step(one: Instruction) -> CodeStep | None:
    """What executes it; None for an instruction of another kind."""
    name, end = one.name, one.place + one.size
    constant = one.get("simm16")
    if name.startswith(_NOTHING):
        return _plain(one, lambda waves: None)
    if name in _CONDITIONS:
        return _branch(one, _CONDITIONS[name], end + 4 * signed(constant, 16))
    if name == "S_ENDPGM":
        return _step(one, _end)
    if name == "S_SLEEP":
        return _step(one, _rest(end))
    if name in ("S_BARRIER", "S_BARRIER_WAIT"):
        return _step(one, _barrier(end))
    if name == "S_BARRIER_SIGNAL":
        return _plain(one, lambda waves: None)  # each wave waits behind it: see S_BARRIER_WAIT
    if name in _SINGLE or name in _DOUBLE or name in ("S_WAITCNT", "S_WAIT_IDLE"):
        return _plain(one, _wait(name, constant, one))
    if name in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64"):
        return _jump(one, end)
    if name in ("S_TRAP", "S_CODE_END"):
        raise EmulationError(f"{name} is reached")
    return None


def _plain(one: Instruction, execute: Callable[[Any], None]) -> CodeStep:
    end, nothing = one.place + one.size, frozenset[int]()
    return CodeStep(execute, one.place, end, one.__repr__, nothing, nothing)


def _step(
    one: Instruction, execute: Callable[[Any], None], reads: tuple[int, ...] = ()
) -> CodeStep:
    end = one.place + one.size
    return CodeStep(execute, one.place, end, one.__repr__, frozenset(reads), frozenset(), True)


def _branch(one: Instruction, condition: Callable[[Waves], Array], target: int) -> CodeStep:
    end = one.place + one.size

    def execute(waves: Waves) -> None:
        places = np.where(condition(waves), target, end)
        np.copyto(waves.pc, places, where=waves.active)

    return _step(one, execute)


def _end(waves: Running) -> None:
    waves.outstanding.finish()
    waves.ended |= waves.active


def _barrier(end: int) -> Callable[[Waves], None]:
    def execute(waves: Waves) -> None:
        waves.waiting |= waves.active
        np.copyto(waves.pc, end, where=waves.active)

    return execute


def _rest(end: int) -> Callable[[Waves], None]:
    """Others go on: a wave sleeps where it waits for what they store."""

    def execute(waves: Waves) -> None:
        waves.resting |= waves.active
        np.copyto(waves.pc, end, where=waves.active)

    return execute


def _wait(name: str, constant: int, one: Instruction) -> Callable[[Running], None]:
    """The counters that are waited for, and how many operations may be left of each."""
    waits: list[tuple[str, int]] = []
    if name in _SINGLE:
        waits = [(_SINGLE[name], constant & 0x3F)]
    elif name in _DOUBLE:
        waits = [(_DOUBLE[name], constant >> 8 & 0x3F), ("ds", constant & 0x3F)]
    elif name == "S_WAIT_IDLE":
        waits = [(counter, 0) for counter in ("vm", "vs", "lgkm", "ds", "km")]
    elif one.chip.is_cdna:
        waits = [("vm", constant & 15 | constant >> 10 & 0x30), ("lgkm", constant >> 8 & 15)]
    else:
        waits = [("vm", constant >> 10 & 0x3F), ("lgkm", constant >> 4 & 0x3F)]
    waits = [wait for wait in waits if wait[1] < most_outstanding(wait[0], one.chip)]

    def execute(waves: Running) -> None:
        for counter, left in waits:
            waves.outstanding.wait(counter, left)

    return execute


def _jump(one: Instruction, end: int) -> CodeStep:
    """Jumps to addresses in registers; the code is at the addresses that the object gives it."""
    name = one.name
    target = one.get("sdst") if "GETPC" in name or "SWAPPC" in name or "CALL" in name else None
    source = None
    if "SETPC" in name or "SWAPPC" in name:
        source = scalar_getter(one.get("ssrc0"), 64, one.chip)
    relative = end + 4 * signed(one.get("simm16"), 16) if "CALL" in name else None

    def execute(waves: Running) -> None:
        base = np.uint64(waves.kernel.base)
        places = np.full(waves.count, end, np.int64)
        if source is not None:
            places = (source(waves) - base).astype(np.int64)
        elif relative is not None:
            places = np.full(waves.count, relative, np.int64)
        if target is not None:
            write_pair(waves, target, np.full(waves.count, end, np.uint64) + base)
        np.copyto(waves.pc, places, where=waves.active)

    return _step(one, execute)
