"""Scales of blocks as words of bytes, read from an op's operands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx

from tvm_iree_ext.schedules.gpu.emit.lanes import vector

ONE = {"e8m0": 0x7F, "ue4m3": 0x38}
"""The scale 1, by the table's name of the type."""


class ScaleOperands(Protocol):
    """Operands of a product, with scales."""

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of an operand, or the scale of one."""

    def has_runs(self, name: str, block: int, count: int) -> bool:
        """Whether scales of blocks of so many places along k lie side by side, by ``count``."""


def word_type(count: int) -> str:
    """The type of a register with so many bytes of scales."""
    return f"uint{8 * count}"


@dataclass(frozen=True)
class ScaleWords:
    """The scales of an operand.

    Attributes:
        operands: of the product.
        name: of the scales.
        block: places along k that the instruction has a scale for.
        k: places along k.
    """

    operands: ScaleOperands
    name: str
    block: int
    k: Any

    def _load(self, group: Any, line: Mapping[str, Any], k: Any, run: int) -> Any:
        at = {**line, "k": tirx.min(k, self.k - run)}
        return self.operands.load(self.name, group, at)

    def byte(self, group: Any, line: Mapping[str, Any], k: Any) -> Any:
        """The bits of the scale of a place of a line, or of the last one along k."""
        return tirx.reinterpret("uint8", self._load(group, line, k, 1))

    def word(self, group: Any, line: Mapping[str, Any], k: Any, count: int) -> Any:
        """The scales of so many blocks from a place on, the first in the lowest byte."""
        if count == 1:
            return self.byte(group, line, k)
        if self.operands.has_runs(self.name, self.block, count):
            first = self._load(group, line, k, count * self.block)
            *before, last = first.indices
            run = tirx.BufferLoad(first.source, [*before, vector(last, count)])
            return tirx.reinterpret(word_type(count), tirx.reinterpret(f"uint8x{count}", run))
        word: Any = tirx.const(0, word_type(count))
        for at in range(count):
            scale = tirx.Cast(word_type(count), self.byte(group, line, k + at * self.block))
            word = word | scale << tirx.const(8 * at, word_type(count))
        return word
