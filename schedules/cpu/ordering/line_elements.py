"""Elements of a line, as they are moved and as a comparator sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, serial

# Elements are moved as they lie in memory; what TVM would convert on the way goes as bits.
_STORED = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}


def stored(dtype: str) -> str:
    """The type in which elements of ``dtype`` are moved."""
    return _STORED.get(dtype, dtype)


def as_seen(bits: Expr, dtype: str) -> Expr:
    """A moved element of ``dtype``, or a vector of them, as a comparator sees it."""
    if dtype == "bool":
        return emit.cast(bits, "int8")
    if stored(dtype) == dtype:
        return bits
    _, _, lanes = str(bits.ty.dtype).partition("x")
    half = tirx.reinterpret(f"{dtype}x{lanes}" if lanes else dtype, bits)
    return emit.cast(half, "float32")


@dataclass(frozen=True)
class SortLine:
    """A line of all operands in memory: ``buffers[operand][base + i]``."""

    buffers: Sequence[Any]
    base: Index = 0

    def load(self, operand: int, i: Index) -> Expr:
        """One element."""
        return self.buffers[operand][self.base + i]

    def store(self, operand: int, i: Index, value: Expr) -> None:
        """Write one element."""
        I.buffer_store(self.buffers[operand], value, [self.base + i])

    def copy_to(self, other: "SortLine", count: Index) -> None:
        """Copy the first elements of all operands."""
        for operand in range(len(self.buffers)):
            with serial(count) as i:
                other.store(operand, i, self.load(operand, i))
