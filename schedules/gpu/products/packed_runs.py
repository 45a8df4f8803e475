"""Runs of 16 floats below 8 bits: from a byte each to as many bits as they have."""

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.byte_permutations import permuted
from tvm_iree_ext.schedules.gpu.emit.lanes import vector

RUN = 16
"""Elements that a lane reads at once, of a byte each."""

RUN_WORDS = 4
"""The words of 32 bits that these are."""


def read_run(operands: Any, side: str, group: Any, at: Mapping[str, Any]) -> Any:
    """A run of an operand from a place on, as words with an element in each byte."""
    element = operands.load(side, group, at)
    *before, last = element.indices
    run = tirx.BufferLoad(element.source, [*before, vector(last, RUN)])
    return tirx.reinterpret(f"uint32x{RUN_WORDS}", tirx.reinterpret(f"uint8x{RUN}", run))


def packed(raw: list[Any], words: int, kind: str) -> list[Any]:
    """A run's elements in so many words: of 4 words with an element in each byte.

    Written such that LLVM finds the instruction that takes some bits of one word and the others of
    another.
    """

    def const(value: int) -> Any:
        return tirx.const(value, "uint32")

    def joined(word: Any, shift: int, low: int, high: int) -> Any:
        """The bits ``low`` of a word, and those ``high`` of it moved down."""
        return (word & const(low)) | ((word >> const(shift)) & const(high))

    if words == 2:
        halves = [tirx.reinterpret("int32", word) for word in raw]
        made = []
        for at in (0, 2):
            even, odd = (
                tirx.reinterpret("uint32", permuted((halves[at], halves[at + 1]), picks, kind))
                for picks in ((0, 2, 4, 6), (1, 3, 5, 7))
            )
            made.append((even & const(0x0F0F0F0F)) | ((odd << const(4)) & const(0xF0F0F0F0)))
        return made
    pairs = [joined(word, 2, 0x003F003F, 0xFFC0FFC0) & const(0x0FFF0FFF) for word in raw]
    a, b, c, d = (I.Bind(joined(pair, 4, 0xFFF, 0xFFFFF000)) for pair in pairs)  # 24 bits each
    return [
        a | b << const(24),
        b >> const(8) | c << const(16),
        c >> const(16) | d << const(8),
    ]


def turned(scale: Any) -> Any:
    """A word that turns the signs of 4-bit floats, where a scale is below zero."""
    sign = tirx.Cast("uint32", scale) >> tirx.const(7, "uint32")
    return sign * tirx.const(0x88888888, "uint32")
