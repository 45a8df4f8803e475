"""Calls of NVIDIA's ``mma.sync`` with scales of blocks, for which TVM has no operator.

A call is a function of CUDA with a line of PTX.  Scales are in words: of four lanes that share
rows, ``thread`` says which give theirs (the pairs 0, 1 and 2, 3 for A; one of four for B), and
``byte`` the first byte of theirs that counts.

Source: PTX ISA, "Block Scaling for mma.sync".
"""

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.scaled_kinds import FUNCTIONS

_SOURCE = """
__forceinline__ __device__ float4 NAME(uint4 a, uint2 b, float4 c, unsigned a_scale, int a_byte,
                                       int a_thread, unsigned b_scale, int b_byte, int b_thread) {
  asm("PTX {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "
      "{%10}, {%11, %12}, {%13}, {%14, %15};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y),
        "r"(a_scale), "h"((unsigned short)a_byte), "h"((unsigned short)a_thread),
        "r"(b_scale), "h"((unsigned short)b_byte), "h"((unsigned short)b_thread));
  return c;
}
"""


@dataclass(frozen=True)
class ChosenScales:
    """A lane's word, the byte in it, and the lanes of four whose words count."""

    word: Any
    byte: int
    thread: int


def scaled_call(mma: Mma, a: Any, b: Any, c: Any, scales: tuple[ChosenScales, ChosenScales]) -> Any:
    """The accumulator after the instruction, ``float32x4``.

    Args:
        mma: a scaled kind of NVIDIA's.
        a, b: ``uint32x4`` and ``uint32x2``, a lane's registers.
        c: ``float32x4``.
        scales: of A and of B.
    """
    name = FUNCTIONS + mma.name
    source = _SOURCE.replace("NAME", name).replace("PTX", str(mma.ptx))
    chosen = [part for one in scales for part in (one.word, one.byte, one.thread)]
    return T.cuda.func_call(name, a, b, c, *chosen, source_code=source, return_type="float32x4")
