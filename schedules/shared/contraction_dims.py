"""A contraction's dims, fused where all operands allow it, and by role."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.maps import IndexingMap, fuse_dims
from tvm_iree_ext.ops.families.contraction.contraction import Contraction

Dims = tuple[int, ...]


@dataclass(frozen=True)
class FusedDims:
    """The dims of a contraction, those that lie next to each other in every operand as one."""

    op: Contraction

    @cached_property
    def groups(self) -> tuple[Dims, ...]:
        """The op's dims that are one dim here."""
        return fuse_dims([one.dims for one in self.op.maps.values()], len(self.op.extents))

    @cached_property
    def maps(self) -> dict[str, IndexingMap]:
        """The indexing maps over fused dims, but for those of extent 1."""
        groups = enumerate(self.groups)
        place = {group[0]: number for number, group in groups if self.count((number,)) != 1}
        return {
            name: IndexingMap(
                len(self.groups), tuple((place[dim],) for dim in one.dims if dim in place) or ((),)
            )
            for name, one in self.op.maps.items()
        }

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

    def fused(self, *operands: str) -> Dims:
        """The fused dims that just these of lhs, rhs and result have, but for those of extent 1."""
        dims = self.op.dims(*operands)
        found = (number for number, group in enumerate(self.groups) if group[0] in dims)
        return tuple(dim for dim in found if self.count((dim,)) != 1)
