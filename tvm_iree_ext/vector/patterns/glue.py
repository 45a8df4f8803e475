"""Changes of shape that move nothing: unit dims that come and go."""

from collections.abc import Sequence

from tvm_iree_ext.vector.ir.core import Value
from tvm_iree_ext.vector.programs.builder import Builder


def with_shape(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """The same elements in a shape that differs in unit dims.

    Leading ones come by broadcast and go by extract, which cancel; others need a shape_cast.
    """
    came, wanted = tuple(value.shape), tuple(shape)
    if came == wanted:
        return value
    more, fewer = len(wanted) - len(came), len(came) - len(wanted)
    if more > 0 and wanted == (1,) * more + came:
        return b.broadcast(value, wanted)
    if fewer > 0 and came == (1,) * fewer + wanted:
        return b.extract(value, [0] * fewer)
    return b.shape_cast(value, wanted)


def without_units(b: Builder, value: Value, count: int) -> Value:
    """A vector without its first dims, whose extents are 1."""
    return b.extract(value, [0] * count) if count else value
