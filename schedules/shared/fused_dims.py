"""An op's iteration dims, those that lie next to each other in every operand fused to one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from tvm_iree_ext.base.signature import Extent

Dims: TypeAlias = tuple[int, ...]


class FusedDims(ABC):
    """An op over fused dims; ``op.extents`` are those of its own dims."""

    op: Any

    @property
    @abstractmethod
    def groups(self) -> tuple[Dims, ...]:
        """The op's dims that are one dim here."""

    @cached_property
    def extents(self) -> tuple[tuple[Extent, ...], ...]:
        """The extents that each fused dim is the product of."""
        return tuple(tuple(self.op.extents[dim] for dim in group) for group in self.groups)

    def count(self, dims: Sequence[int]) -> int | None:
        """The points that some fused dims span, where that is known."""
        extents = [extent for dim in dims for extent in self.extents[dim]]
        if any(isinstance(extent, str) for extent in extents):
            return None
        return prod(int(extent) for extent in extents)
