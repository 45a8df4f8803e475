"""Native shapes: how big a piece of an op the hardware takes at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ir.vector_types import bits
from tvm_iree_ext.vector.ops.contract import PARALLEL, extents_of
from tvm_iree_ext.vector.patterns.rewriter import is_elementwise

NativeShape: TypeAlias = Callable[[Operation], Sequence[int] | None]
"""The shape of the pieces that an op is cut into, or None to leave it as it is."""

SHAPED = ("vector.broadcast", "vector.splat", "vector.multi_reduction")


def shape_of(op: Operation) -> tuple[int, ...] | None:
    """The shape that a native shape divides; None for an op that is not cut.

    Of a contraction it is that of the iterations, of a multi_reduction that of the source, of a
    write that of the vector, and of other ops that of the result.
    """
    if op.name == "vector.contract":
        return tuple(extents_of(op))
    if op.name in ("vector.transfer_write", "vector.multi_reduction"):
        return tuple(op.operands[0].shape)
    if op.name in ("vector.transfer_read", "vector.transpose", *SHAPED) or is_elementwise(op):
        return tuple(op.result.shape) or None
    return None


@dataclass(frozen=True)
class RegisterWidths:
    """Native shapes of a target with 1-D vector registers.

    One register's lanes in the innermost dim, 1 in all others; a contraction has its lanes in the
    last parallel dim.  Memory has a width of its own: a GPU thread computes with scalars and
    reads 128 bits.

    Attributes:
        vector_bits: of a register.
        access_bits: of an access to memory.
    """

    vector_bits: int = 128
    access_bits: int = 128

    def __call__(self, op: Operation) -> tuple[int, ...] | None:
        """The native shape of an op; None where it is no larger, or not cut."""
        shape = shape_of(op)
        if shape is None:
            return None
        lane = len(shape) - 1
        width = self.vector_bits
        if op.name == "vector.contract":
            iterators = op.attributes["iterator_types"]
            parallel = [dim for dim, it in enumerate(iterators) if it == PARALLEL]
            lane = parallel[-1] if parallel else lane
        elif op.name.startswith("vector.transfer"):
            width = self.access_bits
        wide = max(bits(value.dtype) for value in (*op.operands, *op.results) if value.is_vector)
        lanes = max(1, width // max(wide, 8))
        native = [1] * len(shape)
        native[lane] = min(lanes, shape[lane])
        return None if tuple(native) == shape else tuple(native)
