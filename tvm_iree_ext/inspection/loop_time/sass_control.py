"""The compiler's schedule in NVIDIA's instruction words: stalls, barriers to set and to wait for.

From Volta on a word has 128 bits, of which 21 are the compiler's schedule:

    105..108  cycles until the subgroup's next instruction
    109       whether the subgroup may have the next turn, too
    110..112  the barrier that is set until the result is there; 7 is none
    113..115  the barrier that is set until the operands are read; 7 is none
    116..121  the barriers that must be clear before it is issued, a bit each
    122..125  operands that are kept for the next instruction

Sources: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018),
2.1; CuAssembler, "Control codes".
"""

import re
from dataclasses import dataclass

_NO_BARRIER = 7
_BARRIERS = 6
_WORDS = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")


@dataclass(frozen=True)
class Control:
    """The schedule in an instruction's word; barriers are numbers from 0 to 5.

    Attributes:
        stall: cycles until the subgroup's next instruction.
        written: barrier until the result is there.
        read: barrier until the operands are read.
        waits: barriers that must be clear.
    """

    stall: int
    written: int | None = None
    read: int | None = None
    waits: tuple[int, ...] = ()


def control(high: int) -> Control:
    """The schedule in the upper 64 bits of an instruction's word.

    >>> control(0x004FE400000018FF)  # HMMA.16816.F32 of sm_86, which waits for a load
    Control(stall=2, written=None, read=None, waits=(2,))
    """
    written, read, mask = high >> 46 & 7, high >> 49 & 7, high >> 52 & 63
    return Control(
        stall=high >> 41 & 15,
        written=None if written == _NO_BARRIER else written,
        read=None if read == _NO_BARRIER else read,
        waits=tuple(number for number in range(_BARRIERS) if mask >> number & 1),
    )


def control_of_text(text: str) -> Control | None:
    """The schedule of an instruction as ``nvdisasm -hex`` prints it; None without its word."""
    words = _WORDS.findall(text)
    return control(int(words[1], 16)) if len(words) == 2 else None
