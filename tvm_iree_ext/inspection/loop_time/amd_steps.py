"""AMD's instructions as a scheduler sees them: the unit, for how long, and what must be there."""

import re
from collections.abc import Iterable

from tvm_iree_ext.inspection.loop_time.amd_timing import AmdTiming
from tvm_iree_ext.inspection.loop_time.loop_steps import (
    BARRIER,
    BRANCH,
    LDS,
    MATRIX,
    MEMORY,
    PRIORITY,
    SCALAR,
    VECTOR,
    WAIT,
    LoopStep,
    Register,
    Registers,
)

# Cycles of turns that may wait at a port: a few accesses.  A guess.
_LDS_QUEUE, _MEMORY_QUEUE = 64, 256

_REGISTER = re.compile(r"\b([va])(?:(\d+)|\[(\d+):(\d+)\])")
_WIDTHS = {"b128": 16, "b96": 12, "b64": 8, "b32": 4, "b16": 2, "u16": 2, "i16": 2, "b8": 1}
_WIDTHS |= {"u8": 1, "i8": 1, "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "f32": 4}
_WIDTHS |= {"ushort": 2, "sshort": 2, "short": 2, "ubyte": 1, "sbyte": 1, "byte": 1}
_SLOW = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_NO_RESULT = re.compile(r"v_(cmp|cmpx|nop|readfirstlane|readlane)")
_COUNTERS = {"vmcnt": "memory", "lgkmcnt": "lds", "vscnt": "store"}
# RDNA 4 waits for one kind of access by an instruction of its own.
_WAITS = {
    "s_wait_loadcnt": ("memory",), "s_wait_dscnt": ("lds",), "s_wait_kmcnt": ("lds",),
    "s_wait_storecnt": ("store",), "s_wait_loadcnt_dscnt": ("memory", "lds"),
    "s_wait_storecnt_dscnt": ("store", "lds"), "s_waitcnt_vscnt": ("store",),
    "s_waitcnt_vmcnt": ("memory",), "s_waitcnt_lgkmcnt": ("lds",),
}  # fmt: skip


def amd_steps(texts: Iterable[str], timing: AmdTiming, lanes: int) -> tuple[LoopStep, ...]:
    """The steps of a loop's pass, the branch back last.

    A branch forward is not taken.

    Args:
        texts: the instructions, as LLVM prints them.
        timing: of the chip.
        lanes: of a subgroup.
    """
    steps = [_step(text, timing, lanes) for text in texts]
    last = max((at for at, one in enumerate(steps) if one.unit == BRANCH), default=-1)
    return tuple(
        one if one.unit != BRANCH or at == last else LoopStep(SCALAR, text=one.text)
        for at, one in enumerate(steps)
    )


def _step(text: str, timing: AmdTiming, lanes: int) -> LoopStep:
    name, _, rest = text.partition(" ")
    name, _, more = name.partition("\t")
    rest = f"{more} {rest}".strip()
    if name.startswith(("v_mfma", "v_wmma", "v_smfmac", "v_swmmac")):
        return _matrix(text, name, rest, timing)
    if name.startswith("ds_"):
        return _shared(text, name, rest, timing, lanes)
    if name.startswith(("global_", "buffer_", "flat_", "scratch_")):
        return _memory(text, name, rest, timing, lanes)
    if name.startswith("s_"):
        return _scalar(text, name, rest, timing)
    slow = timing.slow_vector_cycles if _SLOW.match(name) else timing.issue_cycles
    written, read = _operands(rest, 0 if _NO_RESULT.match(name) else 1)
    if name.startswith(("v_swap", "v_dual_")):
        written |= read
    answer = max(0, timing.vector_answer_cycles - timing.issue_cycles)
    return LoopStep(VECTOR, slow, answer, reads=read, writes=written, text=text)


def _operands(rest: str, results: int) -> tuple[Registers, Registers]:
    """Registers of lanes of the first operands, and of the others."""
    parts = re.split(r",\s*(?![^\[]*\])", rest)
    written = _registers(", ".join(parts[:results]))
    return written, _registers(", ".join(parts[results:]))


def _registers(text: str) -> Registers:
    found: set[Register] = set()
    for bank, one, first, last in _REGISTER.findall(text):
        numbers = range(int(first), int(last) + 1) if first else (int(one),)
        found.update((bank, number) for number in numbers)
    return frozenset(found)


def _matrix(text: str, name: str, rest: str, timing: AmdTiming) -> LoopStep:
    parts = re.split(r",\s*(?![^\[]*\])", rest)
    cycles = timing.matrix(name.removesuffix("_e64"))
    beside = ((VECTOR, cycles),) if timing.on_vector_unit else ()
    # Sparse instructions add to their result, and the fourth operand says which elements are there.
    sparse = "mac_" in name
    adds, others = (parts[0], parts[1:]) if sparse else (parts[3], (*parts[1:3], *parts[4:]))
    return LoopStep(
        MATRIX,
        cycles,
        timing.matrix_answer_cycles,
        reads=_registers(", ".join(others)),
        adds=_registers(adds),
        writes=_registers(parts[0]),
        beside=beside,
        text=text,
    )


def _width(name: str) -> int:
    """Bytes of a lane."""
    words = name.split("_")
    width = next((_WIDTHS[word] for word in reversed(words) if word in _WIDTHS), 4)
    return 2 * width if "2addr" in words or re.search(r"_(read|write|load|store)2", name) else width


def _shared(text: str, name: str, rest: str, timing: AmdTiming, lanes: int) -> LoopStep:
    moved = _width(name) * lanes
    if name.startswith(("ds_write", "ds_store")):
        cycles = -(-(moved + 4 * lanes) // timing.lds_write_bytes)
        return LoopStep(
            LDS, cycles, 0, _registers(rest), counters=(("lds", 0),), bytes=moved,
            ahead=_LDS_QUEUE, text=text,
        )  # fmt: skip
    written, read = _operands(rest, 1)
    cycles, answer = -(-max(moved, 4 * lanes) // timing.lds_read_bytes), timing.lds_answer_cycles
    return LoopStep(
        LDS, cycles, answer, read, writes=written, counters=(("lds", answer),), bytes=moved,
        ahead=_LDS_QUEUE, text=text,
    )  # fmt: skip


def _memory(text: str, name: str, rest: str, timing: AmdTiming, lanes: int) -> LoopStep:
    moved = _width(name.removesuffix("_lds")) * lanes
    cycles, answer = -(-moved // timing.memory_bytes), timing.memory_answer_cycles
    if "_store" in name or "_atomic" in name:
        # Stores count as loads do on CDNA, and apart from them on RDNA.
        counter = "store" if timing.on_vector_unit else "memory"
        return LoopStep(
            MEMORY, cycles, answer, _registers(rest), counters=((counter, answer),),
            bytes=moved, ahead=_MEMORY_QUEUE, text=text,
        )  # fmt: skip
    past_registers = "_lds_" in name or name.endswith("_lds") or rest.endswith(" lds")
    written, read = _operands(rest, 0 if past_registers else 1)
    return LoopStep(
        MEMORY, cycles, answer, read, writes=written, counters=(("memory", answer),), bytes=moved,
        ahead=_MEMORY_QUEUE, text=text,
    )  # fmt: skip


def _scalar(text: str, name: str, rest: str, timing: AmdTiming) -> LoopStep:
    if name.startswith("s_barrier"):
        # RDNA 4 signals and waits by two instructions.
        return LoopStep(SCALAR if name == "s_barrier_signal" else BARRIER, text=text)
    if name == "s_waitcnt":
        counts = {_COUNTERS[what]: int(n) for what, n in re.findall(r"(\w+)\((\d+)\)", rest)
                  if what in _COUNTERS}  # fmt: skip
        return LoopStep(WAIT, left=tuple(counts.items()), text=text)
    if name in _WAITS:
        number = int(rest.split()[-1], 0)
        both = len(_WAITS[name]) == 2  # counts of a byte each
        counts = dict(zip(_WAITS[name], divmod(number, 256) if both else (number,), strict=True))
        return LoopStep(WAIT, left=tuple(counts.items()), text=text)
    if name in ("s_nop", "s_sleep"):
        many = (int(rest, 0) + 1) * (64 if name == "s_sleep" else timing.issue_cycles)
        return LoopStep(SCALAR, stall=many, text=text)
    if name == "s_setprio":
        return LoopStep(PRIORITY, level=int(rest, 0), text=text)
    if name.startswith(("s_cbranch", "s_branch")):
        return LoopStep(BRANCH, stall=timing.branch_cycles, text=text)
    if name.startswith(("s_load", "s_buffer_load")):
        return LoopStep(SCALAR, counters=(("lds", timing.scalar_answer_cycles),), text=text)
    return LoopStep(SCALAR, text=text)
