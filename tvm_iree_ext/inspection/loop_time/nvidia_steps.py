"""NVIDIA's instructions as a scheduler sees them: the unit, for how long, and the compiler's waits.

What an instruction waits for stands in its word (:mod:`.sass_control`): nothing is concluded from
registers, but for products, whose accumulators the hardware watches.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.instruction_counts import cuda_matrix_shape, cuda_width
from tvm_iree_ext.inspection.loop_time import nvidia_timing as units
from tvm_iree_ext.inspection.loop_time.loop_steps import (
    BARRIER,
    BRANCH,
    LDS,
    MATRIX,
    MEMORY,
    SCALAR,
    WAIT,
    LoopStep,
    Registers,
)
from tvm_iree_ext.inspection.loop_time.nvidia_timing import NvidiaTiming
from tvm_iree_ext.inspection.loop_time.sass_control import Control, control_of_text

_LANES = 32
WARPGROUP = 4
"""Subgroups of a warpgroup."""
# Cycles of turns that may wait at a port, a few accesses: a guess.  Of warpgroups' products one may
# wait at a tensor core while another is multiplied: a guess, too, on which attention depends.
_LDS_QUEUE, _MEMORY_QUEUE = 64, 256

_MATRIX = re.compile(r"(UTC)?[A-Z]G?MMA$")
_HEAVY = ("IMAD", "IDP", "IDP4A", "IMUL")
_FMA = ("FFMA", "FFMA2", "FADD", "FADD2", "FMUL", "FMUL2", "FSWZADD")
_HALF = ("HADD2", "HMUL2", "HFMA2", "HSET2", "HSETP2", "HMNMX2")
_SLOW = ("MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV", "I2I")
_DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP")
_SHARED = ("LDS", "LDSM", "STS", "STSM", "ATOMS", "SHFL", "REDUX", "MATCH", "SYNCS", "ARRIVES")
_GLOBAL = ("LDG", "LD", "LDL", "STG", "ST", "STL", "RED", "REDG", "ATOM", "ATOMG", "LDGSTS")
# Of a subgroup as a whole: these take an issue alone.
_SCALAR = (
    "BSSY", "BSYNC", "NOP", "YIELD", "WARPSYNC", "R2UR", "S2UR", "S2R", "CS2R", "LDC", "LDCU",
    "WARPGROUP", "FENCE", "MEMBAR", "ERRBAR", "ELECT", "DEPBAR", "CCTL", "CALL", "RET", "EXIT",
    "NANOSLEEP", "BREAK", "BMOV", "VOTE", "ACQBULK",
)  # fmt: skip


@dataclass(frozen=True)
class CopiedBeside:
    """What a subgroup that does nothing else copies to shared memory beside the loop.

    Attributes:
        bytes: for a pass of all subgroups that multiply.
        subgroups: that multiply.
        together: those that have one instruction's product in common.
        ahead: bytes that may be under way.
    """

    bytes: int
    subgroups: int
    together: int
    ahead: int


def nvidia_steps(
    texts: Iterable[str], timing: NvidiaTiming, copies: CopiedBeside | None = None
) -> tuple[LoopStep, ...]:
    """The steps of a loop's pass, the branch back last.

    A branch forward is not taken, and what has a predicate is executed.

    Args:
        texts: the instructions, as ``nvdisasm -hex`` prints them, each in a line.
        timing: of the chip.
        copies: of others, of which each subgroup's share is charged to its products.

    Raises:
        TargetError: for an instruction of unknown cycles, or without its word.
    """
    steps = [_step(text, timing) for text in texts]
    last = max((at for at, one in enumerate(steps) if one.unit == BRANCH), default=-1)
    if last >= 0:
        taken = replace(steps[last], stall=max(steps[last].stall, timing.branch_cycles))
        steps = [replace(one, unit=SCALAR) if one.unit == BRANCH else one for one in steps]
        steps[last] = taken
    return tuple(steps if copies is None else _with_copies(steps, timing, copies))


def _with_copies(
    steps: Sequence[LoopStep], timing: NvidiaTiming, copies: CopiedBeside
) -> Iterable[LoopStep]:
    """The steps, with a share of the copies in front of each product, which they slow."""
    products = sum(one.unit == MATRIX for one in steps)
    share = copies.bytes // max(1, products * copies.subgroups)
    copy = LoopStep(
        MEMORY,
        -(-share // timing.memory_bytes),
        bytes=share,
        ahead=copies.ahead // timing.memory_bytes,
    )
    for one in steps:
        if one.unit != MATRIX or not share:
            yield one
            continue
        yield copy
        both = (one.bytes + share) * copies.together
        yield replace(one, kept=max(0, ceil(both / timing.lds_bytes) - one.cycles))


def _step(text: str, timing: NvidiaTiming) -> LoopStep:
    word = control_of_text(text)
    if word is None:
        raise TargetError(f"{text.split(';')[0].strip()}: its word is not there")
    name, _, rest = text.partition("/*")[0].rstrip(" ;\n").partition(" ")
    first = name.partition(".")[0]
    if _MATRIX.match(first):
        step = _matrix(name, rest.strip(), timing, word)
    elif first in _SHARED:
        step = _shared(name, timing, word)
    elif first in _GLOBAL:
        step = _memory(name, timing, word)
    else:
        step = _other(name, rest, timing, word)
    waits = tuple((f"sb{number}", 0) for number in word.waits)
    reads = step.reads | _registers(rest)
    held = () if word.read is None else ((f"sb{word.read}", timing.read_answer_cycles),)
    return replace(
        step, left=(*waits, *step.left), held=held, stall=word.stall, reads=reads, text=text
    )


def _written(word: Control, answer: int) -> tuple[tuple[str, int], ...]:
    """The barrier that is set until a result is there, after so many cycles."""
    return () if word.written is None else ((f"sb{word.written}", answer),)


def _registers(text: str) -> Registers:
    """Those that are named: of a wider operand the first."""
    return frozenset(("R", int(number)) for number in re.findall(r"\bR(\d+)\b", text))


def _matrix(name: str, rest: str, timing: NvidiaTiming, word: Control) -> LoopStep:
    answer = timing.matrix_answer_cycles
    counters = _written(word, answer)
    in_tensor_memory = name.startswith("UTC")
    if in_tensor_memory or "GMMA" in name:
        lhs = rest.split(",")[0 if in_tensor_memory else 1]
        reads = timing.shared_reads(name, shared_lhs="gdesc" in lhs)
        cycles = timing.matrix(name)
        if group := re.search(r"\b(gsb\d)\b", rest):
            counters = (*counters, (group[1], answer))
        return LoopStep(
            MATRIX,
            cycles,
            counters=counters,
            bytes=reads if in_tensor_memory else reads // WARPGROUP,
            kept=max(0, ceil(reads / timing.lds_bytes) - cycles),
            ahead=cycles,
        )
    m, n, _ = cuda_matrix_shape(name)
    count = max(1, m * n // _LANES // (2 if name.endswith(".F16") else 1))
    found = re.match(r"R(\d+)\b", rest)
    made = range(int(found[1]), int(found[1]) + count) if found else ()
    registers = frozenset(("R", number) for number in made)
    return LoopStep(
        MATRIX, timing.matrix(name), answer, reads=registers, writes=registers, counters=counters
    )


def _shared(name: str, timing: NvidiaTiming, word: Control) -> LoopStep:
    first = name.partition(".")[0]
    moved = 0 if first in ("SYNCS", "ARRIVES") else cuda_width(name) * _LANES
    counters = _written(word, timing.lds_answer_cycles)
    cycles = max(1, -(-moved // timing.lds_bytes))
    moved = moved if first.startswith(("LD", "ST")) else 0
    return LoopStep(LDS, cycles, counters=counters, bytes=moved, ahead=_LDS_QUEUE)


def _memory(name: str, timing: NvidiaTiming, word: Control) -> LoopStep:
    moved = cuda_width(name) * _LANES
    beside = ((LDS, -(-moved // timing.lds_bytes)),) if name.startswith("LDGSTS") else ()
    return LoopStep(
        MEMORY,
        -(-moved // timing.memory_bytes),
        counters=_written(word, timing.memory_answer_cycles),
        bytes=moved,
        beside=beside,
        ahead=_MEMORY_QUEUE,
    )


def _other(name: str, rest: str, timing: NvidiaTiming, word: Control) -> LoopStep:
    first = name.partition(".")[0]
    counters = _written(word, timing.slow_answer_cycles)
    if first == "LDGDEPBAR":
        # Its barrier is clear when the copies before it are there: it stands behind them.
        behind = _written(word, timing.memory_answer_cycles)
        return LoopStep(MEMORY, counters=behind, ahead=_MEMORY_QUEUE)
    if first in ("DEPBAR", "WARPGROUP") and (found := re.search(r"(?i)g?sb(\d), 0x(\w+)", rest)):
        counter = f"{'gsb' if first == 'WARPGROUP' else 'sb'}{found[1]}"
        return LoopStep(WAIT, left=((counter, int(found[2], 16)),))
    if first == "BAR":
        return LoopStep(BARRIER if ".ARV" not in name else SCALAR, counters=counters)
    if first == "BRA":
        return LoopStep(BRANCH)
    unit = _unit(first)
    if unit == SCALAR:
        return LoopStep(SCALAR, counters=counters)
    beside = ((units.HEAVY, timing.cycles(units.HEAVY)),) if first in _HEAVY else ()
    return LoopStep(unit, timing.cycles(unit), counters=counters, beside=beside)


def _unit(first: str) -> str:
    """The unit of lanes, by the mnemonic up to its first point."""
    if first.startswith("U") or first in _SCALAR:
        return SCALAR
    named = {
        units.FMA: (*_FMA, *_HEAVY), units.HALF: _HALF, units.SLOW: _SLOW, units.DOUBLE: _DOUBLE,
    }  # fmt: skip
    return next((unit for unit, firsts in named.items() if first in firsts), units.ALU)
